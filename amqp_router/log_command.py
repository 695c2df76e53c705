"""``amqp-router log``: what the logs of a data directory hold, and whether every byte is as written.

Nothing is changed, so both work on the directory of a running broker too. ``inspect`` opens the logs exactly
as a starting broker would, over a disk that keeps what recovery writes to itself; its counts are those a
broker would start with. ``verify`` reads every batch and its checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from persistence.errors import CorruptLog
from persistence.files import File, RealDisk, join
from persistence.log.catalog import Catalog
from persistence.log.checkpoint import LogState
from persistence.log.journal import JournalEntry
from persistence.log.marks import Mark, log_id, read_marks
from persistence.log.memory import MemoryBudget
from persistence.log.queue_log import QueueLog
from persistence.log.reader import (
    ROT,
    Summary,
    describe,
    find_logs,
    read_journals,
    read_node_states,
    verify,
)
from persistence.log.routing_files import recover
from persistence.log.routing_reader import RoutingSummary, find_routing_logs, verify_routing
from persistence.log.segment import segment_bases, segment_name
from persistence.log.sync import LogSync
from persistence.options import LogOptions

DAMAGED = "DAMAGED"
WAY_OUT = 'what damage means and what to do about it: docs/operations.md, "Damage"'
_Summary = TypeVar("_Summary", Summary, RoutingSummary)


class LogDirectoryError(Exception):
    """There is nothing of ours at the path: the text is one line."""


class ShadowFile:
    """A file whose changes nobody sees: reads give what the real one holds, up to where it was cut."""

    def __init__(self, file: File | None) -> None:
        self._file = file
        self._size = file.size() if file is not None else 0

    def size(self) -> int:
        return self._size

    def write(self, pieces: Sequence[bytes | memoryview], position: int) -> None:
        """Nowhere."""

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
    """A mapping of nothing."""

    def store(self, data: bytes, position: int) -> None:
        """Nowhere."""

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


def inspect(path: Path) -> tuple[list[str], bool]:
    """Lines of a table, one queue each, and whether all of them could be opened.

    Raises:
        LogDirectoryError: `path` is not a data directory.
    """
    if not (path / "queues").is_dir():
        raise LogDirectoryError(f"{path}: is not a data directory (it has no folder queues)")
    disk = ShadowDisk()
    options = LogOptions()
    sync = LogSync(disk, str(path), options, post=_never, call_later=_never)
    catalog = Catalog(str(path), sync, options, MemoryBudget(0), disk=disk)
    try:
        catalog.start()
    except (CorruptLog, OSError) as error:
        return [f"the logs cannot be opened: {error}"], False
    rows = [("virtual host", "queue", "waiting", "offsets", "segments", "size", "")]
    whole = True
    for incarnation in catalog.incarnations():
        names = _names(str(path / "queues" / incarnation / "0"), incarnation)
        try:
            log = _open(catalog, incarnation)
        except (CorruptLog, OSError) as error:
            whole = False
            rows.append((*names, "", "", "", "", f"cannot be opened: {error}"))
            continue
        report = catalog.reports.get(incarnation)
        note = f"{report.cut_bytes} torn bytes at the end" if report is not None and report.cut_bytes else ""
        rows.append((*names, *_figures(log), note))
    lines = _table(rows, "no durable queue has a log yet")
    routing = _inspect_routing(path, disk)
    return lines + ([""] + routing if routing else []), whole


def _open(catalog: Catalog, incarnation: str) -> QueueLog:
    """Open a log, at a second try if need be: a running broker removes segments that a first look saw."""
    try:
        return catalog.open(incarnation)
    except (CorruptLog, OSError):
        return catalog.open(incarnation)


def _names(directory: str, name: str = "") -> tuple[str, str]:
    """Virtual host and name of a log; clients chose them, so what would control a terminal is escaped."""
    about = describe(directory)
    texts = (str(about.get("vhost", "?")), str(about.get("name", name)))
    vhost, name = [
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text) for text in texts
    ]
    return vhost, name


def _inspect_routing(path: Path, disk: ShadowDisk) -> list[str]:
    """Lines of a table of the routing logs; empty if there is none."""
    directories = find_routing_logs(str(path))
    if not directories:
        return []
    marks = read_marks(disk, str(path))
    rows = [("virtual host", "routing log", "events", "offsets", "segments", "size", "")]
    for directory in directories:
        vhost, _ = _names(directory)
        number = directory.rpartition("/")[2]
        name = directory.split("/")[-2]
        mark = marks.get((log_id(name), int(number)))
        try:
            found = recover(disk, directory, mark[1:4] if mark is not None else (0, 0, 0))
        except OSError as error:
            rows.append((vhost, f"partition {number}", "", "", "", "", str(error)))
            continue
        note = f"{found.cut_bytes} torn bytes at the end" if found.cut_bytes else ""
        if found.damaged:
            note = f"a segment will be set aside: {found.damaged}"
        end = found.segment.end
        bases = segment_bases(disk, directory)
        size = sum(disk.size(join(directory, segment_name(base))) for base in bases)
        figures = (str(end - found.start), f"{found.start}..{end}", str(len(bases)), size_text(size))
        rows.append((vhost, f"partition {number}", *figures, note))
    return _table(rows, "")


def _never(*_: object) -> Any:
    raise AssertionError("nothing is written, so nothing is to be synced")


def _figures(log: QueueLog) -> tuple[str, str, str, str]:
    segments = log.partition.segments
    size = sum(segment.size for segment in segments)
    return str(log.live), f"{log.start}..{log.end}", str(len(segments)), size_text(size)


def _table(rows: Sequence[Sequence[str]], empty: str) -> list[str]:
    if len(rows) == 1:
        return [empty]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row[:-1], widths, strict=False))
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines


def check(path: Path) -> tuple[list[str], bool]:
    """Lines, one log each, and whether no damage was found. A torn tail is none: recovery cuts it.

    Raises:
        LogDirectoryError: there is no log at or below `path`.
    """
    routing = find_routing_logs(str(path))
    directories = [directory for directory in find_logs(str(path)) if directory not in routing]
    if not directories and not routing:
        if (path / "queues").is_dir():
            return ["no durable queue has a log yet"], True
        raise LogDirectoryError(
            f"{path}: has no logs; name a data directory, or a folder in its queues or routing"
        )
    found: list[tuple[str, str]] = []
    states: dict[str, LogState] = {}
    disk = RealDisk()
    marks: dict[tuple[bytes, int], Mark] = {}
    journals: dict[str, list[JournalEntry]] = {}
    if directories:
        data_dir = str(Path(directories[0]).absolute().parent.parent.parent)
        marks = read_marks(disk, data_dir)  # before anything else: a running broker goes on
        journals = read_journals(data_dir, disk)
        try:
            states = read_node_states(data_dir)
        except (CorruptLog, OSError) as error:
            found.append((DAMAGED, f"checkpoint of the last stop: {error}; a start does without it"))
    for directory in directories:
        name = " ".join(_names(directory, directory))
        incarnation, number = Path(directory).absolute().parts[-2:]
        look = partial(
            verify,
            directory,
            node_states=states,
            mark=marks.get((log_id(incarnation), int(number))),
            journal=journals.get(incarnation, ()),
        )
        found.append(_look(name, look, _counts))
    for directory in routing:
        name = f"{_names(directory)[0]} routing log, partition {directory.rpartition('/')[2]}"
        found.append(_look(name, partial(verify_routing, directory), _routing_counts))
    whole = all(verdict != DAMAGED for verdict, _ in found)
    lines = [f"{verdict:8}  {text}" for verdict, text in found]
    return lines if whole else [*lines, WAY_OUT], whole


def _look(name: str, read: Callable[[], _Summary], counts: Callable[[_Summary], str]) -> tuple[str, str]:
    """Verdict and text on one log."""
    try:
        summary = read()
    except FileNotFoundError as error:  # a running broker removes what is settled or too old
        return "changed", f"{name}: {error.filename} went away meanwhile; check again"
    except OSError as error:
        return DAMAGED, f"{name}: cannot be read: {error}"
    problem = summary.problem
    text = f"{name}: {counts(summary)}"
    if problem is None:
        return "ok", text
    text += f"; {problem.path} at byte {problem.position}, {problem.bytes} bytes: {problem.text}"
    return DAMAGED if problem.kind == ROT else "torn", text


def _routing_counts(summary: RoutingSummary) -> str:
    return (
        f"{summary.segments} segments, {summary.batches} batches, {summary.events} events, "
        f"{summary.routes} routes, {size_text(summary.bytes)} good"
    )


def _counts(summary: Summary) -> str:
    return (
        f"{summary.segments} segments, {summary.batches} batches, {summary.messages} messages, "
        f"{size_text(summary.bytes)} good"
    )


def size_text(size: int) -> str:
    """``512 B``, ``1.5 KiB``, ``64.0 MiB``."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"
