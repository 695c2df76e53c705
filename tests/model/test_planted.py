"""Every planted bug is found (``planted.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqp_router import compiled
from tests.model.planted import PLANTED, Planted
from tests.trees import copy_tree

pytestmark = pytest.mark.skipif(
    os.environ.get(compiled.UNCOMPILED_VARIABLE, "") not in ("", "0"),
    reason="runs from source anyway: once is enough",
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, without compiled modules."""
    return copy_tree(tmp_path_factory.mktemp("planted") / "tree")


def run(tree: Path, planted: Planted) -> subprocess.CompletedProcess[str]:
    if planted.test:
        command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:asyncio", planted.test]
    else:
        command = ["-m", "tests.model.world", "0", str(planted.seeds)]
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tree),
        compiled.UNCOMPILED_VARIABLE: "1",
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
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
    print(done.stdout[-300:])


def test_without_a_bug_nothing_is_found(tree: Path) -> None:
    done = run(tree, Planted("none", "", "", "", seeds=8))
    assert done.returncode == 0, done.stdout + done.stderr
