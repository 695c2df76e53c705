"""``amqp-router log verify``: checks every byte of the logs of a data directory.

It reads every batch, compares its checksums and changes nothing, so it works on the directory of a running
broker too. `amqp_router.log_inspect` shows what the logs hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from amqp_router.exit_codes import LogDirectoryError
from amqp_router.log_text import escaped, log_names, size_text
from amqp_router.protocol.fields import decode_table
from persistence.definitions import read_queues
from persistence.errors import CorruptLog
from persistence.files import RealDisk
from persistence.log.format.checkpoint import LogState
from persistence.log.format.identity import key_of
from persistence.log.offline.routing import RoutingSummary, find_routing_logs, verify_routing
from persistence.log.offline.verify import (
    ROT,
    Summary,
    find_logs,
    read_journals,
    read_node_states,
    verify,
)
from persistence.log.queue.description import partitions_of
from persistence.log.sync.journal import JournalEntry
from persistence.log.sync.marks import Mark, log_id, read_marks

DAMAGED = "DAMAGED"
WAY_OUT = 'what damage means and what to do about it: docs/operations.md, "Damage"'
_Summary = TypeVar("_Summary", Summary, RoutingSummary)


def check(path: Path, tell: Callable[[str], None] = lambda text: None) -> tuple[list[str], bool]:
    """One line for each log, and whether no damage was found. A torn tail is not damage, because recovery
    cuts it. ``tell`` is called with how far it is.

    Raises:
        LogDirectoryError: there is no log at or below `path`.
    """
    routing = find_routing_logs(str(path))
    directories = [directory for directory in find_logs(str(path)) if directory not in routing]
    missing = _missing(path)
    if not directories and not routing and not missing:
        if (path / "queues").is_dir():
            return ["no durable queue has a log yet"], True
        raise LogDirectoryError(
            f"{path}: has no logs; name a data directory, or a folder in its queues or routing"
        )
    found = [(DAMAGED, text) for text in missing]
    states: dict[str, LogState] = {}
    disk = RealDisk()
    marks: dict[tuple[bytes, int], Mark] = {}
    journals: dict[str, list[JournalEntry]] = {}
    if directories:
        data_dir = str(Path(directories[0]).absolute().parent.parent.parent)
        marks = read_marks(disk, data_dir)  # before anything else: a running broker goes on
        try:
            journals = read_journals(data_dir, disk)
        except OSError as error:
            found.append((DAMAGED, f"journal: {error}; no start comes about before it can be read"))
        try:
            states = read_node_states(data_dir)
        except (CorruptLog, OSError) as error:
            found.append((DAMAGED, f"checkpoint of the last stop: {error}; a start does without it"))
    total = len(directories) + len(routing)
    for number_of_log, directory in enumerate(directories, 1):
        name = " ".join(map(escaped, log_names(directory, directory)))
        tell(f"log {number_of_log} of {total}: {name}")
        incarnation, number = Path(directory).absolute().parts[-2:]
        look = partial(
            verify,
            directory,
            node_states=states,
            mark=marks.get((log_id(incarnation), int(number))),
            journal=journals.get(key_of(incarnation, int(number)), ()),
        )
        found.append(_look(name, look, _counts))
    for number_of_log, directory in enumerate(routing, len(directories) + 1):
        name = f"{escaped(log_names(directory)[0])} routing log, partition {directory.rpartition('/')[2]}"
        tell(f"log {number_of_log} of {total}: {name}")
        found.append(_look(name, partial(verify_routing, directory), _routing_counts))
    whole = all(verdict != DAMAGED for verdict, _ in found)
    lines = [f"{verdict:8}  {text}" for verdict, text in found]
    return lines if whole else [*lines, WAY_OUT], whole


def _missing(data_dir: Path) -> list[str]:
    """Lines for the queues whose folders are missing although `synced` promises messages of them."""
    if not (data_dir / "queues").is_dir():
        return []
    disk = RealDisk()
    rows = read_queues(data_dir / "definitions.sqlite") or []
    gone = []
    for row in rows:
        folder = data_dir / "queues" / row.incarnation
        # If the folder is in quarantine, an operator has moved it there, and the queue begins empty.
        if not (data_dir / "quarantine" / row.incarnation).is_dir():
            numbers = range(partitions_of(decode_table(row.arguments, 0)[0]))
            gone += [(row, folder, number) for number in numbers if not (folder / str(number)).is_dir()]
    # Read last: a running broker clears the mark of a queue before it removes the folder.
    marks = read_marks(disk, str(data_dir)) if gone else {}
    return [
        f"{escaped(row.vhost)} {escaped(row.name)}: {folder / str(number)} is missing, but everything below "
        f"offset {mark.end} had been made durable"
        for row, folder, number in gone
        if (mark := marks.get((log_id(row.incarnation), number))) is not None and mark.end
    ]


def _look(name: str, read: Callable[[], _Summary], counts: Callable[[_Summary], str]) -> tuple[str, str]:
    """Verdict and text on one log."""
    try:
        summary = read()
    except FileNotFoundError as error:  # a running broker removes settled and old segments
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
