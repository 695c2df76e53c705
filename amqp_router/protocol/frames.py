"""Inspects content frames in place, without decoding them.

``ContentScan`` gets the bytes after a ``basic.publish`` frame. It tells whether the complete content (header
frame and at most one body frame) is in this chunk, and reads the two or three fields that routing and queues
need. It also checks that the property list is well-formed, because consumers get it unchanged. Any other
content is handled frame by frame by ``amqp_router.channel.content``. A property test checks that both give
the same result.

Source: AMQP 0-9-1, sections 2.3.5 (frames) and 4.2.6 (content framing).
"""

from __future__ import annotations

from amqp_router.protocol import constants
from amqp_router.protocol import flags as bits
from amqp_router.protocol.nested import DECODED_DEPTH, end_of_nested

#: What ``ContentScan.scan`` answers.
COMPLETE = 1
MORE = 0
IRREGULAR = -1

#: In ``ContentScan.flags``, beside the property flags: the delivery mode is neither 1 nor 2.
ODD_MODE = 1 << 16
#: Longest time to live, in milliseconds: ten years.
EXPIRY_MS_MAX = 315_360_000_000
#: ``expire_ms`` of a message without an expiration. One less stands for any number above ``EXPIRY_MS_MAX``.
NO_EXPIRY = EXPIRY_MS_MAX + 2

# C integers where compiled (see frames.pxd), so they stay in this module.
_COMPLETE = 1
_MORE = 0
_IRREGULAR = -1
_OVERHEAD = 8  # frame header and end octet
_FIXED = 12  # content header payload before the property flags: class, weight, body size
_ODD_MODE = ODD_MODE
_NO_EXPIRY = NO_EXPIRY
_DEPTH_MAX = DECODED_DEPTH


class ContentScan:
    """Fields of the content last scanned; one object per connection, reused."""

    __slots__ = (
        "body_size",
        "end",
        "expire_ms",
        "flags",
        "frame_payload",
        "header_size",
        "need",
        "payload_max",
        "persistent",
        "priority",
    )

    def __init__(self) -> None:
        #: The largest payload of a frame that the connection agreed to; larger ones are irregular.
        self.payload_max = 1048576
        self.end = 0
        self.need = 0
        self.header_size = 0
        self.body_size = 0
        self.frame_payload = 0
        self.flags = 0
        self.persistent = False
        self.priority = 0
        #: The property ``expiration``; NO_EXPIRY if it is absent or not a number.
        self.expire_ms = NO_EXPIRY

    def scan(self, data: bytes, position: int, limit: int, channel: int) -> int:
        """Look at the content that begins at ``position``; ``limit`` is where the received bytes end.

        Returns one of

        - COMPLETE, with ``end`` after the content's last octet;
        - MORE, if bytes are missing. ``need`` is then the number of bytes from ``position`` on that must be
          there for the next call: up to the end of the frame that is cut, never of one that has not begun,
          because a frame of another channel may come first;
        - IRREGULAR, if another frame comes first, the body has several frames, or anything is malformed.
        """
        d = data
        if limit - position < 7:
            self.need = 8
            return _MORE
        if d[position] != constants.FRAME_HEADER or ((d[position + 1] << 8) | d[position + 2]) != channel:
            return _IRREGULAR
        size = _be32(d, position + 3)
        if size < _FIXED + 2 or size > self.payload_max:
            return _IRREGULAR
        end = position + 7 + size
        if end >= limit:
            self.need = size + _OVERHEAD
            return _MORE
        if d[end] != constants.FRAME_END or d[position + 7] != 0 or d[position + 8] != 60:
            return _IRREGULAR
        # The weight, which is 0, and the upper half of the size.
        if d[position + 9] | d[position + 10]:
            return _IRREGULAR
        if d[position + 11] | d[position + 12] | d[position + 13] | d[position + 14]:
            return _IRREGULAR
        body_size = _be32(d, position + 15)
        self.header_size = size + _OVERHEAD
        self.body_size = body_size
        self.frame_payload = body_size
        end += 1
        if body_size > 0:
            if body_size > self.payload_max:
                return _IRREGULAR
            if limit - end < 7:
                self.need = end - position + 8
                return _MORE
            if d[end] != constants.FRAME_BODY or ((d[end + 1] << 8) | d[end + 2]) != channel:
                return _IRREGULAR
            size = _be32(d, end + 3)
            if size != body_size:
                return _IRREGULAR
            if limit - end < body_size + _OVERHEAD:
                self.need = end - position + body_size + _OVERHEAD
                return _MORE
            if d[end + 7 + size] != constants.FRAME_END:
                return _IRREGULAR
            end += body_size + _OVERHEAD
        self.end = end
        return self.header(data, position)

    def header(self, data: bytes, position: int) -> int:
        """Read what queues use of the properties in the content header frame at ``position``.

        Returns COMPLETE, or IRREGULAR when its property list is malformed. Consumers get the list as it is,
        and most of them cannot go on after one that they cannot read.
        """
        d = data
        limit = position + 7 + _be32(d, position + 3)
        p = position + 7 + _FIXED
        if p + 2 > limit:
            return _IRREGULAR
        flags = (d[p] << 8) | d[p + 1]
        p += 2
        self.flags = flags
        self.persistent = False
        self.priority = 0
        self.expire_ms = _NO_EXPIRY
        if flags & bits.HAS_CONTENT_TYPE:
            if p >= limit:
                return _IRREGULAR
            p += 1 + d[p]
        if flags & bits.HAS_CONTENT_ENCODING:
            if p >= limit:
                return _IRREGULAR
            p += 1 + d[p]
        if flags & bits.HAS_HEADERS:
            p = _end_of_table(data, p, limit, 0, True)
            if p < 0:
                return _IRREGULAR
        if flags & bits.HAS_DELIVERY_MODE:
            if p >= limit:
                return _IRREGULAR
            mode = d[p]
            p += 1
            if mode == 2:
                self.persistent = True
            elif mode != 1:
                self.flags = flags | _ODD_MODE
        if flags & bits.HAS_PRIORITY:
            if p >= limit:
                return _IRREGULAR
            self.priority = d[p]
            p += 1
        if flags & bits.HAS_LATER:
            bit = bits.HAS_CORRELATION_ID
            while bit >= bits.HAS_CLUSTER_ID:
                if flags & bit:
                    if bit == bits.HAS_TIMESTAMP:
                        p += 8
                    elif p >= limit:
                        return _IRREGULAR
                    else:
                        start = p + 1
                        p = start + d[p]
                        if bit == bits.HAS_EXPIRATION and p <= limit:
                            self.expire_ms = _milliseconds(data, start, p)
                bit >>= 1
            if flags & bits.HAS_UNKNOWN:
                return _IRREGULAR
        return _COMPLETE if p == limit else _IRREGULAR


def _be32(d: bytes, p: int) -> int:
    """A big-endian u32. Shifts in the middle of an expression would be Python integers where compiled."""
    return d[p] << 24 | d[p + 1] << 16 | d[p + 2] << 8 | d[p + 3]


def _milliseconds(data: bytes, start: int, end: int) -> int:
    """The decimal number in ``data[start:end]``, at most NO_EXPIRY - 1; NO_EXPIRY if it is none."""
    d = data
    number = 0
    if start == end:
        return _NO_EXPIRY
    for position in range(start, end):
        digit = d[position]
        if digit < 48 or digit > 57:
            return _NO_EXPIRY
        number = number * 10 + digit - 48
        if number >= _NO_EXPIRY:
            number = _NO_EXPIRY - 1
    return number


def _end_of_table(data: bytes, position: int, limit: int, depth: int, named: bool) -> int:
    """Where the table, or the array (not ``named``), at ``position`` ends; -1 if it is malformed.

    It accepts what ``fields.decode_table`` accepts, and makes no objects.
    """
    d = data
    p = position
    if limit - p < 4:
        return -1
    end = p + 4 + _be32(d, p)
    if end > limit:
        return -1
    p += 4
    while p < end:
        if named:
            p += 1 + d[p]
            if p >= end:
                return -1
        tag = d[p]
        p += 1
        if tag in (83, 120):  # S x
            if end - p < 4:
                return -1
            p += 4 + _be32(d, p)
        elif tag in (70, 65):  # F A
            if depth < _DEPTH_MAX:
                p = _end_of_table(data, p, end, depth + 1, tag == 70)
            else:
                p = end_of_nested(data, p, end, tag == 70)
            if p < 0:
                return -1
        elif tag in (116, 98, 66):  # t b B
            p += 1
        elif tag in (73, 105, 102):  # I i f
            p += 4
        elif tag in (108, 76, 84, 100):  # l L T d
            p += 8
        elif tag in (115, 117):  # s u
            p += 2
        elif tag == 68:  # D
            p += 5
        elif tag != 86:  # V
            return -1
    return p if p == end else -1


def table_entries(data: bytes, position: int, most: int) -> tuple[list[tuple[bytes, bytes]], int, bool]:
    """The table at ``position``, undecoded: names with octets of tag and value, its end, and whether that is
    all.

    At most ``most`` entries are returned. The end is -1 if the table is malformed.
    """
    d = data
    entries: list[tuple[bytes, bytes]] = []
    end = _end_of_table(data, position, len(data), 0, True)
    if end < 0:
        return entries, end, False
    p = position + 4
    while p < end:
        if len(entries) == most:
            return entries, end, False
        start = p + 1 + d[p]
        name = data[p + 1 : start]
        p = _end_of_value(data, start)
        entries.append((name, data[start:p]))
    return entries, end, True


def first_value(data: bytes, name: bytes) -> bytes:
    """Octets of tag and value of the first entry ``name`` of the well-formed table ``data``; b"" if none.

    Values are passed over. A table in a frame of 128 KiB may have 40,000 entries.
    """
    d = data
    p = 4
    end = len(data)
    size = len(name)
    while p < end:
        start = p + 1 + d[p]
        stop = _end_of_value(data, start)
        if d[p] == size and data[p + 1 : start] == name:
            return data[start:stop]
        p = stop
    return b""


def entry_names(data: bytes) -> list[bytes]:
    """The names of the entries of the well-formed table ``data``; a name may be there twice."""
    d = data
    names: list[bytes] = []
    p = 4
    end = len(data)
    while p < end:
        start = p + 1 + d[p]
        names.append(data[p + 1 : start])
        p = _end_of_value(data, start)
    return names


def _end_of_value(data: bytes, position: int) -> int:
    """Where the well-formed tag and value at ``position`` end."""
    d = data
    p = position + 1
    tag = d[position]
    if tag in (83, 120, 70, 65):  # S x F A
        return p + 4 + _be32(d, p)
    if tag in (116, 98, 66):  # t b B
        return p + 1
    if tag in (73, 105, 102):  # I i f
        return p + 4
    if tag in (108, 76, 84, 100):  # l L T d
        return p + 8
    if tag in (115, 117):  # s u
        return p + 2
    return p + 5 if tag == 68 else p  # D V
