"""Writes an AMQP table as JSON from its octets, some values at a time.

A table of 128 KiB may have 65,000 values. To decode them all, make a document of them and write that takes up
to 35 ms. Here no value is kept, and others have their turn after each ``STEP`` of them.

Compiled: see ``table_text.pxd``. Decoded and written as a whole, a table takes two to six times as long.
"""

from __future__ import annotations

from admin_ui.documents.tables import value
from admin_ui.replies import dumps, text_of
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import outer_field
from amqp_router.protocol.nested import DECODED_DEPTH, value_end

#: Values written in one step.
STEP = 512
#: Octets of the values of one step, after which no further one begins.
STEP_OCTETS = 16 << 10

# C integers where compiled (see table_text.pxd).
_STEP = STEP
_STEP_OCTETS = STEP_OCTETS
_DEPTH_MAX = DECODED_DEPTH


class TableText:
    """The JSON of one table, as ``tables.table`` and ``replies.dumps`` would give it together."""

    __slots__ = ("_begun", "_data", "_end", "_is_first", "_made", "_names", "_outer", "_position")

    def __init__(self, octets: bytes) -> None:
        """``octets`` begin with their u32 size."""
        self._data = octets
        self._position = 4
        #: Where the innermost of the tables and arrays that are open ends, and whether nothing in it is
        #: written yet.
        self._end = len(octets)
        self._is_first = True
        #: The names in it, of several equal ones the first counts; None if it is an array.
        self._names: set[bytes] | None = set()
        #: End and names of those around it.
        self._outer: list[tuple[int, set[bytes] | None]] = []
        #: What is written, a piece for each step.
        self._made: list[bytes] = []
        self._begun = [b"{"]

    def go_on(self) -> bool:
        """Write some values; True if all are written.

        Raises:
            FieldError: the octets are no table.
        """
        left = _STEP
        limit = self._position + _STEP_OCTETS
        while left > 0 and self._position < limit:
            left -= 1
            if self._position < self._end:
                self._write_next()
                continue
            self._begun.append(b"]" if self._names is None else b"}")
            if not self._outer:
                self._finish_piece()
                return True
            self._end, self._names = self._outer.pop()
            self._is_first = False
        self._finish_piece()
        return False

    def json(self) -> bytes:
        """All of it, when all is written."""
        return b"".join(self._made)

    def _finish_piece(self) -> None:
        self._made.append(b"".join(self._begun))
        self._begun = []

    def _write_next(self) -> None:
        """Write the next value, or the beginning of a table or an array."""
        data = self._data
        at = self._position
        name = b""
        is_new = True
        names = self._names
        if names is not None:
            start = at + 1
            at = start + data[at]
            name = data[start:at]
            is_new = name not in names
            if is_new:
                names.add(name)
        end = value_end(data, at, self._end)
        if end < 0:
            raise FieldError("field table ends in the middle of a value")
        self._position = end
        if not is_new:
            return
        begun = self._begun
        if not self._is_first:
            begun.append(b",")
        self._is_first = False
        if names is not None:
            begun.append(dumps(text_of(name)))
            begun.append(b":")
        tag = data[at]
        if tag in (70, 65) and len(self._outer) < _DEPTH_MAX:  # F A
            self._outer.append((self._end, names))
            self._position = at + 5
            self._end = end
            self._is_first = True
            self._names = set() if tag == 70 else None
            begun.append(b"{" if tag == 70 else b"[")
        elif tag == 116:  # t
            begun.append(b"true" if data[at + 1] else b"false")
        else:
            begun.append(dumps(value(outer_field(data, at))))
