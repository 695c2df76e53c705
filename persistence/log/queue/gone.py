"""Which messages a log need not keep: the policy behind removed and rewritten segments.

A log asks its policy wherever a message or a segment is counted, left out or removed, and decides nothing of
the kind itself. In the log of a queue a message is gone once it is settled. A log that keeps its messages for
a time has the same batches, fold and recovery, and a subclass here.

A policy keeps no state: what it knows is in the segments and the settle state, which a start has, too.

Compiled: see ``gone.pxd``.
"""

from __future__ import annotations

from ..format.messages import live_batch
from ..format.record import Batch, BatchHeader
from ..format.segment import Segment
from ..format.settles import SettleState


class Settled:
    """A message is gone once it is settled."""

    def all_gone(self, state: SettleState) -> bool:
        """Whether the log has no message to keep, so that its active segment may go, too."""
        return state.live == 0

    def count_kept(self, state: SettleState, first: int, end: int) -> int:
        """Number of messages to keep at offsets in ``[first, end)``: a segment's ``live``."""
        return state.unsettled_in(first, end)

    def is_gone(self, segment: Segment) -> bool:
        """Whether a closed segment may be removed with the next checkpoint."""
        return segment.live == 0

    def is_sparse(self, segment: Segment, ratio: float) -> bool:
        """Whether so few messages of a closed segment are to be kept (below ``ratio``, but not none) that it
        is worth rewriting.
        """
        return 0 < segment.live < segment.records * ratio

    def keeps_any(self, state: SettleState, header: BatchHeader) -> bool:
        """Whether a MESSAGES batch has a message to keep when its segment is rewritten."""
        return state.unsettled_in(header.base, header.last + 1) > 0

    def rest_of(self, state: SettleState, header: BatchHeader, payload: bytes, base: int) -> Batch:
        """Such a batch without the messages that are gone; its range begins at ``base``."""
        return live_batch(header, payload, state, base)


SETTLED = Settled()
