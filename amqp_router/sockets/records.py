"""Where a chunk of TLS may be cut, so that no piece of it is much work.

A record costs OpenSSL and us some microseconds however little it carries, and one that changes keys
(``KeyUpdate``, TLS 1.3) forty. A chunk of 256 KiB may have 11,000 of them, so its octets go to OpenSSL in
pieces of a bounded number of records, and whoever decrypts looks at the clock between two.

Source: RFC 8446, section 5.1: a record begins with its type, two octets of a version and two of its length.
"""

from __future__ import annotations

#: Octets handed to OpenSSL at a time. Its buffer keeps the largest size that it ever had.
FEED_BYTES = 64 << 10
#: Records handed to OpenSSL at a time: up to 1.3 ms if each of them changes keys.
RECORDS_MAX = 32
#: Octets handed to it at a time where no record begins. An error, mostly; after the first message of an old
#: client, which came without a header, the others are records somewhere in these.
STRANGE_BYTES = 512
#: Octets of a record's header, and the types of records.
HEADER_BYTES = 5
TYPES = range(20, 25)


class Records:
    """Follows the records of one connection."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        #: Octets of a header whose end has not arrived.
        self._head = b""
        #: Octets until the next header.
        self._left = 0

    def piece(self, data: memoryview, start: int) -> int:
        """Where the piece ends that begins at ``start``, which is where the last piece ended."""
        end = len(data)
        size = end - start
        if not self._left and not self._head and size > HEADER_BYTES and size == _size(data, start):
            return end  # mostly, a chunk is one record
        limit = min(end, start + FEED_BYTES)
        at = start + self._left
        if self._head:
            missing = HEADER_BYTES - len(self._head)
            if end - start < missing:
                self._head += bytes(data[start:])
                return end
            head, self._head = self._head + bytes(data[start : start + missing]), b""
            at = start + missing + (head[3] << 8 | head[4])
        for _ in range(RECORDS_MAX):
            if at + HEADER_BYTES > limit:
                break
            if data[at] not in TYPES:
                self._left = 0
                return min(end, at + STRANGE_BYTES)
            at += _size(data, at)
        else:
            limit = min(limit, at)
        self._left = max(0, at - limit)
        if at < limit:  # within a header
            if limit < end:
                return at
            self._head = bytes(data[at:])
        return limit


def _size(data: memoryview, at: int) -> int:
    """Octets of the record whose header begins there."""
    return HEADER_BYTES + (data[at + 3] << 8 | data[at + 4])
