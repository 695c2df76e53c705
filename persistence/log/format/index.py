"""The sparse index of a segment: finds a position at or before an offset. Spark finds one by time, too."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct
from sys import byteorder
from zlib import crc32

_MAGIC = b"ARLI"
_HEADER = Struct("<4sIII")
_U32_MAX = 0xFFFFFFFF


class SparseIndex:
    """One entry per interval of bytes: base offset and base time of a batch, and its position."""

    __slots__ = ("_interval", "_offsets", "_positions", "_times")

    def __init__(self, interval_bytes: int) -> None:
        self._interval = interval_bytes
        # Relative to the segment's base offset and to its first time (ms), as on disk.
        self._offsets = array("L")
        self._times = array("L")
        self._positions = array("Q")

    def __len__(self) -> int:
        return len(self._positions)

    def last(self) -> tuple[int, int]:
        """Relative offset and position of the last entry, which must exist."""
        end = len(self._positions) - 1  # compiled, a negative index would not count from the end
        return self._offsets[end], self._positions[end]

    def note(self, rel_offset: int, rel_ts_ms: int, position: int) -> None:
        """Note a batch at ``position``. It becomes an entry if it is far enough from the last one."""
        positions = self._positions
        count = len(positions)
        if count and position < positions[count - 1] + self._interval:
            return
        self._offsets.append(rel_offset)
        self._times.append(min(max(rel_ts_ms, 0), _U32_MAX))
        positions.append(position)

    def position_of(self, rel_offset: int) -> int:
        """Position of the last indexed batch whose base is at or below ``rel_offset``; 0 without one."""
        index = bisect_right(self._offsets, rel_offset)
        return self._positions[index - 1] if index else 0

    def cut(self, position: int) -> None:
        """Drop entries at or after ``position``."""
        while len(self._positions) and self._positions[len(self._positions) - 1] >= position:
            self._offsets.pop()
            self._times.pop()
            self._positions.pop()

    def pack(self) -> bytes:
        """The index file's content."""
        entries = array("I", [0]) * (4 * len(self._positions))
        for at, (offset, time, position) in enumerate(
            zip(self._offsets, self._times, self._positions, strict=True)
        ):
            entries[4 * at] = offset
            entries[4 * at + 1] = time
            entries[4 * at + 2] = position & _U32_MAX
            entries[4 * at + 3] = position >> 32
        if byteorder == "big":
            entries.byteswap()
        body = entries.tobytes()
        return _HEADER.pack(_MAGIC, 0, len(self._positions), crc32(body)) + body

    def unpack(self, data: bytes, size: int) -> bool:
        """Load an index file's content for a segment of ``size`` bytes; False if it is not usable."""
        if len(data) < _HEADER.size:
            return False
        magic, version, count, crc = _HEADER.unpack_from(data)
        body = data[_HEADER.size :]
        if magic != _MAGIC or version != 0 or len(body) != 16 * count or crc32(body) != crc:
            return False
        entries = array("I")
        entries.frombytes(body)
        if byteorder == "big":
            entries.byteswap()
        self._offsets = array("L", entries[0::4])
        self._times = array("L", entries[1::4])
        self._positions = array("Q", (entries[at] | entries[at + 1] << 32 for at in range(2, 4 * count, 4)))
        return not count or self._positions[count - 1] < size
