"""A message on its way into exchanges that keep their last messages: some of them in each turn of the loop.

Such an exchange is bound to others like any other, so one publish may reach 50,000 of them. Each takes some
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.message import Message
from amqp_router.protocol.shown import shown
from persistence.memory import MemoryBudget
from vhosts.exchanges.exchange import Exchange

#: Exchanges that get a message in one turn of the event loop; some two milliseconds.
KEEP_SLICE = 256
#: The cost of one, in enqueues.
KEEP_UNITS = 8


class Keeping:
    """Gives ``message`` to the exchanges ``keepers``; the publisher is charged for it in ``account``."""

    __slots__ = ("_account", "_keepers", "_message", "_position")

    def __init__(self, keepers: list[Exchange], message: Message, account: MemoryBudget) -> None:
        self._keepers = keepers
        self._message = shown(message, False)
        self._account = account
        self._position = 0

    def begin(self, in_slices: Callable[[Callable[[], bool]], None] | None) -> None:
        """Give it to all of them: now, or in turns by ``in_slices`` if they are many."""
        count = len(self._keepers)
        if count > KEEP_SLICE and in_slices is not None:
            self._message = self._message.copy()  # queues put the content of the other aside
            in_slices(self.go_on)
        else:
            while not self.go_on():
                pass
        self._account.work += KEEP_UNITS * min(count, KEEP_SLICE)

    def go_on(self) -> bool:
        """Give it to some of them; True if none is left. Exchanges that are deleted meanwhile miss it."""
        keepers = self._keepers
        end = min(self._position + KEEP_SLICE, len(keepers))
        for index in range(self._position, end):
            if not keepers[index].deleted:
                keepers[index].keep(self._message)
        self._position = end
        return end == len(keepers)
