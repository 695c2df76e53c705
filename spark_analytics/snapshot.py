"""What a data directory holds at one moment: its logs, their segments, and how far each is durable.

Taken once when a table is loaded. Everything after (planning, reading, reading again) uses it, so the same
table gives the same answer as often as it is asked, while the broker goes on writing.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from . import layout
from .errors import CorruptLog, FormatVersionError, NotADataDirectory
from .options import ReadOptions
from .segments import BadBatch, iterate_batches
from .synced import Mark, Marks, read_marks

#: A log whose last segment went away between reading its mark and listing its files is looked at again.
_TRIES = 5


class Segment(NamedTuple):
    """One file: ``size`` counts its durable bytes."""

    base: int
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Log:
    """One partition of a routing log or of a queue's log; offsets below ``end`` are durable."""

    directory: str
    id: str
    vhost: str
    queue: str
    partition: int
    #: Partitions of the whole log.
    partitions: int
    segments: tuple[Segment, ...] = ()
    #: What the mark says may still be read.
    lowest: int = 0
    end: int = 0

    @property
    def start(self) -> int:
        """The lowest offset that may still be read."""
        return max(self.segments[0].base, self.lowest) if self.segments else self.end

    def __str__(self) -> str:
        return log_text(self.vhost, self.queue, self.partition)


def log_text(vhost: str, queue: str, partition: int) -> str:
    """How errors speak of a log."""
    name = f"queue {queue!r}" if queue else "the routing log"
    return f"{name} of virtual host {vhost!r}, partition {partition}"


def take_snapshot(options: ReadOptions) -> list[Log]:
    """Every log of the wanted table, as it stands now, in all named directories.

    Raises:
        NotADataDirectory, FormatVersionError, CorruptLog: see there.
    """
    logs: list[Log] = []
    for directory in _directories(options.directories):
        check_data_directory(directory)
        logs += _logs(directory, options)
    return logs


def _directories(names: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for given in names:
        # Spark makes file:/x of /x, users write file:///x.
        name = "/" + given.removeprefix("file:").lstrip("/") if given.startswith("file:/") else given
        if "://" in name:
            raise NotADataDirectory(f"{name}: only folders of the local file system (or mounted) can be read")
        if glob.has_magic(name) and not os.path.isdir(name):
            matches = sorted(glob.glob(name))
            if not matches:
                raise NotADataDirectory(f"{name}: nothing matches; name the folder given to --data-dir")
            found += matches
        else:
            found.append(name)
    return list(dict.fromkeys(os.path.abspath(name) for name in found))


def check_data_directory(directory: str) -> None:
    """Raises ``NotADataDirectory`` or ``FormatVersionError`` unless a broker's data is there."""
    advice = "name the folder given to `amqp-router serve --data-dir`"
    if not os.path.isdir(directory):
        is_there = "is not a directory" if os.path.exists(directory) else "does not exist"
        raise NotADataDirectory(f"{directory} {is_there}; {advice}")
    path = os.path.join(directory, layout.STAMP)
    try:
        with open(path, encoding="utf-8") as file:
            found = int(json.load(file)["layout"])
    except FileNotFoundError:
        raise NotADataDirectory(
            f"{directory} is not a data directory (it has no file {layout.STAMP}); {advice}"
        ) from None
    except PermissionError:
        raise NotADataDirectory(f"{directory}: permission denied; read it as the broker's user") from None
    except (ValueError, KeyError, TypeError):
        raise NotADataDirectory(f"{path} is damaged; restore it from a backup") from None
    if found != layout.DATA_LAYOUT:
        raise FormatVersionError(path, found, layout.DATA_LAYOUT)


def _logs(directory: str, options: ReadOptions) -> Iterator[Log]:
    found = list(_discover(directory, options))
    # After the discovery: a mark is never older than the log it belongs to.
    marks = read_marks(directory)
    for log in found:
        whole = _fill(log, marks, directory)
        if whole is not None:
            yield whole


def _discover(directory: str, options: ReadOptions) -> Iterator[Log]:
    """The partitions of the table's logs that the options let through, still without segments."""
    selection = options.selection
    is_routing = options.table == "routing"
    root = os.path.join(directory, layout.ROUTING if is_routing else layout.QUEUES)
    for log_id in _listed(root):
        about = _description(os.path.join(root, log_id))
        if about is None:
            continue
        vhost = str(about.get("vhost", ""))
        queue = "" if is_routing else str(about.get("name", ""))
        if selection.vhosts is not None and layout.text(vhost) not in selection.vhosts:
            continue
        if not is_routing and selection.queues is not None and layout.text(queue) not in selection.queues:
            continue
        for name in _listed(os.path.join(root, log_id)):
            if name.isdecimal():
                number = int(name)
                if selection.partitions is None or number in selection.partitions:
                    path = os.path.join(root, log_id, name)
                    count = int(about.get("partitions", 1))
                    yield Log(path, log_id, layout.text(vhost), layout.text(queue), number, count)


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _description(directory: str) -> dict[str, Any] | None:
    """``log.json``; None if there is none (yet)."""
    path = os.path.join(directory, layout.DESCRIPTION)
    try:
        with open(path, encoding="utf-8") as file:
            about = json.load(file)
        version = about["version"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        raise CorruptLog(path, 0, 0, "is damaged; a start of the broker makes it anew") from None
    if version != layout.FORMAT_VERSION:
        raise FormatVersionError(path, version, layout.FORMAT_VERSION)
    return dict(about)


def _fill(log: Log, marks: Marks | None, data_directory: str) -> Log | None:
    """The log with its segments up to its mark; None if it went away meanwhile."""
    missing = Mark(0, 0, 0, 0)
    for _ in range(_TRIES):
        segments = _segments(log.directory)
        if segments is None:
            return None
        if marks is None:
            return _walked(log, segments)
        mark = marks.get((layout.mark_id(log.id), log.partition))
        if mark is None or mark.end == 0:
            return log
        kept = _up_to(segments, mark)
        if kept is not None:
            return replace(log, segments=kept, lowest=mark.start, end=mark.end)
        # The broker rolled or emptied it between the two looks.
        missing = mark
        marks = read_marks(data_directory)
    path = os.path.join(log.directory, layout.file_name(missing.base, layout.LOG_SUFFIX))
    raise CorruptLog(
        path,
        missing.position,
        missing.end,
        "the log is durable up to here, but the file is not there or shorter",
    )


def _segments(directory: str) -> list[Segment] | None:
    """Its segments with the sizes of their files, in order; None if the directory is gone."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                base = layout.base_of(entry.name)
                if base is not None:
                    try:
                        status = entry.stat()
                    except FileNotFoundError:
                        continue
                    found.append(Segment(base, status.st_ino, status.st_size))
    except FileNotFoundError:
        return None
    return sorted(found)


def _up_to(segments: list[Segment], mark: Mark) -> tuple[Segment, ...] | None:
    """The segments that hold offsets below the mark; None if the marked one is not as it says."""
    kept = [
        segment
        for segment, following in pairwise([*segments, Segment(mark.end, 0, 0)])
        if segment.base < mark.base and following.base > mark.start
    ]
    if not mark.position:
        return tuple(kept)
    for segment in segments:
        if segment.base == mark.base and segment.size >= mark.position:
            return (*kept, Segment(mark.base, segment.inode, mark.position))
    return None


def _walked(log: Log, segments: list[Segment]) -> Log:
    """Without marks: up to the first bad batch of the last segment."""
    if not segments:
        return log
    last = segments[-1]
    path = os.path.join(log.directory, layout.file_name(last.base, layout.LOG_SUFFIX))
    end, position = last.base, 0
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for batch in iterate_batches(file, path, 0, last.size, last.base, payloads=True):
            end, position = batch.last + 1, batch.position + batch.length
    except BadBatch:
        pass  # the tail that recovery will cut
    finally:
        os.close(file)
    kept = segments[:-1] + ([Segment(last.base, last.inode, position)] if position else [])
    return replace(log, segments=tuple(kept), end=end)


def end_offsets_of(logs: list[Log]) -> dict[str, dict[str, int]]:
    """The ends as the option ``endingOffsets`` takes them (as JSON)."""
    ends: dict[str, dict[str, int]] = {}
    for log in logs:
        ends.setdefault(log.id, {})[str(log.partition)] = log.end
    return ends
