"""One partition of a routing log: the recorder on the event loop, and the writer in the thread."""

from __future__ import annotations

from ...clock import JUMP_US
from ...loop import Timer
from ..sync.marks import Marks
from .recorder import Recorder
from .recovery import Recovered
from .writer import RoutingWriter

#: A clock that goes to and fro must not make very many segments: it begins one in so many seconds.
TURN_S = 3600.0


class RoutingPartition:
    """Joins a recorder with what writes its batches."""

    def __init__(
        self, log_name: str, number: int, vhost: str, recorder: Recorder, writer: RoutingWriter
    ) -> None:
        #: The name of the log's directory.
        self.log_name = log_name
        self.number = number
        self.vhost = vhost
        self.recorder = recorder
        self.writer = writer
        #: Its end, segment and position in the mark of the last process.
        self.mark = (0, 0, 0)
        #: The next attempt after an error; None while it records.
        self.retry: Timer | None = None
        #: Its virtual host is deleted, and its files go.
        self.is_removed = False
        #: From when on the clock may begin a segment again, in seconds of the steady clock.
        self._may_turn_s = float("-inf")

    def begin(self, found: Recovered, marks: Marks) -> None:
        """Continue from what was recovered."""
        segment = found.segment
        self.writer.take_over(found)
        if segment.written:
            self.recorder.begin(segment, found.ids, found.names, found.last_us)
        else:
            self.recorder.begin(segment, {}, 0, found.last_us)
            self.recorder.roll()
        if segment.end:
            self.set_mark(marks)

    def keep_up(self, now_us: int, steady_s: float) -> int:
        """Go on at the time of day, ``now_us``, if the last event's lies far ahead of it; returns how far, in
        microseconds. 0: it does not, or it must stay for now.
        """
        recorder = self.recorder
        ahead_us = recorder.last_us - now_us
        if ahead_us <= JUMP_US:
            return 0
        if recorder.segment.size:
            if steady_s < self._may_turn_s:
                return 0
            self._may_turn_s = steady_s + TURN_S
        recorder.turn_back(now_us)
        return ahead_us

    def set_mark(self, marks: Marks) -> None:
        """Tell outside readers how far it is synced."""
        writer = self.writer
        base = writer.segment.base if writer.segment is not None else writer.synced_end
        position = writer.synced if writer.segment is not None else 0
        marks.put(self, self.log_name, self.number, 0, writer.synced_end, base, position, writer.start)

    def remove(self, marks: Marks) -> None:
        """Its virtual host is deleted: record no more, and tell outside readers."""
        self.is_removed = True
        if self.retry is not None:
            self.retry.cancel()
        self.recorder.stop()
        self.recorder.roll()  # forgets its names
        self.recorder.stop()
        marks.clear(self)

    def stop(self) -> None:
        """Record no more. What is written but not synced will be cut."""
        recorder = self.recorder
        recorder.lost += recorder.stop() + recorder.end - self.writer.synced_end
        recorder.end = self.writer.synced_end
