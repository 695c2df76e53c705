"""Installing as a wheel, with no C compiler on the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from amqp_router import compiled
from tests.trees import copy_tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: building leaves files beside them."""
    return copy_tree(tmp_path_factory.mktemp("install") / "tree")


def make_wheel(tree: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(target),
        str(tree),
    ]
    bare = {**os.environ, "PATH": "/nonexistent", **environment}
    return subprocess.run(command, env=bare, capture_output=True, text=True, check=False)


def test_wheel_without_a_compiler_works_and_says_so(tree: Path, tmp_path: Path) -> None:
    result = make_wheel(tree, tmp_path)
    assert not result.returncode, result.stderr
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(site)
    assert not [name for name in names if name.endswith((".so", ".c"))]
    for name in (
        "amqp_router/compiled.json",
        "amqp_router/protocol/message.pxd",
        "persistence/log/FORMAT.md",
    ):
        assert name in names
    code = "from amqp_router.main import main; main(['--version'])"
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(site), compiled.UNCOMPILED_VARIABLE: "0"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "uncompiled (no C compiler" in shown.stdout, shown.stdout + shown.stderr


def test_wheel_holds_no_tests(tree: Path, tmp_path: Path) -> None:
    make_wheel(tree, tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    packages = {name for name in tops if not name.endswith(".dist-info")}
    assert packages == {*compiled.PACKAGES, "pyspark_amqp_router"}


def test_missing_compiler_is_an_error_if_asked_for(tree: Path, tmp_path: Path) -> None:
    result = make_wheel(tree, tmp_path, AMQP_ROUTER_REQUIRE_COMPILED="1")
    assert result.returncode
    assert "no C compiler" in result.stdout + result.stderr
