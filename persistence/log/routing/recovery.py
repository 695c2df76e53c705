"""Opens a partition of the routing log: its last segment, and the names that go with it.

Statistics never stop a broker. A torn tail is cut, and a damaged segment is set aside.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from sys import byteorder
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, join, read_file
from ..format.identity import Owners, salt_at
from ..format.index import SparseIndex
from ..format.record import HEADER_SIZE, MAGIC, BatchHeader, parse_header
from ..format.scanner import Scanner, check_tail, recover_segment
from ..format.segment import INDEX_SUFFIX, SUFFIX, Segment, base_of, segment_bases
from .events import RECORD_SIZE, ROUTING
from .layout import (
    NAME,
    NAMES_HEADER,
    NAMES_SUFFIX,
    iterate_events,
    names_header,
    names_path,
    names_salt,
    parse_names,
)

_DAMAGED_SUFFIX = ".damaged"


@dataclass(slots=True)
class Recovered:
    """The state from which a partition continues."""

    segment: Segment
    #: Ids of its names by payload, and the number of names.
    ids: dict[bytes, int]
    names: int
    #: The lowest offset that exists.
    start: int
    last_us: int = 0
    names_bytes: int = 0
    #: With which the names that are added are written.
    names_salt: int = 0
    cut_bytes: int = 0
    #: The segment set aside, and why.
    damaged: str = ""


def recover(
    disk: Disk, directory: str, mark: tuple[int, int, int] = (0, 0, 0), salt: int | None = None
) -> Recovered:
    """Recover the last segment of a partition. ``mark`` is (end, segment, position) known to be synced.

    ``salt`` is that of its batches; None = what its ``log.json`` says.

    Raises:
        OSError: the disk failed.
    """
    if salt is None:
        salt = salt_at(disk, directory)
    bases = segment_bases(disk, directory)
    for name in disk.list(directory):
        stem, dot, suffix = name.rpartition(".")
        is_alone = dot + suffix in (NAMES_SUFFIX, INDEX_SUFFIX) and base_of(stem + SUFFIX) not in bases
        if name.endswith(".tmp") or is_alone:
            disk.unlink(join(directory, name))
    if not bases:
        return Recovered(Segment(directory, mark[0]), {}, 0, mark[0])
    segment = Segment(directory, bases[-1])
    found = Recovered(segment, {}, 0, bases[0])
    try:
        _scan(disk, segment, found, mark, salt)
    except CorruptLog as error:
        end = max(_highest_end(disk, segment, salt), mark[0], segment.base)
        disk.rename(segment.path, segment.path + _DAMAGED_SUFFIX)
        path = names_path(segment)
        if disk.exists(path):
            disk.rename(path, path + _DAMAGED_SUFFIX)
        disk.unlink(segment.index_path)
        disk.sync_directory(directory)
        start = bases[0] if len(bases) > 1 else end
        return Recovered(Segment(directory, end), {}, 0, start, found.last_us, damaged=str(error))
    return found


def _scan(disk: Disk, segment: Segment, found: Recovered, mark: tuple[int, int, int], salt: int) -> None:
    """Read the batches and names of ``segment``, and cut both where they are torn.

    Raises:
        CorruptLog: a part that had been synced is missing or damaged.
    """
    segment.index = SparseIndex(64 * 1024)
    batches = _Batches(found)
    file = disk.open(segment.path, write=True)
    try:
        scan = Scanner(file, salt, base=segment.base)
        recover_segment(scan, segment, batches.take)
        owners = Owners.around(disk, segment.directory)
        check_tail(scan, segment, lambda header: owners.foreign(header, salt))
        if mark[1] == segment.base and mark[2] > segment.size:
            raise CorruptLog(segment.path, segment.size, f"bad batch, yet {mark[2]} bytes had been synced")
        names, found.names_salt = _recover_names(disk, segment, batches.route, salt)
        if segment.size < scan.size:
            file.truncate(segment.size)
            found.cut_bytes = scan.size - segment.size
        # After a kill the page cache shows bytes that were never synced. From here on they count as durable.
        file.sync()
    finally:
        file.close()
    disk.sync_directory(segment.directory)
    found.ids = {payload: number for number, payload in enumerate(names)}
    found.names = len(names)
    found.names_bytes = sum(len(payload) + NAME.size for payload in names)


def _recover_names(disk: Disk, segment: Segment, routes: int, salt: int) -> tuple[list[bytes], int]:
    """The names, and the salt of their file."""
    path = names_path(segment)
    try:
        file = disk.open(path, write=True)
    except FileNotFoundError:
        if segment.size:
            raise CorruptLog(path, 0, "no names for the segment") from None
        file = disk.open(path, write=True, create=True)
    try:
        size = file.size()
        data = file.read(size, 0)
        parsed = parse_names(data, segment.base, salt)
        if parsed is None:
            if segment.size:
                raise CorruptLog(path, 0, "no header of a file of names")
            file.truncate(0)
            file.write([names_header(segment.base)], 0)
            data = names_header(segment.base)
            parsed = [], NAMES_HEADER.size
        names, end = parsed
        if routes >= len(names):
            raise CorruptLog(path, end, f"no good name here, yet a batch uses number {routes}")
        if end < size:
            file.truncate(end)
        file.sync()
    finally:
        file.close()
    return names, names_salt(data, segment.base, salt)


class _Batches:
    """Notes the highest number of a name in the batches of a segment, and their last time."""

    def __init__(self, found: Recovered) -> None:
        self._found = found
        self.route = -1

    def take(self, header: BatchHeader, payload: memoryview) -> bool:
        if header.kind != ROUTING:
            return False
        self.route = max(self.route, _highest_route(header, bytes(payload)))
        self._found.last_us = header.base_ts + header.max_ts_delta
        return True


def _highest_route(header: BatchHeader, payload: bytes) -> int:
    if header.record_size != RECORD_SIZE:
        return max([event.route for event in iterate_events(header, payload)], default=-1)
    if len(payload) < header.records * RECORD_SIZE:
        raise ValueError("the records of a batch do not fit its length")
    numbers = array("I", payload[: header.records * RECORD_SIZE])
    if byteorder == "big":
        numbers.byteswap()
    return max(numbers[3::6], default=-1)


def _highest_end(disk: Disk, segment: Segment, salt: int) -> int:
    """The end of the last good batch anywhere in a damaged segment."""
    data = read_file(disk, segment.path)
    end = 0
    at = data.find(MAGIC)
    while at >= 0:
        header = parse_header(data, at, salt)
        if header is not None and crc32(data[at + HEADER_SIZE : at + header.length]) == header.payload_crc:
            end = max(end, header.last + 1)
        at = data.find(MAGIC, at + 1)
    return end
