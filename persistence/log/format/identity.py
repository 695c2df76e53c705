"""Which log a batch is of: the salt in its header's checksum (FORMAT.md, "Salt").

A segment that was put into another log's directory has good bytes throughout. Its checksums are not those of
that log, and tell whose they are.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from zlib import crc32

from ...files import Disk, join, parent, read_file
from .record import HEADER, HEADER_SIZE, MAGIC, STAMP_CRC_AT, STAMP_SIZE, VERSION

DESCRIPTION = "log.json"
#: Versions of ``log.json`` that can be read; the last one is written. Batches of version 0 have no salt.
DESCRIPTION_VERSIONS = (0, 1, 2)
DESCRIPTION_VERSION = 2
WAY_OUT = "; start the amqp-router release that wrote it"
_ID = re.compile("[0-9a-f]{32}")
_DIRECTORIES = ("queues", "routing", "quarantine")
_CRC_TABLE = [crc32(bytes([octet]), 0xFFFFFFFF) ^ 0xFFFFFFFF for octet in range(256)]
#: By its highest octet, which no two entries share: the entry's number.
_CRC_NUMBERS = {entry >> 24: number for number, entry in enumerate(_CRC_TABLE)}


def salt_of(log_id: str, partition: int, node: str = "") -> int:
    """The salt of a partition; ``node`` for a routing log, of which every node has its own."""
    return crc32(f"{node}/{log_id}/{partition}".encode("utf-8", "surrogateescape"))


def key_of(log_id: str, partition: int) -> str:
    """A partition's key among those of a node: the log's id, and the number of any but the first."""
    return f"{log_id}/{partition}" if partition else log_id


def salt_in(header: bytes) -> int | None:
    """The salt with which a header's checksum is right; None if it is none, or has none.

    Damaged ones have a salt, too, so it counts only if it is that of a known log.
    """
    if len(header) < HEADER_SIZE or header[:4] != MAGIC:
        return None
    version, at = HEADER.unpack_from(header)[1], STAMP_CRC_AT
    if version == VERSION:
        covered = header[:at] + header[at + 4 : STAMP_SIZE]
    elif version == 1:
        at = HEADER_SIZE - 4
        covered = header[:at]
    else:
        return None
    # The checksums of the same bytes with two salts differ by what zeros make of the salts' difference.
    register = crc32(covered) ^ int.from_bytes(header[at : at + 4], "little")
    for _ in range(len(covered)):
        number = _CRC_NUMBERS[register >> 24]
        register = (register ^ _CRC_TABLE[number]) << 8 & 0xFFFFFFFF | number
    return register


def read_json(disk: Disk, directory: str) -> dict[str, object]:
    """``log.json`` of a log's directory; empty if it is missing or unreadable."""
    try:
        description = json.loads(read_file(disk, join(directory, DESCRIPTION)))
    except (OSError, ValueError, RecursionError):
        return {}
    return description if isinstance(description, dict) else {}


def log_id_at(disk: Disk, directory: str) -> str:
    """The id of the log of a partition's directory, also if that was copied or moved under another name."""
    name = parent(directory).rpartition("/")[2]
    return name if _ID.fullmatch(name) else str(read_json(disk, parent(directory)).get("incarnation", name))


def number_of(directory: str) -> int:
    """The number of a partition, by its directory."""
    number = directory.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def salt_at(disk: Disk, directory: str) -> int:
    """The salt of a partition's directory."""
    description = read_json(disk, parent(directory))
    node = description.get("node", "") if description.get("kind") == "routing" else ""
    return salt_of(log_id_at(disk, directory), number_of(directory), str(node))


class Owners:
    """The logs of a data directory by their salts; listed when they are first asked for."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._logs: dict[int, str] | None = None

    @classmethod
    def around(cls, disk: Disk, directory: str) -> Owners:
        """The owners of salts in the data directory that holds a partition's directory."""
        return cls(disk, parent(parent(parent(directory))))

    def foreign(self, header: bytes, salt: int) -> str:
        """An error that names the log to which ``header`` belongs; empty if it is ours or nobody's."""
        found = salt_in(header)
        if found is None or found == salt:
            return ""
        if self._logs is None:
            self._logs = dict(self._list())
        directory = self._logs.get(found)
        if directory is None:
            return ""
        own = self._name(self._logs[salt]) if salt in self._logs else "this one"
        return f"the batch belongs to another log: {self._name(directory)}, not {own}"

    def _list(self) -> list[tuple[int, str]]:
        found = []
        for kind in _DIRECTORIES:
            for name in self._disk.list(join(self._data_dir, kind)):
                log = join(self._data_dir, kind, name)
                with suppress(OSError):  # it went away, or is no directory
                    numbers = [number for number in self._disk.list(log) if number.isdecimal()]
                    found += [
                        (salt_at(self._disk, join(log, number)), join(log, number)) for number in numbers
                    ]
        return found

    def _name(self, directory: str) -> str:
        description = read_json(self._disk, parent(directory))
        vhost, name = description.get("vhost", ""), description.get("name", "")
        kind = "the routing log" if description.get("kind") == "routing" else f"queue {name!r}"
        return f"{kind} of virtual host {vhost!r} ({directory})"
