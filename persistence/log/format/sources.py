"""Which dead letters a log has taken lately, so that one that comes again after a crash is recognised.

A queue settles a message that it dead-letters when the letter is safe in its targets. After a crash between
the two it sends the letter once more, and the target finds it here. So only letters of the last moments
before a crash matter: a log keeps those of a minute, ``RUNS_MAX`` runs at most.

A source is a message: the id of its log, the partition, its epoch and its offset. The epoch belongs to it: a
power failure may take a message back whose letter is safe, and its log gives the offset to another message
then, in a later epoch.

Runs are a dict from (log id, partition, epoch, offset behind the last letter) to (first offset, time of the
last one in µs), the one extended last at the end. Letters of releases that did not note the epoch have epoch
0, which no message has.
"""

from __future__ import annotations

from struct import Struct

from amqp_router.protocol.message import Extras

from .lately import forget_old

#: How long before the last time in the log a run counts, in µs.
KEPT_US = 60_000_000
RUNS_MAX = 4096
#: A run has fewer letters than this, as its number of offsets is a u32.
RUN_LETTERS_MAX = 0xFFFFFFFF
#: Log id, partition, offsets, first offset, time of the last, epoch, 0.
RUN = Struct("<16sIIQqII")
#: As earlier releases wrote it, without the epoch.
OLD_RUN = Struct("<16sIIQq")

Runs = dict[tuple[bytes, int, int, int], tuple[int, int]]


def note_source(runs: Runs, letter: Extras, time_us: int) -> None:
    """The log has taken ``letter``."""
    source, partition, epoch, offset = source_of(letter)
    first, _ = runs.pop((source, partition, epoch, offset), (offset, 0))
    if offset - first >= RUN_LETTERS_MAX:
        first = offset
    runs[source, partition, epoch, offset + 1] = (first, time_us)
    forget_old(runs, RUNS_MAX, time_us - KEPT_US)


def has_source(runs: Runs, letter: Extras) -> bool:
    """Whether the log has taken a letter of the same message."""
    source = source_of(letter)
    offset = source[3]
    return any(key[:3] == source[:3] and first <= offset < key[3] for key, (first, _) in runs.items())


def source_of(letter: Extras) -> tuple[bytes, int, int, int]:
    """Which message ``letter`` was: log id, partition, epoch and offset."""
    return letter.source, letter.source_partition, letter.source_epoch, letter.source_offset


def pack_sources(runs: Runs, now_us: int) -> bytes:
    """The runs for a checkpoint, without those that are old at ``now_us``."""
    return b"".join(
        [
            RUN.pack(source, partition, end - first, first, time_us, epoch, 0)
            for (source, partition, epoch, end), (first, time_us) in runs.items()
            if time_us >= now_us - KEPT_US
        ]
    )


def unpack_sources(data: bytes) -> Runs:
    """Raises ``struct.error`` if these are not whole runs."""
    return {
        (source, partition, epoch, first + count): (first, time_us)
        for source, partition, count, first, time_us, epoch, _ in RUN.iter_unpack(data)
    }


def unpack_old_sources(data: bytes) -> Runs:
    """As ``unpack_sources``, of a checkpoint that an earlier release wrote."""
    return {
        (source, partition, 0, first + count): (first, time_us)
        for source, partition, count, first, time_us in OLD_RUN.iter_unpack(data)
    }
