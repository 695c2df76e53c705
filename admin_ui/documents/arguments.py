"""Arguments and other field tables as parts of documents: a large one is written in steps.

An object may have 128 KiB of arguments, and a list has very many objects. What nobody looks into is never
decoded as a whole, so that a page or a sorted list of such objects costs no more than another.
"""

from __future__ import annotations

from typing import Any

from admin_ui.documents.table_text import TableText
from admin_ui.documents.tables import table, value
from admin_ui.replies import Large
from amqp_router.protocol.fields import decode_table, outer_field
from amqp_router.protocol.frames import first_value
from amqp_router.protocol.kept_table import Arguments, KeptTable

#: Octets of a table that is made at once.
AT_ONCE = 4 << 10
#: Octets that a sort key has of a large table.
KEY_BYTES = 64


class LargeTable(Large):
    """An encoded table, its u32 size first, as a part of a document."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._text: TableText | None = None
        self._json: bytes | None = None

    def __repr__(self) -> str:
        """Something to sort by."""
        return repr(self._octets[:KEY_BYTES])

    def get(self, name: str, default: Any = None) -> Any:
        """One value, to sort by: a large one is not decoded."""
        field = first_value(self._octets, name.encode("utf-8", "surrogateescape"))
        if not field:
            return default
        return repr(field[:KEY_BYTES]) if field[:1] in b"AF" else value(outer_field(field, 0))

    def table(self) -> dict[str, Any]:
        """All of it, decoded at once."""
        return table(decode_table(self._octets, 0)[0])

    def go_on(self) -> bool:
        """See ``Large``."""
        if self._json is not None:
            return True
        if self._text is None:
            self._text = TableText(self._octets)
        if not self._text.go_on():
            return False
        self._json = self._text.json()
        self._text = None
        return True

    def json(self) -> bytes:
        """See ``Large``."""
        assert self._json is not None
        return self._json


def arguments(fields: Arguments) -> dict[str, Any] | LargeTable:
    """A table as a part of a document."""
    if isinstance(fields, KeptTable) and len(fields.octets) > AT_ONCE:
        return LargeTable(fields.octets)
    return table(fields)
