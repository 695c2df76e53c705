"""What only some messages of a batch have: optional sections behind the heaps of a MESSAGES batch.

A bit of the batch's attributes announces each section (FORMAT.md, "Optional sections"), so a batch without
them is not longer than before. They hold where a dead letter comes from, when a message is due, and which
publish of which producer it is. ``Extras`` has them for one message.

Compiled: see ``sections.pxd``.
"""

from __future__ import annotations

from struct import Struct

from amqp_router.protocol._buf import Buf
from amqp_router.protocol.message import Extras

#: The sections' bits in a batch's attributes, in the order of the sections. ``OLD_SOURCES`` is read only:
#: earlier releases wrote it, without epochs.
OLD_SOURCES, DUE_TIMES, PRODUCERS, SOURCES = 0x40, 0x80, 0x100, 0x200
#: This bit announces no section: records of the batch have more than 32 bits of ``expire_ms``.
LONG_TIMES = 0x400
KNOWN = OLD_SOURCES | DUE_TIMES | PRODUCERS | SOURCES | LONG_TIMES
#: Bytes by which an entry of each section makes a batch longer, together: the estimate for its cap.
ENTRY_BYTES = 88

_SIZE = Struct("<I")
#: Record, partition, log id, offset.
_OLD_SOURCE = Struct("<II16sQ")
#: Record, 0, time.
_DUE = Struct("<IIq")
#: First record, records, session, channel, 0, sequence of the first record.
_PRODUCER = Struct("<IIQIIQ")
#: Record, partition, log id, offset, epoch, 0.
_SOURCE = Struct("<II16sQII")
_LAYOUTS = ((OLD_SOURCES, _OLD_SOURCE), (DUE_TIMES, _DUE), (PRODUCERS, _PRODUCER), (SOURCES, _SOURCE))


def unknown_attributes(attributes: int, *, is_messages: bool) -> int:
    """The bits that this release does not know."""
    return attributes & ~KNOWN if is_messages else attributes


def pack_sections(extras: list[tuple[int, Extras]]) -> tuple[int, bytes]:
    """(attributes, bytes) of what the records with those numbers have; the numbers rise."""
    sources = Buf()
    due: list[bytes] = []
    producers: list[tuple[int, int, int, int, int]] = []
    for index in range(len(extras)):
        record, each = extras[index]
        if each.source:
            _put_source(sources, record, each)
        if each.due_us:
            due.append(_DUE.pack(record, 0, each.due_us))
        if each.session:
            _extend(producers, record, each)
    runs = [_PRODUCER.pack(first, n, session, channel, 0, at) for first, n, session, channel, at in producers]
    attributes = 0
    parts = []
    for bit, entries in ((DUE_TIMES, due), (PRODUCERS, runs)):
        if entries:
            attributes |= bit
            parts += [_SIZE.pack(sum(map(len, entries))), *entries]
    if sources.size:
        attributes |= SOURCES
        parts += [_SIZE.pack(sources.size), sources.take()]
    return attributes, b"".join(parts)


def _put_source(out: Buf, record: int, each: Extras) -> int:
    """Append an entry as ``_SOURCE`` has it. Of a dead letter's record there may be very many."""
    assert len(each.source) == 16
    out.le32(record)
    out.le32(each.source_partition)
    out.put(each.source)
    out.le64(each.source_offset)
    out.le32(each.source_epoch)
    out.le32(0)
    return 0


def _extend(runs: list[tuple[int, int, int, int, int]], record: int, each: Extras) -> None:
    """Add a record to the last run (first record, records, session, channel, sequence), or begin one."""
    last = len(runs) - 1  # compiled, a negative index would not count from the end
    if last >= 0:
        first, count, session, channel, sequence = runs[last]
        if (first + count, session, channel, sequence + count) == (
            record,
            each.session,
            each.channel,
            each.sequence,
        ):
            runs[last] = (first, count + 1, session, channel, sequence)
            return
    runs.append((record, 1, each.session, each.channel, each.sequence))


def parse_sections(attributes: int, data: bytes, records: int) -> dict[int, Extras]:
    """The extras of a batch's records, by the records' numbers.

    ``data`` is all that follows the heaps.

    Raises:
        ValueError: an unknown bit is set, a section is cut short, or names a record that is not there.
    """
    unknown = unknown_attributes(attributes, is_messages=True)
    if unknown:
        raise ValueError(f"batch attributes {unknown:#x} are not known")
    found: dict[int, Extras] = {}
    at = 0
    for bit, layout in _LAYOUTS:
        if not attributes & bit:
            continue
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if at + 4 > len(data) or end > len(data) or (end - at - 4) % layout.size:
            raise ValueError("an optional section of a batch is cut short")
        for entry in layout.iter_unpack(data[at + 4 : end]):
            _take(found, bit, entry, records)
        at = end
    if at != len(data):
        raise ValueError("the heaps of a batch do not fit its length")
    return found


def _take(found: dict[int, Extras], bit: int, entry: tuple[int, ...], records: int) -> None:
    count = entry[1] if bit == PRODUCERS else 1
    if entry[0] + count > records:
        raise ValueError("an optional section of a batch names a record that is not there")
    for record in range(entry[0], entry[0] + count):
        each = found.get(record)
        if each is None:
            each = found[record] = Extras()
        if bit in (OLD_SOURCES, SOURCES):
            each.source_partition, each.source, each.source_offset = entry[1:4]  # type: ignore[assignment]
            if bit == SOURCES:
                each.source_epoch = entry[4]
        elif bit == DUE_TIMES:
            each.due_us = entry[2]
        else:
            each.session, each.channel = entry[2], entry[3]
            each.sequence = entry[5] + record - entry[0]
