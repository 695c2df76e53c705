"""The routing log's files: names, recovery, and writing in the thread (FORMAT.md, "Routing log").

Statistics never stop a broker. A torn tail is cut, a damaged segment is set aside, and events that cannot be
written are dropped until the next attempt.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from sys import byteorder
from typing import Any, NamedTuple
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, File, FileCache, join, parent, read_file, replace_file
from ..format.identity import Owners, read_json, salt_at, salt_of
from ..format.index import SparseIndex
from ..format.record import HEADER_SIZE, MAGIC, VERSION, Batch, BatchHeader, parse_header
from ..format.segment import INDEX_SUFFIX, SUFFIX, Segment, base_of, segment_bases, segment_name
from ..queue.recovery import later_witness
from .recorder import RECORD_SIZE, ROUTING, SAME_KEY

DIRECTORY = "routing"
NAMES_SUFFIX = ".names"
DAMAGED_SUFFIX = ".damaged"
_NAMES_MAGIC = b"ARLN"
_NAMES_HEADER = Struct("<4sHHQ")
_NAME = Struct("<III")
_RECORD = Struct("<IIIIIHH")
_CHUNK_BYTES = 1 << 20
_U32_MAX = 0xFFFFFFFF


def octets_of(name: str) -> bytes:
    """A name as it was on the wire."""
    return name.encode("utf-8", "surrogateescape")


def routing_id(vhost: str) -> str:
    """The name of a virtual host's directory."""
    return sha256(b"routing\0" + octets_of(vhost)).hexdigest()[:32]


def partition_of(exchange: str, partitions: int) -> int:
    """The partition with the events of an exchange."""
    return crc32(octets_of(exchange)) % partitions


def names_path(segment: Segment) -> str:
    """The path of a segment's ``.names`` file."""
    return join(segment.directory, f"{segment.base:020d}{NAMES_SUFFIX}")


def names_header(base: int, version: int = VERSION) -> bytes:
    """The header of a ``.names`` file."""
    return _NAMES_HEADER.pack(_NAMES_MAGIC, version, 0, base)


def pack_name(number: int, payload: bytes, salt: int) -> bytes:
    """An entry of a ``.names`` file; ``salt`` is the log's, 0 in a file of version 0."""
    crc = crc32(payload, crc32(number.to_bytes(4, "little"), salt))
    return _NAME.pack(len(payload), crc, number) + payload


def names_salt(data: bytes, base: int, salt: int) -> int:
    """The salt of a ``.names`` file, 0 in one of version 0; -1 if its header is not good."""
    header = data[: _NAMES_HEADER.size]
    if header == names_header(base):
        return salt
    return 0 if header == names_header(base, 0) else -1


def parse_names(data: bytes, base: int, salt: int) -> tuple[list[bytes], int] | None:
    """The payloads of a ``.names`` file, and where the good ones end; None if its header is not good."""
    salt = names_salt(data, base, salt)
    if salt < 0:
        return None
    found: list[bytes] = []
    at = _NAMES_HEADER.size
    while at + _NAME.size <= len(data):
        size, crc, number = _NAME.unpack_from(data, at)
        payload = data[at + _NAME.size : at + _NAME.size + size]
        if (
            number != len(found)
            or len(payload) != size
            or crc != crc32(payload, crc32(data[at + 8 : at + 12], salt))
        ):
            break
        found.append(payload)
        at += _NAME.size + size
    return found, at


class Event(NamedTuple):
    """A run of equal events, as read from the log."""

    offset: int
    events: int
    ts_us: int
    route: int
    key: bytes
    body_size: int
    flags: int


def iterate_events(header: BatchHeader, payload: bytes) -> Iterator[Event]:
    """The records of a batch.

    Raises:
        ValueError: the payload does not fit its header.
    """
    heap = header.records * header.record_size
    if header.record_size < RECORD_SIZE or heap > len(payload):
        raise ValueError("the records of a batch do not fit its length")
    events = key_at = 0
    key = b""
    for at in range(0, heap, header.record_size):
        events_end, key_end, dts_us, route, body_size, flags, _ = _RECORD.unpack_from(payload, at)
        if events_end <= events or key_end < key_at or heap + key_end > len(payload):
            raise ValueError("the ends in a batch do not rise, or reach beyond it")
        if not flags & SAME_KEY:
            key = payload[heap + key_at : heap + key_end]
        yield Event(
            header.base + events,
            events_end - events,
            header.base_ts + dts_us,
            route,
            key,
            body_size,
            flags & ~SAME_KEY,
        )
        events, key_at = events_end, key_end
    if header.base + events - 1 != header.last:
        raise ValueError("the events of a batch are not as many as its header says")


def read_names(disk: Disk, segment: Segment, salt: int) -> list[bytes]:
    """The payloads of the entries in a segment's ``.names`` file.

    Raises:
        CorruptLog: the file is missing or is not a ``.names`` file.
    """
    path = names_path(segment)
    try:
        found = parse_names(read_file(disk, path), segment.base, salt)
    except FileNotFoundError:
        found = None
    if found is None:
        raise CorruptLog(path, 0, "no names for the segment")
    return found[0]


# -- recovery -------------------------------------------------------------------------------------------


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
        disk.rename(segment.path, segment.path + DAMAGED_SUFFIX)
        path = names_path(segment)
        if disk.exists(path):
            disk.rename(path, path + DAMAGED_SUFFIX)
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
    routes = -1
    file = disk.open(segment.path, write=True)
    try:
        size = file.size()
        for position, header, payload in iterate_batches(file, segment.base, size, salt):
            try:
                routes = max(routes, _highest_route(header, payload))
            except ValueError as error:
                raise CorruptLog(segment.path, position, str(error)) from None
            if segment.first_ts < 0:
                segment.first_ts = header.base_ts
            since_ms = (header.base_ts - segment.first_ts) // 1000
            segment.index.note(min(header.base - segment.base, _U32_MAX), since_ms, position)
            segment.size = position + header.length
            segment.end = header.last + 1
            found.last_us = header.base_ts + header.max_ts_delta
        if segment.size < size:
            header_there = file.read(HEADER_SIZE, segment.size)
            foreign = Owners.around(disk, segment.directory).foreign(header_there, salt)
            if foreign:
                raise CorruptLog(segment.path, segment.size, foreign)
            witness = later_witness(file, segment.size, size, segment.end, salt)
            if witness >= 0:
                text = f"bad batch, yet the one at byte {witness} says that this had been synced"
                raise CorruptLog(segment.path, segment.size, text)
        if mark[1] == segment.base and mark[2] > segment.size:
            raise CorruptLog(segment.path, segment.size, f"bad batch, yet {mark[2]} bytes had been synced")
        names, found.names_salt = _recover_names(disk, segment, routes, salt)
        if segment.size < size:
            file.truncate(segment.size)
            found.cut_bytes = size - segment.size
        # After a kill the page cache shows bytes that were never synced. From here on they count as durable.
        file.sync()
    finally:
        file.close()
    disk.sync_directory(segment.directory)
    segment.written = segment.size
    found.ids = {payload: number for number, payload in enumerate(names)}
    found.names = len(names)
    found.names_bytes = sum(len(payload) + _NAME.size for payload in names)


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
            parsed = [], _NAMES_HEADER.size
        names, end = parsed
        if routes >= len(names):
            raise CorruptLog(path, end, f"no good name here, yet a batch uses number {routes}")
        if end < size:
            file.truncate(end)
        file.sync()
    finally:
        file.close()
    return names, names_salt(data, segment.base, salt)


def iterate_batches(file: File, base: int, size: int, salt: int) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """(position, header, payload) of each good batch of a segment, up to the first bad one."""
    position = at = 0
    data = b""
    while position + HEADER_SIZE <= size:
        if at + HEADER_SIZE > len(data):
            data, at = file.read(_CHUNK_BYTES, position), 0
        header = parse_header(data, at, salt)
        if header is None or header.kind != ROUTING or header.base != base or position + header.length > size:
            return
        if at + header.length > len(data):
            data, at = file.read(max(_CHUNK_BYTES, header.length), position), 0
        payload = data[at + HEADER_SIZE : at + header.length]
        if crc32(payload) != header.payload_crc:
            return
        yield position, header, payload
        base = header.last + 1
        position += header.length
        at += header.length


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


# -- writing --------------------------------------------------------------------------------------------


class RoutingWriter:
    """Writes one partition in the thread. Nobody else uses its files while the broker runs.

    After an error ``failed`` is set, and every call raises it until ``reopen``.
    """

    def __init__(self, disk: Disk, files: FileCache, directory: str, description: dict[str, Any]) -> None:
        self.directory = directory
        self.failed: OSError | None = None
        #: The open segment, its written and its synced position, and the offsets there.
        self.segment: Segment | None = None
        self.position = self.synced = 0
        self.end = self.synced_end = 0
        #: The lowest offset that exists.
        self.start = 0
        #: Of its batches and names.
        log, number = directory.split("/")[-2:]
        self.salt = salt_of(log, int(number), description["node"])
        self._disk = disk
        self._files = files
        self._description = description
        self._opened = False
        self._created = False
        self._names = 0
        self._names_position = 0
        self._names_salt = self.salt

    @property
    def is_dirty(self) -> bool:
        """Whether something is written but not synced."""
        return self.synced < self.position

    def take_over(self, found: Recovered) -> None:
        """Continue from the state that recovery found."""
        segment = found.segment
        self.failed = None
        self._opened = True
        self.segment = segment if segment.written else None
        self.position = self.synced = segment.written
        self.end = self.synced_end = segment.end
        self.start = found.start
        self._names = found.names
        self._names_position = _NAMES_HEADER.size + found.names_bytes
        self._names_salt = found.names_salt

    def write(self, items: Sequence[tuple[Batch, list[bytes]]]) -> None:
        """Write batches, together for each segment: first its new names with a sync, then the batches.

        Raises:
            OSError: the disk failed; the writer cannot be used until ``reopen``.
        """
        if self.failed is not None:
            raise self.failed
        try:
            self._create()
            at = 0
            while at < len(items):
                segment = items[at][0].segment
                count = at
                while count < len(items) and items[count][0].segment is segment:
                    count += 1
                assert segment is not None
                self._write(segment, items[at:count])
                at = count
        except OSError as error:
            self.failed = error
            raise

    def _write(self, segment: Segment, items: Sequence[tuple[Batch, list[bytes]]]) -> None:
        if segment is not self.segment:
            self.close_segment()
            self._begin_segment(segment)
        names = b"".join(
            [
                pack_name(number, payload, self._names_salt)
                for number, payload in enumerate([p for _, new in items for p in new], self._names)
            ]
        )
        if names:
            file = self._files.get(names_path(segment))
            file.write([names], self._names_position)
            file.sync()
            self._names_position += len(names)
            self._names += sum(len(new) for _, new in items)
        pieces: list[bytes | memoryview] = []
        for batch, _ in items:
            pieces.append(batch.pack_header(min(batch.position - self.synced, _U32_MAX), self.salt))
            pieces += batch.pieces
        self._files.get(segment.path).write(pieces, self.position)
        last = items[-1][0]
        self.position = last.position + last.length
        self.end = last.last + 1

    def _begin_segment(self, segment: Segment) -> None:
        self.segment = segment
        self.position = self.synced = 0
        self.end = self.synced_end = segment.base
        self._names = 0
        self._names_position = _NAMES_HEADER.size
        self._names_salt = self.salt
        names = self._files.get(names_path(segment), create=True)
        names.truncate(0)
        names.write([names_header(segment.base)], 0)
        names.sync()
        # An older file of that name must not remain after our bytes.
        self._files.get(segment.path, create=True).truncate(0)
        self._disk.sync_directory(segment.directory)

    def _create(self) -> None:
        """Make the directories and ``log.json``, durably."""
        if self._created:
            return
        disk = self._disk
        own = parent(self.directory)
        above = parent(own)
        for directory in (above, own, self.directory):
            disk.make_directory(directory)
        if read_json(disk, own) != self._description:
            replace_file(disk, join(own, "log.json"), json.dumps(self._description, sort_keys=True).encode())
        for directory in (parent(above), above, own):
            disk.sync_directory(directory)
        self._created = True

    def sync(self) -> None:
        """Make everything written durable.

        Raises:
            OSError: as ``write``.
        """
        if self.failed is not None:
            raise self.failed
        if self.segment is not None and self.is_dirty:
            try:
                self._files.get(self.segment.path).sync()
            except OSError as error:
                self.failed = error
                raise
        self.synced = self.position
        self.synced_end = self.end

    def close_segment(self) -> None:
        """Sync the open segment for good, and write its index."""
        segment = self.segment
        if segment is None:
            return
        self.sync()
        if segment.index is not None:
            replace_file(self._disk, segment.index_path, segment.index.pack(), durable=False)
        self._files.drop(segment.path)
        self._files.drop(names_path(segment))
        self.segment = None

    def reopen(self, mark: tuple[int, int, int]) -> Recovered:
        """After an error: cut the segment to its synced part, and recover it as ``recover`` does.

        ``mark`` is used if nothing has been opened yet.

        Raises:
            OSError: the disk still fails.
        """
        segment = self.segment
        if segment is not None:
            self._files.drop(segment.path)
            self._files.drop(names_path(segment))
            if self._disk.exists(segment.path):
                file = self._disk.open(segment.path, write=True)
                try:
                    file.truncate(self.synced)
                    file.sync()
                finally:
                    file.close()
        if self._opened:
            base = segment.base if segment is not None else self.synced_end
            mark = (self.synced_end, base, self.synced if segment is not None else 0)
        found = recover(self._disk, self.directory, mark, self.salt)
        self._created = False
        return found


# -- retention ------------------------------------------------------------------------------------------


class Closed(NamedTuple):
    """A closed segment: time of its first event, size including its names, and place."""

    first_ts: int
    size: int
    directory: str
    base: int


def closed_segments(disk: Disk, root: str, active: dict[str, int]) -> tuple[list[Closed], int]:
    """The closed segments of all routing logs below ``root``, oldest first, and their total size.

    ``active`` has for each partition directory in use the base below which segments are closed.
    """
    closed: list[Closed] = []
    total = 0
    for name in disk.list(root):
        # Without its description the time of a segment cannot be read.
        is_known = bool(read_json(disk, join(root, name)))
        for number in disk.list(join(root, name)):
            directory = join(root, name, number)
            if not number.isdecimal():
                continue
            limit = active.get(directory)
            salt = salt_at(disk, directory)
            for base in segment_bases(disk, directory):
                segment = Segment(directory, base)
                header, size = _first_header(disk, segment.path, salt)
                size += _first_header(disk, names_path(segment), salt)[1]
                total += size
                if is_known and (limit is None or base < limit):
                    closed.append(Closed(header.base_ts if header else 0, size, directory, base))
    return sorted(closed), total


def _first_header(disk: Disk, path: str, salt: int) -> tuple[BatchHeader | None, int]:
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None, 0
    try:
        return parse_header(file.read(HEADER_SIZE, 0), 0, salt), file.size()
    finally:
        file.close()


def remove_segment(disk: Disk, segment: Closed) -> None:
    """Remove a closed segment. The ``.log`` file goes first, so that a half removed one is never taken for a
    segment.
    """
    stem = join(segment.directory, segment_name(segment.base).removesuffix(SUFFIX))
    for suffix in (SUFFIX, NAMES_SUFFIX, INDEX_SUFFIX):
        disk.unlink(stem + suffix)
