"""The pages' modules without a document, tested by the node that Playwright brings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable

NODE = compute_driver_executable()[0]
TESTS = sorted((Path(__file__).parent / "js").glob("*.test.mjs"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_modules(path: Path) -> None:
    run = subprocess.run(
        [NODE, "--test", str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stdout + run.stderr
