"""Every planted bug is found (``planted.py``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.persistence.log.planted import PLANTED, Planted

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the log and its tests need, without compiled modules."""
    copy = tmp_path_factory.mktemp("planted")
    leave = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "definitions")
    for name in ("persistence", "amqp_router", "tests/persistence"):
        shutil.copytree(ROOT / name, copy / name, ignore=leave)
    (copy / "tests" / "__init__.py").touch()
    return copy


def run(tree: Path, planted: Planted) -> subprocess.CompletedProcess[str]:
    if planted.test:
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/persistence/log/{planted.test}"]
    else:
        command = ["-m", "tests.persistence.log.world", "0", str(planted.seeds), str(planted.mix)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_planted_bug_is_found(tree: Path, planted: Planted) -> None:
    path = tree / planted.file
    source = path.read_text()
    assert source.count(planted.old) == 1, "the source has moved on: plant the bug anew"
    path.write_text(source.replace(planted.old, planted.new))
    try:
        done = run(tree, planted)
    finally:
        path.write_text(source)
    assert done.returncode == 1, f"survived: {planted.name}\n{done.stdout}{done.stderr}"
    assert "SyntaxError" not in done.stderr
    assert "ModuleNotFoundError" not in done.stderr


def test_without_a_bug_nothing_is_found(tree: Path) -> None:
    done = run(tree, Planted("none", "", "", "", 25))
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
