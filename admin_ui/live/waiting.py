"""Since when the oldest ready message of a queue waits, as its history tells.

A queue's ready messages are the newest that were published to it. So the oldest of them came when the
counter of publishes passed that of today less the number of ready messages. A sample every 5 s for ten
minutes, and every minute for an hour, says when that was. Messages that were returned may be older than that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amqp_router.metrics import BASIC, INTERVAL_S, QUEUE, History

_READY = QUEUE.fields["messages_ready"]
_PUBLISHED = QUEUE.fields["publish"]


class Since(NamedTuple):
    """When the oldest ready message came, in milliseconds since 1970; ``longer``: or before that."""

    since: int
    longer: bool


def waits_since(queue: Any, history: History | None) -> Since | None:
    """Since when the oldest ready message of ``queue`` waits.

    None if that is not known, or nothing is ready. Of a queue with priorities it is not known: its messages
    do not leave in the order in which they came.
    """
    if history is None or queue.view().settings().max_priority:
        return None
    ready = history.value(_READY)
    if ready <= 0 or not queue.message_count():
        return None
    if history.rings is None:  # nothing has changed since it was first seen, or for an hour
        return Since(max(history.first, history.changed) * INTERVAL_S * 1000, longer=True)
    before = history.value(_PUBLISHED) - ready
    _, (_, reach) = BASIC
    low, high = max(history.first, history.seen - reach // INTERVAL_S), history.seen
    longer = (history.at(low, _PUBLISHED, BASIC) or 0) > before
    # The first tick at which more than ``before`` messages were published.
    while low < high:
        middle = (low + high) // 2
        if (history.at(middle, _PUBLISHED, BASIC) or 0) > before:
            high = middle
        else:
            low = middle + 1
    return Since(low * INTERVAL_S * 1000, longer)
