"""Compares two logs by offset and epoch, never by bytes.

One leader writes the batches of an epoch, so two logs that have the same epoch at an offset have the same
records there, and at all offsets below it. An index of epochs is a list (epoch, first offset), rising.

Source: Kafka's KIP-101 and KIP-279, for why a follower compares epochs and not a high watermark.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..queue.epochs import epoch_at

Epochs = Sequence[tuple[int, int]]


def common_end(mine: Epochs, end: int, theirs: Epochs, their_end: int) -> int:
    """The offset below which both logs are the same; ``end`` and ``their_end`` are where they end."""
    limit = min(end, their_end)
    borders = {0, *[first for _, first in mine], *[first for _, first in theirs]}
    for border in sorted(borders):
        if border < limit and epoch_at(mine, border) != epoch_at(theirs, border):
            return border
    return limit
