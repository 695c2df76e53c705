"""A process that forks others for ``tests/planting.py``: what is not ours is imported in each from the start.

``python -m tests.nursery``, in a copy of the tree. Each line of standard input is a list in JSON: what stands
behind ``python -m``. A fork runs it and writes into the files that ``outputs`` names; its exit code is a line
of standard output. Started from nothing, most of them would import for longer than they run.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
from pathlib import Path

#: What the walks and most tests import of others. Nothing of ours: a bug may be planted there.
PRELOAD = (
    "pytest",
    "_pytest.assertion.rewrite",
    "hypothesis.stateful",
    "hypothesis.strategies",
    "asyncio",
    "alembic.command",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "orjson",
    "regex",
    "re2",
)


def outputs(tree: Path) -> tuple[Path, Path]:
    """Where the standard output and the errors of what runs in ``tree`` go."""
    return tree.with_name(tree.name + ".out"), tree.with_name(tree.name + ".err")


def redirect(tree: Path) -> None:
    """Let standard output and errors of this process go to ``outputs``, and let it read nothing."""
    out, err = outputs(tree)
    for number, path in ((0, Path(os.devnull)), (1, out), (2, err)):
        file = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)


def main() -> None:
    for name in PRELOAD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            redirect(Path.cwd())
            sys.argv = json.loads(line)
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
