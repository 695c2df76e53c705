"""Replies that wait, and hold back all later output of their channel.

A reply waits for a revision of the definitions, or until its giver lets it go (a transaction whose messages
are not on disk). What the channel writes after it goes to a detached output, which joins the connection's
output when the reply may leave.
"""

from __future__ import annotations

from collections import deque

from amqp_router.protocol.output import Output


class HeldReply:
    """A reply, as octets, and what the channel wrote after it."""

    __slots__ = ("data", "output", "rev", "waits")

    def __init__(self, data: bytes, rev: int, *, waits: bool = False) -> None:
        self.data = data
        #: It waits until this revision of the definitions is stored.
        self.rev = rev
        #: It waits until its giver says that it may leave.
        self.waits = waits
        self.output = Output()


class HeldReplies:
    """The replies of one channel that wait, in order."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[HeldReply] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def last_rev(self) -> int:
        """The revision that the last one waits for; 0 if none waits, or not for a revision."""
        return self._waiting[-1].rev if self._waiting else 0

    def outputs(self) -> list[Output]:
        """The output written after each waiting reply."""
        return [held.output for held in self._waiting]

    def wait_for_definitions(self) -> bool:
        """Whether any waits for a revision."""
        return any(held.rev > 0 for held in self._waiting)

    def add(self, held: HeldReply) -> Output:
        """Let ``held`` wait behind all others; returns where the channel writes from now on."""
        self._waiting.append(held)
        return held.output

    def release(self, rev: int, output: Output) -> None:
        """Write into ``output`` what may leave now that revision ``rev`` is stored."""
        waiting = self._waiting
        while waiting and waiting[0].rev <= rev and not waiting[0].waits:
            held = waiting.popleft()
            output.buf.put(held.data)
            output.join(held.output)

    def clear(self) -> None:
        """Nothing may follow any more."""
        self._waiting.clear()
