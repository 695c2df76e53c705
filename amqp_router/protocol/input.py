"""Bytes on their way into a connection: chunks of any size go in, whole frames come out.

``next`` finds the next frame and leaves its place in the attributes; nothing is copied or decoded. Behind a
``basic.publish``, ``content`` looks whether the message's content is whole, too. Then the channel takes the
message in one call. A frame that the end of a chunk has cut is joined when its last octet is there. Only that
frame is copied, not the chunks around it.

Source: AMQP 0-9-1, section 2.3.5.
"""

from __future__ import annotations

from amqp_router.protocol import constants
from amqp_router.protocol.frames import ContentScan

#: What ``Input.next`` answers: no whole frame is there; a frame; a publish or an acknowledgement, which
#: channels take without decoding; a frame above ``payload_max``; a frame without the octet that ends frames.
MORE = 0
FRAME = 1
PUBLISH = 2
ACK = 3
TOO_LARGE = -1
BAD_END = -2
#: A content up to this size that is not complete waits unparsed for its rest.
HELD_CONTENT = 1 << 18

# C integers where compiled (see input.pxd).
_MORE = MORE
_FRAME = FRAME
_PUBLISH = PUBLISH
_ACK = ACK
_TOO_LARGE = TOO_LARGE
_BAD_END = BAD_END
_HELD_CONTENT = HELD_CONTENT
_IRREGULAR = -1  # what ContentScan.scan answers
_HEADER = 7  # octets of a frame before its payload
_OVERHEAD = 8  # these and the end octet


class Input:
    """The chunks of one connection that are not handled yet, and the frame found last.

    That frame is ``kind``, ``number`` (its channel), ``size`` (of its payload) and, until ``next`` is called
    again, ``data[start:end]``. ``class_id`` and ``method_id`` are those of a method, else 0.
    """

    __slots__ = (
        "chunks",
        "class_id",
        "cut_content",
        "data",
        "end",
        "first",
        "kind",
        "later",
        "method_id",
        "need",
        "number",
        "payload_max",
        "position",
        "scan",
        "size",
        "start",
    )

    def __init__(self, payload_max: int) -> None:
        #: Frames with a larger payload are refused.
        self.payload_max = payload_max
        self.scan = ContentScan()
        self.data = b""
        #: Where the next frame begins in ``data``.
        self.position = 0
        #: The chunks after ``data``, the first of them from ``first`` on, and how many octets they have.
        self.chunks: list[bytes] = []
        self.first = 0
        self.later = 0
        #: Octets from ``position`` on without which the next call of ``next`` finds nothing; 0 is unknown.
        self.need = 0
        #: Whether the frame is a publish whose content was cut: ``next`` finds it again at ``position``.
        self.cut_content = False
        self.kind = 0
        self.number = 0
        self.size = 0
        self.start = 0
        self.end = 0
        self.class_id = 0
        self.method_id = 0

    def add(self, data: bytes) -> None:
        """A chunk was received."""
        if self.later == 0 and self.position >= len(self.data):
            self.data = data
            self.position = 0
        else:
            self.chunks.append(data)
            self.later += len(data)

    def next(self) -> int:
        """Find the next frame; see the constants above for the result."""
        if self.need > 0:
            if len(self.data) - self.position + self.later < self.need:
                return _MORE
            if self.cut_content:
                return self._next_again()
            self.need = 0
        while True:
            data = self.data
            d = data
            position = self.position
            have = len(data) - position
            need = _HEADER
            if have >= _HEADER:
                size = _be32(d, position + 3)
                if size > self.payload_max or have >= size + _OVERHEAD:
                    return self._found(position, size)
                need = size + _OVERHEAD
            if have == 0 and self.later > 0:
                self._next_chunk()
            elif have + self.later < need:
                self.need = need
                return _MORE
            else:
                self._join(need)

    def _found(self, position: int, size: int) -> int:
        d = self.data
        kind = d[position]
        start = position + _HEADER
        end = start + size
        self.kind = kind
        self.number = (d[position + 1] << 8) | d[position + 2]
        self.size = size
        self.class_id = 0
        self.method_id = 0
        if size > self.payload_max:
            return _TOO_LARGE
        self.start = start
        self.end = end
        if d[end] != constants.FRAME_END:
            return _BAD_END
        self.position = end + 1
        if kind != constants.FRAME_METHOD or size < 4:
            return _FRAME
        self.class_id = (d[start] << 8) | d[start + 1]
        self.method_id = method = (d[start + 2] << 8) | d[start + 3]
        if self.class_id == 60 and size > 4:
            if method == 40:
                return _PUBLISH
            if method == 80 and size == 13:
                return _ACK
        return _FRAME

    def content(self) -> int:
        """Look at the content of the publish that ``next`` has found; ``scan`` has what was found out.

        Returns what ``ContentScan.scan`` returns. After MORE, ``next`` finds the same publish again when the
        rest of the content is there. A content that needs more than ``HELD_CONTENT`` is IRREGULAR.
        """
        data = self.data
        after = self.end + 1
        found = self.scan.scan(data, after, len(data), self.number)
        if found == _MORE:
            if self.scan.need > _HELD_CONTENT:
                return _IRREGULAR
            begin = self.start - _HEADER
            need = after - begin + self.scan.need
            self.position = begin
            self.need = need
            self.cut_content = True
            if len(data) - begin + self.later >= need:
                self._next_again()
                return self.content()
        return found

    def _next_again(self) -> int:
        """The publish whose content was cut, now that more of it is there."""
        self._join(self.need)
        self.need = 0
        self.cut_content = False
        self.start = _HEADER
        self.end = _HEADER + self.size
        self.position = self.end + 1
        return _PUBLISH

    def unread(self) -> None:
        """Let ``next`` find the frame that it has just found once more."""
        self.position = self.start - _HEADER

    def look_again(self) -> None:
        """Let ``next`` find a publish whose content was cut once more, as another frame comes before it."""
        if self.cut_content:
            self.cut_content = False
            self.need = 0

    def payload(self) -> bytes:
        """The payload of the frame."""
        return self.data[self.start : self.end]

    def header(self) -> bytes:
        """The next eight octets, which are no frame; ``b""`` if they are not all there."""
        if len(self.data) - self.position + self.later < _OVERHEAD:
            return b""
        if len(self.data) - self.position < _OVERHEAD:
            self._join(_OVERHEAD)
        begin = self.position
        self.position = begin + _OVERHEAD
        return self.data[begin : begin + _OVERHEAD]

    def _next_chunk(self) -> None:
        """Go on with the chunk after ``data``, which is used up."""
        self.data = self.chunks.pop(0)
        self.position = self.first
        self.later -= len(self.data) - self.first
        self.first = 0

    def _join(self, size: int) -> None:
        """Make ``data`` the next ``size`` octets, which are there, but not in ``data`` alone."""
        missing = size - (len(self.data) - self.position)
        parts = [self.data[self.position :]]
        used = 0
        while missing > 0:
            chunk = self.chunks[used]
            count = len(chunk) - self.first
            if count > missing:
                count = missing
            parts.append(chunk[self.first : self.first + count])
            self.first += count
            self.later -= count
            missing -= count
            if self.first == len(chunk):
                used += 1
                self.first = 0
        del self.chunks[:used]
        self.data = b"".join(parts)
        self.position = 0

    def trim(self) -> None:
        """Keep of ``data`` only what is not handled yet; what was cut needs no more room than its octets."""
        if self.position > 0:
            self.data = self.data[self.position :]
            self.position = 0

    def drop(self) -> None:
        """Forget all that was received and not handled."""
        self.data = b""
        self.chunks.clear()
        self.position = self.first = self.later = self.need = 0
        self.cut_content = False

    def held_bytes(self) -> int:
        """Bytes received and not handled yet."""
        return len(self.data) - self.position + self.later


def _be32(d: bytes, p: int) -> int:
    """A big-endian u32. Shifts in the middle of an expression would be Python integers where compiled."""
    return d[p] << 24 | d[p + 1] << 16 | d[p + 2] << 8 | d[p + 3]
