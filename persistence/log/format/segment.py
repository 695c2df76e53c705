"""A segment: one file of batches, and what is known about it without opening it."""

from __future__ import annotations

from ...files import Disk, join
from .index import SparseIndex

SUFFIX = ".log"
INDEX_SUFFIX = ".index"


def segment_name(base: int) -> str:
    """The file name of the segment that begins at an offset."""
    return f"{base:020d}{SUFFIX}"


def base_of(name: str) -> int | None:
    """The base offset in a segment's file name; None for other files."""
    stem = name.removesuffix(SUFFIX)
    is_ours = name.endswith(SUFFIX) and len(stem) == 20 and stem.isascii() and stem.isdecimal()
    return int(stem) if is_ours else None


def segment_bases(disk: Disk, directory: str) -> list[int]:
    """Base offsets of the segment files in a directory, rising."""
    return sorted(base for name in disk.list(directory) if (base := base_of(name)) is not None)


class Segment:
    """Offsets ``[base, end)`` in ``size`` bytes. ``live`` counts its unsettled messages."""

    __slots__ = (
        "_path",
        "base",
        "directory",
        "end",
        "first_ts",
        "index",
        "last_ts",
        "live",
        "records",
        "size",
        "written",
    )

    def __init__(self, directory: str, base: int) -> None:
        self.directory = directory
        self.base = base
        #: As ``path`` gave it; most segments of queues without messages are never asked.
        self._path = ""
        self.end = base
        #: Bytes, including batches that are not yet written ...
        self.size = 0
        #: ... and without those.
        self.written = 0
        #: Number of messages written to it (or left by the last cleaning), and of those that are unsettled.
        self.records = 0
        self.live = 0
        #: Time of its first batch, and the last time in it; -1 while unknown. Times never fall in a segment.
        self.first_ts = -1
        self.last_ts = -1
        #: None until a read needs it.
        self.index: SparseIndex | None = None

    @property
    def path(self) -> str:
        if not self._path:
            self._path = join(self.directory, segment_name(self.base))
        return self._path

    @property
    def index_path(self) -> str:
        return join(self.directory, f"{self.base:020d}{INDEX_SUFFIX}")

    def pack_index(self) -> tuple[str, bytes] | None:
        """Path and content of the index file; None if the index is not in memory, or the segment is empty."""
        return (self.index_path, self.index.pack()) if self.index is not None and self.size else None
