"""The names of the routes in one segment of the routing log: each is written once, and used by its number.

FORMAT.md, "Names", has the layout. Compiled: see ``names.pxd``.
"""

from __future__ import annotations

from ...memory import MemoryBudget

# C integers where compiled. A segment is closed when its names have more bytes ...
_NAMES_BYTES_MAX = 16 * 1024 * 1024
# ... and a batch when its new ones have.
_NEW_NAMES_BYTES_MAX = 256 * 1024


class WideNames:
    """The names of a route with many names. Its entry refers to them, and the file has each name once.

    Otherwise 1,000 queues with long names, reached by ever new combinations of bindings, would cost some
    hundred kilobytes for each short publish.
    """

    __slots__ = ("bindings", "durable", "exchange", "fanout", "id", "queues", "segment")

    def __init__(
        self, exchange: bytes, queues: list[bytes], bindings: list[bytes], *, durable: int, fanout: int
    ) -> None:
        #: JSON texts: a string, strings, and lists of four strings.
        self.exchange = exchange
        self.queues = queues
        self.bindings = bindings
        self.durable = durable
        self.fanout = fanout
        #: Id of the exchange's name, in the segment with this number. All routes with these names have the
        #: same recorder.
        self.id = 0
        self.segment = 0

    def payload(self, queues: list[bytes], bindings: list[bytes]) -> bytes:
        """The payload of the route's entry, with ``queues`` and ``bindings`` in place of the names."""
        return b'{"exchange":%b,"queues":[%b],"bindings":[%b],"durable":%d,"fanout":%d}' % (
            self.exchange,
            b",".join(queues),
            b",".join(bindings),
            self.durable,
            self.fanout,
        )


class SegmentNames:
    """The numbers of the names in the segment that is written now."""

    __slots__ = ("_account", "_bytes", "_ids", "_new", "_new_bytes", "_next", "serial")

    def __init__(self, account: MemoryBudget) -> None:
        #: The segment's number in this process, from 1.
        self.serial = 0
        #: Counts the size of all names as ``kept``.
        self._account = account
        self._ids: dict[bytes, int] = {}
        self._next = 0
        self._bytes = 0
        # Names that are not in the file yet, and their size.
        self._new: list[bytes] = []
        self._new_bytes = 0

    def begin(self, ids: dict[bytes, int], count: int) -> None:
        """Begin a segment, or continue in one whose file has ``count`` names with these ids."""
        self.serial += 1
        self._ids = ids
        self._next = count
        self._new = []
        self._new_bytes = 0
        self._account.kept -= self._bytes
        self._bytes = sum([len(payload) + 12 for payload in ids])
        self._account.kept += self._bytes

    def is_full(self) -> bool:
        """Whether the segment has so many names that it should be closed."""
        return self._bytes > _NAMES_BYTES_MAX

    def is_batch_full(self) -> bool:
        """Whether the open batch should be closed because of its names."""
        return self._bytes > _NAMES_BYTES_MAX or self._new_bytes > _NEW_NAMES_BYTES_MAX

    def number_of(self, payload: bytes | None, wide: WideNames | None) -> int:
        """The number in this segment of a route's names, given in one way or the other."""
        if payload is not None:
            return self._number(payload)
        assert wide is not None
        if wide.segment != self.serial:
            queues = [b"%d" % self._number(text) for text in wide.queues]
            bindings = [b"%d" % self._number(text) for text in wide.bindings]
            wide.id = self._number(wide.payload(queues, bindings))
            wide.segment = self.serial
        return wide.id

    def _number(self, payload: bytes) -> int:
        """The number of the entry with ``payload`` in the ``.names`` file, which is added if it is new."""
        number = self._ids.get(payload)
        if number is None:
            number = self._next
            size = len(payload) + 12
            self._next += 1
            self._ids[payload] = number
            self._new.append(payload)
            self._bytes += size
            self._account.kept += size
            self._new_bytes += size
        return number

    def take_new(self) -> list[bytes]:
        """The names that a closed batch adds to the file."""
        names, self._new = self._new, []
        self._new_bytes = 0
        return names
