"""One consumer that an operator closes: its messages go back, its client and its channel go on."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router.channel import closing
from amqp_router.channel import tags as tags_module
from amqp_router.channel.closing import NotCancellable, close_consumer
from amqp_router.protocol import methods as m
from tests.channel.test_ack_watch import typed
from tests.nodes import Client, SimNode


@pytest.fixture
def node() -> SimNode:
    return SimNode()


@pytest.fixture
def client(node: SimNode) -> Client:
    return Client(node).open(1, 2)


def consume(client: Client, tag: str, *, channel: int = 1, **options: Any) -> None:
    client.call(m.BasicConsume("q", tag, **options), m.BasicConsumeOk, channel=channel)


def fill(client: Client, count: int) -> list[Any]:
    """Publish ``count`` messages; what came to the client meanwhile."""
    for number in range(count):
        client.publish(b"%d" % number, "q")
    return came(client)


def came(client: Client) -> list[Any]:
    client.node.quiet()
    return client.take()


def close(client: Client, tag: str, channel: int = 1) -> list[int]:
    """Close a consumer; how many went back, once it is done."""
    told: list[int] = []
    on = client.machine.channels[channel]
    client.node.enter(lambda: close_consumer(on, on.consumers[tag], told.append))
    return told


def bodies(received: list[Any]) -> list[bytes]:
    return [each.body for each in received if isinstance(each.method, m.BasicDeliver)]


def test_messages_go_back_in_order_and_late_acknowledgements_are_taken(node: SimNode, client: Client) -> None:
    queue = client.declare("q")
    consume(client, "slow")
    assert len(fill(client, 5)) == 5
    client.send(m.BasicAck(2))
    told = close(client, "slow")
    (cancel,) = [each.method for each in came(client)]
    assert cancel == m.BasicCancel("slow", True)
    assert told == [4]
    assert (queue.message_count(), queue.unacked_count, queue.consumer_count()) == (4, 0, 0)
    # Its client has them in hand, and says so: nothing happens, and the channel stays open.
    client.send(m.BasicAck(1), m.BasicReject(3, True), m.BasicNack(5, True, True))
    assert came(client) == []
    assert (queue.message_count(), queue.ack_total) == (4, 1)
    client.send(m.BasicConsume("q", "slow"))
    received = came(client)
    assert bodies(received) == [b"0", b"2", b"3", b"4"]
    assert all(each.method.redelivered for each in received[1:])
    client.send(m.BasicAck(0, True))
    assert came(client) == []
    assert (queue.unacked_count, client.machine.channels[1].delivery.outstanding) == (0, 0)
    assert node.faults == []


def test_another_consumer_gets_what_went_back(node: SimNode, client: Client) -> None:
    client.declare("q")
    consume(client, "slow")
    fill(client, 3)
    client.send(m.BasicConsume("q", "quick"), channel=2)
    came(client)
    fill(client, 1)
    assert close(client, "slow") in ([3], [4])
    received = came(client)
    assert bodies(received)[:3] == [b"0", b"1", b"2"]
    assert {each.channel for each in received if isinstance(each.method, m.BasicDeliver)} == {2}


def test_a_single_active_consumer_hands_over(node: SimNode, client: Client) -> None:
    client.declare("q", arguments=typed({"x-single-active-consumer": True}))
    consume(client, "first")
    consume(client, "second", channel=2)
    assert len(fill(client, 2)) == 2
    assert close(client, "first") == [2]
    received = came(client)
    assert [each.channel for each in received] == [1, 2, 2]
    assert bodies(received) == [b"0", b"1"]


@pytest.mark.parametrize("places", [64, 65536])
def test_many_go_back_in_slices_before_later_frames(
    node: SimNode, client: Client, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    """Also those that stand in blocks behind the ring, and between those of another consumer."""
    monkeypatch.setattr(tags_module, "RING_PLACES_MAX", places)
    monkeypatch.setattr(tags_module, "BLOCK_TAGS", places // 4 if places < 100 else tags_module.BLOCK_TAGS)
    monkeypatch.setattr(closing, "RETURN_SLICE", 10)
    monkeypatch.setattr(closing, "LOOK_SLICE", 32)
    queue = client.declare("q")
    consume(client, "slow")
    consume(client, "quick")
    fill(client, 300)
    on = client.machine.channels[1]
    held = {tag: consumer.unacked for tag, consumer in on.consumers.items()}
    told = close(client, "slow")
    assert (told, len(node.ready) > 0) == ([], True)
    client.send(m.BasicNack(0, True, True))  # it must not overtake what goes back
    received = came(client)
    assert told == [held["slow"]]
    # The nack has returned everything, also what had come to the other consumer in between.
    assert bodies(received)[-300:] == [b"%d" % number for number in range(300)]
    assert (queue.message_count(), queue.unacked_count) == (0, 300)
    client.send(m.BasicAck(0, True))
    assert came(client) == []
    assert (queue.unacked_count, on.delivery.outstanding) == (0, 0)
    assert node.faults == []


def test_what_a_transaction_has_acknowledged_stays_acknowledged(node: SimNode, client: Client) -> None:
    queue = client.declare("q")
    fill(client, 3)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.send(m.BasicConsume("q", "c"))
    came(client)
    client.send(m.BasicAck(2))
    assert close(client, "c") == [2]
    came(client)
    assert (queue.message_count(), queue.unacked_count) == (2, 1)
    client.call(m.TxCommit(), m.TxCommitOk)
    assert (queue.message_count(), queue.unacked_count, queue.ack_total) == (2, 0, 1)


def test_a_limit_of_the_whole_channel_has_room_again(node: SimNode, client: Client) -> None:
    client.declare("q")
    client.declare("other")
    client.call(m.BasicQos(0, 3, True), m.BasicQosOk)
    consume(client, "slow")
    client.call(m.BasicConsume("other", "waits"), m.BasicConsumeOk)
    fill(client, 3)
    client.publish(b"now", "other")
    assert bodies(came(client)) == []
    assert close(client, "slow") == [3]
    assert bodies(came(client)) == [b"now"]


def test_with_its_last_consumer_a_queue_may_go(node: SimNode, client: Client) -> None:
    client.declare("q", auto_delete=True)
    consume(client, "c")
    fill(client, 2)
    assert close(client, "c") == [2]
    assert [each.method for each in came(client)] == [m.BasicCancel("c", True)]
    assert "q" not in node.vhost.queues
    client.send(m.BasicAck(0, True))
    assert came(client) == []
    assert node.faults == []


def test_a_connection_that_ends_in_between(
    node: SimNode, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "RETURN_SLICE", 10)
    queue = client.declare("q")
    consume(client, "c")
    fill(client, 100)
    told = close(client, "c")
    client.drop()
    node.quiet()
    assert told == [100]
    assert (queue.message_count(), queue.unacked_count, queue.is_returning()) == (100, 0, False)
    assert node.faults == []


def test_a_client_that_would_not_hear_of_it(node: SimNode) -> None:
    client = Client(node, capabilities=False).open(1)
    queue = client.declare("q")
    consume(client, "c")
    with pytest.raises(NotCancellable):
        close(client, "c")
    assert queue.consumer_count() == 1


def test_one_that_has_ended_meanwhile(node: SimNode, client: Client) -> None:
    client.declare("q")
    consume(client, "c")
    on = client.machine.channels[1]
    consumer = on.consumers["c"]
    client.call(m.BasicCancel("c"), m.BasicCancelOk)
    told: list[int] = []
    node.enter(lambda: close_consumer(on, consumer, told.append))
    assert told == [-1]
    assert came(client) == []
