"""The agenda: what must still happen in this turn of the event loop.

Hot code appends to one of these lists and calls ``wake`` once. ``amqp_router.connection.ticker`` then pumps
queues, seals logs, emits confirms and writes sockets, in that order, once in each turn. The lists are here,
in the lowest layer, because queues, channels and connections all use them.
"""

from __future__ import annotations

from collections.abc import Callable


class Tick:
    """The node's agenda for the current turn of the event loop.

    ``call_soon`` is the loop's; ``now_us`` is the wall clock in microseconds, read once per chunk.
    """

    __slots__ = ("call_soon", "callback", "channels", "inside", "now_us", "outputs", "queues", "scheduled")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.call_soon = call_soon
        self.callback: Callable[[], None] | None = None
        self.queues: list[object] = []
        self.channels: list[object] = []
        self.outputs: list[object] = []
        #: Whether a run of the agenda is scheduled.
        self.scheduled = False
        #: Whether a handler of the event loop is running that will run the agenda at its end.
        self.inside = False
        self.now_us = 0

    def wake(self) -> None:
        """Schedule a run of the agenda, unless it is scheduled already."""
        if not self.scheduled and self.callback is not None:
            self.scheduled = True
            if not self.inside:
                self.call_soon(self.callback)
