"""What a log has taken lately, so that it does not take it twice: dead letters and publishes of producers.

Compiled, as the log is: see ``taken.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol.message import Extras

from ..format.checkpoint import LogState
from ..format.lately import forget_old, pull_back
from ..format.producers import Producers, note_sequence
from ..format.sources import KEPT_US, RUN_LETTERS_MAX, RUNS_MAX, Runs, has_source, note_source, source_of

#: Memory of a remembered run of letters, and of a producer: entries of a dict with their objects.
RUN_BYTES = 400
PRODUCER_BYTES = 330

_RUN_MAX = RUN_LETTERS_MAX  # a C integer where compiled


class Taken:
    """That of one log, of this and earlier processes."""

    __slots__ = (
        "_end",
        "_epoch",
        "_first",
        "_partition",
        "_runs",
        "_source",
        "_time_us",
        "producers",
    )

    def __init__(self) -> None:
        #: The dead letters (``sources``), without those of the open run.
        self._runs: Runs = {}
        #: The run that the last letter has extended: letters of one queue come one after the other. It is
        #: put among the others when another run follows. None if ``_source`` is empty.
        self._source = b""
        self._partition = 0
        self._epoch = 0
        self._first = 0
        self._end = 0
        self._time_us = 0
        #: The last publish of each producer (``producers``).
        self.producers: Producers = {}

    def begin(self, state: LogState) -> None:
        """Continue with what ``state`` has."""
        self.sources = state.sources
        self.producers = state.producers

    def note(self, extras: Extras, now_us: int) -> None:
        """The log has taken a message with these."""
        if extras.source:
            self._note_source(extras, now_us)
        if extras.session:
            note_sequence(self.producers, extras.session, extras.channel, extras.sequence, now_us)

    @property
    def sources(self) -> Runs:
        """The dead letters."""
        self._close_run()
        return self._runs

    @sources.setter
    def sources(self, runs: Runs) -> None:
        self._source = b""
        self._runs = runs

    def _note_source(self, letter: Extras, now_us: int) -> None:
        if (
            letter.source_offset == self._end
            and letter.source_epoch == self._epoch
            and letter.source_partition == self._partition
            and letter.source == self._source
            and self._end - self._first < _RUN_MAX
        ):
            self._end += 1
            self._time_us = now_us
            if len(self._runs) > 0:
                forget_old(self._runs, RUNS_MAX - 1, now_us - KEPT_US, least=0)
            return
        self._close_run()
        note_source(self._runs, letter, now_us)
        source, partition, epoch, offset = source_of(letter)
        self._first, self._time_us = self._runs.pop((source, partition, epoch, offset + 1))
        self._source = source
        self._partition = partition
        self._epoch = epoch
        self._end = offset + 1

    def _close_run(self) -> None:
        if self._source:
            self._runs[self._source, self._partition, self._epoch, self._end] = (self._first, self._time_us)
            self._source = b""

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
        runs = len(self._runs) + (1 if self._source else 0)
        return RUN_BYTES * runs + PRODUCER_BYTES * len(self.producers)
