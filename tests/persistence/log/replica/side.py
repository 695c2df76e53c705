"""One node with its copy of the log, and what others may see of it."""

from __future__ import annotations

from dataclasses import replace

from persistence.files import join
from persistence.log.format.record import HEADER_SIZE, parse_header
from persistence.log.format.segment import base_of, segment_name
from persistence.log.queue.queue_log import QueueLog
from persistence.log.queue.truncation import newest_checkpoint
from persistence.log.replica.follower import Follower
from persistence.log.replica.reading import RawReader
from persistence.log.sync.marks import log_id, read_marks
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.sizes import OPTIONS
from tests.persistence.log.support import InlineWorker, Node

NAME = "0123456789abcdef" * 2
#: Segments are removed and rewritten soon, and batches read in small parts.
SMALL = replace(OPTIONS, segment_bytes_max=900, batch_bytes_max=300, clean_bytes_min=100)


class Side:
    """One node with its copy of the log."""

    def __init__(self, number: int) -> None:
        #: How far the log was last said to be durable, in this process.
        self.durable = 0
        #: Offsets of publishes that have no answer, and of those that were confirmed and refused.
        self.waiting: list[int] = []
        self.confirmed: list[int] = []
        self.refused: list[int] = []
        self.number = number
        self.disk = SimDisk()
        self.disk.make_directory("d")
        self.disk.sync_directory("")
        self.node: Node
        self.log: QueueLog
        self.follower: Follower
        #: It is being truncated.
        self.is_busy = False
        #: It has compared epochs with the present leader.
        self.is_joined = False
        self.start()

    def start(self) -> None:
        self.node = Node(self.disk, SMALL)
        self.log = self.node.catalog.open(NAME, "/", "q", {}, mirrored=True)
        self.node.catalog.quarantine_unknown([NAME])
        self.log.listener = self
        self.node.catalog.caretaker.copies = self
        self.durable = self.log.durable
        self.waiting = []
        self.follower = Follower(self.log)
        loop = self.node.sync.loop
        self.reader = RawReader(self.log, self.disk, loop, InlineWorker(), cache_bytes=2000)
        self.is_busy = self.is_joined = False

    def work(self) -> None:
        """A round, and everything that it leads to."""
        self.node.sync.start_round()
        while self.node.posted:
            self.node.posted.pop(0)()
        assert self.log.failed is None or self.is_busy, self.log.failed

    # -- what the log tells -----------------------------------------------------------------------------

    def on_durable(self, log: QueueLog) -> None:
        assert log.durable >= self.durable
        self.durable = log.durable

    def on_high_watermark(self, log: QueueLog) -> None:
        while self.waiting and self.waiting[0] < log.high_watermark:
            self.confirmed.append(self.waiting.pop(0))

    def on_refused(self, log: QueueLog, offset: int) -> None:
        assert offset == log.end
        while self.waiting and self.waiting[-1] >= offset:
            self.refused.append(self.waiting.pop())

    def on_log_failed(self, log: QueueLog, error: Exception) -> None:
        self.waiting = []

    def on_log_resumed(self, log: QueueLog) -> None:
        raise AssertionError

    # -- what others see --------------------------------------------------------------------------------

    def check_mark(self) -> None:
        """Readers in other processes see what lies below the high watermark, and all of it."""
        log = self.log
        if self.is_busy or not log.durable or log.failed is not None:
            return
        mark = read_marks(self.disk, "d").get((log_id(NAME), 0))
        assert mark is not None
        assert mark.end == log.durable
        state = newest_checkpoint(log, self.disk, "d")
        assert mark.start <= (state.start if state is not None else 0), "what is not shown may come back"
        if log.copies.awaits_snapshot:
            assert mark.watermark <= log.start, "the settles of what is shown are not known"
            return
        assert mark.watermark <= log.high_watermark, "what is above the high watermark is shown"
        data = b""
        if mark.position:
            # Not one of the log's list: a segment leaves it before the checkpoint that removes its file.
            file = self.disk.open(join(log.partition.directory, segment_name(mark.segment)))
            data = file.read(file.size(), 0)
            file.close()
        at, end, next_last = 0, mark.segment, 0
        while at < len(data):
            header = parse_header(data, at, log.partition.salt)
            assert header is not None
            if at + header.length > mark.position:
                next_last = header.last
                break
            at, end = at + header.length, header.last + 1
        assert at == mark.position, "the mark is not at the end of a batch"
        assert end <= mark.watermark or not mark.position
        hidden = min(log.high_watermark, log.durable)
        lasts = [next_last] if next_last else []
        for name in self.disk.list(log.partition.directory):
            base = base_of(name)
            if base is not None and mark.segment < base < hidden:
                # Its file is there until a durable checkpoint has its settles.
                lasts.append(self.first_last(join(log.partition.directory, name)))
        assert all(last >= hidden for last in lasts), "what is below the high watermark is not shown"

    def first_last(self, path: str) -> int:
        """The last offset of the first batch of a segment."""
        file = self.disk.open(path)
        header = parse_header(file.read(HEADER_SIZE, 0), 0, self.log.partition.salt)
        file.close()
        assert header is not None
        return header.last
