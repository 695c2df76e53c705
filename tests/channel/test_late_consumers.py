"""basic.consume and cancel of queues that answer later, or not at all."""

from __future__ import annotations

import pytest

from amqp_router import queue_maker
from amqp_router.channel.asking import ANSWER_S
from amqp_router.channel.closing import close_consumer
from amqp_router.connection.parking import PARKED_BYTES_MAX
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import AccessRefused, NotFound, PreconditionFailed
from amqp_router.protocol.flags import REDELIVERED
from tests.channel.asking import House
from tests.nodes import TRANSIENT, Client, publish_frames
from tests.toys.late_queue import LateQueue


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)


@pytest.fixture(params=[False, True], ids=["transient", "durable"])
def house(request: pytest.FixtureRequest) -> House:
    return House(durable=bool(request.param))


def end(house: House, how: str) -> None:
    """The channel that waits ends."""
    if how == "drop":
        house.client.drop()
    elif how == "error":
        channel = house.client.machine.channels[1]
        house.node.enter(house.client.machine.shared.close_channel, channel, PreconditionFailed("x"))
    else:
        house.node.sleep(ANSWER_S + 1)
        house.client.closed_with(NotFound)
    house.node.settle()


def nothing_has_left(house: House) -> None:
    """The queue has no consumer, and its messages as if nobody had been sent one."""
    queue = house.queue
    assert (list(queue.consumers), queue.links, queue.unacked_count) == ([], {}, 0)
    back = [queue.take(False) for _ in range(3)]
    assert [each.body() for each in back] == [b"0", b"1", b"2"]
    assert not any(each.flags & REDELIVERED or each.delivery_count for each in back)
    assert not house.node.faults


@pytest.mark.parametrize("has_acted", [False, True])
@pytest.mark.parametrize("no_ack", [False, True])
def test_consume_ok_comes_before_the_first_delivery(house: House, no_ack: bool, has_acted: bool) -> None:
    client = house.client
    client.send(m.BasicConsume("q", "c", no_ack=no_ack), m.BasicQos(0, 2))
    client.send(m.BasicQos(0, 1), channel=2)
    if has_acted:
        house.node.enter(house.queue.questions[0].act)
    assert house.heard() == [(2, "BasicQosOk")]
    assert house.queue.unacked_count == has_acted  # on its way
    house.arrive()
    heard = [name for _, name in house.heard()]
    assert heard[0] == "BasicConsumeOk"
    assert sorted(heard[1:]) == ["BasicDeliver"] * 3 + ["BasicQosOk"]
    client.publish(b"x", "q", channel=2)
    assert house.heard() == [(1, "BasicDeliver")]
    assert house.queue.unacked_count == (0 if no_ack else 4)
    assert not house.node.faults


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("has_acted", [False, True])
@pytest.mark.parametrize("how", ["drop", "error", "late"])
def test_a_consumer_that_is_answered_too_late_is_removed(
    house: House, how: str, has_acted: bool, no_ack: bool
) -> None:
    house.client.send(m.BasicConsume("q", "c", no_ack=no_ack))
    if has_acted:
        house.node.enter(house.queue.questions[0].act)
        assert house.queue.unacked_count == 1
    end(house, how)
    house.arrive()
    nothing_has_left(house)


def test_an_auto_delete_queue_goes_with_a_consumer_that_is_answered_too_late() -> None:
    house = House()
    house.client.send(m.QueueDeclare("a", auto_delete=True, nowait=True), m.BasicConsume("a", "c"))
    queue = house.node.vhost.queues["a"]
    (question,) = queue.questions
    house.client.drop()
    house.node.settle()
    assert not queue.deleted
    house.node.enter(question.arrive)
    assert queue.deleted
    assert not house.node.faults


@pytest.mark.parametrize("method", [m.BasicConsume("q", "c"), m.BasicCancel("c")])
def test_no_answer_in_time(house: House, method: m.Method) -> None:
    if isinstance(method, m.BasicCancel):
        house.node.queue("q").empty()
        house.consume("c")
    house.client.send(method, m.BasicQos(0, 1))
    house.node.sleep(ANSWER_S - 1)
    assert house.heard() == []
    house.node.sleep(2)
    told = house.client.closed_with(NotFound)
    assert (told.class_id, told.method_id) == (method.CLASS_ID, method.METHOD_ID)
    assert told.reply_text == "NOT_FOUND - queue 'q' in vhost '/' does not answer"
    house.arrive()  # nobody waits for it
    assert house.heard() == []
    assert not house.queue.consumers
    house.client.send(m.ChannelCloseOk(), m.ChannelOpen())
    assert house.heard() == [(1, "ChannelOpenOk")]


def test_the_leader_refuses() -> None:
    house = House(count=0)
    house.consume("a", channel=2)
    house.client.send(m.BasicConsume("q", "b", exclusive=True))
    house.arrive()
    told = house.client.closed_with(AccessRefused)
    assert (told.class_id, told.method_id) == (60, 20)
    assert list(house.queue.links) == [house.client.machine.channels[2].consumers["a"]]


def test_a_queue_that_is_not_there() -> None:
    house = House(count=0)
    house.consume("a")
    house.client.send(m.BasicConsume("q", "b"), channel=2)
    house.client.send(m.BasicCancel("a"), m.BasicQos(0, 1))
    house.node.enter(house.queue.lose)
    heard = house.heard()
    # As in RabbitMQ, a consumer of a queue that is not there has ended.
    assert [name for channel, name in heard if channel == 1] == ["BasicCancelOk", "BasicQosOk"]
    assert [name for channel, name in heard if channel == 2] == ["ChannelClose"]
    assert not house.queue.consumers


@pytest.mark.parametrize("has_acted", [False, True])
@pytest.mark.parametrize("no_ack", [False, True])
def test_cancel_ok_comes_behind_the_last_delivery(house: House, no_ack: bool, has_acted: bool) -> None:
    client = house.client
    house.consume("c", no_ack=no_ack)
    client.send(m.BasicCancel("c"), m.BasicConsume("r", "c"))
    client.publish(b"x", "q", channel=2)
    client.publish(b"y", "q", channel=2)
    assert house.heard() == []
    if has_acted:
        house.node.enter(house.queue.questions[0].act)
        assert not house.queue.consumers
    house.arrive()
    assert house.heard() == [(1, "BasicDeliver"), (1, "BasicCancelOk")]
    assert (house.queue.message_count(), house.queue.unacked_count) == (1, 0 if no_ack else 4)
    # The same tag again, which waited.
    house.node.enter(house.node.vhost.queues["r"].questions.pop().arrive)
    assert house.heard() == [(1, "BasicConsumeOk")]
    assert not house.node.faults


@pytest.mark.parametrize("has_acted", [False, True])
@pytest.mark.parametrize("how", ["drop", "error", "late"])
def test_what_is_on_its_way_to_a_consumer_that_ends_goes_back(how: str, has_acted: bool) -> None:
    house = House(count=0)
    house.consume("c")
    house.client.send(m.BasicCancel("c"))
    for number in range(3):
        house.client.publish(b"%d" % number, "q", channel=2)
    house.node.settle()
    assert house.queue.unacked_count == 1
    if has_acted:
        house.node.enter(house.queue.questions[0].act)
    end(house, how)
    house.arrive()
    nothing_has_left(house)


def test_the_queue_is_deleted_before_the_answer() -> None:
    house = House(count=0)
    queue = house.queue
    house.client.send(m.BasicConsume("q", "c"), m.BasicQos(0, 1))
    house.node.enter(queue.questions[0].act)
    house.node.vhost.delete_queue("q")
    assert house.heard() == []
    house.node.enter(queue.questions.pop().arrive)
    assert [name for _, name in house.heard()] == ["BasicConsumeOk", "BasicCancel", "BasicQosOk"]
    assert house.client.machine.channels[1].consumers == {}
    assert not house.node.faults


def test_the_queue_of_a_consumer_that_ends_is_deleted() -> None:
    house = House(count=0)
    house.consume("c")
    queue = house.queue
    house.client.send(m.BasicCancel("c"))
    house.node.vhost.delete_queue("q")
    house.node.enter(queue.questions.pop().arrive)
    assert house.heard() == [(1, "BasicCancelOk")]
    assert not house.node.faults


def test_without_answers_to_the_client() -> None:
    house = House(count=1)
    house.client.send(
        m.BasicConsume("q", "c", nowait=True), m.BasicCancel("c", nowait=True), m.BasicQos(0, 1)
    )
    assert house.heard() == []
    house.arrive()
    house.arrive()
    assert house.heard() == [(1, "BasicDeliver"), (1, "BasicQosOk")]


@pytest.mark.parametrize("is_end", [False, True])
def test_what_waits_is_bounded_and_counted(is_end: bool) -> None:
    house = House(count=0)
    client, machine = house.client, house.client.machine
    if is_end:
        house.consume("c")
    client.send(m.BasicCancel("c") if is_end else m.BasicConsume("q", "c"))
    count = 2 * PARKED_BYTES_MAX // 1000
    frames = b"".join(publish_frames(1, m.BasicPublish("", "r"), TRANSIENT, b"x" * 1000)) * count
    client.feed(frames)
    house.node.quiet()
    assert PARKED_BYTES_MAX < machine.dispatch.parking.size < PARKED_BYTES_MAX + 2000
    assert machine.held_bytes() >= len(frames)
    house.arrive()
    assert house.heard() == [(1, "BasicCancelOk" if is_end else "BasicConsumeOk")]
    assert house.node.queue("r").message_count() == count
    assert machine.dispatch.parking.size == 0


def test_the_output_is_the_one_of_the_moment() -> None:
    house = House(count=0)
    client, node = house.client, house.node
    client.send(m.QueueDeclare("new", durable=True), m.BasicConsume("q", "c"))
    node.enter(node.vhost.queues["new"].questions.pop().arrive)
    node.quiet()
    assert client.machine.detached  # the reply waits for the store
    assert house.heard() == [(1, "QueueDeclareOk")]
    house.arrive()
    assert client.machine.channels[1].consumers["c"].output is client.machine.output


# -- consumers that operators close --------------------------------------------------------------------


def close(client: Client) -> list[int]:
    told: list[int] = []
    channel = client.machine.channels[1]
    client.node.enter(lambda: close_consumer(channel, channel.consumers["c"], told.append))
    client.node.settle()
    return told


def test_an_operator_closes_a_consumer(house: House) -> None:
    house.consume("c")
    told = close(house.client)
    house.client.send(m.BasicQos(0, 1), m.BasicCancel("c"))
    assert [name for _, name in house.heard()] == ["BasicQosOk", "BasicCancelOk"]
    assert told == []
    house.arrive()
    assert [each.method for each in house.client.take()] == [m.BasicCancel("c", True)]
    assert told == [3]
    assert not house.queue.is_returning()
    assert [house.queue.take(False).body() for _ in range(3)] == [b"0", b"1", b"2"]
    house.node.sleep(2 * ANSWER_S)
    assert (house.heard(), told) == ([], [3])


@pytest.mark.parametrize("how", ["drop", "late"])
def test_the_channel_of_a_consumer_that_an_operator_closes_ends(house: House, how: str) -> None:
    house.consume("c")
    told = close(house.client)
    end(house, how)
    if how == "drop":
        house.arrive()
    assert told == [-1]
    assert (house.queue.message_count(), house.queue.unacked_count) == (3, 0)
    assert not house.queue.is_returning()
    if how == "late":
        house.arrive()
    assert (house.queue.links, told) == ({}, [-1])
    assert not house.node.faults
