"""Run as a process: submits without end, and prints each rev as it is committed, until it is killed.

Change ``rev`` replaces queue ``rev % 50`` by one whose incarnation is the rev, and deletes queue ``(rev + 25)
% 50``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from persistence.definitions import Change, Delete, Put
from tests.persistence.definitions.support import Loop, queue, started

QUEUES = 50


def changes_of(rev: int) -> list[Change]:
    return [
        Put(queue(f"q{rev % QUEUES}", str(rev))),
        Delete.of(queue(f"q{(rev + QUEUES // 2) % QUEUES}")),
    ]


def say(rev: int) -> None:
    os.write(1, f"{rev}\n".encode())  # not print: nothing may stay in a buffer


def main(path: Path, in_flight: int) -> None:
    loop = Loop()
    store = started(path, loop)
    store.on_committed = say
    while True:
        while store.rev - store.committed < in_flight:
            store.submit(changes_of(store.rev + 1))
        loop.posted.get()()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
