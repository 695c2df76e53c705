"""The on-disk layout, as far as readers need it. ``persistence/log/FORMAT.md`` describes it.

Executors get this package without the broker's packages, so the numbers are repeated here. A test compares
them with the broker's. All integers are little-endian.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from zlib import crc32

#: The stamp file of a data directory, and the layout number that this reader knows.
STAMP = "amqp-router.json"
DATA_LAYOUT = 1

#: ``log.json`` of a log, and the newest version of it and of batches; version 0 has no salt.
DESCRIPTION = "log.json"
LOG_VERSION = 2
#: The newest version of names; version 0 has no salt.
NAMES_VERSION = 1
#: The version of marks and indexes.
FORMAT_VERSION = 0
#: The newest version of checkpoints.
CHECKPOINT_VERSION = 1
QUEUES, ROUTING = "queues", "routing"
#: The database of declarations, an SQLite file.
DEFINITIONS = "definitions.sqlite"
#: The folder of a queue's log gets this suffix before its files are removed.
DELETED_SUFFIX = ".deleted"
LOG_SUFFIX, INDEX_SUFFIX, NAMES_SUFFIX = ".log", ".index", ".names"
NAME_DIGITS = 20

# --- batches ----------------------------------------------------------------------------------------------
BATCH_MAGIC = b"ARLB"
#: The header fields used to find and select batches: magic, version, record_size, length, kind, attributes,
#: payload crc, records, crc of the stamp, last offset delta, base offset, and, before version 2, crc of all.
BATCH_HEADER = Struct("<4sHHIHHII8xII8xQ12xI")
#: The crc of the stamp covers what is before and behind it.
STAMP_CRC_AT, STAMP_SIZE = 32, 64
#: The header fields that decoders need: name, numpy type and place.
HEADER_FIELDS = (
    ("length", "<u4", 8),
    ("attributes", "<u2", 14),
    ("records", "<u4", 20),
    ("last_delta", "<u4", 36),
    ("epoch", "<u4", 44),
    ("base", "<u8", 48),
    ("base_ts", "<i8", 56),
)
HEADER_SIZE = 72
KIND_MESSAGES, KIND_SETTLES, KIND_CONTROL, KIND_ROUTING = 1, 2, 3, 4
MESSAGE_SIZE, ROUTING_SIZE = 32, 24
#: Bits of the attributes of a MESSAGES batch that announce optional sections behind the heaps, in their
#: order, and the layouts of their entries: (record, partition, log id, offset) of earlier releases,
#: (record, 0, time), (first record, records, session, channel, 0, sequence), and
#: (record, partition, log id, offset, epoch, 0).
SECTION_OLD_SOURCES, SECTION_DUE_TIMES, SECTION_PRODUCERS, SECTION_SOURCES = 0x40, 0x80, 0x100, 0x200
SECTIONS = (
    (SECTION_OLD_SOURCES, Struct("<II16sQ")),
    (SECTION_DUE_TIMES, Struct("<IIq")),
    (SECTION_PRODUCERS, Struct("<IIQIIQ")),
    (SECTION_SOURCES, Struct("<II16sQII")),
)
#: This bit announces no section: ``expire_high`` of the batch's records is in use.
LONG_TIMES = 0x400
KNOWN_BITS = SECTION_OLD_SOURCES | SECTION_DUE_TIMES | SECTION_PRODUCERS | SECTION_SOURCES | LONG_TIMES
NO_EXPIRY = 0xFFFFFFFF

#: A SETTLES record: first offset, offsets, kind, reason, returns, time since the batch's.
SETTLE = Struct("<QIBBHI4x")
SETTLE_DROP, SETTLE_DEAD_LETTER, SETTLE_RETURN = 4, 5, 6
#: The reason of a delayed message that went on.
REASON_DUE = 5
#: A CONTROL record begins with its type; a PURGE has the end offset, and how many runs stay: first, count.
CONTROL = Struct("<HHI")
CONTROL_PURGE = 2
PURGE = Struct("<QI4x")
PURGE_KEPT = Struct("<QI4x")

#: Name, numpy type and place of a record's fields.
MESSAGE_FIELDS = (
    ("route_end", "<u4", 0),
    ("properties_end", "<u4", 4),
    ("body_end", "<u4", 8),
    ("dts_us", "<u4", 12),
    ("offset_delta", "<u4", 16),
    ("expire_ms", "<u4", 20),
    ("priority", "u1", 24),
    ("flags", "u1", 25),
    ("delivery_count", "<u2", 26),
    ("expire_high", "<u2", 28),
)
ROUTING_FIELDS = (
    ("events_end", "<u4", 0),
    ("key_end", "<u4", 4),
    ("dts_us", "<u4", 8),
    ("route_id", "<u4", 12),
    ("body_size", "<u4", 16),
    ("flags", "<u2", 20),
)
MESSAGE_PERSISTENT, MESSAGE_REDELIVERED = 1, 2
(
    EVENT_PERSISTENT,
    EVENT_MANDATORY,
    EVENT_UNROUTABLE,
    EVENT_RETURNED,
    EVENT_CONFIRMED,
    EVENT_REFUSED,
) = 1, 2, 4, 8, 16, 32
EVENT_SAME_KEY = 0x8000

# --- names of a routing segment ---------------------------------------------------------------------------
NAMES_MAGIC = b"ARLN"
#: magic, version, 0, segment base.
NAMES_HEADER = Struct("<4sHHQ")
#: length of the payload, crc of (id, payload), id.
NAMES_ENTRY = Struct("<III")

# --- sparse index of a segment ----------------------------------------------------------------------------
INDEX_MAGIC = b"ARLI"
#: magic, version, entries, crc of the entries.
INDEX_HEADER = Struct("<4sIII")
INDEX_ENTRY_SIZE = 16
INDEX_FIELDS = (("rel_offset", "<u4", 0), ("rel_ts_ms", "<u4", 4), ("position", "<u8", 8))
INDEX_INTERVAL_BYTES = 64 * 1024
U32_MAX = 0xFFFFFFFF

# --- synced marks -----------------------------------------------------------------------------------------
SYNCED = "synced"
SYNCED_MAGIC = b"ARLW"
#: magic, version, slot size, slots in use, 0, boot id, zeros, crc.
SYNCED_HEADER = Struct("<4sHHII16s28xI")
SYNCED_HEADER_SIZE = 64
#: log id, partition, epoch, end, segment base, position, log start, flags, crc.
SYNCED_SLOT = Struct("<16sIIQQQQII")
SLOT_SIZE = 64
SLOT_IN_USE = 1
#: Queues' logs begin with epoch 1.
ROUTING_EPOCH = 0

# --- checkpoints ------------------------------------------------------------------------------------------
CHECKPOINT, NODE_CHECKPOINT = "checkpoint", "logs.checkpoint"
CHECKPOINT_MAGIC = b"ARLC"
#: magic, version, flags, bytes that follow, their crc, logs, time written.
CHECKPOINT_HEADER = Struct("<4sHHQIIq")
#: base, end, size, records, live.
CHECKPOINT_SEGMENT = Struct("<QQQII")


def mark_id(log_id: str) -> str:
    """The id of a log in the file ``synced``: its directory's name, or the hash of it if it is not 16 bytes
    in hex.
    """
    try:
        number = bytes.fromhex(log_id)
    except ValueError:
        number = b""
    return number.hex() if len(number) == 16 else hashlib.sha256(log_id.encode()).hexdigest()[:32]


def salt_of(node: str, log_id: str, partition: int) -> int:
    """What a log's checksums of headers and names start with; ``node`` is empty for a queue's log."""
    return crc32(f"{node}/{log_id}/{partition}".encode("utf-8", "surrogateescape"))


def routing_id(vhost: str) -> str:
    """The folder of a virtual host's routing log."""
    return hashlib.sha256(b"routing\0" + octets(str(vhost))).hexdigest()[:32]


def routing_partition(exchange: str, partitions: int) -> int:
    """The partition with the events of an exchange."""
    return crc32(octets(exchange)) % partitions


def octets(name: str) -> bytes:
    """The octets of a name on the wire. Octets that are not UTF-8 are lone surrogates in ``name``."""
    return name.encode("utf-8", "surrogateescape")


def text(name: str) -> str:
    """A name as tables show it: octets that are not UTF-8 become U+FFFD."""
    return octets(name).decode("utf-8", "replace")


def file_name(base: int, suffix: str) -> str:
    """The name of a segment's file."""
    return f"{base:0{NAME_DIGITS}d}{suffix}"


def base_of(name: str) -> int | None:
    """The base offset in a segment's file name; None for other files."""
    stem = name.removesuffix(LOG_SUFFIX)
    is_segment = name.endswith(LOG_SUFFIX) and len(stem) == NAME_DIGITS and stem.isdecimal()
    return int(stem) if is_segment else None
