"""Direct reply-to: who may consume the pseudo-queue, and where replies go. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.properties import decode_properties, encode_properties, reply_to_range
from tests.nodes import Client, Received, SimNode, publish_frames

PSEUDO = "amq.rabbitmq.reply-to"
CONSUME = m.BasicConsume(PSEUDO, "r", no_ack=True)


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1, 2)


def taken(client: Client) -> list[Received]:
    client.node.settle()
    return client.take()


def request(client: Client, **properties: object) -> bytes:
    return encode_properties({"reply_to": PSEUDO, "correlation_id": "1", **properties})


def asked(client: Client) -> str:
    """A request is sent and received; returns its reply_to."""
    client.declare("rpc")
    client.call(CONSUME, m.BasicConsumeOk)
    client.publish(b"req", "rpc", properties=request(client))
    client.send(m.BasicGet("rpc", True), channel=2)
    (received,) = taken(client)
    properties = decode_properties(received.properties)
    assert properties["correlation_id"] == "1"
    return str(properties["reply_to"])


# -- the requester ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("consumes", "text"),
    [
        ([m.BasicConsume(PSEUDO)], "reply consumer cannot acknowledge"),
        ([CONSUME, m.BasicConsume(PSEUDO, "b", no_ack=True)], "reply consumer already set"),
    ],
)
def test_wrong_consumers(client: Client, consumes: list[m.Method], text: str) -> None:
    client.send(*consumes)
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == f"PRECONDITION_FAILED - {text}"
    assert (close.class_id, close.method_id) == (60, 20)
    assert not client.node.vhost.topology.reply_queues


def test_second_consumer(client: Client) -> None:
    """As in RabbitMQ, its tag is not looked at."""
    client.send(CONSUME, CONSUME)
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == "PRECONDITION_FAILED - reply consumer already set"


def test_tag_of_another_consumer(client: Client) -> None:
    client.declare("q")
    client.send(m.BasicConsume(queue="q", consumer_tag="r"), CONSUME)
    assert client.closed_with(errors.NotAllowed).reply_text.endswith("attempt to reuse consumer tag 'r'")


def test_publish_without_consumer(client: Client) -> None:
    client.declare("rpc")
    client.call(CONSUME, m.BasicConsumeOk, channel=2)  # another channel's does not help
    client.publish(b"req", "rpc", properties=request(client))
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == "PRECONDITION_FAILED - fast reply consumer does not exist"
    assert (close.class_id, close.method_id) == (60, 40)


def test_reply_to_names_the_requester(client: Client) -> None:
    reply_to = asked(client)
    assert reply_to.startswith(PSEUDO + ".")
    assert len(reply_to.split(".")) == 5
    assert reply_to not in client.node.vhost.queues


def test_other_reply_to_stays_as_it_is(client: Client) -> None:
    client.declare("rpc")
    client.call(CONSUME, m.BasicConsumeOk)
    for reply_to in ("mine", PSEUDO + "x", PSEUDO[:-1]):
        properties = encode_properties({"headers": {"x": ("S", PSEUDO.encode())}, "reply_to": reply_to})
        client.publish(b"req", "rpc", properties=properties)
        client.send(m.BasicGet("rpc", True))
        assert taken(client)[0].properties == properties


@pytest.mark.parametrize("size", [0, 10, 300_000, 2_000_000])
def test_everything_else_of_a_request_is_kept(client: Client, size: int) -> None:
    client.declare("rpc")
    client.call(CONSUME, m.BasicConsumeOk)
    values = {
        "content_type": "text/plain",
        "content_encoding": PSEUDO,
        "headers": {"a": ("F", {"b": ("D", (2, 5))}), "r": ("S", PSEUDO.encode())},
        "delivery_mode": 2,
        "priority": 3,
        "message_id": PSEUDO,
        "timestamp": 7,
        "app_id": "x",
    }
    body = b"\xce" * size
    for frame in publish_frames(1, m.BasicPublish("", "rpc"), request(client, **values), body):
        client.feed(frame)
    client.send(m.BasicGet("rpc", True))
    (received,) = taken(client)
    properties = decode_properties(received.properties)
    assert properties.pop("reply_to").startswith(PSEUDO + ".")
    assert properties == {**values, "correlation_id": "1"}
    assert received.body == body


# -- the replies --------------------------------------------------------------------------------------


def test_reply_is_delivered(client: Client) -> None:
    reply_to = asked(client)
    other = Client(client.node).open(1)
    other.publish(b"rep", reply_to, properties=encode_properties({"correlation_id": "1"}), mandatory=True)
    (received,) = taken(client)
    assert received.method == m.BasicDeliver("r", 1, False, "", reply_to)
    assert (received.body, received.channel) == (b"rep", 1)
    # A mandatory reply comes back as well.
    (returned,) = taken(other)
    assert returned.method == m.BasicReturn(312, "NO_ROUTE", "", reply_to)
    assert returned.body == b"rep"
    other.publish(b"rep", reply_to)
    assert taken(other) == []


def test_reply_to_nobody_is_unroutable(client: Client) -> None:
    reply_to = asked(client)
    client.call(m.BasicCancel("r"), m.BasicCancelOk)
    client.publish(b"rep", reply_to, channel=2)
    client.publish(b"rep", reply_to, channel=2, mandatory=True)
    (returned,) = taken(client)
    assert returned.method == m.BasicReturn(312, "NO_ROUTE", "", reply_to)
    client.call(CONSUME, m.BasicConsumeOk)


@pytest.mark.parametrize("end", ["channel", "error", "connection", "socket"])
def test_queue_goes_with_the_requester(client: Client, end: str) -> None:
    node = client.node
    before = node.budget.kept
    reply_to = asked(client)
    other = Client(node).open(1)
    for _ in range(3):
        other.publish(b"rep", reply_to)
    if end == "channel":
        client.send(m.ChannelClose())
    elif end == "error":
        client.send(m.BasicAck(99))
    elif end == "connection":
        client.send(m.ConnectionClose(), channel=0)
    else:
        client.drop()
    node.settle()
    assert not node.vhost.topology.reply_queues
    node.vhost.delete_queue("rpc")
    assert (node.budget.kept, node.budget.used) == (before, 0)
    other.publish(b"rep", reply_to, mandatory=True)
    assert isinstance(taken(other)[0].method, m.BasicReturn)
    assert not node.faults


def test_replies_that_nobody_reads_wait(client: Client) -> None:
    reply_to = asked(client)
    other = Client(client.node).open(1)
    client.reading = False
    for _ in range(100):
        other.publish(bytes(50_000), reply_to)
    client.node.settle()
    assert client.machine.output.waiting_bytes() < 2 << 20
    client.reading = True
    client.node.enter(client.flush)
    assert len(taken(client)) == 100


def test_prefetch_does_not_hold_replies(client: Client) -> None:
    client.declare("q")
    client.publish(b"1", "q")
    client.call(m.BasicQos(0, 1, True), m.BasicQosOk)
    client.send(m.BasicConsume("q", "t"))
    taken(client)
    reply_to = asked_again(client)
    client.publish(b"rep", reply_to, channel=2)
    assert [received.body for received in taken(client)] == [b"rep"]


def asked_again(client: Client) -> str:
    """As ``asked``, of a channel that consumes already."""
    client.declare("rpc", channel=2)
    client.call(CONSUME, m.BasicConsumeOk)
    client.publish(b"req", "rpc", properties=request(client))
    client.send(m.BasicGet("rpc", True), channel=2)
    (received,) = taken(client)
    return str(decode_properties(received.properties)["reply_to"])


def test_tags_are_shared_with_other_deliveries(client: Client) -> None:
    reply_to = asked(client)
    client.publish(b"x", "rpc")
    client.send(m.BasicGet("rpc", True))
    client.publish(b"rep", reply_to, channel=2)
    got, reply = (received.method for received in taken(client))
    assert isinstance(got, m.BasicGetOk)
    assert isinstance(reply, m.BasicDeliver)
    assert (got.delivery_tag, reply.delivery_tag) == (1, 2)


@pytest.mark.parametrize("passive", [False, True])
def test_declare_of_ones_own_address(client: Client, passive: bool) -> None:
    """RabbitMQ's channel asks itself, and fails."""
    reply_to = asked(client)
    client.send(m.QueueDeclare(reply_to, passive=passive))
    assert [received.method for received in taken(client)] == [m.ConnectionClose(541, "INTERNAL_ERROR", 0, 0)]


@pytest.mark.parametrize("passive", [False, True])
def test_declare_tells_whether_the_requester_lives(client: Client, passive: bool) -> None:
    reply_to = asked(client)
    for name in (PSEUDO, reply_to):
        declared = client.call(m.QueueDeclare(name, passive=passive), m.QueueDeclareOk, channel=2)
        assert declared == m.QueueDeclareOk(name, 0, 1)
    client.call(m.BasicCancel("r"), m.BasicCancelOk)
    client.send(m.QueueDeclare(reply_to, passive=passive), channel=2)
    close = client.closed_with(errors.NotFound)
    assert close.reply_text == f"NOT_FOUND - no queue '{reply_to}' in vhost '/'"


def test_copies_may_be_replies(client: Client) -> None:
    reply_to = asked(client)
    headers = {"CC": ("A", [("S", reply_to.encode()), ("S", b"rpc")])}
    client.publish(b"rep", "nobody", properties=encode_properties({"headers": headers}), channel=2)
    assert [received.body for received in taken(client)] == [b"rep"]
    assert client.node.queue("rpc").message_count() == 1


def test_request_in_a_transaction(client: Client) -> None:
    client.call(m.TxSelect(), m.TxSelectOk)
    client.declare("rpc")
    client.call(CONSUME, m.BasicConsumeOk)
    client.publish(b"req", "rpc", properties=request(client))
    client.call(m.TxCommit(), m.TxCommitOk)
    client.send(m.BasicGet("rpc", True))
    (received,) = taken(client)
    assert str(decode_properties(received.properties)["reply_to"]).startswith(PSEUDO + ".")


def reply_in_a_transaction(client: Client) -> str:
    """Two replies in an open transaction of channel 2, the second one mandatory; both are there already."""
    reply_to = asked(client)
    client.call(m.TxSelect(), m.TxSelectOk, channel=2)
    client.publish(b"rep", reply_to, channel=2)
    client.publish(b"must", reply_to, channel=2, mandatory=True)
    assert [received.body for received in taken(client)] == [b"rep", b"must"]
    return reply_to


def test_reply_does_not_wait_for_the_commit(client: Client) -> None:
    reply_to = reply_in_a_transaction(client)
    client.send(m.TxCommit(), channel=2)
    returned, answer = taken(client)
    # The mandatory one comes back at the commit, as in RabbitMQ.
    assert (returned.method, returned.body) == (m.BasicReturn(312, "NO_ROUTE", "", reply_to), b"must")
    assert answer.method == m.TxCommitOk()


def test_reply_is_not_rolled_back(client: Client) -> None:
    reply_in_a_transaction(client)
    client.send(m.TxRollback(), channel=2)
    assert [received.method for received in taken(client)] == [m.TxRollbackOk()]


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("end", [m.TxCommit(), m.TxRollback()])
def test_reply_by_copy_does_not_wait_for_the_commit(client: Client, header: str, end: m.Method) -> None:
    reply_to = asked(client)
    client.call(m.TxSelect(), m.TxSelectOk, channel=2)
    headers = {"headers": {header: ("A", [("S", reply_to.encode())])}}
    client.publish(b"rep", "rpc", properties=encode_properties(headers), channel=2, mandatory=True)
    (received,) = taken(client)
    assert received.body == b"rep"
    assert decode_properties(received.properties) == (headers if header == "CC" else {"headers": {}})
    assert client.node.queue("rpc").message_count() == 0
    client.send(end, channel=2)
    assert len(taken(client)) == 1
    assert client.node.queue("rpc").message_count() == isinstance(end, m.TxCommit)


@pytest.mark.parametrize("is_transaction", [False, True])
def test_mandatory_reply_by_copy_alone_comes_back(client: Client, is_transaction: bool) -> None:
    """As in RabbitMQ, which knows of no other queue."""
    reply_to = asked(client)
    headers = {"headers": {"CC": ("A", [("S", reply_to.encode())])}}
    if is_transaction:
        client.call(m.TxSelect(), m.TxSelectOk, channel=2)
    client.publish(b"rep", "nobody", properties=encode_properties(headers), channel=2, mandatory=True)
    received = taken(client)
    if is_transaction:
        assert [each.body for each in received] == [b"rep"]
        client.send(m.TxCommit(), channel=2)
        received += taken(client)[:1]
    assert {type(each.method) for each in received} == {m.BasicDeliver, m.BasicReturn}


def test_place_of_reply_to() -> None:
    for values in (
        {"reply_to": "x"},
        {"headers": {"a": ("I", 1)}, "priority": 1, "reply_to": "xyz", "app_id": "a"},
    ):
        properties = encode_properties(values)
        start, end = reply_to_range(properties)
        assert (
            properties[start:end] == bytes([len(str(values["reply_to"]))]) + str(values["reply_to"]).encode()
        )
    with pytest.raises(errors.FieldError):
        reply_to_range(encode_properties({"app_id": "x"}))
