"""Bitmaps and arrays of counts for 65,536 offsets that reach as far as one was set (``settles``)."""

from __future__ import annotations

#: Offsets per chunk, and the bytes of its bitmap if that has all bits.
CHUNK_OFFSETS = 65536
CHUNK_BYTES = 8192
#: Bytes of the shortest bitmap, and of the shortest array of counts.
LEAST_BYTES = 64


def grown(data: bytearray | None, place: int) -> bytearray:
    """``data`` with room for the byte at ``place``, and at least twice as long as before.

    Most logs have few messages among the first of a chunk, and fewer that returned. Room for all would take
    136 KiB of each such log, and each of its checkpoints would look through it.
    """
    size = LEAST_BYTES if data is None else 2 * len(data)
    while size <= place:
        size *= 2
    longer = bytearray(size)
    if data is not None:
        longer[: len(data)] = data
    return longer


def packed(bits: bytearray, count: int) -> bytes:
    """The bits of a chunk for a checkpoint, of which the first ``count`` count.

    Only the last chunk of a log may have fewer than all: earlier releases read other chunks as they are.
    """
    if 0 < count < CHUNK_OFFSETS:
        return bytes(bits[: (count + 7) >> 3])
    return bytes(bits).ljust(CHUNK_BYTES, b"\0")


def count_ones(bits: bytearray, low: int, high: int) -> int:
    """Ones in bits ``[low, high)``."""
    if low >= high:
        return 0
    value = int.from_bytes(bits[low >> 3 : (high + 7) >> 3], "little") >> (low & 7)
    return (value & ((1 << (high - low)) - 1)).bit_count()
