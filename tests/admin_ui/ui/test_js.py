"""The pages' modules without a document, tested by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NODE = shutil.which("node")
TESTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed (Debian: apt-get install nodejs)")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_modules(path: Path) -> None:
    assert NODE is not None
    run = subprocess.run([NODE, "--test", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
