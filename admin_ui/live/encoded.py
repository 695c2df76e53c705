"""The event of a list as JSON, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from admin_ui.replies import dumps

Row: TypeAlias = tuple[Any, ...]

#: Rows in one piece, which takes some 0.1 ms.
PIECE_ROWS = 256


class Encoded:
    """Rows of a list, and the rest of its event. ``sees`` says which rows belong to it; None: all of them.

    A piece is made when the first viewer needs it. The other viewers of the event share it.
    """

    def __init__(
        self, head: dict[str, Any], rows: list[Row], sees: Callable[[Row], bool] | None = None
    ) -> None:
        self._rows = rows
        self._sees = sees
        self._pieces = [dumps(head)[:-1] + b',"rows":[']
        #: Rows that are not in a piece yet begin here.
        self._next = 0
        self._is_first = True

    def __iter__(self) -> Iterator[bytes]:
        """The pieces; rows may be taken for a piece that is empty, so that none takes long."""
        index = 0
        while index < len(self._pieces) or self._make():
            yield self._pieces[index]
            index += 1

    def _make(self) -> bool:
        """Make the next piece; False if there is none."""
        if self._next > len(self._rows):
            return False
        some = self._rows[self._next : self._next + PIECE_ROWS]
        self._next += PIECE_ROWS
        if self._sees is not None:
            some = [row for row in some if self._sees(row)]
        data = dumps(some)[1:-1]
        if some and not self._is_first:
            data = b"," + data
        self._is_first = self._is_first and not some
        if self._next > len(self._rows):
            data += b"]}"
        self._pieces.append(data)
        return True
