"""Reads what is readable of a damaged log without changing it, for ``amqp-router log salvage``.

Every batch with correct checksums is used, also after damage. The commit journal fills gaps of the segments.
Settled messages are known only from readable settles, so a message whose settle is lost is included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, join, read_file
from ..format.checkpoint import LogState, newest, read_own
from ..format.identity import Owners, log_id_at, number_of, salt_at
from ..format.record import HEADER_SIZE, MAGIC, MESSAGES, BatchHeader, parse_header
from ..format.scanner import records_of
from ..format.segment import segment_bases, segment_name
from ..queue.fold import fold
from ..sync.journal import JournalEntry
from ..sync.marks import Mark

#: Ends of route, properties and body; dts_us, offset_delta (FORMAT.md, "MESSAGES").
_RECORD = Struct("<IIIII")


class Salvaged(NamedTuple):
    """An unsettled message; route and properties are encoded as in the log."""

    offset: int
    time_us: int
    route: bytes
    properties: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets ``[first, end)`` that cannot be read, of which up to ``messages`` were waiting."""

    first: int
    end: int
    messages: int
    where: str


@dataclass(frozen=True, slots=True)
class _Gap:
    first: int
    end: int
    where: str


class Salvage:
    """One partition's directory; ``node``: its part of the node's checkpoint, ``journal``: its entries.

    ``progress`` is called with (number, count) for every segment; each segment is read twice.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        node: LogState | None = None,
        *,
        mark: Mark | None = None,
        journal: Sequence[JournalEntry] = (),
        progress: Callable[[int, int], None] = lambda number, count: None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._salt = salt_at(disk, directory)
        self._owners = Owners.around(disk, directory)
        self._journal = journal
        self._progress = progress
        self._promised = mark.end if mark is not None else 0
        #: Texts about files that could not be used.
        self.faults: list[str] = []
        own: LogState | None = None
        try:
            own = read_own(disk, directory, log_id_at(disk, directory), number_of(directory))
        except (CorruptLog, OSError) as error:
            self.faults.append(f"{error}; messages that were settled before it may come along")
        self._state = newest(node, own) or LogState("", 0)
        self.missing: list[Missing] = []
        self._fold()

    def _fold(self) -> None:
        """Find what is settled and what is missing."""
        state = self._state
        start, folded = state.start, state.recovery_offset
        gaps = []
        for item in self._walk(start):
            if isinstance(item, _Gap):
                gaps.append(item)
                continue
            header, data, where = item
            if header.base < folded:
                continue
            # Offsets in the gap stay unsettled, because they may have been messages.
            state.recovery_offset = header.base
            try:
                fold(state, header, records_of(header, data[HEADER_SIZE:]))
            except ValueError as error:
                self.faults.append(f"{where}: {error}")
                state.recovery_offset = header.last + 1
        for gap in gaps:
            messages = state.settles.unsettled_in(gap.first, gap.end)
            if messages:
                self.missing.append(Missing(gap.first, gap.end, messages, gap.where))

    def messages(self) -> Iterator[Salvaged]:
        """Unsettled messages in order."""
        settles = self._state.settles
        for item in self._walk(self._state.start):
            if isinstance(item, _Gap) or item[0].kind != MESSAGES:
                continue
            for message in _messages(item[0], item[1]):
                if not settles.is_settled(message.offset):
                    yield message

    def _walk(self, expected: int) -> Iterator[tuple[BatchHeader, bytes, str] | _Gap]:
        """Good batches in order, and gaps between them, from offset ``expected`` on."""
        bases = segment_bases(self._disk, self._directory)
        where = ""  # of what lies between the last good batch and the next one
        for number, base in enumerate(bases):
            self._progress(number, len(bases))
            path = join(self._directory, segment_name(base))
            try:
                data = read_file(self._disk, path)
            except OSError as error:
                where = str(error)
                continue
            position = 0
            while position >= 0 and position < len(data):
                header = _good(data, position, expected, self._salt)
                if header is None:
                    foreign = self._owners.foreign(data[position : position + HEADER_SIZE], self._salt)
                    where = f"{path} at byte {position}{foreign and f': {foreign}'}"
                    position = _next(data, position + 1, expected, self._salt)
                    continue
                if header.base > expected:
                    yield from self._between(expected, header.base, where or path)
                yield header, data[position : position + header.length], f"{path} at byte {position}"
                where = ""
                expected = header.last + 1
                position += header.length
        end = max(self._promised, self._state.recovery_offset, self._journal_end())
        if end > expected:
            yield from self._between(expected, end, where or self._directory)

    def _journal_end(self) -> int:
        return max([entry.header.last + 1 for entry in self._journal], default=0)

    def _between(self, first: int, end: int, where: str) -> Iterator[tuple[BatchHeader, bytes, str] | _Gap]:
        """The batches of ``[first, end)`` in the journal, and the remaining gaps."""
        for header, data, _ in self._journal:
            if first <= header.base and header.last < end:
                if header.base > first:
                    yield _Gap(first, header.base, where)
                yield header, data, "the commit journal"
                first = header.last + 1
        if first < end:
            yield _Gap(first, end, where)


def _good(data: bytes, position: int, expected: int, salt: int) -> BatchHeader | None:
    header = parse_header(data, position, salt)
    if header is None or header.base < expected or position + header.length > len(data):
        return None
    payload = memoryview(data)[position + HEADER_SIZE : position + header.length]
    return header if crc32(payload) == header.payload_crc else None


def _next(data: bytes, position: int, expected: int, salt: int) -> int:
    """Position of the next good batch; -1 if there is none."""
    position = data.find(MAGIC, position)
    while position >= 0 and _good(data, position, expected, salt) is None:
        position = data.find(MAGIC, position + 1)
    return position


def _messages(header: BatchHeader, data: bytes) -> Iterator[Salvaged]:
    records, size = header.records, header.record_size
    rows = [_RECORD.unpack_from(data, HEADER_SIZE + number * size) for number in range(records)]
    if not rows:
        return
    routes = HEADER_SIZE + records * size
    properties = routes + rows[-1][0]
    bodies = properties + rows[-1][1]
    route, ends = b"", (0, 0, 0)
    for row in rows:
        route = data[routes + ends[0] : routes + row[0]] or route
        yield Salvaged(
            header.base + row[4],
            header.base_ts + row[3],
            route,
            data[properties + ends[1] : properties + row[1]],
            data[bodies + ends[2] : bodies + row[2]],
        )
        ends = row[:3]
