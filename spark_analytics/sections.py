"""Optional sections behind the heaps of MESSAGES batches: dead letters' sources, due times, producers."""

from __future__ import annotations

from typing import Any

from . import layout
from .decode import Records


class Sections:
    """Values of a window's records, None where a record has none.

    Raises:
        CorruptLog: a section is cut short, or names a record that is not there.
    """

    def __init__(self, records: Records, ends: Any) -> None:
        """``ends``: where the heaps of each batch end in the window's data."""
        total = records.total
        self.source_logs: list[str | None] = [None] * total
        self.source_offsets: list[int | None] = [None] * total
        self.source_epochs: list[int | None] = [None] * total
        self.due: list[int | None] = [None] * total
        window = records.window
        attributes = window.headers["attributes"].tolist()
        for batch, bits in enumerate(attributes):
            if bits:
                end = window.starts[batch] + int(window.headers["length"][batch])
                self._read(records, batch, bits, bytes(window.data[int(ends[batch]) : end]))

    def _read(self, records: Records, batch: int, bits: int, data: bytes) -> None:
        first, count = int(records.first[batch]), int(records.counts[batch])
        at = 0
        for bit, entries in layout.SECTIONS:
            if not bits & bit:
                continue
            end = at + 4 + int.from_bytes(data[at : at + 4], "little")
            if at + 4 > len(data) or end > len(data) or (end - at - 4) % entries.size:
                raise records.window.error(batch, "an optional section of the batch is cut short")
            for entry in entries.iter_unpack(data[at + 4 : end]):
                if entry[0] >= count:
                    raise records.window.error(batch, "an optional section names a record that is not there")
                row = first + entry[0]
                if bit in (layout.SECTION_OLD_SOURCES, layout.SECTION_SOURCES):
                    self.source_logs[row] = entry[2].hex()
                    self.source_offsets[row] = entry[3]
                    if bit == layout.SECTION_SOURCES:
                        self.source_epochs[row] = entry[4] or None
                elif bit == layout.SECTION_DUE_TIMES:
                    self.due[row] = entry[2]
            at = end
