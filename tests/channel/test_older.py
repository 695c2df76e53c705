"""Blocks of old deliveries: what one owner got in a row is taken together."""

from __future__ import annotations

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.older import OlderDeliveries
from amqp_router.protocol.message import Message
from tests.vhosts.queues.local import message
from vhosts.queues.handle import Consumer

ONE, TWO = ChannelConsumer(), ChannelConsumer()


def older(first: int, *owners: Consumer | None, into: OlderDeliveries | None = None) -> OlderDeliveries:
    """A block from tag ``first`` on; a place without an owner is a hole. Offsets are the tags."""
    into = into or OlderDeliveries()
    messages: list[Message | None] = []
    for tag, owner in enumerate(owners, first):
        each = message(f"{tag}")
        each.offset = tag
        messages.append(each if owner is not None else None)
    into.add(first, messages, list(owners))
    return into


def taken(found: OlderDeliveries, last: int, limit: int = 100) -> list[tuple[Consumer, list[int]]]:
    """All runs up to ``last``: whose they were, and their tags."""
    runs = []
    while (owner := found.lowest_owner(last)) is not None:
        runs.append((owner, [each.offset for each in found.take_run(last, limit)]))
    return runs


def test_runs_end_with_their_owner() -> None:
    found = older(1, ONE, ONE, TWO, ONE, ONE)
    assert taken(found, 9) == [(ONE, [1, 2]), (TWO, [3]), (ONE, [4, 5])]
    assert (found.count, found.blocks, found.firsts) == (0, [], [])


def test_a_hole_ends_none() -> None:
    assert taken(older(1, None, ONE, None, ONE), 9) == [(ONE, [2, 4])]


def test_runs_end_at_the_last_tag_and_at_the_limit() -> None:
    found = older(1, *[ONE] * 9)
    assert taken(found, 7, 3) == [(ONE, [1, 2, 3]), (ONE, [4, 5, 6]), (ONE, [7])]
    assert [found.holds(tag) for tag in (6, 7, 8, 9)] == [False, False, True, True]
    assert found.count == found.blocks[0].live == 2


def test_runs_end_with_their_block() -> None:
    found = older(5, ONE, ONE, into=older(1, ONE, ONE))
    assert taken(found, 9) == [(ONE, [1, 2]), (ONE, [5, 6])]


def test_what_is_left_of_a_block_moves_together() -> None:
    found = older(1, *[ONE] * 60, *[TWO] * 4)
    assert [len(tags) for _, tags in taken(found, 60)] == [60]
    assert [len(block.messages) for block in found.blocks] == [4]
    found.take(62)
    assert taken(found, 63) == [(TWO, [61, 63])]
    assert taken(found, 64) == [(TWO, [64])]
