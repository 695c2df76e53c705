"""A reply that waits for the definitions holds back all later output of its channel, and nothing else.

Memory changes at once, and the reply leaves when the change is stored.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.commits import Commits
from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames, split_frames


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1, 2)


def names(client: Client, channel: int = 1) -> list[str]:
    """What came on the channel by name, deliveries with their body."""
    client.node.quiet()
    found = []
    for received in client.take():
        assert received.channel == channel, received
        text = received.method.NAME
        found.append(f"{text} {received.body[:20].decode()}" if received.method.HAS_CONTENT else text)
    return found


def declare(name: str, **flags: bool) -> m.QueueDeclare:
    return m.QueueDeclare(name, durable=True, **flags)


def test_reply_waits_and_other_channels_do_not(client: Client) -> None:
    client.send(declare("d"), m.BasicQos())
    client.send(m.BasicQos(), channel=2)
    assert names(client, 2) == ["basic.qos-ok"]
    client.node.commit()
    assert names(client) == ["queue.declare-ok", "basic.qos-ok"]


def test_methods_run_at_once_though_their_replies_wait(client: Client) -> None:
    client.send(declare("d"))
    client.publish(b"x", "d", properties=PERSISTENT)
    client.send(m.BasicGet("d"))
    assert client.node.queue("d").unacked_count == 1
    assert names(client) == []
    client.node.commit()
    assert names(client) == ["queue.declare-ok", "basic.get-ok x"]


def test_deliveries_confirms_and_returns_stay_behind(client: Client) -> None:
    client.send(m.ConfirmSelect(), declare("d"), m.BasicConsume("d", "t"))
    client.publish(b"lost", "nowhere", mandatory=True)
    client.publish(b"1", "d")
    client.publish(b"2", "d", channel=2)
    assert names(client) == ["confirm.select-ok"]
    client.publish(b"3", "d")
    client.node.sync_once()
    assert names(client) == []
    client.node.commit()
    # What each tick caused, in its order.
    assert names(client) == [
        "queue.declare-ok",
        "basic.consume-ok",
        "basic.return lost",
        "basic.ack",
        "basic.deliver 1",
        "basic.ack",
        "basic.deliver 2",
        "basic.deliver 3",
        "basic.ack",
    ]


def test_pipelined_declarations_are_stored_together(client: Client) -> None:
    client.send(*(declare(f"d{number}") for number in range(30)))
    assert names(client) == []
    assert len(client.node.definitions.pending) == 30
    client.node.commit()
    client.node.quiet()
    assert [received.method.queue for received in client.take()] == [f"d{number}" for number in range(30)]


def test_each_reply_leaves_with_its_own_revision(client: Client) -> None:
    client.send(declare("d"), m.BasicQos(), declare("e"), m.ConfirmSelect(), declare("f"))
    client.node.commit(1)
    assert names(client) == ["queue.declare-ok", "basic.qos-ok"]
    client.send(m.BasicQos())
    client.node.commit(1)
    assert names(client) == ["queue.declare-ok", "confirm.select-ok"]
    client.node.commit(1)
    assert names(client) == ["queue.declare-ok", "basic.qos-ok"]
    client.send(m.BasicQos())
    assert names(client) == ["basic.qos-ok"]


def test_reply_for_an_older_revision_keeps_its_turn(client: Client) -> None:
    client.send(declare("d"), channel=2)
    client.send(declare("e"), declare("d"))  # the second relies on the first revision
    client.node.commit(1)
    assert names(client, 2) == ["queue.declare-ok"]
    client.node.commit(1)
    assert names(client) == ["queue.declare-ok", "queue.declare-ok"]


def test_declaring_what_another_has_just_declared_waits_too(client: Client) -> None:
    other = Client(client.node).open(1)
    client.send(declare("d"))
    other.send(declare("d"), declare("d", passive=True))
    assert names(other) == []
    client.node.commit()
    assert names(other) == ["queue.declare-ok", "queue.declare-ok"]
    assert other.call(declare("d", passive=True), m.QueueDeclareOk)


def test_nowait_has_no_reply_and_holds_nothing_back(client: Client) -> None:
    client.send(declare("d", nowait=True), m.BasicQos())
    assert names(client) == ["basic.qos-ok"]


def test_delete_ok_waits_and_the_log_goes_afterwards(client: Client) -> None:
    node = client.node
    queue = client.declare("d", durable=True)
    client.publish(b"x", "d", properties=PERSISTENT)
    node.settle()
    directory = f"data/queues/{queue.incarnation}"
    assert node.disk.exists(directory)
    client.send(m.QueueDelete("d"))
    node.sync_once()
    assert names(client) == []
    assert node.disk.exists(directory)
    node.commit()
    node.sync_once()
    assert names(client) == ["queue.delete-ok"]
    assert not node.disk.exists(directory)


def test_consumer_goes_on_when_the_reply_has_left(client: Client) -> None:
    client.send(m.BasicQos(0, 2), declare("d"), m.BasicConsume("d", "t"))
    for text in (b"1", b"2", b"3"):
        client.publish(text, "d", channel=2)
    client.node.commit()
    assert names(client)[-2:] == ["basic.deliver 1", "basic.deliver 2"]
    client.send(m.BasicAck(1))
    assert names(client) == ["basic.deliver 3"]


def test_held_deliveries_end_at_a_full_output(client: Client) -> None:
    """A consumer behind a pending reply gets no more than one whose client does not read."""
    client.send(declare("d"), m.BasicConsume("d", "t"))
    for number in range(60):
        client.publish(b"%d" % number + bytes(50_000), "d", channel=2)
    client.node.quiet()
    queue = client.node.queue("d")
    assert 20 < queue.unacked_count < 30
    client.node.commit()
    assert len(names(client)) == 62
    assert queue.message_count() == 0


@pytest.mark.parametrize("size", [(1 << 20) + 1, 3 << 20])
def test_large_body_behind_a_pending_reply(client: Client, size: int) -> None:
    client.send(declare("d"), m.BasicConsume("d", "t"))
    client.publish(b"large" + bytes(size), "d", channel=2)
    client.publish(b"small", "d", channel=2)
    client.node.quiet()
    client.send(m.BasicQos())
    assert names(client) == []
    client.node.commit()
    found = names(client)
    assert [name[:19] for name in found if name != "basic.qos-ok"] == [
        "queue.declare-ok",
        "basic.consume-ok",
        "basic.deliver large",
        "basic.deliver small",
    ]


# -- ends while a reply waits -----------------------------------------------------------------------


def test_close_ok_waits_for_its_turn(client: Client) -> None:
    client.send(declare("d"), m.ChannelClose())
    assert names(client) == []
    client.node.commit()
    assert names(client) == ["queue.declare-ok", "channel.close-ok"]


def test_channel_error_waits_for_its_turn(client: Client) -> None:
    client.send(declare("d"), m.BasicAck(1), m.BasicQos())
    assert names(client) == []
    client.node.commit()
    assert names(client) == ["queue.declare-ok", "channel.close"]


def test_close_ok_of_a_close_that_crossed_waits_for_its_turn(client: Client) -> None:
    client.send(declare("d"), m.BasicAck(1), m.ChannelClose())
    assert names(client) == []
    client.node.commit()
    assert names(client) == ["queue.declare-ok", "channel.close", "channel.close-ok"]


def test_connection_error_does_not_wait(client: Client) -> None:
    client.send(declare("d"), m.BasicQos(1, 1))
    client.node.quiet()
    (received,) = client.take()
    assert isinstance(received.method, m.ConnectionClose)
    client.node.commit()
    client.node.quiet()
    assert client.take() == []
    assert "d" in client.node.vhost.queues


def test_nothing_follows_the_end_of_the_connection(client: Client) -> None:
    client.send(declare("d"))
    client.send(m.ConnectionClose(), channel=0)
    client.node.quiet()
    assert [received.method.NAME for received in client.take()] == ["connection.close-ok"]
    client.node.commit()
    client.node.quiet()
    assert client.take() == []
    assert not client.node.faults


# -- any order of commits ---------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["declare", "again", "delete", "qos", "get", "publish", "commit", "commit all", "sync"]
        ),
        max_size=30,
    )
)
def test_the_channel_s_order_is_that_of_its_methods(steps: list[str]) -> None:
    """Whatever is stored when, replies come in the order of the methods, and each after its revision."""
    node = SimNode()
    client = Client(node).open(1, 2)
    client.declare("q")
    expected: list[str] = []
    serial = 0
    for step in steps:
        if step == "declare":
            serial += 1
            client.send(declare(f"d{serial}"))
            expected.append(f"declare-ok d{serial}")
        elif step == "again" and serial:
            client.send(declare(f"d{serial}"))
            expected.append(f"declare-ok d{serial}")
        elif step == "delete":
            client.send(m.QueueDelete(f"d{serial}"))
            expected.append("delete-ok")
            serial += 1
        elif step == "qos":
            client.send(m.BasicQos())
            expected.append("qos-ok")
        elif step == "get":
            client.send(m.BasicGet("q"))
            expected.append("get-empty")
        elif step == "publish":
            client.publish(b"x", "nowhere", mandatory=True)
            expected.append("return")
        elif step.startswith("commit") and node.definitions.pending:
            node.commit(1 if step == "commit" else 1 << 20)
        elif step == "sync":
            node.sync_once()
    node.settle()
    got = []
    for received in client.take():
        name = received.method.NAME.partition(".")[2]
        got.append(f"{name} {received.method.queue}" if name == "declare-ok" else name)
    assert got == expected
    split_frames(bytes(client.wire))


class Waiter:
    def __init__(self, told: list[tuple[str, int]], name: str) -> None:
        self.told = told
        self.name = name

    def committed(self, rev: int) -> None:
        self.told.append((self.name, rev))


def test_commits_tell_in_order_of_arrival() -> None:
    told: list[tuple[str, int]] = []
    commits = Commits()
    for name, rev in (("a", 2), ("b", 5), ("c", 3), ("d", 5)):
        commits.wait(rev, Waiter(told, name))
    commits.advance(1)
    assert told == []
    commits.advance(3)
    assert told == [("a", 3), ("c", 3)]
    commits.advance(2)
    assert commits.committed == 3
    commits.advance(5)
    assert told[2:] == [("b", 5), ("d", 5)]


@pytest.mark.parametrize("last", [m.ChannelClose(200, "", 0, 0), m.ConnectionClose(200, "", 0, 0), None])
def test_confirms_that_are_due_leave_before_the_end(last: m.Method | None) -> None:
    client = Client(SimNode()).open(1)
    frames = [m.frame(1, m.ConfirmSelect()), *publish_frames(1, m.BasicPublish("", "none"), TRANSIENT, b"x")]
    if last is None:
        frames.append(m.frame(1, m.BasicAck(7, False)))  # the server closes the channel
    else:
        frames.append(m.frame(0 if isinstance(last, m.ConnectionClose) else 1, last))
    client.feed(b"".join(frames))
    client.node.settle()
    names = [received.method.NAME for received in client.take()]
    assert names[:2] == ["confirm.select-ok", "basic.ack"]
    assert len(names) == 3


def test_consumer_without_acks_waits_for_the_limit_of_its_channel() -> None:
    client = Client(SimNode()).open(1, 2)
    client.declare("a")
    client.declare("b")
    client.send(
        m.BasicQos(0, 1, True), m.BasicConsume("a", "acks"), m.BasicConsume("b", "no acks", no_ack=True)
    )
    client.publish(b"1", "a", channel=2)
    client.node.quiet()
    client.publish(b"2", "b", channel=2)
    client.node.quiet()
    assert [each.body for each in client.take() if each.body] == [b"1"]
    client.send(m.BasicAck(1, False))
    client.node.quiet()
    assert [each.body for each in client.take()] == [b"2"]
