"""A routing log over a simulated or a real disk, and a decoder of its own that goes by FORMAT.md alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from struct import unpack_from
from typing import Any, NamedTuple
from zlib import crc32

from amqp_router.protocol.tick import Tick
from persistence.files import Disk, parent
from persistence.log.routing.logs import RoutingLogs, RoutingOptions
from persistence.log.routing.recorder import RouteEntry
from persistence.log.sync.marks import Marks
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import InlineWorker

START_US = 1_700_000_000_000_000


class Timer:
    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds = seconds
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


#: The id of the data directory.
NODE = "a-node"


class RoutingNode:
    """The routing logs of a node whose timers and thread run when the test says so."""

    def __init__(
        self,
        disk: Disk | None = None,
        options: RoutingOptions | None = None,
        data_dir: str = "d",
        now_us: int = START_US,
    ) -> None:
        self.disk: Any = disk or SimDisk()
        self.data_dir = data_dir
        self.disk.make_directory(data_dir)
        self.disk.sync_directory(parent(data_dir))
        self.tick = Tick(lambda call: None)
        self.tick.now_us = now_us
        self.timers: list[Timer] = []
        self.posted: list[Callable[[], None]] = []
        #: As a router keeps them with its routes.
        self.entries: dict[tuple[str, bytes, str], RouteEntry] = {}
        self.marks = Marks(self.disk, data_dir)
        self.logs = RoutingLogs(
            self.disk,
            data_dir,
            options or RoutingOptions(partitions=1),
            tick=self.tick,
            marks=self.marks,
            post=self.posted.append,
            call_later=self._call_later,
            wall_us=lambda: self.tick.now_us,
            worker=InlineWorker(),
            node=NODE,
        )
        self.marks.begin(bytes(16))
        log = self.logs.open("/")
        assert log is not None
        self.log = log
        self.marks.publish()

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(seconds, callback)
        self.timers.append(timer)
        return timer

    @property
    def directory(self) -> str:
        return self.log.recorders[0].directory

    def run_posted(self) -> None:
        while self.posted:
            self.posted.pop(0)()

    def pass_time(self, most_s: float = 1.0) -> None:
        """Let timers of up to ``most_s`` go off, once each."""
        due = [timer for timer in self.timers if timer.seconds <= most_s]
        self.timers = [timer for timer in self.timers if timer.seconds > most_s]
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()
        self.run_posted()

    def note(
        self, exchange: str = "x", key: bytes = b"k", size: int = 10, flags: int = 0, queue: str = "q"
    ) -> bool:
        entry = self.entries.get((exchange, key, queue))
        if entry is None:
            names = json.dumps({"exchange": exchange, "queues": [queue]}, separators=(",", ":")).encode()
            entry = self.entries[exchange, key, queue] = self.log.entry(exchange, key, names)
        return entry.recorder.note(entry, size, flags)


class Read(NamedTuple):
    """One event as read."""

    offset: int
    ts_us: int
    names: Any
    key: bytes
    size: int
    flags: int


def content(disk: Any, path: str) -> bytes:
    if isinstance(disk, SimDisk):
        inode = disk.names[path]
        assert inode is not None
        return bytes(inode.now)
    with open(path, "rb") as file:
        return file.read()


def segment_bases(disk: Any, directory: str) -> list[int]:
    return [int(name[:20]) for name in disk.list(directory) if name.endswith(".log") and len(name) == 24]


def read_all(disk: Any, directory: str, limit: tuple[int, int] | None = None) -> list[Read]:
    """Every event of a partition, up to a position of a segment if there is a ``limit``.

    Raises:
        AssertionError: something is not as FORMAT.md says.
    """
    found: list[Read] = []
    bases = segment_bases(disk, directory)
    if not bases:
        return found
    expected = -1
    log_directory, number = directory.rsplit("/", 1)
    log_id = log_directory.rpartition("/")[2]
    node = json.loads(content(disk, f"{log_directory}/log.json"))["node"]
    salt = crc32(f"{node}/{log_id}/{number}".encode())
    for base in bases:
        data = content(disk, f"{directory}/{base:020d}.log")
        if limit is not None:
            if base > limit[0]:
                break
            if base == limit[0]:
                assert len(data) >= limit[1], "the mark is beyond the file"
                data = data[: limit[1]]
        if not data:
            continue
        names = read_names(content(disk, f"{directory}/{base:020d}.names"), base, salt)
        assert expected in (-1, base), "no gap between segments"
        expected = base
        at = 0
        while at < len(data):
            expected, at = _read_batch(data, at, salt, expected, names, found)
    return found


def read_names(data: bytes, base: int, salt: int) -> list[Any]:
    assert data[:4] == bytes.fromhex("41524c4e")
    assert unpack_from("<HHQ", data, 4) == (1, 0, base)
    found: list[Any] = []
    at = 16
    while at < len(data):
        size, crc, number = unpack_from("<III", data, at)
        if at + 12 + size > len(data):
            break
        payload = data[at + 12 : at + 12 + size]
        if crc != crc32(payload, crc32(data[at + 8 : at + 12], salt)):
            break
        assert number == len(found)
        about = json.loads(payload)
        if isinstance(about, dict):
            for several in {"queues", "bindings"} & about.keys():
                # An integer stands for an entry before this one.
                about[several] = [found[n] if isinstance(n, int) else n for n in about[several]]
        found.append(about)
        at += 12 + size
    return found


def _read_batch(
    data: bytes, at: int, salt: int, expected: int, names: list[Any], found: list[Read]
) -> tuple[int, int]:
    assert data[at : at + 4] == b"ARLB"
    version, record_size, length, kind, attributes, payload_crc, count = unpack_from("<HHIHHII", data, at + 4)
    assert (version, record_size, kind, attributes) == (2, 24, 4, 0)
    assert length <= 256 * 1024
    assert 0 < count <= 4096
    session, stamp_crc, last_delta, max_ts_delta, epoch, base, base_ts, _, crc = unpack_from(
        "<QIIIIQqII", data, at + 24
    )
    assert (session, epoch) == (0, 0)
    assert stamp_crc == crc32(data[at + 36 : at + 64], crc32(data[at : at + 32], salt))
    assert crc == crc32(data[at + 64 : at + 68], stamp_crc)
    assert payload_crc == crc32(data[at + 72 : at + length])
    assert base == expected
    heap = at + 72 + 24 * count
    offset, key_at, key, last_dts = base, 0, b"", 0
    for number in range(count):
        events_end, key_end, dts_us, route, size, flags, zero = unpack_from(
            "<IIIIIHH", data, at + 72 + 24 * number
        )
        assert zero == 0
        if flags & 0x8000:
            assert number > 0
            assert key_end == key_at
        else:
            key = data[heap + key_at : heap + key_end]
        key_at = key_end
        assert base + events_end > offset
        while offset < base + events_end:
            found.append(Read(offset, base_ts + dts_us, names[route], key, size, flags & 0x7FFF))
            offset += 1
        assert last_dts <= dts_us
        last_dts = dts_us
    assert heap + key_at == at + length
    assert last_dts == max_ts_delta
    assert offset == base + last_delta + 1
    return offset, at + length
