"""Reads a routing log without changing it, for ``amqp-router log`` (like ``reader``)."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import CorruptLog
from ...files import Disk, RealDisk, join
from ..format.identity import Owners, salt_at
from ..format.scanner import Scanner
from ..format.segment import Segment, segment_bases
from ..routing.events import ROUTING
from ..routing.layout import DIRECTORY, iterate_events, read_names
from .verify import ROT, TORN_TAIL, Problem, describe


@dataclass(slots=True)
class RoutingSummary:
    """What a partition holds, as far as it is good."""

    directory: str
    segments: int = 0
    batches: int = 0
    routes: int = 0
    bytes: int = 0
    start: int = 0
    end: int = 0
    problem: Problem | None = None

    @property
    def events(self) -> int:
        """Number of recorded publishes."""
        return self.end - self.start


def is_routing(directory: str, disk: Disk | None = None) -> bool:
    """Whether a partition's directory is a routing log's and not a queue's."""
    return describe(directory, disk).get("kind") == "routing"


def find_routing_logs(path: str, disk: Disk | None = None) -> list[str]:
    """Partition directories at or below a data directory, ``routing``, a virtual host's or a partition's."""
    disk = disk or RealDisk()
    if segment_bases(disk, path):
        return [path] if is_routing(path, disk) else []
    if disk.exists(join(path, DIRECTORY)):
        path = join(path, DIRECTORY)
    above = [path, *[join(path, name) for name in disk.list(path)]]
    logs = [log for log in above if disk.exists(join(log, "log.json"))]
    found = [join(log, number) for log in logs for number in disk.list(log) if number.isdecimal()]
    return [directory for directory in found if is_routing(directory, disk)]


def verify_routing(directory: str, disk: Disk | None = None) -> RoutingSummary:
    """Read all of a partition; ``problem`` says what is wrong with it, if anything."""
    disk = disk or RealDisk()
    summary = RoutingSummary(directory)
    bases = segment_bases(disk, directory)
    if bases:
        summary.start = summary.end = bases[0]
    for base in bases:
        summary.problem = _verify_segment(disk, Segment(directory, base), summary, is_last=base == bases[-1])
        if summary.problem is not None:
            break
    return summary


def _verify_segment(
    disk: Disk, segment: Segment, summary: RoutingSummary, *, is_last: bool
) -> Problem | None:
    path = segment.path
    if segment.base != summary.end:
        return Problem(ROT, path, 0, 0, f"the segment should begin at offset {summary.end}")
    salt = salt_at(disk, segment.directory)
    file = disk.open(path)
    try:
        scan = Scanner(file, salt, base=segment.base)
        payloads = read_names(disk, segment, salt) if scan.size else []
        names = len(payloads)
        for header, payload in scan:
            if header.kind != ROUTING:
                break
            try:
                routes = max(event.route for event in iterate_events(header, bytes(payload)))
            except ValueError as error:
                return Problem(ROT, path, scan.position, header.length, str(error))
            if routes >= names:
                text = f"route {routes} has no name, there are {names}"
                return Problem(ROT, path, scan.position, header.length, text)
            summary.batches += 1
            summary.bytes += header.length
            summary.end = header.last + 1
        end = scan.position
        if end < scan.size:
            foreign = Owners.around(disk, segment.directory).foreign(scan.bad_header(), salt)
            kind = TORN_TAIL if is_last and scan.witness() < 0 and not foreign else ROT
            return Problem(kind, path, end, scan.size - end, foreign or "no good batch")
    except CorruptLog as error:
        return Problem(ROT, error.path, error.position, 0, error.text)
    finally:
        file.close()
    summary.segments += 1
    summary.routes += sum(1 for payload in payloads if payload[:1] == b"{")  # others are names of queues ...
    return None
