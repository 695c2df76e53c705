"""Growable output buffer, plain Python twin of ``_buf.pyx``.

The one module that exists twice: ``memcpy`` into a C buffer has no Python spelling. Both twins pass
the same tests. AMQP is big-endian (``u8`` to ``u64``), the log little-endian (``le16`` to ``le64``).
"""

from __future__ import annotations

from struct import Struct

from amqp_router.protocol.constants import FRAME_END

_U16 = Struct(">H")
_U32 = Struct(">I")
_U64 = Struct(">Q")


class Buf:
    """Bytes gathered for one write; ``take`` hands them over and empties the buffer."""

    __slots__ = ("_data", "size")

    def __init__(self) -> None:
        self._data = bytearray()
        #: Bytes in the buffer.
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def put(self, data: bytes) -> None:
        """Append all of ``data``."""
        self._data += data
        self.size += len(data)

    def put_range(self, data: bytes, start: int, end: int) -> None:
        """Append ``data[start:end]`` without an object in between.

        Raises:
            IndexError: that is not all inside of ``data``; it would be cut in silence.
        """
        if not 0 <= start <= end <= len(data):
            raise IndexError("range outside the data")
        self._data += data[start:end]
        self.size += end - start

    def put_deliver(self, prefix: bytes, tag: int, redelivered: int, route: bytes) -> None:
        """Append a method frame whose payload is ``prefix[7:]``, ``tag`` (u64), a bit and ``route``.

        ``prefix`` begins with a frame header (type, channel, size) whose size is set here.
        """
        data = self._data
        start = self.size
        data += prefix
        data += _U64.pack(tag)
        data.append(redelivered)
        data += route
        data.append(FRAME_END)
        self.size = len(data)
        _U32.pack_into(data, start + 3, self.size - start - 8)

    def u8(self, value: int) -> None:
        self._data.append(value)
        self.size += 1

    def u16(self, value: int) -> None:
        self._data += _U16.pack(value)
        self.size += 2

    def u32(self, value: int) -> None:
        self._data += _U32.pack(value)
        self.size += 4

    def u64(self, value: int) -> None:
        self._data += _U64.pack(value)
        self.size += 8

    def le16(self, value: int) -> None:
        self._data += value.to_bytes(2, "little")
        self.size += 2

    def le32(self, value: int) -> None:
        self._data += value.to_bytes(4, "little")
        self.size += 4

    def le64(self, value: int) -> None:
        self._data += value.to_bytes(8, "little")
        self.size += 8

    def set_u16(self, position: int, value: int) -> None:
        """Overwrite two bytes at ``position`` (big-endian); they must have been written before.

        Raises:
            IndexError: they were not.
        """
        if not 0 <= position <= self.size - 2:
            raise IndexError("position outside the buffer")
        _U16.pack_into(self._data, position, value)

    def set_u32(self, position: int, value: int) -> None:
        """As ``set_u16``, four bytes."""
        if not 0 <= position <= self.size - 4:
            raise IndexError("position outside the buffer")
        _U32.pack_into(self._data, position, value)

    def take(self) -> bytes:
        """Return the content and empty the buffer."""
        data = bytes(self._data)
        self._data = bytearray()
        self.size = 0
        return data

    def rest(self) -> None:
        """Give back the memory that is kept for the next content, if the buffer is empty."""

    def clear(self) -> None:
        """Drop the content."""
        self._data = bytearray()
        self.size = 0
