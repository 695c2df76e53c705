"""Removes the oldest closed segments of the routing logs, by size and age."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...files import Disk, join
from ..format.identity import read_json, salt_at
from ..format.record import HEADER_SIZE, BatchHeader, parse_header
from ..format.segment import INDEX_SUFFIX, SUFFIX, Segment, segment_bases, segment_name
from .layout import NAMES_SUFFIX, names_path
from .recorder import DAY_US


class Retention:
    """The limits of all routing logs of a node together. The thread uses it."""

    def __init__(
        self, disk: Disk, root: str, bytes_max: int, days: float, wall_us: Callable[[], int]
    ) -> None:
        self._disk = disk
        self._root = root
        self._bytes_max = bytes_max
        self._days = days
        self._wall_us = wall_us

    def remove_old(self, active: dict[str, int], removed: dict[str, int]) -> None:
        """Remove what is beyond the limits; ``active`` as for ``closed_segments``.

        ``removed`` gets, for each partition directory, the base of the first segment left, -1 if none is.
        """
        now_us = self._wall_us()
        closed, total = closed_segments(self._disk, self._root, active, now_us)
        # A segment's last event is at most a day after its first.
        oldest_us = now_us - int((self._days + 1) * DAY_US)
        for segment in closed:
            if total <= self._bytes_max and segment.begun_us >= oldest_us:
                continue
            remove_segment(self._disk, segment)
            total -= segment.size
            bases = segment_bases(self._disk, segment.directory)
            removed[segment.directory] = bases[0] if bases else -1


class Closed(NamedTuple):
    """A closed segment: when it was begun (``begun``), place, and size including its names."""

    begun_us: int
    directory: str
    base: int
    size: int


def begun(first_times: list[int], now_us: int) -> list[int]:
    """When the segments of a partition were begun, from the times of their first events, in order of offsets.

    A time may be wrong, because the clock was, but the order is that of writing. So none was begun before an
    earlier one, and none in the future: that counts as begun with the next one, or now. The result does not
    fall.
    """
    found: list[int] = []
    latest = 0
    for time_us in first_times:
        if time_us <= now_us:
            latest = max(latest, time_us)
        found.append(latest if time_us <= now_us else -1)
    following = now_us
    for at in range(len(found) - 1, -1, -1):
        if found[at] < 0:
            found[at] = following
        following = found[at]
    return found


def closed_segments(disk: Disk, root: str, active: dict[str, int], now_us: int) -> tuple[list[Closed], int]:
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
            bases = segment_bases(disk, directory)
            first_times: list[int] = []
            sizes: list[int] = []
            for base in bases:
                segment = Segment(directory, base)
                header, size = _first_header(disk, segment.path, salt)
                first_times.append(header.base_ts if header else 0)
                sizes.append(size + _first_header(disk, names_path(segment), salt)[1])
            total += sum(sizes)
            for begun_us, base, size in zip(begun(first_times, now_us), bases, sizes, strict=True):
                if is_known and (limit is None or base < limit):
                    closed.append(Closed(begun_us, directory, base, size))
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
