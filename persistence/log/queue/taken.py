"""What a log has taken lately, so that it does not take it twice: dead letters and publishes of producers.

Compiled, as the log is: see ``taken.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.message import Extras

from ..format.checkpoint import LogState
from ..format.lately import pull_back
from ..format.producers import Producers, note_sequence
from ..format.sources import Runs, has_source, note_source

#: Memory of a remembered run of letters, and of a producer: entries of a dict with their objects.
RUN_BYTES = 400
PRODUCER_BYTES = 330


class Taken:
    """That of one log, of this and earlier processes."""

    __slots__ = ("producers", "sources")

    def __init__(self) -> None:
        #: The dead letters (``sources``).
        self.sources: Runs = {}
        #: The last publish of each producer (``producers``).
        self.producers: Producers = {}

    def begin(self, state: LogState) -> None:
        """Continue with what ``state`` has."""
        self.sources = state.sources
        self.producers = state.producers

    def note(self, extras: Extras, now_us: int) -> None:
        """The log has taken a message with these."""
        if extras.source:
            note_source(self.sources, extras, now_us)
        if extras.session:
            note_sequence(self.producers, extras.session, extras.channel, extras.sequence, now_us)

    def pull_back(self, now_us: int) -> None:
        """The log goes on at an earlier time than before."""
        pull_back(self.sources, now_us)
        pull_back(self.producers, now_us)

    def has_letter(self, letter: Extras) -> bool:
        """Whether the log has taken that dead letter."""
        return has_source(self.sources, letter)

    def last_sequence(self, session: int, channel: int) -> int:
        """The last publish of a producer that the log has taken; 0 if it knows of none.

        A publish that is not above it was taken before, and is not to be appended again.
        """
        return self.producers.get((session, channel), (0, 0))[0]

    def memory_bytes(self) -> int:
        """Bytes of memory that all this takes."""
        return RUN_BYTES * len(self.sources) + PRODUCER_BYTES * len(self.producers)
