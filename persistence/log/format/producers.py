"""The last publish of each producer that a log has taken, so that one that is sent again is recognised.

A producer is a channel of a session, and counts its publishes to a log upwards, with holes. It sends what was
not confirmed again, to a new leader of the log for instance, and the log must not take it twice. A producer
that was silent for ``KEPT_US`` of the log's time is forgotten, and of more than ``PRODUCERS_MAX`` the one
that has been silent longest.

The producers are a dict from (session, channel) to (last sequence, time of it in µs), the last one to publish
at the end.
"""

from __future__ import annotations

from struct import Struct

from .lately import forget_old

#: Ten minutes: longer than any producer tries again.
KEPT_US = 600_000_000
PRODUCERS_MAX = 16_384
#: Session, channel, 0, last sequence, its time.
ENTRY = Struct("<QIIQq")

Producers = dict[tuple[int, int], tuple[int, int]]


def note_sequence(producers: Producers, session: int, channel: int, sequence: int, time_us: int) -> None:
    """The log has taken that publish."""
    last, _ = producers.pop((session, channel), (0, 0))
    producers[session, channel] = max(last, sequence), time_us
    forget_old(producers, PRODUCERS_MAX, time_us - KEPT_US)


def pack_producers(producers: Producers, now_us: int) -> bytes:
    """The entries for a checkpoint, without producers that are forgotten at ``now_us``."""
    return b"".join(
        [
            ENTRY.pack(session, channel, 0, sequence, time_us)
            for (session, channel), (sequence, time_us) in producers.items()
            if time_us >= now_us - KEPT_US
        ]
    )


def unpack_producers(data: bytes) -> Producers:
    """Raises ``struct.error`` if these are not whole entries."""
    return {
        (session, channel): (sequence, time_us)
        for session, channel, _, sequence, time_us in ENTRY.iter_unpack(data)
    }
