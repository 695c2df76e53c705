"""Plants a bug into a copy of the sources and sees whether the tests find it.

The lists of bugs stand beside what must find them: ``tests/model/planted.py``,
``tests/persistence/log/planted.py``.
"""

from __future__ import annotations

import compileall
import logging
import os
import py_compile
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import pytest

from amqp_router import compiled
from tests.trees import copy_tree

#: The copies run from source whichever way these tests run: of the two ways of `make test` one is enough.
ONCE = pytest.mark.skipif(
    os.environ.get(compiled.UNCOMPILED_VARIABLE, "") not in ("", "0"),
    reason="runs from source anyway: once is enough",
)

#: As it was at the start: pytest changes the variable of the current test while threads look here.
ENVIRONMENT = dict(os.environ)


class Planted(NamedTuple):
    """A textual change that must be noticed."""

    name: str
    file: str
    old: str
    new: str
    #: A test file, or a test of a long one, that finds it; nothing for the model, which walks.
    test: str = ""
    #: Seeds the model walks at most (0: as usual), and the mix of moves that reaches it best (-1: all).
    seeds: int = 0
    mix: int = -1
    #: The first of them: one that found it, where that was far from the first of all.
    first: int = 0
    #: The module that walks; nothing for the one of the list.
    walk: str = ""


def walk_seeds(first: int, last: int, walk: Callable[[int], Counter[str]]) -> int:
    """Walk the seeds ``[first, last)``; 1 at the first that fails, else 0 with the histogram of moves."""
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    for seed in range(first, last):
        try:
            total += walk(seed)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")
            return 1
    for move, count in sorted(total.items()):
        print(f"{count:8} {move}")
    return 0


def compile_tree(tree: Path) -> None:
    """Bytecode for every start in the tree; a file counts as changed by its content, however quickly."""
    for package in (*compiled.PACKAGES, "tests"):
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        assert compileall.compile_dir(tree / package, quiet=1, invalidation_mode=mode)


def run(tree: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Python in the tree, from source."""
    environment = {
        **ENVIRONMENT,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # finding and importing them takes longer than most tests
        "PYTHONPATH": str(tree),
        compiled.UNCOMPILED_VARIABLE: "1",
    }
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=590,  # pytest gives up on a test after 600
        check=False,
    )


def check_is_found(tree: Path, planted: Planted, walk: Sequence[str]) -> None:
    """With the bug in place its test, or the model's ``walk``, fails, and for no silly reason."""
    path = tree / planted.file
    source = path.read_text()
    assert source.count(planted.old) == 1, "the source has moved on: plant the bug anew"
    test = ["pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
    test += ["--hypothesis-profile=first failure", planted.test]
    path.write_text(source.replace(planted.old, planted.new))
    try:
        done = run(tree, test if planted.test else walk)
    finally:
        path.write_text(source)
    assert done.returncode == 1, f"survived: {planted.name}\n{done.stdout}{done.stderr}"
    assert "SyntaxError" not in done.stderr
    assert "ModuleNotFoundError" not in done.stderr
    print(done.stdout[-300:])


class Garden:
    """Looks for several planted bugs at a time, each in a tree of its own, one for each processor."""

    def __init__(
        self, directory: Path, chosen: Iterable[Planted], walk: Callable[[Planted], Sequence[str]]
    ) -> None:
        self._trees: Queue[Path] = Queue()
        self._walk = walk
        self._count = len(os.sched_getaffinity(0))
        first = copy_tree(directory / "0")
        compile_tree(first)
        self._trees.put(first)
        for number in range(1, self._count):
            self._trees.put(Path(shutil.copytree(first, directory / str(number))))
        self._pool = ThreadPoolExecutor(self._count)
        self._found = {planted.name: self._pool.submit(self._look, planted) for planted in chosen}

    def _look(self, planted: Planted) -> None:
        tree = self._trees.get()
        try:
            check_is_found(tree, planted, self._walk(planted))
        finally:
            self._trees.put(tree)

    def check(self, planted: Planted) -> None:
        """Wait until the bug was looked for; raises if it was not found."""
        self._found[planted.name].result()

    def close(self) -> None:
        """Look for no more of them."""
        self._pool.shutdown(cancel_futures=True)


def chosen_bugs(request: pytest.FixtureRequest) -> list[Planted]:
    """Those that this run tests in the module that asks, in the order of its tests."""
    calls = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    return [params["planted"] for params in calls if "planted" in params]


def check_nothing_is_found(tree: Path, walk: Sequence[str]) -> None:
    """Without a bug the model is content; what it did is printed."""
    done = run(tree, walk)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
