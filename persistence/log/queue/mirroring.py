"""Mirroring of a log that is in use begins or ends: other nodes get copies of it, or none any more.

At the beginning the high watermark stays where it is: at what is durable, and so confirmed, on this node.
From then on it rises only by ``QueueLog.advance_high_watermark``. What was delivered above it before stays
with its consumers; if it comes back, it waits for the watermark as all others do.

At the end what is durable on this node counts at once.

A round that is under way is not waited for. A checkpoint that it writes was made of a log without copies and
may lie above the high watermark; a log that is cut below such a one awaits a snapshot (``truncation``).
"""

from __future__ import annotations

from .copies import EVERYTHING
from .queue_log import QueueLog


def begin_mirroring(log: QueueLog) -> None:
    """Confirms, deliveries, checkpoints and readers in other processes wait for the high watermark from now
    on. Nothing happens if they do already.
    """
    copies = log.copies
    if not copies.mirrored:
        copies.mirrored = True
        copies.visible_end = log.high_watermark
        copies.shown.clear()


def end_mirroring(log: QueueLog) -> None:
    """What is durable here counts. The listener hears of it, also of what lies above the high watermark.

    Raises:
        ValueError: the log takes its batches from another node, or its settles are not known.
    """
    copies = log.copies
    if not copies.mirrored:
        return
    if copies.follows or copies.awaits_snapshot:
        raise ValueError(f"the log {log.incarnation} is a copy of another node's, and not to be used alone")
    copies.mirrored = False
    copies.visible_end = EVERYTHING
    copies.shown.clear()
    if log.failed is None:
        log.due.sync.show(log)
    if log.saving.held:
        log.mark_dirty()
    log.advance_high_watermark(log.durable)
