"""Messages in the order in which they came, of which there may be very many: the next ones in a ring.

A ring has at most ``RING_PLACES`` places. What is more stands in lists of that length behind it. One ring or
list of a million would move to a larger place whenever it is full, which holds the event loop for 8 to 25 ms:
each page of the new place is one that the kernel has to find.

Compiled: see ``ring.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.message import Message

#: Places of the largest ring, a power of 2, and of the smallest.
RING_PLACES = 1 << 16
PLACES_MIN = 16

_RING_PLACES = RING_PLACES
_PLACES_MIN = PLACES_MIN


class Ring:
    """First in, first out."""

    __slots__ = ("behind", "count", "places", "room", "start")

    def __init__(self) -> None:
        #: Messages from ``start`` on, around the end; None where there is no message.
        self.places: list[Message | None] = [None] * PLACES_MIN
        self.start = 0
        #: All messages, also those behind the ring.
        self.count = 0
        #: So many have places in the ring; 0 while there are some behind it.
        self.room = PLACES_MIN
        #: Lists of messages, none empty and all but the last one full; None if there are none.
        self.behind: list[list[Message]] | None = None

    def push(self, message: Message) -> int:
        """Add ``message`` at the end; returns by how many places the ring has grown for it."""
        if self.count >= self.room:
            return self._push_more(message)
        places = self.places
        places[(self.start + self.count) & (len(places) - 1)] = message
        self.count += 1
        return 0

    def _push_more(self, message: Message) -> int:
        size = len(self.places)
        if self.behind is None and size < _RING_PLACES:
            self._grow()
            self.push(message)
            return size
        if self.behind is None:
            self.behind = [[]]
            self.room = 0
        last = self.behind[len(self.behind) - 1]
        if len(last) == _RING_PLACES:
            last = []
            self.behind.append(last)
        last.append(message)
        self.count += 1
        return 0

    def _grow(self) -> None:
        # In place: the garbage collector would look through a thousand new rings at once, for 10 ms.
        places = self.places
        size = len(places)
        start = self.start
        places.extend([None] * size)
        places[size : size + start] = places[:start]
        places[:start] = [None] * start
        self.room = 2 * size

    def head(self) -> Message:
        """The first message, which stays; there is one."""
        message = self.places[self.start]
        if message is None:
            self._next_list()
            message = self.places[0]
        return message  # type: ignore[return-value]  # there is one

    def take(self) -> None:
        """The message that ``head`` has given leaves."""
        places = self.places
        places[self.start] = None
        self.start = (self.start + 1) & (len(places) - 1)
        self.count -= 1

    def _next_list(self) -> None:
        """The first list behind the ring, which is empty, is the ring from now on."""
        behind = self.behind
        assert behind is not None
        places: list[Message | None] = behind.pop(0)  # type: ignore[assignment]  # nobody else has it
        if not behind:  # it may not be full, and takes what comes
            self.behind = None
            size = _PLACES_MIN
            while size < len(places):
                size *= 2
            places.extend([None] * (size - len(places)))
            self.room = size
        self.places = places
        self.start = 0

    def first(self, count: int) -> list[Message]:
        """The first ``count`` messages, which stay; only those that are in the ring."""
        places = self.places
        found: list[Message] = []
        for index in range(min(count, len(places))):
            message = places[(self.start + index) & (len(places) - 1)]
            if message is None:
                break
            found.append(message)
        return found

    def lists(self) -> list[list[Message | None]]:
        """The lists that hold them. The caller frees them, and the ring is not used any more."""
        lists: list[list[Message | None]] = [self.places]
        lists += self.behind or ()  # type: ignore[arg-type]  # nobody puts a None into one
        return lists
