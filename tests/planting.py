"""Plants a bug into a copy of the sources and sees whether the tests find it.

The lists of bugs stand beside what must find them: ``tests/model/planted.py``,
``tests/persistence/log/planted.py``.
"""

from __future__ import annotations

import compileall
import contextlib
import json
import logging
import os
import py_compile
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import pytest

from amqp_router import compiled
from tests import nursery
from tests.trees import copy_tree

#: The copies run from source whichever way these tests run: of the two ways of `make test` one is enough.
ONCE = pytest.mark.skipif(
    os.environ.get(compiled.UNCOMPILED_VARIABLE, "") not in ("", "0"),
    reason="runs from source anyway: once is enough",
)

#: pytest gives up on a test after 600.
TIMEOUT_S = 590


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


class Plot:
    """A copy of the sources, with bytecode, and a process in it that runs Python modules from source."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # finding and importing them takes longer than most tests
            "PYTHONPATH": str(tree),
            compiled.UNCOMPILED_VARIABLE: "1",
        }
        self._nursery = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"],
            cwd=self.tree,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # so that it ends with all that it runs
        )

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """``python -m`` with the command, in the tree."""
        asked, answers = self._nursery.stdin, self._nursery.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps(command).encode() + b"\n")
        if not select.select([answers], [], [], TIMEOUT_S)[0]:
            self.close()
            self._nursery = self._start()
            raise subprocess.TimeoutExpired(command, TIMEOUT_S)
        code = int(answers.readline())
        out, err = (path.read_text(errors="replace") for path in nursery.outputs(self.tree))
        return subprocess.CompletedProcess(command, code, out, err)

    def close(self) -> None:
        """End the process and all that it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._nursery.pid, signal.SIGKILL)
        self._nursery.communicate()


@contextlib.contextmanager
def plots(directory: Path, count: int) -> Iterator[list[Plot]]:
    """So many of them, alike."""
    first = copy_tree(directory / "0")
    compile_tree(first)
    trees = [first, *(Path(shutil.copytree(first, directory / str(n))) for n in range(1, count))]
    found = [Plot(tree) for tree in trees]
    try:
        yield found
    finally:
        for plot in found:
            plot.close()


def check_is_found(plot: Plot, planted: Planted, walk: Sequence[str]) -> None:
    """With the bug in place its test, or the model's ``walk``, fails, and for no silly reason."""
    path = plot.tree / planted.file
    source = path.read_text()
    assert source.count(planted.old) == 1, "the source has moved on: plant the bug anew"
    test = ["pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
    test += ["--hypothesis-profile=first failure", planted.test]
    path.write_text(source.replace(planted.old, planted.new))
    try:
        done = plot.run(test if planted.test else walk)
    finally:
        path.write_text(source)
    assert done.returncode == 1, f"survived: {planted.name}\n{done.stdout}{done.stderr}"
    assert "SyntaxError" not in done.stderr
    assert "ModuleNotFoundError" not in done.stderr
    print(done.stdout[-300:])


class Garden:
    """Looks for several planted bugs at a time, each in a plot of its own."""

    def __init__(
        self, plots: Iterable[Plot], chosen: Iterable[Planted], walk: Callable[[Planted], Sequence[str]]
    ) -> None:
        self._free: Queue[Plot] = Queue()
        for plot in plots:
            self._free.put(plot)
        self._walk = walk
        self._pool = ThreadPoolExecutor(self._free.qsize())
        self._found = {planted.name: self._pool.submit(self._look, planted) for planted in chosen}

    @contextlib.contextmanager
    def _plot(self) -> Iterator[Plot]:
        plot = self._free.get()
        try:
            yield plot
        finally:
            self._free.put(plot)

    def _look(self, planted: Planted) -> None:
        with self._plot() as plot:
            check_is_found(plot, planted, self._walk(planted))

    def check(self, planted: Planted) -> None:
        """Wait until the bug was looked for; raises if it was not found."""
        self._found[planted.name].result()

    def check_nothing_is_found(self, walk: Sequence[str]) -> None:
        """Without a bug the model is content; what it did is printed."""
        with self._plot() as plot:
            done = plot.run(walk)
        assert done.returncode == 0, done.stdout + done.stderr
        print(done.stdout)

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
