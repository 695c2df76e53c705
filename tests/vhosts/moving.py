"""Queues with messages to move, and moves of them."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.protocol.flags import REDELIVERED
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import encode_properties
from persistence.options import LogOptions
from tests.nodes import SimNode
from tests.vhosts.queues.local import drained, numbers, text_of
from vhosts import moves
from vhosts.exchanges.router import RouteCache
from vhosts.move_target import Target
from vhosts.moves import FAILED, Move, Surroundings
from vhosts.queues.queue import Queue

OPTIONS = LogOptions(batch_bytes_max=4000)


def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "SLICE", 2)
    monkeypatch.setattr(moves, "WINDOW", 3)
    monkeypatch.setattr(moves, "RETURN_SLICE", 1)


def target(node: SimNode, to: Queue | None = None, **options: Any) -> Target:
    cache = RouteCache(node.vhost.table, None)
    if to is None:
        return Target(node.vhost.table, cache, **options)
    return Target(node.vhost.table, cache, to, routing_key=to.name)


def begun(
    node: SimNode, source: Queue, to: Queue | Target, count: int = 1 << 60, ended: list[Move] | None = None
) -> Move:
    """A move that has begun; nothing has happened yet."""
    surroundings = Surroundings(
        node.in_slices, node.budget, node.tick, node.wall_us, lambda: bool(node.alarms.on)
    )
    if not isinstance(to, Target):
        to = target(node, to)
    limit = min(count, source.message_count())
    move = Move(source, to, limit, surroundings, (ended if ended is not None else []).append)
    node.enter(move.go_on)
    return move


def moved(node: SimNode, source: Queue, to: Queue | Target, count: int = 1 << 60) -> Move:
    """A move that has ended."""
    ended: list[Move] = []
    move = begun(node, source, to, count, ended)
    node.settle()
    assert ended == [move]
    assert move.is_over
    assert not node.faults
    assert node.budget.held == 0
    return move


def void(result: object) -> None:
    """What a turn of the loop makes of a result."""


def message(text: object, *, persistent: bool = False, size: int = 0) -> Message:
    """A message whose properties say whether it is persistent, too."""
    properties = encode_properties({"delivery_mode": 2} if persistent else {})
    return build_message(b"\x00\x01q", properties, str(text).encode().ljust(size, b" "))


def fill(queue: Queue, count: int, *, persistent: bool = True, start: int = 0) -> None:
    for number in range(start, start + count):
        queue.publish(message(number, persistent=persistent))
    queue.tick.wake()


def kept(node: SimNode, move: Move, source: Queue, to: Queue, count: int) -> None:
    """Each of ``count`` messages is in the source or in the target, in order; those left are as before."""
    assert move.moved == to.message_count()
    left = []
    while (found := source.take(False)) is not None:
        assert not found.flags & REDELIVERED
        assert not found.delivery_count
        left.append(text_of(found))
    assert drained(to) + left == numbers(*range(count))
    assert not node.faults


def failing(node: SimNode, move: Move, reason: str) -> None:
    node.settle()
    assert (move.state, move.reason) == (FAILED, reason)
