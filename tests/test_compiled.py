"""Compiled or from source: the import rule, and a real build in a copy of the tree.

The copy is built once for this file; each test puts back what it changes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import ClassVar

import pytest

from amqp_router import compiled
from tests.trees import ROOT, copy_tree

BUF, TICK = "amqp_router/protocol/_buf", "amqp_router/protocol/tick"


def compiler() -> bool:
    return any(shutil.which(name) for name in ("cc", "gcc"))


def run(tree: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AMQP_ROUTER_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**variables, "PYTHONPATH": str(tree), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


LOADED = (
    "from amqp_router import compiled; from amqp_router.protocol import _buf, tick\n"
    "print(_buf.__file__.split('.')[-1], tick.__file__.split('.')[-1], compiled.build.summary())"
)


def loaded(tree: Path, **environment: str) -> str:
    result = run(tree, "-c", LOADED, **environment)
    assert not result.returncode, result.stderr
    return result.stdout.strip()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with two modules compiled."""
    if not compiler():
        pytest.skip("needs a C compiler")
    target = copy_tree(tmp_path_factory.mktemp("compiled") / "tree")
    setup = target / "setup.py"
    two = 'COMPILED = [\n    "amqp_router.protocol._buf",\n    "amqp_router.protocol.tick",\n]\n'
    text, count = re.subn(r"COMPILED = \[\n.*?\]\n", two, setup.read_text(), flags=re.DOTALL)
    assert count == 1
    setup.write_text(text)
    result = build(target)
    assert not result.returncode, result.stderr
    return target


def build(tree: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(tree, "setup.py", "-q", "build_ext", "--inplace", **environment)


@pytest.fixture
def edited(tree: Path) -> Iterator[Path]:
    """A comment more in tick.py than was compiled."""
    path = tree / (TICK + ".py")
    content = path.read_text()
    path.write_text(content + "# edited\n")
    yield path
    path.write_text(content)


def test_compiled_modules_are_loaded(tree: Path) -> None:
    assert loaded(tree) == "so so compiled (2 modules)"


def test_variable_runs_all_from_source(tree: Path) -> None:
    assert loaded(tree, AMQP_ROUTER_UNCOMPILED="1") == "py py uncompiled (AMQP_ROUTER_UNCOMPILED is set)"
    assert loaded(tree, AMQP_ROUTER_UNCOMPILED="0") == "so so compiled (2 modules)"


def test_stale_build_does_not_hide_an_edit(tree: Path, edited: Path) -> None:
    assert loaded(tree).startswith(
        f"so py partly compiled (1 of 2 modules run from source: {TICK}.py changed"
    )


def test_edit_of_a_pxd_counts_too(tree: Path) -> None:
    path = tree / (BUF + ".pxd")
    content = path.read_text()
    path.write_text(content + "\n")
    assert loaded(tree).startswith("py so")
    path.write_text(content)
    assert loaded(tree).startswith("so so")


def test_build_makes_only_what_changed(tree: Path, edited: Path) -> None:
    extensions = {
        name: compiled.extension_of(name, tree)
        for name in ("amqp_router.protocol._buf", "amqp_router.protocol.tick")
    }
    before = {name: path.stat().st_mtime_ns for name, path in extensions.items() if path}
    assert not build(tree).returncode
    after = {name: path.stat().st_mtime_ns for name, path in extensions.items() if path}
    assert [name for name in after if after[name] != before[name]] == ["amqp_router.protocol.tick"]
    assert loaded(tree) == "so so compiled (2 modules)"


def test_module_that_does_not_compile_runs_from_source(tree: Path) -> None:
    path = tree / (TICK + ".pxd")
    content = path.read_text()
    path.write_text(content + "\nthis is not Cython\n")
    result = build(tree)
    assert not result.returncode
    assert f"{TICK}.py does not compile" in result.stderr
    assert loaded(tree).startswith("so py partly compiled")
    assert build(tree, AMQP_ROUTER_REQUIRE_COMPILED="1").returncode
    path.write_text(content)
    assert not build(tree).returncode
    assert loaded(tree) == "so so compiled (2 modules)"


def test_what_a_module_from_source_uses_runs_from_source_as_well(tree: Path) -> None:
    """``message`` would find no method of ``_buf`` that is ``cdef`` alone; ``tick`` is used by neither."""
    modules = compiled.read_record(tree)["modules"]
    plain = {"amqp_router.protocol.message": "it does not compile"}
    build = compiled.loadable(compiled.Build(frozenset(modules), plain), tree)
    assert build.compiled == {"amqp_router.protocol.tick"}
    assert build.plain.keys() == {"amqp_router.protocol.message", "amqp_router.protocol._buf"}


def test_one_edit_leaves_no_class_half_compiled() -> None:
    """Whichever module of the whole build runs from source, no other cimports or is cimported by it."""
    whole = frozenset(compiled.read_record()["modules"])
    for module in sorted(whole):
        build = compiled.loadable(compiled.Build(whole - {module}, {module: "edited"}))
        for name in whole:
            across = compiled.cimported(name) & whole
            assert not across or len({other in build.compiled for other in across | {name}}) == 1, name


def test_extension_without_a_record_is_not_loaded(tree: Path) -> None:
    record = tree / compiled.RECORD
    content = record.read_text()
    record.write_text("{ torn")
    assert loaded(tree) == "py py uncompiled (nothing was compiled)"
    record.write_text(content)


def test_extension_without_a_source_to_fall_back_on_is_not_found(tree: Path) -> None:
    (tree / "persistence" / f"only{EXTENSION_SUFFIXES[0]}").touch()
    result = run(tree, "-c", "import persistence.only")
    assert (
        result.stderr.splitlines()[-1] == "ModuleNotFoundError: persistence.only must not be loaded compiled"
    )


def test_everything_that_can_be_compiled_is() -> None:
    """`make test` builds first; a module that silently stays Python would cost its speed unseen."""
    if not compiler() or os.environ.get(compiled.UNCOMPILED_VARIABLE, "0") != "0":
        pytest.skip("runs uncompiled on purpose")
    assert compiled.inspect_build().whole, compiled.inspect_build().summary()


#: Files of numbers that compiled modules share, as C constants; their Python modules are not compiled.
NUMBERS = {
    "amqp_router/protocol/constants",
    "amqp_router/protocol/flags",
    "persistence/log/routing/events",
    "vhosts/queues/state",
}


def test_every_pxd_and_pyx_stands_for_a_compiled_module() -> None:
    result = run(ROOT, "-c", "import setup; print(*setup.COMPILED)")
    names = {module.replace(".", "/") for module in result.stdout.split()}
    found = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for package in compiled.PACKAGES
        for path in (ROOT / package).rglob("*.p[xy][dx]")
    }
    assert names | NUMBERS == found
    for name in NUMBERS:
        text = (ROOT / name).with_suffix(".pxd").read_text()
        lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
        others = [line for line in lines if not re.fullmatch(r"cdef enum:|    [A-Z_]+ = [^#]+(#.*)?", line)]
        assert not others, f"{name}.pxd has more than numbers"


class TestRecord:
    """The rule alone, on made-up files."""

    def tree(self, path: Path, modules: Mapping[str, list[str]]) -> Path:
        (path / "amqp_router").mkdir()
        for files in modules.values():
            for file in files:
                (path / file).write_text(file)
        for module in modules:
            (path / (module.replace(".", "/") + EXTENSION_SUFFIXES[0])).touch()
        record = {
            "modules": {
                module: {file: compiled.file_hash(path / file) for file in files}
                for module, files in modules.items()
            },
            "failed": {},
        }
        (path / compiled.RECORD).write_text(json.dumps(record))
        return path

    CHAIN: ClassVar[dict[str, list[str]]] = {
        "amqp_router.a": ["amqp_router/a.py", "amqp_router/a.pxd"],
        "amqp_router.b": ["amqp_router/b.py", "amqp_router/b.pxd", "amqp_router/a.pxd"],
        "amqp_router.c": ["amqp_router/c.py", "amqp_router/c.pxd", "amqp_router/b.pxd", "amqp_router/a.pxd"],
        "amqp_router.d": ["amqp_router/d.py", "amqp_router/d.pxd"],
    }

    @pytest.fixture(autouse=True)
    def _compiled_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(compiled.UNCOMPILED_VARIABLE, raising=False)

    def test_whole(self, tmp_path: Path) -> None:
        assert compiled.inspect_build(self.tree(tmp_path, self.CHAIN)).whole

    def test_stale_module_takes_those_built_against_it_along(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path, self.CHAIN)
        (tree / "amqp_router/a.py").write_text("new")
        build = compiled.inspect_build(tree)
        assert build.compiled == {"amqp_router.d"}
        assert set(build.plain) == {"amqp_router.a", "amqp_router.b", "amqp_router.c"}

    def test_stale_user_leaves_what_it_uses(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path, self.CHAIN)
        (tree / "amqp_router/c.py").write_text("new")
        assert set(compiled.inspect_build(tree).plain) == {"amqp_router.c"}

    def test_build_for_another_interpreter(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path, self.CHAIN)
        (tree / ("amqp_router/d" + EXTENSION_SUFFIXES[0])).unlink()
        assert "another Python" in compiled.inspect_build(tree).summary()

    def test_no_record(self, tmp_path: Path) -> None:
        build = compiled.inspect_build(tmp_path)
        assert not build.whole
        assert build.summary() == "uncompiled (nothing was compiled)"
