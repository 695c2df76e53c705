"""What a leader hands out of its log where its batches do not tell everything: a snapshot."""

from __future__ import annotations

from ...files import Disk
from ..format.checkpoint import pack_log
from ..queue.queue_log import QueueLog
from ..queue.truncation import newest_checkpoint


def snapshot(log: QueueLog, disk: Disk, data_dir: str) -> tuple[int, bytes] | None:
    """(offset, state) of the newest durable checkpoint, which lies at or below the high watermark.

    None if the log has none of use yet; ``log.request_checkpoint`` makes one. Reads a file.

    Raises:
        CorruptLog, OSError: it cannot be read.
    """
    state = newest_checkpoint(log, disk, data_dir)
    if state is None or state.awaits_snapshot or not is_valid(log, state.recovery_offset):
        return None
    return state.recovery_offset, pack_log(state)


def is_valid(log: QueueLog, offset: int) -> bool:
    """Whether the log still has every message that its state at ``offset`` has.

    A follower asks when it has all batches below, before it installs the snapshot at that offset.
    """
    return offset >= log.copies.cleaned_at and offset >= log.copies.history_start
