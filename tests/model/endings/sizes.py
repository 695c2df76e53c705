"""Sizes of one digit: a handful of messages fills each slice, window, page, batch and segment.

So nearly every mass of messages takes several turns of the loop, and the client's next frame is there before
the last of them. ``TRIM_UNITS`` is that for 21 messages, as what a publish drops at once is foretold: one of
200 octets makes up to 20 of ten octets leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from amqp_router.channel import ack_watch, channel, closing, delivery, due, returns, transactions
from amqp_router.connection import dispatch as connection_dispatch
from amqp_router.connection import ticker
from tests.persistence.log.sizes import OPTIONS
from vhosts import dead_letters, obeying, passing, removal
from vhosts.queues import dispatch, mortal, queue, services, timers
from vhosts.queues.ready import order

#: Octets: a batch takes two or three messages, a segment or a page file about six.
LOG_OPTIONS = replace(OPTIONS, batch_bytes_max=250, segment_bytes_max=900, page_bytes_max=900, read_bytes=300)

#: Module, name, value.
SMALL: tuple[tuple[Any, str, int], ...] = (
    # Deliveries and settles of a channel, and what a channel that closes gives back.
    (delivery, "SETTLE_SLICE", 3),
    (delivery, "REJECT_SLICE", 3),
    (delivery, "RETURN_SLICE", 2),
    (returns, "RETURN_SLICE", 2),
    (transactions, "RETURN_SLICE", 2),
    (closing, "RETURN_SLICE", 2),
    (closing, "LOOK_SLICE", 4),
    (channel, "RELEASE_SLICE", 3),
    (connection_dispatch, "RELEASE_SLICE", 3),
    (ack_watch, "SCAN_SLICE", 2),
    (transactions, "COMMIT_SLICE", 2),
    (transactions, "LOOK_SLICE", 2),
    # A turn of a queue: what it delivers, lets expire and drops.
    (due, "DUE_SLICE", 4),
    (ticker, "TICK_UNITS", 9),
    (ticker, "FRESH_UNITS", 3),
    (ticker, "QUEUE_UNITS", 5),
    (queue, "TRIM_UNITS", 42),
    (services, "DROP_SLICE", 2),
    (timers, "TOUCH_SLICE", 9),
    (dispatch, "CANCEL_SLICE", 1),
    (mortal, "TELL_SLICE", 1),
    # Dead letters, policies and removals.
    (dead_letters, "SLICE", 2),
    (obeying, "SLICE", 2),
    (passing, "SLICE", 2),
    (removal, "SLICE", 2),
    # Messages in memory.
    (order, "WINDOW_MESSAGES", 3),
    (order, "RECOVERED_TOGETHER", 2),
)


#: How much a queue does in a turn.
TURNS = ("TICK_UNITS", "FRESH_UNITS", "QUEUE_UNITS", "TRIM_UNITS")
USUAL = {name: getattr(module, name) for module, name, _ in SMALL}


@contextmanager
def whole_turns() -> Iterator[None]:
    """Within ``small``: a queue does in one turn all that it has to do."""
    turns = [(module, name, value) for module, name, value in SMALL if name in TURNS]
    for module, name, _ in turns:
        setattr(module, name, USUAL[name])
    try:
        yield
    finally:
        for module, name, value in turns:
            setattr(module, name, value)


@contextmanager
def small() -> Iterator[None]:
    """Everything is small meanwhile."""
    before = [(module, name, getattr(module, name)) for module, name, _ in SMALL]
    for module, name, value in SMALL:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
