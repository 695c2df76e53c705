"""What is to be written and then synced, as data, apart from who does it.

A plan is made once and carried out by one of two: by the thread that made it (``Plan.carry_out``, over the
port ``File``), or by the flusher of the disk (``Disk.flusher``), which writes without the interpreter. Tests
carry out the same plans on a simulated disk.

Compiled, as each round makes a plan: see ``plan.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Writable(Protocol):
    """An open file, as far as plans need it; see ``files.File``."""

    def fileno(self) -> int: ...

    def write(self, pieces: Sequence[bytes | memoryview], position: int) -> None: ...

    def sync(self) -> None: ...


class Target:
    """A file that plans write to. It knows how far it is written, and how far it is synced."""

    __slots__ = ()

    def file(self) -> Writable:
        """The file, opened if it is not open."""
        raise AssertionError("a plan needs a file")

    def wrote(self, end: int) -> None:
        """Everything below position ``end`` is written."""
        raise AssertionError("a file must know how far it is written")

    def synced(self) -> None:
        """Everything written is durable."""
        raise AssertionError("a file must know how far it is synced")


class Write:
    """Pieces to write one after the other, from ``position`` to ``end`` of a file."""

    __slots__ = ("end", "pieces", "position", "target")

    def __init__(self, target: Target, position: int, pieces: list[bytes | memoryview], end: int) -> None:
        self.target = target
        self.position = position
        self.pieces = pieces
        self.end = end

    def carry_out(self) -> None:
        """Write.

        Raises:
            OSError: the disk failed; a part may be written.
        """
        self.target.file().write(self.pieces, self.position)
        self.target.wrote(self.end)


class Plan:
    """Writes to be done in their order, and then one sync: of the file of the last one.

    Nothing of it is durable before the sync has succeeded. Then the last file is, and so is all that the last
    write says of the others.
    """

    __slots__ = ("done", "error", "writes")

    def __init__(self, writes: list[Write]) -> None:
        self.writes = writes
        #: How many of the writes were done completely, and why the plan was not carried out.
        self.done = 0
        self.error: OSError | None = None

    def carry_out(self) -> None:
        """Do all of it in this thread.

        Raises:
            OSError: the disk failed; ``done`` and ``error`` say where and why.
        """
        try:
            for write in self.writes:
                write.carry_out()
                self.done += 1
            target = self.writes[len(self.writes) - 1].target
            target.file().sync()
        except OSError as error:
            self.error = error
            raise
        target.synced()

    def carried_out(self) -> None:
        """Another thread has done all of it: tell the targets."""
        for write in self.writes:
            write.target.wrote(write.end)
        self.writes[len(self.writes) - 1].target.synced()


class Flusher(Protocol):
    """A thread that carries out one plan at a time. It never needs the interpreter, and never opens a file.

    Every file of the plan is open, and stays so until ``finish`` or ``wait`` has returned the result.
    """

    def submit(self, plan: Plan) -> None:
        """Begin with ``plan``, whose pieces are ``bytes``. The first error ends it."""

    def finish(self) -> int:
        """-1 while the plan is carried out; afterwards, once, its error number or 0. ``plan.done`` is set."""

    def wait(self) -> int:
        """Block until the plan is carried out; its error number or 0."""

    def fileno(self) -> int:
        """The descriptor that is readable when the plan is carried out."""

    def stop(self) -> None:
        """End the thread; no plan may be under way."""
