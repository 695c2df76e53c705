"""The reader's constants against those the broker writes by."""

from __future__ import annotations

from zlib import crc32

from amqp_router import datadir
from persistence.log.format import checkpoint, identity, index, record, sections
from persistence.log.format.segment import INDEX_SUFFIX, SUFFIX, base_of, segment_name
from persistence.log.format.settles import settle_run
from persistence.log.routing import events
from persistence.log.routing import layout as routing_layout
from persistence.log.sync import committer, marks
from spark_analytics import layout, outcomes
from vhosts.queues import death


def test_batch_header() -> None:
    assert layout.BATCH_MAGIC == record.MAGIC
    assert layout.LOG_VERSION == record.VERSION == identity.DESCRIPTION_VERSION
    assert layout.HEADER_SIZE == record.HEADER_SIZE == layout.BATCH_HEADER.size
    assert (layout.KIND_MESSAGES, layout.KIND_SETTLES, layout.KIND_CONTROL) == (
        record.MESSAGES,
        record.SETTLES,
        record.CONTROL,
    )
    assert layout.KIND_ROUTING == events.ROUTING
    assert layout.MESSAGE_SIZE == record.MESSAGE_SIZE
    assert layout.ROUTING_SIZE == events.RECORD_SIZE
    batch = record.settles_batch([settle_run(1, 2, 1, 0)], 5, 7, 1_000, 3)
    crc = crc32(b"".join(batch.pieces))
    fields = layout.BATCH_HEADER.unpack(batch.pack_header(0, 5))
    assert fields[:8] == (record.MAGIC, 2, record.SETTLE_SIZE, 96, record.SETTLES, 0, crc, 1)
    assert fields[9:11] == (2, 5)
    assert (layout.STAMP_CRC_AT, layout.STAMP_SIZE) == (record.STAMP_CRC_AT, record.STAMP_SIZE)


def test_message_flags() -> None:
    from amqp_router.protocol import flags

    assert [(bit, entries.format) for bit, entries in layout.SECTIONS] == [
        (sections.OLD_SOURCES, sections._OLD_SOURCE.format),
        (sections.DUE_TIMES, sections._DUE.format),
        (sections.PRODUCERS, sections._PRODUCER.format),
        (sections.SOURCES, sections._SOURCE.format),
    ]
    assert (layout.KNOWN_BITS, layout.LONG_TIMES) == (sections.KNOWN, sections.LONG_TIMES)
    assert layout.NO_EXPIRY == record.NO_EXPIRY
    assert layout.CHECKPOINT_VERSION == checkpoint._VERSION
    assert layout.SETTLE.size == record.SETTLE_SIZE == record.SETTLE.size
    assert (layout.SETTLE_DROP, layout.SETTLE_DEAD_LETTER, layout.SETTLE_RETURN) == (
        flags.DROP,
        flags.DEAD_LETTER,
        flags.RETURN,
    )
    assert layout.REASON_DUE == flags.BY_DUE_TIME >> 8
    assert (layout.CONTROL.format, layout.CONTROL_PURGE) == (record._CONTROL.format, record.PURGE)
    assert (layout.PURGE.size, layout.PURGE_KEPT.size) == (record._PURGE.size, record._RUN.size)
    reasons = {1: flags.BY_REJECT, 2: flags.BY_EXPIRY, 3: flags.BY_LENGTH, 4: flags.BY_RETURNS}
    assert {outcomes.REASONS[number]: bits >> 8 for number, bits in reasons.items()} == {
        death.REJECTED: 1,
        death.EXPIRED: 2,
        death.MAXLEN: 3,
        death.DELIVERY_LIMIT: 4,
    }
    assert layout.MESSAGE_PERSISTENT == flags.PERSISTENT
    assert layout.MESSAGE_REDELIVERED == flags.REDELIVERED


def test_file_names() -> None:
    assert layout.file_name(12, layout.LOG_SUFFIX) == segment_name(12)
    assert (layout.LOG_SUFFIX, layout.INDEX_SUFFIX) == (SUFFIX, INDEX_SUFFIX)
    for name in ("00000000000000000012.log", "12.log", "00000000000000000012.index", "x.log"):
        assert layout.base_of(name) == base_of(name)


def test_index() -> None:
    sparse = index.SparseIndex(1)
    sparse.note(3, 4, 5)
    packed = sparse.pack()
    assert len(packed) == layout.INDEX_HEADER.size + layout.INDEX_ENTRY_SIZE
    assert layout.INDEX_HEADER.unpack_from(packed)[:3] == (layout.INDEX_MAGIC, 0, 1)


def test_data_directory_stamp() -> None:
    assert (layout.STAMP, layout.DATA_LAYOUT) == (datadir.STAMP, datadir.LAYOUT)


def test_event_flags() -> None:
    assert (
        layout.EVENT_PERSISTENT,
        layout.EVENT_MANDATORY,
        layout.EVENT_UNROUTABLE,
        layout.EVENT_RETURNED,
        layout.EVENT_CONFIRMED,
        layout.EVENT_REFUSED,
        layout.EVENT_SAME_KEY,
    ) == (
        events.PERSISTENT,
        events.MANDATORY,
        events.UNROUTABLE,
        events.RETURNED,
        events.CONFIRMED,
        events.REFUSED,
        events.SAME_KEY,
    )


def test_names() -> None:
    for exchange in ("", "flights", "grün", "\udcff"):
        assert layout.routing_partition(exchange, 7) == routing_layout.partition_of(exchange, 7)
        assert layout.routing_id(exchange) == routing_layout.routing_id(exchange)
    assert (layout.ROUTING, layout.NAMES_SUFFIX) == (routing_layout.DIRECTORY, routing_layout.NAMES_SUFFIX)
    assert layout.NAMES_MAGIC == routing_layout._NAMES_MAGIC
    assert layout.NAMES_HEADER.size == routing_layout.NAMES_HEADER.size
    assert layout.NAMES_ENTRY.format == routing_layout.NAME.format


def test_folders_of_deleted_logs() -> None:
    assert layout.DELETED_SUFFIX == committer.DELETED_SUFFIX


def test_marks() -> None:
    assert (layout.SYNCED, layout.SYNCED_MAGIC) == (marks.FILE_NAME, marks.MAGIC)
    assert (layout.SLOT_SIZE, layout.SYNCED_HEADER_SIZE) == (marks.SLOT_SIZE, marks.HEADER_SIZE)
    assert layout.SLOT_IN_USE == marks.IN_USE
    for log_id in ("ab" * 16, "not-hex", "AB" * 16):
        assert bytes.fromhex(layout.mark_id(log_id)) == marks.log_id(log_id)
