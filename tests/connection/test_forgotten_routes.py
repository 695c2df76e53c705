"""Deleted queues leave memory, although their publishers remember the routes to them and stay silent."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable

import pytest

from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, Client, SimNode, publish_frames
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import ROUTES_MAX
from vhosts.exchanges.stale_routes import SLICE, WIDE, StaleRoutes
from vhosts.publishing.spread import SPREAD_SLICE
from vhosts.queues.handle import QueueHandle
from vhosts.queues.queue import Queue


def queues_in_memory(node: SimNode) -> int:
    gc.collect()
    return sum(isinstance(each, Queue) and each.vhost is node.vhost for each in gc.get_objects())


def declare(node: SimNode, exchange: str, count: int) -> None:
    node.vhost.declare_exchange(exchange, "fanout")
    for number in range(count):
        name = f"{exchange}.{number}"
        node.vhost.declare_queue(name, durable=number == 0)
        node.vhost.bind_queue(name, exchange, "", {}, None)
    node.settle()


def delete_all(node: SimNode) -> None:
    for name in list(node.vhost.queues):
        node.vhost.delete_queue(name)
    node.settle()
    node.sleep(1.0)
    node.settle()


@pytest.mark.parametrize("count", [1, 40, SPREAD_SLICE + 1])
def test_a_route_that_a_silent_channel_remembers(count: int) -> None:
    node = SimNode()
    declare(node, "wide", count)
    client = Client(node).open(1)
    for _ in range(3):
        client.publish(b"x", exchange="wide")
        node.settle()
    delete_all(node)
    assert queues_in_memory(node) == 0


def test_a_queue_by_its_name() -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.declare("q")
    client.publish(b"x", "q")
    client.publish(b"x", "q")
    delete_all(node)
    assert queues_in_memory(node) == 0


def test_very_many_routes_are_let_go_in_slices() -> None:
    node = SimNode()
    declare(node, "wide", 40)
    client = Client(node).open(1)
    keys = [b"k%d" % number for number in range(SLICE + 10)]
    for key in keys:
        client.publish(b"x", key.decode(), exchange="wide")
    node.settle()
    (cache,) = node.vhost.table.filled
    routes = [cache.find(b"\0\0\x04wide%c%b\0" % (len(key), key)) for key in keys]
    node.vhost.delete_queue("wide.7")
    assert sum(bool(route.queues) for route in routes) == 10
    node.settle()
    assert not any(route.queues for route in routes)


def test_a_cache_that_is_full_lets_go_of_its_routes() -> None:
    node = SimNode()
    declare(node, "wide", 3)
    client = Client(node).open(1, 2)
    for _ in range(2):
        client.publish(b"", exchange="wide", channel=2)
    remembered = client.machine.channels[2].publishing.last_route
    assert remembered is not None
    assert len(remembered.queues) == 3
    for number in range(ROUTES_MAX):
        client.publish(b"", f"k{number}", exchange="wide")
    node.settle()
    assert remembered.queues == []
    client.publish(b"", exchange="wide", channel=2)
    node.settle()
    assert node.queue("wide.0").message_count() == ROUTES_MAX + 3


def test_a_run_that_is_open_when_its_route_is_let_go() -> None:
    node = SimNode()
    declare(node, "wide", 3)
    client = Client(node).open(1, 2)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    publish = b"".join(publish_frames(1, m.BasicPublish("wide"), PERSISTENT, b"x"))
    client.feed(publish)
    node.settle()
    assert [received.method for received in client.take()] == [m.BasicAck(1, False)]
    client.feed(publish + m.frame(2, m.ExchangeDeclare("another", "fanout", nowait=True)))
    node.quiet()
    assert client.take() == [], "it is not on disk"
    node.settle()
    assert [received.method for received in client.take()] == [m.BasicAck(2, False)]


def test_a_walk_whose_publisher_goes() -> None:
    node = SimNode()
    declare(node, "wide", 6000)
    client = Client(node).open(1)
    client.publish(b"x", exchange="wide")
    assert client.machine.channels[1].publishing.walk is not None
    client.drop()
    node.settle()
    assert client.machine.shared.cache.unfinished is None


def test_a_long_list_is_emptied_in_slices_when_nobody_else_holds_it() -> None:
    """Freed at once, 100,000 queues that are not in the processor's cache hold the event loop for 10 ms."""
    stale = StaleRoutes()
    steps: list[Callable[[], bool]] = []
    stale.in_slices = steps.append
    queue = QueueHandle()
    before = sys.getrefcount(queue)

    def held() -> int:
        return sys.getrefcount(queue) - before

    count = 3 * WIDE + 10
    route = Route()
    route.lead_to([queue] * count, [])
    walked = [queue] * count
    stale.release(walked)
    del walked
    others = route.queues  # a message is on its way to them
    stale.drop({b"": route})
    assert route.queues == []
    left = [held()]
    while not steps[0]():
        left.append(held())
    assert max(before - after for before, after in itertools.pairwise([2 * count, *left])) <= WIDE
    assert held() == len(others) == count, "they are still needed"
    stale.look_later()
    others = []
    left = [held()]
    while not steps[1]():
        left.append(held())
    assert max(before - after for before, after in itertools.pairwise([count, *left])) <= WIDE
    assert held() == 0


@pytest.mark.parametrize("ends_by", ["commit", "close"])
def test_wide_routes_of_a_transaction_leave_memory(ends_by: str) -> None:
    node = SimNode()
    declare(node, "wide", WIDE + 1)
    client = Client(node).open(1)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"x", exchange="wide")
    delete_all(node)
    if ends_by == "commit":
        client.call(m.TxCommit(), m.TxCommitOk)
    else:
        client.call(m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    node.settle()
    assert queues_in_memory(node) == 0
