"""basic.get, queue.declare, purge and delete of queues that answer later, or not at all.

``test_late_consumers`` has basic.consume and cancel.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqp_router import queue_maker
from amqp_router.channel.asking import ANSWER_S
from amqp_router.connection.parking import PARKED_BYTES_MAX
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import NotFound, PreconditionFailed
from amqp_router.protocol.flags import REDELIVERED
from tests.channel.asking import House
from tests.nodes import TRANSIENT, publish_frames
from tests.toys.late_queue import LateQueue


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)


@pytest.fixture(params=[False, True], ids=["transient", "durable"])
def durable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_frames_of_the_channel_wait_and_others_go_on(durable: bool) -> None:
    house = House(durable=durable)
    client = house.client
    client.send(m.BasicGet("q"), m.BasicQos(0, 2), m.BasicGet("q"))
    client.publish(b"x", "r")
    client.send(m.BasicQos(0, 3))
    client.send(m.BasicQos(0, 1), channel=2)
    client.publish(b"y", "r", channel=2)
    assert house.heard() == [(2, "BasicQosOk")]
    assert house.node.queue("r").message_count() == 1
    house.arrive()
    assert house.heard() == [(1, "BasicGetOk"), (1, "BasicQosOk")]
    assert house.node.queue("r").message_count() == 1
    house.arrive()
    assert house.heard() == [(1, "BasicGetOk"), (1, "BasicQosOk")]
    assert house.node.queue("r").message_count() == 2
    assert house.client.machine.dispatch.parking.size == 0
    assert not house.node.faults


def test_answers_in_another_order(durable: bool) -> None:
    house = House(durable=durable)
    house.client.send(m.BasicGet("q", no_ack=True))
    house.client.send(m.QueuePurge("q"), channel=2)
    house.queue.questions[0].act()
    house.arrive(1)
    assert [each.method for each in house.client.take()] == [m.QueuePurgeOk(2)]
    house.arrive()
    (got,) = house.client.take()
    assert (got.channel, got.method, got.body) == (1, m.BasicGetOk(1, False, "", "q", 2), b"0")
    assert (house.queue.message_count(), house.queue.unacked_count) == (0, 0)


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("has_acted", [False, True])
@pytest.mark.parametrize("end", ["drop", "error", "late"])
def test_what_comes_too_late_goes_back_as_it_was(
    durable: bool, end: str, has_acted: bool, no_ack: bool
) -> None:
    house = House(durable=durable)
    house.client.send(m.BasicGet("q", no_ack=no_ack))
    if has_acted:
        house.queue.questions[0].act()
    if end == "drop":
        house.client.drop()
    elif end == "error":
        channel = house.client.machine.channels[1]
        house.node.enter(house.client.machine.shared.close_channel, channel, PreconditionFailed("x"))
    else:
        house.node.sleep(ANSWER_S + 1)
        house.client.closed_with(NotFound)
    house.node.settle()
    house.arrive()
    back = [house.queue.take(False) for _ in range(3)]
    assert [each.body() for each in back] == [b"0", b"1", b"2"]
    assert not any(each.flags & REDELIVERED or each.delivery_count for each in back)
    assert not house.node.faults


def test_no_answer_in_time() -> None:
    house = House()
    client = house.client
    client.send(m.BasicGet("q"))
    client.publish(b"x", "r")
    house.node.sleep(ANSWER_S - 1)
    assert house.heard() == []
    house.node.sleep(2)
    method = client.closed_with(NotFound)
    assert (method.class_id, method.method_id) == (60, 70)
    assert method.reply_text == "NOT_FOUND - queue 'q' in vhost '/' does not answer"
    assert house.node.queue("r").message_count() == 0  # the channel was closed before it
    client.send(m.ChannelCloseOk(), m.ChannelOpen())
    assert house.heard() == [(1, "ChannelOpenOk")]


def test_an_answer_in_time_stops_the_clock() -> None:
    house = House()
    house.client.send(m.BasicGet("q"))
    house.arrive()
    house.node.sleep(2 * ANSWER_S)
    assert house.heard() == [(1, "BasicGetOk")]


@pytest.mark.parametrize("passive", [False, True])
def test_declare_ok_has_the_numbers_of_the_leader(durable: bool, passive: bool) -> None:
    house = House(durable=durable)
    client = house.client
    client.send(m.QueueDeclare("q", passive=passive, durable=durable), m.BasicQos(0, 1))
    house.consume("c", "r", 2)
    client.publish(b"x", "q", channel=2)
    assert house.heard() == []
    assert house.node.queue("q").message_count() == 4
    house.queue.questions[0].act()
    client.publish(b"y", "q", channel=2)  # after the leader has counted
    house.arrive()
    assert [each.method for each in client.take()] == [m.QueueDeclareOk("q", 4, 0), m.BasicQosOk()]
    client.send(m.BasicGet(""))  # the last queue that was declared here
    house.arrive()
    assert house.heard() == [(1, "BasicGetOk")]


def test_a_first_declare_waits_for_the_numbers_and_for_the_store() -> None:
    house = House()
    client = house.client
    client.send(m.QueueDeclare("new", durable=True), m.BasicQos(0, 1))
    house.node.quiet()
    assert house.node.definitions.pending
    found = house.node.vhost.queues["new"]
    assert isinstance(found, LateQueue)
    house.node.enter(found.questions.pop().arrive)
    house.node.quiet()
    assert client.take() == []  # qos-ok stands behind declare-ok, which waits for the store
    assert house.heard() == [(1, "QueueDeclareOk"), (1, "BasicQosOk")]


def test_declare_without_an_answer_asks_nothing() -> None:
    house = House()
    house.client.send(m.QueueDeclare("q", nowait=True), m.BasicQos(0, 1))
    assert house.heard() == [(1, "BasicQosOk")]
    assert house.queue.questions == []


def test_numbers_of_a_queue_that_does_not_answer() -> None:
    house = House()
    house.client.send(m.QueueDeclare("q", passive=True))
    house.node.sleep(ANSWER_S + 1)
    told = house.client.closed_with(NotFound)
    assert (told.class_id, told.method_id) == (50, 10)
    assert told.reply_text == "NOT_FOUND - queue 'q' in vhost '/' does not answer"
    house.arrive()  # nobody waits for it
    assert house.heard() == []


@pytest.mark.parametrize(
    "method", [m.BasicGet("q"), m.QueueDeclare("q"), m.QueuePurge("q"), m.QueueDelete("q")]
)
def test_unavailable(method: m.Method) -> None:
    house = House()
    client = house.client
    client.send(method)
    client.publish(b"x", "r")
    house.node.enter(house.queue.lose)
    told = client.closed_with(NotFound)
    assert (told.class_id, told.method_id) == (method.CLASS_ID, method.METHOD_ID)
    client.send(m.BasicQos(0, 1), channel=2)
    assert house.heard() == [(2, "BasicQosOk")]


def test_closing_the_channel_waits_for_the_answer(durable: bool) -> None:
    house = House(durable=durable)
    house.client.send(m.BasicGet("q"), m.ChannelClose(200, "", 0, 0), m.ChannelOpen(), m.BasicQos(0, 1))
    assert house.heard() == []
    house.arrive()
    heard = [name for _, name in house.heard()]
    assert heard == ["BasicGetOk", "ChannelCloseOk", "ChannelOpenOk", "BasicQosOk"]
    assert (house.queue.message_count(), house.queue.unacked_count) == (3, 0)


def test_closing_the_connection_waits_for_what_was_sent_before(durable: bool) -> None:
    house = House(durable=durable)
    house.client.send(m.QueuePurge("q"))
    house.client.publish(b"x", "r")
    house.client.send(m.ConnectionClose(200, "", 0, 0), channel=0)
    assert house.heard() == []
    assert not house.node.ready  # it does not ask again and again
    house.arrive()
    assert [name for _, name in house.heard()] == ["QueuePurgeOk", "ConnectionCloseOk"]
    assert house.node.queue("r").message_count() == 1


def test_what_waits_is_bounded_and_counted() -> None:
    house = House()
    client, machine = house.client, house.client.machine
    client.send(m.BasicGet("q"))
    body = b"x" * 1000
    count = 2 * PARKED_BYTES_MAX // len(body)
    frames = b"".join(publish_frames(1, m.BasicPublish("", "r"), TRANSIENT, body)) * count
    client.feed(frames)
    house.node.quiet()
    assert PARKED_BYTES_MAX < machine.dispatch.parking.size < PARKED_BYTES_MAX + 2000
    assert machine.held_bytes() >= len(frames)
    assert machine.work_left
    assert not house.node.ready
    client.feed(m.frame(2, m.BasicQos(0, 1)))
    assert house.heard() == []  # the connection as a whole waits
    house.arrive()
    assert house.heard() == [(1, "BasicGetOk"), (2, "BasicQosOk")]
    assert house.node.queue("r").message_count() == count
    assert machine.dispatch.parking.size == 0
    assert not machine.work_left


def test_a_publish_of_another_channel_that_was_cut_when_the_answer_came() -> None:
    house = House()
    client = house.client
    client.send(m.BasicGet("q"))
    client.publish(b"behind", "r")
    whole = b"".join(publish_frames(2, m.BasicPublish("", "r"), TRANSIENT, b"y" * 2000))
    client.feed(whole[:500])
    house.arrive()
    assert house.heard() == [(1, "BasicGetOk")]
    client.feed(whole[500:])
    house.node.settle()
    assert [house.node.queue("r").take(True).body() for _ in range(2)] == [b"behind", b"y" * 2000]


def test_an_answer_within_the_call_of_another_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    client = house.client
    client.send(m.BasicGet("q"))
    client.publish(b"x", "r")
    question = house.queue.questions.pop()
    purge = LateQueue.purge

    def purge_and_answer(self: LateQueue, asker: Any) -> None:
        question.arrive()
        purge(self, asker)

    monkeypatch.setattr(LateQueue, "purge", purge_and_answer)
    client.send(m.QueuePurge("q"), channel=2)
    assert house.heard() == [(1, "BasicGetOk")]
    assert house.node.queue("r").message_count() == 1
    house.arrive()
    assert house.heard() == [(2, "QueuePurgeOk")]


def test_consumers_hear_of_the_end_behind_the_reply() -> None:
    house = House(count=0)
    client = house.client
    house.consume("a")
    house.consume("b", channel=2)
    client.send(m.QueueDelete("q"), m.BasicQos(0, 1))
    question = house.queue.questions.pop()
    house.node.enter(question.act)
    assert house.heard() == []
    house.node.enter(question.arrive)
    heard = house.heard()
    assert heard[0] == (1, "QueueDeleteOk")
    assert sorted(heard[1:]) == [(1, "BasicCancel"), (1, "BasicQosOk"), (2, "BasicCancel")]
    assert client.machine.shared.held_cancels == {}


def test_two_channels_delete_it() -> None:
    house = House()
    for channel in (1, 2):
        house.client.send(m.QueueDelete("q"), channel=channel)
    queue = house.queue
    for question in reversed(queue.questions):
        house.node.enter(question.arrive)
    assert house.heard() == [(2, "QueueDeleteOk"), (1, "QueueDeleteOk")]
    assert house.client.machine.shared.held_cancels == {}


def test_a_condition_that_the_leader_refuses() -> None:
    house = House()
    house.client.send(m.QueueDelete("q", if_empty=True))
    house.arrive()
    told = house.client.closed_with(PreconditionFailed)
    assert (told.class_id, told.method_id) == (50, 40)
