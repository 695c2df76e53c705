"""The routing log's own formats: names of files and directories, ``.names`` files, events in a batch.

FORMAT.md, "Routing log", describes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ...errors import CorruptLog
from ...files import Disk, join, read_file
from ..format.record import BatchHeader
from ..format.segment import Segment
from .events import RECORD_SIZE, SAME_KEY

DIRECTORY = "routing"
NAMES_SUFFIX = ".names"
_NAMES_VERSION = 1
_NAMES_MAGIC = b"ARLN"
NAMES_HEADER = Struct("<4sHHQ")
NAME = Struct("<III")
_RECORD = Struct("<IIIIIHH")


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


def names_header(base: int, version: int = _NAMES_VERSION) -> bytes:
    """The header of a ``.names`` file."""
    return NAMES_HEADER.pack(_NAMES_MAGIC, version, 0, base)


def pack_name(number: int, payload: bytes, salt: int) -> bytes:
    """An entry of a ``.names`` file; ``salt`` is the log's, 0 in a file of version 0."""
    crc = crc32(payload, crc32(number.to_bytes(4, "little"), salt))
    return NAME.pack(len(payload), crc, number) + payload


def names_salt(data: bytes, base: int, salt: int) -> int:
    """The salt of a ``.names`` file, 0 in one of version 0; -1 if its header is not good."""
    header = data[: NAMES_HEADER.size]
    if header == names_header(base):
        return salt
    return 0 if header == names_header(base, 0) else -1


def parse_names(data: bytes, base: int, salt: int) -> tuple[list[bytes], int] | None:
    """The payloads of a ``.names`` file, and where the good ones end; None if its header is not good."""
    salt = names_salt(data, base, salt)
    if salt < 0:
        return None
    found: list[bytes] = []
    at = NAMES_HEADER.size
    while at + NAME.size <= len(data):
        size, crc, number = NAME.unpack_from(data, at)
        payload = data[at + NAME.size : at + NAME.size + size]
        if (
            number != len(found)
            or len(payload) != size
            or crc != crc32(payload, crc32(data[at + 8 : at + 12], salt))
        ):
            break
        found.append(payload)
        at += NAME.size + size
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
