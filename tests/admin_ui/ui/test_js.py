"""The pages' modules without a document, tested by node; and that every module is well-formed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from admin_ui.ui import STATIC

NODE = shutil.which("node")
TESTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed (Debian: apt-get install nodejs)")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_modules(path: Path) -> None:
    assert NODE is not None
    run = subprocess.run([NODE, "--test", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr


def test_syntax() -> None:
    assert NODE is not None
    for path in STATIC.rglob("*.mjs"):
        if "vendor" not in path.parts:
            run = subprocess.run([NODE, "--check", str(path)], capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stderr
