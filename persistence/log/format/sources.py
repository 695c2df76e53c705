"""Which dead letters a log has taken lately, so that one that comes again after a crash is recognised.

A queue settles a message that it dead-letters when the letter is safe in its targets. After a crash between
the two it sends the letter once more, and the target finds it here. So only letters of the last moments
before a crash matter: a log keeps those of a minute, ``RUNS_MAX`` runs at most.

Runs are a dict from (log id, partition, offset behind the last letter) to (first offset, time of the last
one in µs), the one extended last at the end.
"""

from __future__ import annotations

from struct import Struct

#: How long before the last time in the log a run counts, in µs.
KEPT_US = 60_000_000
RUNS_MAX = 4096
#: Log id, partition, offsets, first offset, time of the last.
RUN = Struct("<16sIIQq")

Runs = dict[tuple[bytes, int, int], tuple[int, int]]


def note_source(runs: Runs, source: bytes, partition: int, offset: int, time_us: int) -> None:
    """The log has taken the letter that was the message at ``offset`` of that log."""
    first, _ = runs.pop((source, partition, offset), (offset, 0))
    if offset - first >= 0xFFFFFFFF:
        first = offset
    runs[source, partition, offset + 1] = (first, time_us)
    while len(runs) > 1:
        oldest = next(iter(runs))
        if len(runs) <= RUNS_MAX and runs[oldest][1] >= time_us - KEPT_US:
            break
        del runs[oldest]


def has_source(runs: Runs, source: bytes, partition: int, offset: int) -> bool:
    """Whether the log has taken that letter."""
    return any(
        log == source and number == partition and first <= offset < end
        for (log, number, end), (first, _) in runs.items()
    )


def pack_sources(runs: Runs, now_us: int) -> bytes:
    """The runs for a checkpoint, without those that are old at ``now_us``."""
    return b"".join(
        [
            RUN.pack(source, partition, end - first, first, time_us)
            for (source, partition, end), (first, time_us) in runs.items()
            if time_us >= now_us - KEPT_US
        ]
    )


def unpack_sources(data: bytes) -> Runs:
    """Raises ``struct.error`` if these are not whole runs."""
    return {
        (source, partition, first + count): (first, time_us)
        for source, partition, count, first, time_us in RUN.iter_unpack(data)
    }
