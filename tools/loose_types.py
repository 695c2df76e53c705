"""``python tools/loose_types.py``: how often types are left open where messages pass.

Counted are ``Any`` in channel, vhosts and persistence, and ``object`` in their .pxd files, where it makes a
call one by name. Each number may only go down: one above ``ALLOWED`` is an error, and one below it lowers it.
With ``--list`` every place is printed, with ``--tree DIR`` those of another checkout.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("amqp_router/channel", "vhosts", "persistence")
#: ``Any`` and ``object`` in each package. Each ``Any`` says in its own line why it is there; the ``object``:
ALLOWED = {
    # A message's content is bytes or a tuple of frames (twice); what resumes a connection is a function.
    "amqp_router/channel": (12, 3),
    # Arguments are a dict or a table that stays encoded (declared, exchange, handle). Policies are a named
    # tuple, settings a frozen dataclass, runs a deque: Cython has no types for these. An owner is compared by
    # identity alone. Exchange types yield bindings from iterators of any kind (walk). The others are used too
    # seldom to be compiled: stale routes once a change of the table, a timer once a deadline, spill and pager
    # while memory is short.
    "vhosts": (5, 12),
    # The listener is a queue, whose class has another base. The writer is kept for the sync alone. Options,
    # owners of salts and the files that are open are looked at once a batch. The sync knows logs, which know
    # it, by their protocol; what waits for the disk (committer, worker, removals, retries) is not compiled;
    # loop, timers, disk and flusher are the system's or a simulation's.
    "persistence": (5, 22),
}
_OBJECT = re.compile(r"\bobject\b")


def open_annotations(path: Path) -> Iterator[int]:
    """The lines with ``Any`` in ``path``, once for each; imports do not count."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name) and node.id == "Any":
            yield node.lineno


def open_declarations(path: Path) -> Iterator[int]:
    """The lines with ``object`` in the .pxd file ``path``, once for each; comments do not count."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for _ in _OBJECT.finditer(line.partition("#")[0]):
            yield number


def main() -> int:
    """Compare the tree with ``ALLOWED``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print every place")
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    status = 0
    for package in PACKAGES:
        found = {}
        for suffix, places in ((".py", open_annotations), (".pxd", open_declarations)):
            found[suffix] = [
                f"{path.relative_to(arguments.tree)}:{line}"
                for path in sorted((arguments.tree / package).rglob("*" + suffix))
                for line in sorted(places(path))
            ]
        counts = len(found[".py"]), len(found[".pxd"])
        print(f"{package}: Any {counts[0]}, object {counts[1]}")
        if arguments.list:
            print("\n".join(found[".py"] + found[".pxd"]))
        for what, count, allowed in zip(("Any", "object"), counts, ALLOWED[package], strict=True):
            if count > allowed:
                print(f"    {count - allowed} too many of {what}: at most {allowed} are allowed")
                status = 1
            elif count < allowed:
                print(f"    lower ALLOWED: {what} may be {count}, not {allowed}")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
