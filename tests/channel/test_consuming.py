"""basic.qos, consume, get, cancel and recover, over the whole connection."""

from __future__ import annotations

import pytest

from amqp_router.channel import delivery as delivery_module
from amqp_router.channel import due as due_module
from amqp_router.connection import dispatch as dispatch_module
from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1, 2)


def deliveries(client: Client) -> list[tuple[str, int, str, bool]]:
    """Consumer tag, delivery tag, body and redelivered flag of what came; nothing else may have come."""
    client.node.quiet()
    found = []
    for _, method, _, body in client.take():
        assert isinstance(method, m.BasicDeliver), method
        found.append((method.consumer_tag, method.delivery_tag, body.decode(), bool(method.redelivered)))
    return found


def bodies(client: Client) -> list[str]:
    return [body for _, _, body, _ in deliveries(client)]


def consume(client: Client, queue: str, tag: str, *, channel: int = 1, no_ack: bool = False) -> None:
    method = m.BasicConsume(queue, tag, no_ack=no_ack, nowait=True)
    client.send(method, channel=channel)


def publish(client: Client, queue: str, *texts: str) -> None:
    for text in texts:
        client.publish(text.encode(), queue, channel=2)


# -- limits -----------------------------------------------------------------------------------------


def test_prefetch_counts_for_consumers_started_later(client: Client) -> None:
    client.declare("q")
    consume(client, "q", "all")
    client.send(m.BasicQos(0, 2))
    consume(client, "q", "two")
    client.node.quiet()
    assert client.take()[0].method == m.BasicQosOk()
    publish(client, "q", *"abcdefgh")
    found = deliveries(client)
    assert [tag for tag, _, _, _ in found].count("two") == 2
    assert len(found) == 8


def test_prefetch_of_a_channel_is_shared_by_its_queues(client: Client) -> None:
    """An acknowledgement of one queue's message makes room for another queue's."""
    client.declare("a")
    client.declare("b")
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    consume(client, "a", "a")
    consume(client, "b", "b")
    publish(client, "a", "a1")
    assert bodies(client) == ["a1"]
    publish(client, "b", "b1", "b2")
    assert bodies(client) == []
    client.send(m.BasicAck(1))
    assert bodies(client) == ["b1"]
    client.send(m.BasicReject(2, False))
    assert bodies(client) == ["b2"]


def test_no_queue_of_a_channel_takes_its_prefetch_for_itself(client: Client) -> None:
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    for queue in "abc":
        client.declare(queue)
        consume(client, queue, queue)
    for queue in "abc":
        publish(client, queue, *(f"{queue}{number}" for number in range(4)))
    got = bodies(client)
    for tag in range(1, 12):
        client.send(m.BasicAck(tag))
        got += bodies(client)
    assert len(got) == 12
    assert {body[0] for body in got[:4]} == set("abc"), got
    assert {body[0] for body in got[4:8]} == set("abc"), got


@pytest.mark.parametrize(
    "back", [m.BasicReject(1, True), m.BasicNack(0, True, True), m.BasicRecoverAsync(True)]
)
def test_returned_message_makes_room_on_the_channel(client: Client, back: m.Method) -> None:
    client.declare("a")
    client.declare("b")
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    consume(client, "a", "a")
    consume(client, "b", "b")
    publish(client, "a", "a1")
    assert bodies(client) == ["a1"]
    publish(client, "b", "b1")
    client.send(m.BasicCancel("a", True))
    client.send(back)
    assert bodies(client) == ["b1"]


def test_channel_limit_leaves_other_channels_alone(client: Client) -> None:
    client.declare("q")
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    consume(client, "q", "limited")
    consume(client, "q", "free", channel=2)
    publish(client, "q", *"abcde")
    assert [tag for tag, _, _, _ in deliveries(client)].count("limited") == 1


def test_channel_limit_set_over_what_is_out(client: Client) -> None:
    client.declare("q")
    consume(client, "q", "t")
    publish(client, "q", *"abc")
    assert len(deliveries(client)) == 3
    client.call(m.BasicQos(0, 2, True), m.BasicQosOk)
    publish(client, "q", *"de")
    assert bodies(client) == []
    client.send(m.BasicAck(1))
    assert bodies(client) == []
    client.send(m.BasicAck(2))
    assert bodies(client) == ["d"]
    client.send(m.BasicQos(0, 0, True))
    client.node.quiet()
    assert client.take()[-1].body == b"e"


def test_both_limits_hold(client: Client) -> None:
    client.declare("q")
    client.call(m.BasicQos(0, 3), m.BasicQosOk)
    client.call(m.BasicQos(0, 4, True), m.BasicQosOk)
    consume(client, "q", "s")
    consume(client, "q", "t")
    publish(client, "q", *"abcdefgh")
    tags = [tag for tag, _, _, _ in deliveries(client)]
    assert len(tags) == 4
    assert max(map(tags.count, "st")) <= 3


def test_no_ack_and_get_are_outside_of_every_limit(client: Client) -> None:
    client.declare("q")
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    publish(client, "q", *"abcdef")
    for expected in "ab":
        client.send(m.BasicGet("q"))
        client.node.quiet()
        assert client.take()[0].body == expected.encode()
    consume(client, "q", "t", no_ack=True)
    assert bodies(client) == list("cdef")


def test_prefetch_size(client: Client) -> None:
    client.send(m.BasicQos(100, 1))
    assert client.closed_with(errors.NotImplementedByServer).reply_text.endswith("prefetch_size!=0 (100)")


# -- turns ------------------------------------------------------------------------------------------


def test_consumers_take_turns(client: Client) -> None:
    client.declare("q")
    for tag in "xyz":
        consume(client, "q", tag)
    publish(client, "q", *"abcdef")
    assert [tag for tag, _, _, _ in deliveries(client)] == list("xyzxyz")


def test_consumer_that_does_not_read_is_passed_over(client: Client) -> None:
    other = Client(client.node).open(1)
    queue = client.declare("q")
    consume(client, "q", "stuck")
    consume(other, "q", "reads")
    client.reading = False
    for _ in range(8):
        other.publish(bytes(400_000), "q", channel=1)
    client.node.quiet()
    got = [received.method.consumer_tag for received in other.take()]
    assert len(got) >= 5
    assert client.machine.output.waiting_bytes() < (2 << 20)
    assert queue.message_count() == 0
    for _ in range(8):
        other.publish(bytes(400_000), "q", channel=1)
    other.send(m.BasicCancel("reads", True))
    publish(client, "q", "last")
    client.node.quiet()
    client.reading = True
    client.flush()
    client.node.quiet()
    assert client.take()[-1].body == b"last"


# -- consuming --------------------------------------------------------------------------------------


def test_consume_ok_comes_before_the_first_delivery(client: Client) -> None:
    client.declare("q")
    publish(client, "q", "early")
    client.send(m.BasicConsume("q", "t"))
    client.node.quiet()
    assert [received.method.NAME for received in client.take()] == ["basic.consume-ok", "basic.deliver"]


def test_cancel_ends_deliveries_and_leaves_what_is_out(client: Client) -> None:
    queue = client.declare("q")
    consume(client, "q", "t")
    publish(client, "q", "a")
    client.node.quiet()
    client.take()
    client.call(m.BasicCancel("t"), m.BasicCancelOk)
    client.call(m.BasicCancel("unknown"), m.BasicCancelOk)
    publish(client, "q", "b")
    assert bodies(client) == []
    assert (queue.unacked_count, queue.message_count()) == (1, 1)
    client.send(m.BasicAck(1))
    assert queue.unacked_count == 0


def test_auto_delete_queue_goes_with_its_last_consumer(client: Client) -> None:
    client.declare("q", auto_delete=True)
    consume(client, "q", "s")
    consume(client, "q", "t", channel=2)
    client.send(m.BasicCancel("s", True))
    assert "q" in client.node.vhost.queues
    client.send(m.ChannelClose(), channel=2)
    assert "q" not in client.node.vhost.queues


def test_recover_returns_all_in_order(client: Client) -> None:
    client.declare("q")
    consume(client, "q", "t")
    publish(client, "q", *"abc")
    client.node.quiet()
    client.take()
    client.send(m.BasicAck(2), m.BasicRecover(True))
    client.node.quiet()
    received = client.take()
    assert received[0].method == m.BasicRecoverOk()
    assert [(each.method.delivery_tag, each.body, each.method.redelivered) for each in received[1:]] == [
        (4, b"a", True),
        (5, b"c", True),
    ]


def test_recover_without_requeue(client: Client) -> None:
    client.send(m.BasicRecover(False))
    assert client.closed_with(errors.NotImplementedByServer).reply_text.endswith("requeue=false")


def test_get_counts_what_is_left(client: Client) -> None:
    client.declare("q", durable=True)
    for text in "abc":
        client.publish(text.encode(), "q", properties=PERSISTENT, channel=2)
    for left in (2, 1, 0):
        got = client.call(m.BasicGet("q", no_ack=left == 1), m.BasicGetOk)
        assert got == m.BasicGetOk(3 - left, False, "", "q", left)
    client.call(m.BasicGet("q"), m.BasicGetEmpty)
    client.send(m.BasicAck(2))
    client.closed_with(errors.PreconditionFailed)


def test_empty_queue_name_is_the_last_declared(client: Client) -> None:
    client.declare("q")
    publish(client, "q", "x")
    assert client.call(m.BasicGet(""), m.BasicGetOk).routing_key == "q"
    client.send(m.BasicConsume("", "t"), channel=2)
    close = client.closed_with(errors.NotFound)
    assert close.reply_text == "NOT_FOUND - no previously declared queue"


def test_consumer_tag_in_use(client: Client) -> None:
    client.declare("q")
    consume(client, "q", "t")
    consume(client, "q", "t", channel=2)
    client.send(m.BasicConsume("q", "t"))
    close = client.closed_with(errors.NotAllowed)
    assert close.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 't'"


def test_exclusive_consumer(client: Client) -> None:
    client.declare("q")
    client.call(m.BasicConsume("q", "t", exclusive=True), m.BasicConsumeOk)
    client.send(m.BasicConsume("q", "u"), channel=2)
    close = client.closed_with(errors.AccessRefused)
    assert close.reply_text == "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"


@pytest.mark.parametrize("notify", [True, False])
def test_consumer_of_a_deleted_queue_hears_of_it_if_it_can(notify: bool) -> None:
    node = SimNode()
    client, other = Client(node, capabilities=notify).open(1), Client(node).open(1)
    other.declare("q")
    consume(client, "q", "t")
    other.call(m.QueueDelete("q"), m.QueueDeleteOk)
    node.quiet()
    assert [received.method for received in client.take()] == ([m.BasicCancel("t", True)] if notify else [])
    assert not client.machine.channels[1].consumers


def test_a_declare_waits_for_what_consumers_take_from_disk() -> None:
    """Each message counts as one, however much there is to read."""
    client = Client(SimNode(memory_bytes=0)).open(1)
    client.declare("q")
    for _ in range(20):
        client.publish(b"x" * 60_000, "q", properties=PERSISTENT)
    client.node.settle()
    client.take()
    client.send(m.BasicConsume("q", "all", no_ack=True), m.QueueDeclare("q", passive=True))
    client.node.settle()
    found = [each.method for each in client.take() if isinstance(each.method, m.QueueDeclareOk)]
    assert found == [m.QueueDeclareOk("q", 0, 1)]


def test_others_see_a_return_in_slices_as_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest offset comes back last, and is delivered first."""
    monkeypatch.setattr(delivery_module, "RETURN_SLICE", 2)
    monkeypatch.setattr(dispatch_module, "RELEASE_SLICE", 2)
    node = SimNode()
    first, second = Client(node).open(1, 2), Client(node).open(1)
    first.declare("q", channel=2)
    first.send(m.BasicQos(0, 4))
    consume(first, "q", "first")
    publish(first, "q", *"01234567")
    node.quiet()
    first.send(m.BasicReject(1, True))
    node.quiet()
    assert [each.body for each in first.take()][-1] == b"0"
    consume(second, "q", "second")
    assert bodies(second) == list("4567")
    first.send(m.ChannelClose())
    assert bodies(second) == list("0123")


# -- very many consumers ----------------------------------------------------------------------------


def test_what_is_due_is_looked_for_in_slices(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_module, "LOOK_SLICE", 3)
    looks = []
    look = due_module.Due._look

    def counted(due: due_module.Due) -> bool:
        before = len(due._owners)
        done = look(due)
        looks.append(before - len(due._owners))
        return done

    monkeypatch.setattr(due_module.Due, "_look", counted)
    for number in range(10):
        client.declare(f"q{number}")
        consume(client, f"q{number}", f"c{number}")
    client.node.quiet()
    frames: list[bytes] = []
    for number in range(10):
        frames += publish_frames(1, m.BasicPublish("", f"q{number}"), TRANSIENT, b"%d" % number)
    client.feed(b"".join(frames) + m.frame(1, m.BasicQos(0, 5, True)))
    client.node.quiet()
    names = [type(received.method).__name__ for received in client.take()]
    assert names == ["BasicDeliver"] * 10 + ["BasicQosOk"], "what was due came before the limit"
    assert looks == [3, 3, 3, 1]
