"""Logs that grow and lose segments under a stream."""

from __future__ import annotations

from typing import Any

from persistence.log.format.checkpoint import LogState, SegmentState, pack_file, pack_log
from tests.spark_analytics.encoder import LogFiles, Run, Sent, messages_batch, name, routing_batch

NAMES = [name("flights", "all"), name("", "q")]
T0 = 1_700_000_000_000_000
ONE, TWO = "cd" * 16, "ef" * 16


def send(log: LogFiles, count: int) -> None:
    """A batch of messages in a queue, or of events in a routing log."""
    if log.names is not None:
        log.append(routing_batch(log.end, [Run(n % 2, b"k%d" % n, T0 + log.end + n) for n in range(count)]))
    else:
        sent = [Sent(log.end + n, T0 + log.end + n) for n in range(count)]
        log.append(messages_batch(log.end, log.end + count - 1, sent))


def drop(log: LogFiles, *bases: int, history: int = -1) -> None:
    """Remove segments of a queue as the broker does: a checkpoint first, then the files."""
    found = sorted(int(path.stem) for path in log.directory.glob("*.log"))
    state = LogState(log.directory.parent.name, 0, recovery_offset=log.end)
    for base, end in zip(found, [*found[1:], log.end], strict=True):
        if base in bases:
            state.history_start = max(state.history_start, end)
            (log.directory / f"{base:020d}.log").unlink()
        else:
            state.segments.append(SegmentState(base, end, 1, end - base, end - base))
    state.history_start = max(state.history_start, history)
    (log.directory / "checkpoint").write_bytes(pack_file([pack_log(state)], clean=False, now_us=T0))
    left = [base for base in found if base not in bases]
    log.start = max(log.start, left[0] if left else log.end)


def retain(log: LogFiles, base: int) -> None:
    """Remove a routing log's segments below ``base``, as retention does."""
    for path in log.directory.glob("*.log"):
        if int(path.stem) < base:
            path.unlink()
            path.with_suffix(".names").unlink()
    log.start = base


def offsets(rows: list[tuple[Any, ...]]) -> list[int]:
    return [row[-1] for row in rows]
