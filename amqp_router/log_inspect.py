"""``amqp-router log inspect``: what the logs of a data directory hold, as a starting broker would find it.

The logs are opened exactly as a starting broker opens them, on a disk that discards what recovery writes. So
nothing is changed, and it works on the directory of a running broker too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from amqp_router.exit_codes import LogDirectoryError
from amqp_router.log_text import escaped, log_names, size_text
from persistence.definitions import QueueRow, read_queues
from persistence.errors import CorruptLog
from persistence.files import File, RealDisk, join
from persistence.log.format.identity import key_of
from persistence.log.format.segment import segment_bases, segment_name
from persistence.log.offline.routing import find_routing_logs
from persistence.log.queue.catalog import Catalog
from persistence.log.queue.queue_log import QueueLog
from persistence.log.routing.recovery import recover
from persistence.log.sync.log_sync import LogSync
from persistence.log.sync.marks import log_id, read_marks
from persistence.memory import MemoryBudget
from persistence.options import LogOptions

QUEUE, ROUTING = "queue", "routing log"
#: The orders of ``--sort``; figures are sorted from large to small.
ORDERS: dict[str, Callable[[Found], Any]] = {
    "name": lambda found: (found.vhost, found.name),
    "waiting": lambda found: (-found.waiting, found.vhost, found.name),
    "size": lambda found: (-found.bytes, found.vhost, found.name),
}


@dataclass(frozen=True, slots=True)
class Found:
    """One log: ``waiting`` messages of a queue, or events of a partition of a routing log."""

    kind: str
    vhost: str
    name: str
    id: str
    waiting: int = 0
    first_offset: int = 0
    next_offset: int = 0
    segments: int = 0
    bytes: int = 0
    note: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """All logs of a data directory; ``problem`` says why they cannot be looked at together."""

    found: list[Found]
    problem: str = ""

    @property
    def whole(self) -> bool:
        """Whether every log can be opened."""
        return not self.problem and not any(each.error for each in self.found)


class ShadowFile:
    """A file that discards writes. Reads give the content of the real file, up to where it was cut."""

    def __init__(self, file: File | None) -> None:
        self._file = file
        self._size = file.size() if file is not None else 0

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return self._size

    def write(self, pieces: Sequence[bytes | memoryview], position: int) -> None:
        """Discard."""

    def read(self, count: int, position: int) -> bytes:
        count = min(count, self._size - position)
        return self._file.read(count, position) if self._file is not None and count > 0 else b""

    def sync(self) -> None:
        """Nothing to sync."""

    def truncate(self, size: int) -> None:
        self._size = min(self._size, size)

    def will_need(self, position: int, count: int) -> None:
        """Read when it is read."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class ShadowMapping:
    """A mapping that discards writes."""

    def store(self, data: bytes, position: int) -> None:
        """Discard."""

    def close(self) -> None:
        """Nothing to close."""


class ShadowDisk(RealDisk):
    """The real disk to read from; what would change it is left out."""

    def __init__(self) -> None:
        self._renamed: set[str] = set()

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:  # type: ignore[override]  # any File
        try:
            return ShadowFile(super().open(path)) if write else super().open(path)
        except FileNotFoundError:
            if not create and path not in self._renamed:
                raise
            return ShadowFile(None)

    def map(self, path: str, size: int) -> ShadowMapping:  # type: ignore[override]  # any Mapping
        return ShadowMapping()

    def size(self, path: str) -> int:
        """Bytes of a file."""
        file = super().open(path)
        try:
            return file.size()
        finally:
            file.close()

    def make_directory(self, path: str) -> None:
        """Left out."""

    def rename(self, old: str, new: str) -> None:
        """Left out; what is read of a file that would be there now is empty."""
        self._renamed.add(new)

    def unlink(self, path: str) -> None:
        """Left out."""

    def remove_tree(self, path: str) -> None:
        """Left out."""

    def sync_directory(self, path: str) -> None:
        """Left out."""


def inspect(path: Path) -> Inspection:
    """Look at every durable queue and routing log of the data directory at `path`.

    Raises:
        LogDirectoryError: `path` is not a data directory.
    """
    if not (path / "queues").is_dir():
        problem = (
            "is not a data directory (it has no folder queues)" if path.is_dir() else "is not a directory"
        )
        raise LogDirectoryError(f"{path}: {problem}; name the folder given to `amqp-router serve --data-dir`")
    disk = ShadowDisk()
    options = LogOptions()
    sync = LogSync(disk, str(path), options, post=_never, call_later=_later)
    catalog = Catalog(str(path), sync, options, MemoryBudget(0), disk=disk)
    try:
        catalog.start()
    except (CorruptLog, OSError) as error:
        return Inspection([], f"the logs cannot be opened: {error}")
    rows = read_queues(path / "definitions.sqlite")
    found = list(_queues(path, catalog, {row.incarnation: row for row in rows} if rows is not None else None))
    return Inspection(found + list(_routing(path, disk)))


def _queues(path: Path, catalog: Catalog, rows: dict[str, QueueRow] | None) -> Iterator[Found]:
    incarnations = catalog.incarnations()
    for incarnation, number in [
        (each, number) for each in incarnations for number in _numbers(path / "queues" / each)
    ]:
        key = key_of(incarnation, number)
        vhost, name = log_names(str(path / "queues" / incarnation / "0"), incarnation)
        try:
            log = _open(catalog, incarnation, number)
        except (CorruptLog, OSError) as error:
            yield Found(QUEUE, vhost, name, key, error=f"cannot be opened: {error}")
            continue
        report = catalog.reports.get(key)
        note = f"{report.cut_bytes} torn bytes at the end" if report is not None and report.cut_bytes else ""
        if not note and rows is not None and incarnation not in rows:
            note = "no definition: the next start sets it aside"
        segments = log.partition.segments
        size = sum(segment.size for segment in segments)
        figures = (log.batches.state.live, log.start, log.end, len(segments), size)
        yield Found(QUEUE, vhost, name, key, *figures, note=note)
    for incarnation, row in (rows or {}).items():
        if incarnation not in incarnations:
            yield Found(QUEUE, row.vhost, row.name, incarnation, note="no message yet")


def _numbers(folder: Path) -> list[int]:
    """The partitions in a queue's folder; the first one also if it has none."""
    return sorted({0, *(int(each.name) for each in folder.glob("*") if each.name.isdecimal())})


def _open(catalog: Catalog, incarnation: str, number: int) -> QueueLog:
    """Open a log, at a second try if need be: a running broker removes segments that a first look saw."""
    try:
        return catalog.open(incarnation, partition=number)
    except (CorruptLog, OSError):
        return catalog.open(incarnation, partition=number)


def _routing(path: Path, disk: ShadowDisk) -> Iterator[Found]:
    directories = find_routing_logs(str(path))
    if not directories:
        return
    marks = read_marks(disk, str(path))
    for directory in directories:
        vhost, _ = log_names(directory)
        log, number = directory.split("/")[-2:]
        about = (ROUTING, vhost, f"partition {number}", f"{log}/{number}")
        mark = marks.get((log_id(log), int(number)))
        try:
            found = recover(disk, directory, mark[1:4] if mark is not None else (0, 0, 0))
        except OSError as error:
            yield Found(*about, error=str(error))
            continue
        note = f"{found.cut_bytes} torn bytes at the end" if found.cut_bytes else ""
        if found.damaged:
            note = f"a segment will be set aside: {found.damaged}"
        end = found.segment.end
        bases = segment_bases(disk, directory)
        size = sum(disk.size(join(directory, segment_name(base))) for base in bases)
        yield Found(*about, end - found.start, found.start, end, len(bases), size, note=note)


class _NoTimer:
    def cancel(self) -> None:
        """Nothing to cancel."""


def _later(seconds: float, call: Callable[[], None]) -> _NoTimer:
    """What a broker would do later, such as dropping an emptied segment, is left out."""
    return _NoTimer()


def _never(*_: object) -> Any:
    raise AssertionError("nothing is written, so nothing is to be synced")


def selected(found: Sequence[Found], part: str = "", order: str = "name") -> list[Found]:
    """Those whose virtual host or name contains ``part``, in capitals or not, in one of `ORDERS`."""
    wanted = part.lower()
    kept = [each for each in found if wanted in f"{each.vhost}\n{each.name}".lower()]
    return sorted(kept, key=ORDERS[order])


def json_text(inspection: Inspection, found: Sequence[Found]) -> str:
    """One JSON object: ``{"logs": [...], "whole": bool}``, and ``problem`` if there is one."""
    document: dict[str, Any] = {"whole": inspection.whole, "logs": [asdict(each) for each in found]}
    if inspection.problem:
        document["problem"] = inspection.problem
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()


def table_lines(inspection: Inspection, found: Sequence[Found]) -> list[str]:
    """A table of the queues and one of the routing logs; names cannot control the terminal."""
    if inspection.problem:
        return [inspection.problem]
    lines = _table(
        ("virtual host", "queue", "waiting", "offsets", "segments", "size", ""),
        [each for each in found if each.kind == QUEUE],
        "there is no such queue"
        if any(each.kind == QUEUE for each in inspection.found)
        else "there is no durable queue",
    )
    routing = [each for each in found if each.kind == ROUTING]
    if routing:
        heads = ("virtual host", "routing log", "events", "offsets", "segments", "size", "")
        lines += ["", *_table(heads, routing, "")]
    return lines


def _table(heads: Sequence[str], found: Sequence[Found], empty: str) -> list[str]:
    if not found:
        return [empty]
    rows: list[Sequence[str]] = [heads]
    for each in found:
        figures = (
            ("", "", "", "")
            if each.error
            else (
                str(each.waiting),
                f"{each.first_offset}..{each.next_offset}",
                str(each.segments),
                size_text(each.bytes),
            )
        )
        rows.append((escaped(each.vhost), escaped(each.name), *figures, each.error or each.note))
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row[:-1], widths, strict=False))
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines
