"""Class tx: what waits for the commit, and what a rollback forgets. Measured on RabbitMQ 3.10.8."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from amqp_router.channel import transactions
from amqp_router.channel.delivery import REJECT_UNITS, RETURN_SLICE
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, Received, SimNode, publish_frames
from tests.vhosts.queues.local import message


@pytest.fixture
def client() -> Client:
    client = Client(SimNode()).open(1, 2)
    client.call(m.TxSelect(), m.TxSelectOk)
    return client


def ready(client: Client, name: str = "q") -> int:
    return client.node.queue(name).message_count()


def bodies(client: Client) -> list[bytes]:
    client.node.quiet()
    return [received.body for received in client.take() if isinstance(received.method, m.BasicDeliver)]


def commit(client: Client) -> list[Received]:
    """What comes besides commit-ok."""
    client.send(m.TxCommit())
    client.node.settle()
    received = client.take()
    assert [each.channel for each in received if isinstance(each.method, m.TxCommitOk)] == [1]
    return [each for each in received if not isinstance(each.method, m.TxCommitOk)]


# -- publishes ----------------------------------------------------------------------------------------


def test_publishes_are_invisible_until_the_commit(client: Client) -> None:
    client.declare("q")
    client.publish(b"1", "q")
    client.publish(b"2", "q")
    client.node.settle()
    assert ready(client) == 0
    assert commit(client) == []
    assert ready(client) == 2
    client.send(m.BasicConsume("q", "t", no_ack=True), channel=2)
    assert bodies(client) == [b"1", b"2"]


def test_rollback_forgets_publishes(client: Client) -> None:
    client.declare("q")
    client.publish(b"1", "q")
    client.call(m.TxRollback(), m.TxRollbackOk)
    client.publish(b"2", "q")
    commit(client)
    assert ready(client) == 1


def test_commit_ok_waits_for_the_disk(client: Client) -> None:
    client.declare("d", durable=True)
    client.declare("e", durable=True)
    client.publish(b"1", "d", properties=PERSISTENT)
    client.publish(b"2", "e", properties=PERSISTENT)
    client.publish(b"3", "e", properties=PERSISTENT)
    client.send(m.TxCommit(), m.BasicQos(0, 1))
    client.node.quiet()
    assert client.take() == [], "not even the answer behind it"
    assert (ready(client, "d"), ready(client, "e")) == (1, 2)
    client.node.settle()
    assert [received.method for received in client.take()] == [m.TxCommitOk(), m.BasicQosOk()]
    assert client.machine.inflow.unsynced == 0


def test_commits_that_wait_are_answered_in_order(client: Client) -> None:
    client.declare("d", durable=True)
    client.publish(b"1", "d", properties=PERSISTENT)
    client.send(m.TxCommit(), m.TxCommit())
    client.send(m.QueueDeclare("mine", durable=True), channel=1)
    client.send(m.TxCommit())
    client.node.settle()
    assert [type(received.method) for received in client.take()] == [
        m.TxCommitOk,
        m.TxCommitOk,
        m.QueueDeclareOk,
        m.TxCommitOk,
    ]


def test_other_channels_do_not_wait(client: Client) -> None:
    client.declare("d", durable=True)
    client.publish(b"1", "d", properties=PERSISTENT)
    client.send(m.TxCommit())
    client.call(m.BasicQos(0, 1), m.BasicQosOk, channel=2)


def test_return_comes_before_commit_ok(client: Client) -> None:
    client.publish(b"z", "nowhere", mandatory=True)
    client.publish(b"y", "nowhere")
    client.node.settle()
    assert client.take() == []
    client.send(m.TxCommit())
    client.node.quiet()
    returned, answer = client.take()
    assert returned.method == m.BasicReturn(312, "NO_ROUTE", "", "nowhere")
    assert (returned.body, answer.method) == (b"z", m.TxCommitOk())


def test_missing_exchange_closes_the_channel_at_the_publish(client: Client) -> None:
    client.publish(b"z", "k", "nope")
    close = client.closed_with(errors.NotFound)
    assert (close.class_id, close.method_id) == (60, 40)
    assert client.machine.shared.intake.announced == 0


def test_route_is_that_of_the_publish(client: Client) -> None:
    vhost = client.node.vhost
    for name in ("old", "new"):
        vhost.declare_queue(name)
    vhost.bind_queue("old", "amq.direct", "k", {}, None)
    client.publish(b"1", "k", "amq.direct")
    vhost.unbind_queue("old", "amq.direct", "k", {}, None)
    vhost.bind_queue("new", "amq.direct", "k", {}, None)
    client.publish(b"2", "k", "amq.direct")
    commit(client)
    assert (ready(client, "old"), ready(client, "new")) == (1, 1)


@pytest.mark.parametrize("durable", [False, True])
def test_queue_that_is_deleted_before_the_commit(client: Client, durable: bool) -> None:
    client.declare("q", durable=durable)
    client.publish(b"1", "q", properties=PERSISTENT, mandatory=True)
    client.send(m.QueueDelete("q"), channel=2)
    client.node.settle()
    client.take()
    (returned,) = commit(client)
    assert isinstance(returned.method, m.BasicReturn)
    assert not client.node.faults


def test_wide_fanout_keeps_its_order(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    vhost = client.node.vhost
    for number in range(2500):
        vhost.declare_queue(f"q{number}")
        vhost.bind_queue(f"q{number}", "amq.fanout", "", {}, None)
    for body in (b"1", b"2"):
        client.publish(body, "", "amq.fanout")
    commit(client)
    client.send(m.BasicConsume("q2499", "t", no_ack=True), channel=2)
    assert bodies(client) == [b"1", b"2"]


def test_content_in_pieces_and_large_ones(client: Client) -> None:
    client.declare("q")
    for size in (0, 300_000, 2_000_000):
        for frame in publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"x" * size):
            client.feed(frame)
    assert ready(client) == 0
    commit(client)
    client.send(m.BasicConsume("q", "t", no_ack=True), channel=2)
    assert [len(body) for body in bodies(client)] == [0, 300_000, 2_000_000]


def test_refused_message_closes_the_channel(client: Client) -> None:
    """RabbitMQ's text for a commit of which a queue has refused a part."""
    client.declare("full", arguments={"x-max-length": ("I", 1), "x-overflow": ("S", b"reject-publish")})
    for body in (b"1", b"2"):
        client.publish(body, "full")
    client.send(m.TxCommit())
    close = client.closed_with(errors.PreconditionFailed)
    assert close == m.ChannelClose(406, "PRECONDITION_FAILED - partial tx completion", 90, 20)
    assert client.call(m.BasicQos(0, 1), m.BasicQosOk, channel=2)


def test_log_that_fails_closes_the_channel(client: Client) -> None:
    queue = client.declare("d", durable=True)
    client.publish(b"1", "d", properties=PERSISTENT)
    client.send(m.TxCommit(), m.BasicQos(0, 1))
    client.node.quiet()
    queue.log.fail(OSError("broken"))
    client.node.settle()
    answers = [received.method for received in client.take()]
    assert answers == [
        m.BasicQosOk(),
        m.ChannelClose(406, "PRECONDITION_FAILED - partial tx completion", 90, 20),
    ]


# -- acknowledgements ---------------------------------------------------------------------------------


def delivered(client: Client, count: int, **consume: Any) -> None:
    """``count`` messages are out on channel 1, with tags from 1 on."""
    client.declare("q")
    for number in range(count):
        client.publish(b"%d" % number, "q", channel=2)
    client.send(m.BasicConsume("q", "t", **consume))
    client.node.quiet()
    client.take()
    assert client.node.queue("q").unacked_count == count


@pytest.mark.parametrize(
    "settle",
    [m.BasicAck(2), m.BasicReject(2, False), m.BasicNack(2, False, False)],
    ids=lambda each: each.NAME,
)
def test_settles_wait_for_the_commit(client: Client, settle: m.Method) -> None:
    delivered(client, 3)
    client.send(settle)
    client.node.settle()
    assert client.node.queue("q").unacked_count == 3
    commit(client)
    assert client.node.queue("q").unacked_count == 2
    client.send(m.BasicAck(2))
    assert client.closed_with(errors.PreconditionFailed).reply_text.endswith("unknown delivery tag 2")


def test_requeue_waits_for_the_commit(client: Client) -> None:
    delivered(client, 3)
    client.send(m.BasicReject(2, True))
    assert bodies(client) == []
    (again,) = commit(client)
    assert again.body == b"1"
    assert isinstance(again.method, m.BasicDeliver)
    assert again.method.redelivered


def test_rollback_forgets_acks_and_requeues_nothing(client: Client) -> None:
    delivered(client, 2)
    client.send(m.BasicAck(1))
    client.call(m.TxRollback(), m.TxRollbackOk)
    assert client.node.queue("q").unacked_count == 2
    client.send(m.BasicAck(1))
    commit(client)
    assert client.node.queue("q").unacked_count == 1


@pytest.mark.parametrize("again", [m.BasicAck(2), m.BasicAck(2, True), m.BasicReject(2), m.BasicNack(2)])
def test_settled_twice_in_one_transaction(client: Client, again: m.Method) -> None:
    delivered(client, 3)
    client.send(m.BasicAck(2))
    client.node.quiet()
    assert client.take() == []
    client.send(again)
    assert client.closed_with(errors.PreconditionFailed).reply_text.endswith("unknown delivery tag 2")
    client.node.settle()
    assert client.node.queue("q").unacked_count == 0, "the channel has given back everything"
    assert ready(client) == 3


def test_multiple_acks_cover_what_was_out_then(client: Client) -> None:
    delivered(client, 4)
    client.send(m.BasicReject(2, True), m.BasicAck(3, True), m.BasicAck(0, True))
    client.send(m.BasicAck(0, True))
    client.publish(b"later", "q", channel=2)
    client.node.quiet()
    assert [received.body for received in client.take()] == [b"later"]
    commit(client)
    client.node.settle()
    assert client.node.queue("q").unacked_count == 2, "the later one, and the one that came back"


def test_prefetch_is_used_up_until_the_commit(client: Client) -> None:
    client.call(m.BasicQos(0, 1), m.BasicQosOk)
    client.declare("q")
    for body in (b"1", b"2"):
        client.publish(body, "q", channel=2)
    client.send(m.BasicConsume("q", "t"))
    assert bodies(client) == [b"1"]
    client.send(m.BasicAck(1))
    assert bodies(client) == []
    client.send(m.TxCommit())
    assert bodies(client) == [b"2"]


def test_recover_leaves_what_is_acknowledged(client: Client) -> None:
    delivered(client, 5)
    client.send(m.BasicAck(1, True), m.BasicReject(4, False), m.BasicRecover(True))
    assert bodies(client) == [b"1", b"2", b"4"]
    commit(client)
    assert client.node.queue("q").unacked_count == 3
    assert not client.node.faults


def test_recover_in_slices(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "LOOK_SLICE", 3)
    delivered(client, 10)
    client.send(m.BasicAck(6), m.BasicRecover(True))
    assert bodies(client) == [b"%d" % number for number in range(10) if number != 5]


@pytest.mark.parametrize("last", [RETURN_SLICE, RETURN_SLICE + 1])
def test_a_full_slice_that_returns_is_delivered_again(client: Client, last: int) -> None:
    """Nothing was left for another slice, and the queue never heard that all were back."""
    delivered(client, RETURN_SLICE + 10)
    client.send(m.BasicNack(last, True, True))
    assert bodies(client) == []
    again = [received.body for received in commit(client)]
    assert again == [b"%d" % number for number in range(last)]


def test_very_many_are_settled_in_slices(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "COMMIT_SLICE", 10)
    delivered(client, 100)
    for tag in range(1, 50):
        client.send(m.BasicAck(tag))
    client.send(m.BasicNack(0, True, True))
    for number in range(50):
        client.publish(b"%d" % number, "other")
    client.send(m.BasicCancel("t", nowait=True))
    client.declare("other", channel=2)
    client.publish(b"x", "other")
    commit(client)
    assert (ready(client), client.node.queue("q").unacked_count, ready(client, "other")) == (51, 0, 1)


def test_large_messages_are_committed_few_in_a_turn(client: Client) -> None:
    """They are paid by their octets: 500 messages of 120 KB took 9 ms as one turn."""
    client.declare("q")
    client.call(m.TxSelect(), m.TxSelectOk)
    count, body = 100, bytes(100_000)
    for _ in range(count):
        client.publish(body, "q")
    node, before, most = client.node, 0, 0
    client.send(m.TxCommit())
    for _ in range(3 * count):
        node.turn()
        now = ready(client)
        before, most = now, max(most, now - before)
    assert before == count
    assert most <= 2 * (transactions.COMMIT_SLICE * 2048 // len(body) + 1)


# -- modes and ends -----------------------------------------------------------------------------------


def test_modes_exclude_each_other(client: Client) -> None:
    client.send(m.ConfirmSelect())
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    assert (close.class_id, close.method_id) == (85, 10)
    client.send(m.ConfirmSelect(), channel=2)
    client.send(m.TxSelect(), channel=2)
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    assert (close.class_id, close.method_id) == (90, 10)


@pytest.mark.parametrize("method", [m.TxCommit(), m.TxRollback()])
def test_channel_that_is_not_transactional(method: m.Method) -> None:
    client = Client(SimNode()).open(1)
    client.send(method)
    close = client.closed_with(errors.PreconditionFailed)
    assert close.reply_text == "PRECONDITION_FAILED - channel is not transactional"
    assert (close.class_id, close.method_id) == (90, method.METHOD_ID)


def test_select_twice_changes_nothing(client: Client) -> None:
    client.declare("q")
    client.publish(b"1", "q")
    client.call(m.TxSelect(), m.TxSelectOk)
    commit(client)
    assert ready(client) == 1


@pytest.mark.parametrize("end", ["channel", "connection", "socket"])
def test_open_transaction_ends_with_its_channel(end: str) -> None:
    node = SimNode(memory_limit=64 << 20)
    client = Client(node).open(1, 2)
    client.call(m.TxSelect(), m.TxSelectOk)
    delivered(client, 2)
    client.send(m.BasicAck(1))
    client.publish(b"1" * 1000, "q")
    assert node.budget.arriving > 1000
    if end == "channel":
        client.send(m.ChannelClose())
    elif end == "connection":
        client.send(m.ConnectionClose(), channel=0)
    else:
        client.drop()
    node.settle()
    assert (ready(client), client.node.queue("q").unacked_count) == (2, 0)
    assert node.budget.arriving == 0
    assert not node.faults


def test_commit_whose_client_goes_is_finished() -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.declare("d", durable=True)
    client.publish(b"1", "d", properties=PERSISTENT)
    client.send(m.TxCommit())
    client.drop()
    node.settle()
    assert (ready(client, "d"), client.machine.inflow.unsynced) == (1, 0)
    assert not node.faults


def test_memory_of_an_open_transaction_is_bounded() -> None:
    node = SimNode(memory_limit=16 << 20, options=ConnectionOptions())
    client = Client(node).open(1)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.declare("q")
    for _ in range(30):
        client.publish(bytes(100_000), "q")
    close = client.closed_with(errors.PreconditionFailed)
    assert (close.class_id, close.method_id) == (60, 40)
    assert "memory" in close.reply_text
    node.settle()
    assert (node.budget.arriving, node.budget.held) == (0, 0)


def test_memory_comes_back_with_the_commit() -> None:
    node = SimNode(memory_limit=16 << 20)
    client = Client(node).open(1)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.declare("q")
    for _ in range(5):
        for _ in range(10):
            client.publish(bytes(100_000), "q")
        commit(client)
        assert node.budget.arriving == 0
    for _ in range(5):
        for _ in range(10):
            client.publish(bytes(100_000), "q")
        client.call(m.TxRollback(), m.TxRollbackOk)
        assert node.budget.arriving == 0
    assert ready(client) == 50


# -- very many --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_a_transaction_has_noted_goes_in_slices(
    client: Client, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """To free a million acknowledgements at once would take a tenth of a second."""
    monkeypatch.setattr(transactions, "DROP_SLICE", 10)
    client.declare("q")
    client.send(m.BasicConsume("q", "t"))
    for number in range(100):
        client.node.enter(client.node.queue("q").publish, message(number))
    client.node.quiet()
    client.take()
    channel = client.machine.channels[1]
    for tag in range(1, 101):
        client.send(m.BasicAck(tag))
    settles, tags = channel.transaction.settles, channel.transaction._tags
    assert len(settles) == len(tags) == 100
    left = []
    client.send(m.TxCommit() if end == "commit" else m.TxRollback())
    while client.node.ready:
        left.append(len(settles) + len(tags))
        client.node.turn()
    assert len(settles) + len(tags) == 0
    gone = [before - after for before, after in itertools.pairwise(left)]
    assert max(gone) <= (100 if end == "commit" else 10)
    assert client.node.budget.held == client.node.budget.arriving == 0


def test_single_rejects_are_committed_few_in_a_turn(client: Client) -> None:
    """Each may become a dead letter: 1,024 of one turn took 5 ms."""
    count = 3 * transactions.COMMIT_SLICE
    delivered(client, count)
    queue = client.node.queue("q")
    for tag in range(1, count + 1):
        client.send(m.BasicReject(tag, False))
    client.node.settle()
    assert queue.unacked_count == count
    client.feed(m.frame(1, m.TxCommit()))
    left = [count, queue.unacked_count]
    while client.node.ready:
        client.node.turn()
        left.append(queue.unacked_count)
    assert left[-1] == 0
    slice_ = transactions.COMMIT_SLICE // REJECT_UNITS
    assert max(before - after for before, after in itertools.pairwise(left)) <= 2 * slice_
