"""The ways of docs/ARCHITECTURE.md, and a broker that writes down which of their functions it enters.

The broker runs from source under a profile function, which writes a line to a file whenever a function that
a table of the ways names is entered: ``file name``.
"""

from __future__ import annotations

import os
import re
import sys
from types import FrameType
from typing import NamedTuple

from amqp_router.__main__ import main
from tests.trees import ROOT

TEXT = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
#: Runs the broker's command line with the trace (``RouterProcess.entry``).
TRACED = "import sys; from tests.ways import traced; sys.exit(traced())"
#: The environment variable with the file that the trace goes to.
TRACE_FILE = "TEST_WAYS_TRACE"
#: A row of a table: what happens, the file, and the functions.
_ROW = re.compile(r"^\| [^|]+ \| `([\w/]+\.py)` \| ([^|]+) \|$", re.MULTILINE)


class Step(NamedTuple):
    """A function on a way: its file below the root, and its name with its class."""

    path: str
    name: str


def rows(text: str = TEXT) -> list[tuple[str, list[str]]]:
    """The rows of all tables of ways: a file and its functions."""
    return [(path, re.findall(r"`([\w.]+)`", names)) for path, names in _ROW.findall(text)]


def way(of: str) -> list[Step]:
    """The steps of the table below the line ``The way of <of> ...:``."""
    table = TEXT.split(f"The way of {of}", 1)[1].split("\n\n")[1]
    return [Step(path, name) for path, names in rows(table) for name in names]


def traced() -> int:
    """``amqp-router`` with the trace."""
    file = os.open(os.environ[TRACE_FILE], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    named = {
        (str(ROOT / path), name): f"{path} {name}\n".encode() for path, names in rows() for name in names
    }

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            line = named.get((frame.f_code.co_filename, frame.f_code.co_qualname))
            if line is not None:
                os.write(file, line)

    sys.setprofile(enter)
    return main()


def passed(trace: str, steps: list[Step]) -> list[Step]:
    """Those of ``steps`` that ``trace`` has, in the order in which each was entered for the first time."""
    found = dict.fromkeys(Step(*line.split()) for line in trace.splitlines())
    return [step for step in found if step in steps]
