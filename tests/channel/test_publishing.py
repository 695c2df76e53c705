"""Publishing: runs that wait for logs, confirms, returns, checks of properties, and the removal of BCC."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from amqp_router.connection.ports import ConnectionOptions
from amqp_router.metrics import EXCHANGE_COLUMNS
from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.properties import decode_properties, encode_properties
from tests.nodes import PERSISTENT, TRANSIENT, Client, Received, SimNode, publish_frames
from vhosts.counters import RECENT_UNROUTABLE_MAX
from vhosts.publishing.checks import DIRECT_REPLY


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1, 2)


def answers(client: Client, channel: int = 1) -> list[tuple[str, int, bool]]:
    """Confirms that came; nothing else may have come."""
    client.node.quiet()
    return [answer(received) for received in client.take() if received.channel == channel]


def answer(received: Received) -> tuple[str, int, bool]:
    method = received.method
    assert isinstance(method, (m.BasicAck, m.BasicNack)), method
    return method.NAME[6:], method.delivery_tag, bool(method.multiple)


def batch(*publishes: tuple[str, bytes], channel: int = 1) -> bytes:
    """Publishes to queues, each with its properties, in one chunk."""
    return b"".join(
        frame
        for key, properties in publishes
        for frame in publish_frames(channel, m.BasicPublish("", key), properties, b"body")
    )


# -- confirms and the log ---------------------------------------------------------------------------


def test_transient_is_confirmed_at_the_end_of_the_tick(client: Client) -> None:
    client.declare("q")
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("q", TRANSIENT), ("q", PERSISTENT), ("d", TRANSIENT), ("nowhere", PERSISTENT)))
    assert answers(client) == [("ack", 4, True)]


def test_persistent_is_confirmed_after_its_sync(client: Client) -> None:
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT), ("d", PERSISTENT)))
    assert answers(client) == []
    client.node.worker.run_one()
    assert answers(client) == []
    client.feed(batch(("d", PERSISTENT)))
    client.node.hear()
    assert answers(client) == [("ack", 2, True)]
    client.node.settle()
    assert answers(client) == [("ack", 3, False)]


def test_confirm_waits_for_the_definition_of_its_queue(client: Client) -> None:
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.send(m.QueueDeclare("d", durable=True), channel=2)
    client.feed(batch(("d", PERSISTENT)))
    client.node.sync_once()
    assert answers(client) == []
    client.node.commit()
    client.node.quiet()
    received = client.take()
    assert {each.method.NAME for each in received} == {"basic.ack", "queue.declare-ok"}


def test_nothing_waits_for_another_queue_s_sync(client: Client) -> None:
    client.declare("d", durable=True)
    client.declare("q")
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT), ("q", TRANSIENT), ("d", PERSISTENT), ("q", TRANSIENT)))
    assert answers(client) == [("ack", 2, False), ("ack", 4, False)]
    client.node.settle()
    assert answers(client) == [("ack", 3, True)]


def test_confirm_of_several_logs_waits_for_all(client: Client) -> None:
    for name in "de":
        client.declare(name, durable=True)
        client.send(m.QueueBind(name, "amq.fanout"))
        client.node.settle()
        client.take()
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    # A round is under way for the one log when the other becomes dirty.
    client.feed(batch(("d", PERSISTENT)))
    client.publish(b"both", exchange="amq.fanout", properties=PERSISTENT)
    client.node.worker.run_one()
    client.node.hear()
    assert answers(client) == [("ack", 1, False)]
    client.node.settle()
    assert answers(client) == [("ack", 2, False)]


def test_consecutive_publishes_of_a_route_are_one_run(client: Client) -> None:
    queue = client.declare("d", durable=True)
    other = client.declare("e", durable=True)
    client.feed(batch(*[("d", PERSISTENT)] * 5, *[("e", PERSISTENT)] * 2, ("d", PERSISTENT)))
    runs = [run for _, run in queue.receipts.runs]
    assert [run.bytes for run in runs] == [20, 4]
    assert len(other.receipts.runs) == 1
    client.node.settle()
    assert client.machine.inflow.unsynced == 0


def test_confirm_of_a_message_before_a_transient_one(client: Client) -> None:
    """A transient message takes a place that no batch need cover; the confirm does not wait for that."""
    queue = client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(
        batch(("d", PERSISTENT))
        + m.frame(2, m.QueuePurge("d", True))  # closes the batch
        + batch(("d", TRANSIENT))
    )
    assert queue.message_count() == 1
    assert answers(client) == [("ack", 2, False)]
    client.node.sync_once()
    assert answers(client) == [("ack", 1, False)]


def test_queue_deleted_before_the_sync_counts_as_settled(client: Client) -> None:
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT)))
    client.feed(
        batch(("d", PERSISTENT)) + m.frame(2, m.QueueDelete("d", nowait=True)) + batch(("d", PERSISTENT))
    )
    # Until the deletion is stored, a crash brings the queue back as it is on disk.
    assert answers(client) == []
    client.node.commit()
    assert answers(client) == [("ack", 3, True)]
    client.node.settle()
    assert answers(client) == []
    assert client.machine.inflow.unsynced == 0


def test_queue_deleted_and_declared_again_within_a_run(client: Client) -> None:
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(
        batch(("d", PERSISTENT))
        + m.frame(2, m.QueueDelete("d", nowait=True))
        + m.frame(2, m.QueueDeclare("d", durable=True, nowait=True))
        + batch(("d", PERSISTENT))
    )
    assert answers(client) == []
    client.node.sync_once()
    assert answers(client) == [("ack", 1, False)]
    client.node.settle()
    assert answers(client) == [("ack", 2, False)]
    assert client.node.queue("d").message_count() == 1


# -- confirm mode -----------------------------------------------------------------------------------


def test_publishes_before_confirm_select_are_not_confirmed(client: Client) -> None:
    """What was published before has no number: its sync must not confirm the first one that has."""
    client.declare("d", durable=True)
    client.feed(batch(("d", PERSISTENT)))
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT)))
    client.node.worker.run_one()
    client.node.hear()
    assert answers(client) == []
    client.node.settle()
    assert answers(client) == [("ack", 1, False)]


def test_confirm_select_within_a_chunk_and_again(client: Client) -> None:
    client.declare("d", durable=True)
    select = m.frame(1, m.ConfirmSelect(nowait=True))
    publish = batch(("d", PERSISTENT))
    client.feed(publish + publish + select + publish + select + publish)
    client.node.settle()
    assert answers(client) == [("ack", 2, True)]


def test_closed_channel_hears_nothing_of_its_publishes(client: Client) -> None:
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT)))
    client.send(m.ChannelClose(), m.ChannelOpen(), m.ConfirmSelect())
    client.node.quiet()
    client.take()
    client.feed(batch(("d", PERSISTENT)))
    client.node.settle()
    assert answers(client) == [("ack", 1, False)]
    assert client.machine.inflow.unsynced == 0


def test_channel_that_fails_hears_nothing_more(client: Client) -> None:
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT)) + m.frame(1, m.BasicAck(1)))
    client.node.settle()
    assert [received.method.NAME for received in client.take()] == ["channel.close"]
    assert client.machine.inflow.unsynced == 0


# -- a log that fails -------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["write", "sync", "create", "sync_directory"])
def test_failed_log_nacks(client: Client, operation: str) -> None:
    queue = client.declare("d", durable=True)
    client.declare("e", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.feed(batch(("d", PERSISTENT), ("d", PERSISTENT), ("e", PERSISTENT)))
    client.node.disk.fail(operation, queue.incarnation, once=True)
    client.node.settle()
    assert answers(client) == [("nack", 1, False), ("nack", 2, False), ("ack", 3, True)]
    client.feed(batch(("d", PERSISTENT), ("d", TRANSIENT), ("e", PERSISTENT)))
    client.node.settle()
    assert answers(client) == [("nack", 4, False), ("nack", 5, False), ("ack", 6, False)]
    assert client.machine.inflow.unsynced == 0
    assert not client.node.faults


def test_copies_of_a_failed_publish_stay_elsewhere(client: Client) -> None:
    for name, durable in (("d", True), ("e", True), ("q", False)):
        client.declare(name, durable=durable)
        client.send(m.QueueBind(name, "amq.fanout"))
        client.node.settle()
        client.take()
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"first", exchange="amq.fanout", properties=PERSISTENT)
    client.node.disk.fail("sync", client.node.queue("d").incarnation, once=True)
    client.node.settle()
    client.publish(b"second", exchange="amq.fanout", properties=PERSISTENT)
    client.node.settle()
    assert answers(client) == [("nack", 1, False), ("nack", 2, False)]
    assert [client.node.queue(name).message_count() for name in "eq"] == [2, 2]


def test_copy_of_an_unconfirmed_publish_is_synced_though_another_queue_refused_it(client: Client) -> None:
    for name in "de":
        client.declare(name, durable=True)
        client.send(m.QueueBind(name, "amq.fanout"))
        client.node.settle()
        client.take()
    client.node.queue("d").log.fail(OSError(errno.EIO, "simulated"))
    client.publish(b"x", exchange="amq.fanout", properties=PERSISTENT)
    client.node.settle()
    log = client.node.queue("e").log
    assert log.high_watermark == log.end


def test_nack_and_wait_for_the_other_log(client: Client) -> None:
    """The nack of a publish to two logs leaves when both have answered."""
    queue = client.declare("d", durable=True)
    client.declare("e", durable=True)
    for name in "de":
        client.send(m.QueueBind(name, "amq.fanout"))
    client.node.settle()
    client.take()
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"x", exchange="amq.fanout", properties=PERSISTENT)
    queue.log.fail(OSError(errno.EIO, "simulated"))
    client.node.settle()
    assert answers(client) == [("nack", 1, False)]


def test_run_open_when_the_log_fails(client: Client) -> None:
    """The failure comes between the publish and the end of its chunk."""
    queue = client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    publishing = client.machine.channels[1].publishing
    client.machine.receive_data(batch(("d", PERSISTENT))[:-1])
    queue.log.fail(OSError(errno.EIO, "simulated"))
    client.machine.receive_data(b"\xce")
    assert publishing.publisher.run is None
    client.node.tick.wake()
    client.node.settle()
    assert answers(client) == [("nack", 1, False)]


# -- returns ----------------------------------------------------------------------------------------


def test_unroutable_mandatory_message_comes_back_before_its_ack(client: Client) -> None:
    client.declare("d", durable=True)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    properties = encode_properties({"headers": {"a": ("S", b"b")}, "delivery_mode": 2})
    client.publish(b"one", "d", properties=PERSISTENT)
    client.publish(b"back" * 3000, "nowhere", properties=properties, mandatory=True)
    client.publish(b"dropped", "nowhere", properties=properties)
    client.node.quiet()
    returned, *acks = client.take()
    assert returned == (1, m.BasicReturn(312, "NO_ROUTE", "", "nowhere"), properties, b"back" * 3000)
    assert [answer(each) for each in acks] == [("ack", 2, False), ("ack", 3, False)]


def test_large_message_comes_back(client: Client) -> None:
    body = bytes(range(256)) * 5000
    client.publish(body, "nowhere", exchange="amq.direct", mandatory=True)
    client.node.quiet()
    (returned,) = client.take()
    assert returned.body == body


def test_mandatory_message_with_a_route(client: Client) -> None:
    client.declare("q")
    client.publish(b"x", "q", mandatory=True)
    client.node.quiet()
    assert client.take() == []


def test_immediate(client: Client) -> None:
    client.declare("q")
    client.send(m.BasicPublish("", "q", False, True))
    client.feed(b"".join(publish_frames(1, m.BasicPublish("", "q", False, True), TRANSIENT, b"x")[1:]))
    close = client.closed_with(errors.NotImplementedByServer)
    assert close.reply_text == "NOT_IMPLEMENTED - immediate=true"
    assert (close.class_id, close.method_id) == (60, 40)


# -- what is checked --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"user_id": "bob"}, "user_id property set to 'bob' but authenticated user was 'guest'"),
        ({"user_id": "bob", "reply_to": DIRECT_REPLY}, "fast reply consumer does not exist"),
        ({"expiration": "abc"}, "invalid expiration 'abc': no_integer"),
        ({"expiration": ""}, "invalid expiration '': no_integer"),
        ({"expiration": "1x"}, "invalid expiration '1x': {leftover_string,\"x\"}"),
        ({"expiration": "315360000001"}, "invalid expiration '315360000001': {value_too_large,315360000001}"),
        ({"expiration": "9" * 30}, f"invalid expiration '{'9' * 30}': {{value_too_large,{'9' * 30}}}"),
        ({"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
        ({"delivery_mode": 0}, "invalid message: {delivery_mode_unknown,0}"),
        ({"delivery_mode": 3, "headers": {}}, "invalid message: {delivery_mode_unknown,3}"),
    ],
)
def test_property_that_is_refused(client: Client, properties: dict[str, Any], text: str) -> None:
    queue = client.declare("q")
    client.publish(b"x", "q", properties=encode_properties(properties))
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == f"PRECONDITION_FAILED - {text}"
    assert (close.class_id, close.method_id) == (60, 40)
    assert queue.message_count() == 0


@pytest.mark.parametrize("expiration", ["4294967295", "4294967296", "+4294967296", "315360000000"])
def test_a_time_to_live_of_years(client: Client, expiration: str) -> None:
    queue = client.declare("q")
    before_us = client.node.clock.wall_us()
    client.publish(b"x", "q", properties=encode_properties({"expiration": expiration}))
    head = queue.ready.peek(False)
    assert head is not None
    assert head.deadline_us - before_us == int(expiration) * 1000


def test_own_user_id(client: Client) -> None:
    queue = client.declare("q")
    client.publish(b"x", "q", properties=encode_properties({"user_id": "guest"}))
    assert queue.message_count() == 1


def test_no_such_exchange(client: Client) -> None:
    client.publish(b"x", "q", exchange="nope")
    close = client.closed_with(errors.NotFound)
    assert close.reply_text == "NOT_FOUND - no exchange 'nope' in vhost '/'"
    assert (close.class_id, close.method_id) == (60, 40)


# -- CC and BCC -------------------------------------------------------------------------------------


def test_bcc_is_taken_out_and_cc_stays(client: Client) -> None:
    for name in "abc":
        client.declare(name, durable=name == "c")
    headers = {"CC": ("A", [("S", b"b")]), "BCC": ("A", [("S", b"c")]), "x": ("S", b"\x03BCC")}
    properties = encode_properties({"content_type": "t", "headers": headers, "delivery_mode": 2})
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"body" * 20_000, "a", properties=properties)
    client.node.settle()
    assert answers(client) == [("ack", 1, False)]
    for name in "abc":
        client.send(m.BasicGet(name))
        client.node.quiet()
        (received,) = client.take()
        seen = decode_properties(received.properties)
        assert seen["headers"] == {"CC": ("A", [("S", b"b")]), "x": ("S", b"\x03BCC")}
        assert (seen["content_type"], seen["delivery_mode"]) == ("t", 2)
        assert received.body == b"body" * 20_000
        assert received.method.routing_key == "a"


def test_bcc_alone(client: Client) -> None:
    client.declare("a")
    client.publish(b"x", "nowhere", properties=encode_properties({"headers": {"BCC": ("A", [("S", b"a")])}}))
    client.send(m.BasicGet("a"))
    client.node.quiet()
    (received,) = client.take()
    assert decode_properties(received.properties).get("headers", {}) == {}


def test_large_message_with_bcc(client: Client) -> None:
    client.declare("a")
    client.declare("b", durable=True)
    body = bytes(range(256)) * 5000
    properties = encode_properties({"headers": {"BCC": ("A", [("S", b"b")])}, "delivery_mode": 2})
    client.publish(body, "a", properties=properties)
    client.node.settle()
    for name in "ab":
        client.send(m.BasicGet(name))
        client.node.quiet()
        assert client.take()[0].body == body


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("size", [10, 300_000, 1_500_000])
def test_keys_of_bcc_are_kept_in_page_files_and_after_a_start(persistent: bool, size: int) -> None:
    """No client sees them, and the dead letters of the message go by them."""
    node = SimNode(memory_bytes=0)
    client = Client(node).open(1)
    client.declare("s", durable=True, arguments={"x-dead-letter-exchange": ("S", b"")})
    for name in "ab":
        client.declare(name, durable=True)
    headers = {"BCC": ("A", [("S", b"a")]), "CC": ("A", [("S", b"b")])}
    properties = encode_properties({"headers": headers, "delivery_mode": 2 if persistent else 1})
    for _ in range(70):  # more than a queue without consumers keeps in memory
        client.publish(bytes(size), "s", properties=properties)
        node.settle()
        if size > 10:
            break
    for name in "ab":
        client.call(m.QueuePurge(name), m.QueuePurgeOk)
    if persistent:
        node.stop()
        node = SimNode(node.disk, node.definitions, boot=2, memory_bytes=0)
        client = Client(node).open(1)
    client.send(m.BasicConsume("s", consumer_tag="c"))
    node.settle()
    seen = [each for each in client.take() if isinstance(each.method, m.BasicDeliver)]
    assert [decode_properties(each.properties)["headers"].keys() for each in seen] == [{"CC"}] * len(seen)
    assert len(seen) == (1 if size > 10 else 70)
    client.send(m.BasicNack(len(seen), True, False))
    node.settle()
    for name in "ab":
        assert node.queue(name).message_count() == len(seen)
        client.send(m.BasicGet(name, no_ack=True))
        node.settle()
        (letter,) = [each for each in client.take() if isinstance(each.method, m.BasicGetOk)]
        assert letter.body == bytes(size)
        assert decode_properties(letter.properties)["headers"].keys() >= {"CC", "x-death"}
        assert "BCC" not in decode_properties(letter.properties)["headers"]


# -- flow of unsynced bytes -------------------------------------------------------------------------


def test_publisher_is_paused_by_its_unsynced_bytes_alone() -> None:
    client = Client(SimNode(options=ConnectionOptions(unsynced_bytes_max=1000))).open(1)
    other = Client(client.node).open(1)
    client.declare("d", durable=True)
    client.declare("q")
    inflow = client.machine.inflow
    for _ in range(5):
        client.publish(bytes(1000), "q", properties=PERSISTENT)
        client.publish(bytes(1000), "d")
    assert not inflow.over
    client.publish(bytes(1000), "d", properties=PERSISTENT)
    assert not inflow.over
    client.publish(b"x", "d", properties=PERSISTENT)
    assert inflow.over
    other.publish(bytes(1000), "d", properties=PERSISTENT)
    assert not other.machine.inflow.over
    assert client.resumed == 0
    client.node.settle()
    assert (client.resumed, inflow.over, inflow.unsynced) == (1, False, 0)


@pytest.mark.parametrize("end", ["sync", "failure", "delete", "lost", "channel closed"])
def test_unsynced_bytes_come_back_whatever_happens(end: str) -> None:
    client = Client(SimNode(options=ConnectionOptions(unsynced_bytes_max=10))).open(1)
    other = Client(client.node).open(1)
    queue = other.declare("d", durable=True)
    client.publish(bytes(100), "d", properties=PERSISTENT)
    client.publish(bytes(100), "d", properties=PERSISTENT)
    assert client.machine.inflow.over
    if end == "failure":
        queue.log.fail(OSError(errno.ENOSPC, "simulated"))
    elif end == "delete":
        other.send(m.QueueDelete("d"))
    elif end == "lost":
        client.drop()
    elif end == "channel closed":
        client.send(m.ChannelClose())
    client.node.settle()
    assert client.machine.inflow.unsynced == 0
    assert not client.machine.inflow.over
    assert client.resumed == 1


# -- what exchanges count ---------------------------------------------------------------------------


def flows(client: Client, name: str) -> dict[str, int]:
    counters = client.node.vhosts["/"].exchanges[name].counters
    return {name: getattr(counters, name) for name in EXCHANGE_COLUMNS if getattr(counters, name)}


def test_exchanges_between_count_what_passes_through_them(client: Client) -> None:
    alternate, _ = decode_table(encode_plain({"alternate-exchange": "rest"}), 0)
    for name, kind in (("rest", "fanout"), ("audit", "fanout"), ("orders", "topic")):
        arguments = alternate if name == "orders" else {}
        client.call(m.ExchangeDeclare(name, kind, arguments=arguments), m.ExchangeDeclareOk)
    client.declare("q")
    client.declare("r")
    client.call(m.ExchangeBind("audit", "orders", "eu.#"), m.ExchangeBindOk)
    for queue in ("q", "r"):
        client.call(m.QueueBind(queue, "audit"), m.QueueBindOk)
    for key in ("eu.1", "eu.2", "us.1"):
        client.publish(b"x", key, "orders")
    assert flows(client, "orders") == {"publish_in": 3, "publish_out": 4, "unroutable": 1}
    assert flows(client, "audit") == {"inner_in": 2, "inner_out": 4}
    # Nothing is bound to this alternate exchange, so its message is unroutable where it was published.
    assert flows(client, "rest") == {"inner_in": 1}
    assert client.node.vhosts["/"].table.unroutable.of("orders") == [("us.1", 1)]


def test_last_unroutable_keys_are_bounded_and_the_newest_first(client: Client) -> None:
    for number in range(RECENT_UNROUTABLE_MAX + 3):
        client.publish(b"x", f"nowhere-{number}", "")
    client.publish(b"x", "nowhere-7", "")
    keys = client.node.vhosts["/"].table.unroutable.of("")
    assert len(keys) == RECENT_UNROUTABLE_MAX
    assert keys[:2] == [("nowhere-7", 2), (f"nowhere-{RECENT_UNROUTABLE_MAX + 2}", 1)]
    assert keys[-1] == ("nowhere-3", 1)


def test_a_message_through_many_exchanges_is_charged_for_them(client: Client) -> None:
    client.call(m.ExchangeDeclare("start", "fanout"), m.ExchangeDeclareOk)
    for number in range(160):
        client.call(m.ExchangeDeclare(f"x{number}", "fanout"), m.ExchangeDeclareOk)
        client.call(m.ExchangeBind(f"x{number}", "start"), m.ExchangeBindOk)
    client.publish(b"x", "", "start")
    assert client.machine.work.units >= 10  # of the last chunk
