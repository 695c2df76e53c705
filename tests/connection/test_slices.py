"""Work in slices against every frame that can follow it: nothing overtakes, nothing is lost.

One client has hundreds of deliveries outstanding and sends random commands behind each other, in one write
or in several. A queue made of lists does each command at once; what the client hears and what is left, also
after a restart, must be the same.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from amqp_router.channel import channel as channel_module
from amqp_router.channel import delivery as delivery_module
from amqp_router.channel import tags as tags_module
from amqp_router.connection import dispatch as dispatch_module
from amqp_router.protocol import methods as m
from tests.nodes import PERSISTENT, TRANSIENT, Client, SimNode, publish_frames
from tests.seeds import first_seeds
from vhosts.queues import services as services_module

ERROR = "channel.close"


class ListQueue:
    """What one client sees of a queue: messages are numbers."""

    def __init__(self, count: int) -> None:
        self.ready: list[int] = []
        self.returned: set[int] = set()
        self.out: dict[int, dict[int, int]] = {1: {}, 2: {}}
        self.next_tag = {1: 1, 2: 1}
        self.published = count
        self.gone = False
        self.heard: list[tuple[Any, ...]] = []

    def deliver_all(self, channel: int, count: int) -> None:
        for number in range(count):
            self.out[channel][number + 1] = number
        self.next_tag[channel] = count + 1

    def covered(self, channel: int, tag: int, multiple: bool) -> list[int] | None:
        out = self.out[channel]
        if multiple and tag == 0:
            return sorted(out)
        if tag not in out:
            return None
        return [each for each in sorted(out) if each <= tag] if multiple else [tag]

    def give_back(self, channel: int, tags: list[int]) -> None:
        back = [self.out[channel].pop(tag) for tag in tags]
        if not self.gone:
            self.returned.update(back)
            self.ready = sorted([*self.ready, *back])

    def close(self, channel: int) -> None:
        self.give_back(channel, sorted(self.out[channel]))
        self.next_tag[channel] = 0


class Script:
    """Random commands for ``ListQueue`` and the same as methods."""

    def __init__(self, seed: int, queue: ListQueue, durable: bool) -> None:
        self.random = random.Random(seed)
        self.queue = queue
        self.properties = PERSISTENT if durable else TRANSIENT
        self.frames: list[bytes] = []
        self.ended = False

    def add(self, channel: int, method: m.Method) -> None:
        self.frames.append(m.frame(channel, method))

    def step(self) -> None:
        queue = self.queue
        open_channels = [number for number in (1, 2) if queue.next_tag[number]]
        if self.ended or not open_channels:
            return
        channel = (
            1 if 1 in open_channels and self.random.random() < 0.8 else self.random.choice(open_channels)
        )
        kinds = ["ack", "ack", "nack", "nack", "requeue", "requeue", "requeue", "recover", "get", "get"]
        kinds += ["publish", "declare", "purge", "unknown", "close", "delete", "end"]
        weights = [4] * 13 + [1] * 4
        kind = self.random.choices(kinds, weights)[0]
        getattr(self, "_" + kind)(channel)

    def _tag(self, channel: int) -> int:
        out = self.queue.out[channel]
        return self.random.choice(sorted(out)) if out and self.random.random() < 0.9 else 0

    def _settle(self, channel: int, kind: str) -> None:
        tag = self._tag(channel)
        multiple = tag == 0 or self.random.random() < 0.8
        tags = self.queue.covered(channel, tag, multiple)
        assert tags is not None
        if kind == "ack":
            self.add(channel, m.BasicAck(tag, multiple))
        else:
            self.add(channel, m.BasicNack(tag, multiple, kind == "requeue"))
        if kind == "requeue":
            self.queue.give_back(channel, tags)
        else:
            for each in tags:
                del self.queue.out[channel][each]

    def _ack(self, channel: int) -> None:
        self._settle(channel, "ack")

    def _nack(self, channel: int) -> None:
        self._settle(channel, "nack")

    def _requeue(self, channel: int) -> None:
        self._settle(channel, "requeue")

    def _recover(self, channel: int) -> None:
        self.queue.give_back(channel, sorted(self.queue.out[channel]))
        self.add(channel, m.BasicRecover(True))
        self.queue.heard.append((channel, "basic.recover-ok"))

    def _unknown(self, channel: int) -> None:
        tag = self.queue.next_tag[channel] + 5
        self.add(channel, m.BasicAck(tag, self.random.random() < 0.5))
        self._fail(channel)

    def _fail(self, channel: int) -> None:
        self.queue.close(channel)
        self.queue.heard.append((channel, ERROR))

    def _get(self, channel: int) -> None:
        queue = self.queue
        self.add(channel, m.BasicGet("q", False))
        if queue.gone:
            self._fail(channel)
        elif not queue.ready:
            queue.heard.append((channel, "basic.get-empty"))
        else:
            number = queue.ready.pop(0)
            tag = queue.next_tag[channel]
            queue.next_tag[channel] += 1
            queue.out[channel][tag] = number
            queue.heard.append((channel, tag, number, number in queue.returned, len(queue.ready)))

    def _publish(self, channel: int) -> None:
        queue = self.queue
        method = m.BasicPublish("", "q")
        self.frames += publish_frames(channel, method, self.properties, b"%d" % queue.published)
        if not queue.gone:
            queue.ready.append(queue.published)
        queue.published += 1

    def _declare(self, channel: int) -> None:
        self.add(channel, m.QueueDeclare("q", passive=True))
        if self.queue.gone:
            self._fail(channel)
        else:
            self.queue.heard.append((channel, "queue.declare-ok", len(self.queue.ready)))

    def _purge(self, channel: int) -> None:
        self.add(channel, m.QueuePurge("q"))
        if self.queue.gone:
            self._fail(channel)
        else:
            self.queue.heard.append((channel, "queue.purge-ok", len(self.queue.ready)))
            self.queue.ready = []

    def _delete(self, channel: int) -> None:
        self.add(channel, m.QueueDelete("q"))
        self.queue.heard.append((channel, "queue.delete-ok", len(self.queue.ready)))
        self.queue.ready = []
        self.queue.gone = True

    def _close(self, channel: int) -> None:
        self.add(channel, m.ChannelClose(200, "", 0, 0))
        self.queue.close(channel)
        self.queue.heard.append((channel, "channel.close-ok"))

    def _end(self, channel: int) -> None:
        if self.random.random() < 0.5:
            self.add(0, m.ConnectionClose(200, "", 0, 0))
            self.queue.heard.append((0, "connection.close-ok"))
        else:
            self.frames.append(b"")  # the socket goes
        for number in (1, 2):
            if self.queue.next_tag[number]:
                self.queue.close(number)
        self.ended = True


def heard(client: Client) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for received in client.take():
        method = received.method
        if isinstance(method, m.BasicGetOk):
            number = int(received.body)
            found.append(
                (received.channel, method.delivery_tag, number, method.redelivered, method.message_count)
            )
        elif isinstance(method, (m.QueueDeclareOk, m.QueuePurgeOk, m.QueueDeleteOk)):
            found.append((received.channel, method.NAME, method.message_count))
        else:
            found.append((received.channel, method.NAME))
    return found


def drained(client: Client, name: str = "q") -> list[tuple[int, bool]]:
    found = []
    while True:
        client.send(m.BasicGet(name, True))
        client.node.quiet()
        (received,) = client.take()
        if not isinstance(received.method, m.BasicGetOk):
            return found
        found.append((int(received.body), received.method.redelivered))


def outstanding(node: SimNode, count: int, *, durable: bool, exclusive: bool = False) -> Client:
    """A client with ``count`` deliveries out on channel 1, and no consumer any more."""
    client = Client(node).open(1, 2)
    client.declare("q", durable=durable, exclusive=exclusive)
    properties = PERSISTENT if durable else TRANSIENT
    method = m.BasicPublish("", "q")
    client.feed(b"".join(b"".join(publish_frames(2, method, properties, b"%d" % n)) for n in range(count)))
    node.settle()
    client.send(m.BasicConsume("q", "t"))
    node.settle()
    client.send(m.BasicCancel("t"))
    node.settle()
    assert node.queue("q").unacked_count == count
    client.take()
    return client


def run(seed: int, count: int, *, durable: bool, one_write: bool) -> None:
    node = SimNode()
    client = outstanding(node, count, durable=durable)
    queue = ListQueue(count)
    queue.deliver_all(1, count)
    script = Script(seed, queue, durable)
    for _ in range(script.random.randint(2, 12)):
        script.step()
    lost = script.frames and not script.frames[-1]
    if one_write:
        client.feed(b"".join(script.frames))
    else:
        for frame in script.frames:
            client.feed(frame)
            if script.random.random() < 0.3:
                node.turn()
    if lost:
        # What came before the end of the socket is read, as TCP has it.
        node.quiet()
        client.drop()
    node.settle()
    assert not node.faults
    answers = heard(client)
    for channel in (0, 1, 2):
        wanted = [each for each in queue.heard if each[0] == channel]
        found = [each for each in answers if each[0] == channel]
        if durable and queue.gone and script.ended:
            # delete-ok waits for the store, and nothing that waits follows connection.close-ok.
            wanted = wanted[: len(found)]
        assert found == wanted, (seed, script.frames)
    if queue.gone:
        assert "q" not in node.vhost.queues
        assert node.budget.used == 0 or any(queue.out.values())
        return
    real = node.queue("q")
    assert real.message_count() == len(queue.ready)
    assert real.unacked_count == sum(len(out) for out in queue.out.values())
    if durable:
        if not script.ended:
            client.drop()
            for number in (1, 2):
                queue.close(number)
        node.settle()
        node.stop()
        node = SimNode(node.disk, node.definitions, boot=2)
    elif not script.ended:
        client.drop()
        node.settle()
        for number in (1, 2):
            queue.close(number)
    expected = [(number, number in queue.returned) for number in queue.ready]
    assert drained(Client(node).open(1)) == expected


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "SETTLE_SLICE", 50)
    monkeypatch.setattr(delivery_module, "REJECT_SLICE", 45)
    monkeypatch.setattr(delivery_module, "RETURN_SLICE", 40)
    monkeypatch.setattr(tags_module, "RING_PLACES_MAX", 64)
    monkeypatch.setattr(tags_module, "BLOCK_TAGS", 32)
    monkeypatch.setattr(services_module, "DROP_SLICE", 35)
    monkeypatch.setattr(channel_module, "RELEASE_SLICE", 30)
    monkeypatch.setattr(dispatch_module, "RELEASE_SLICE", 30)


@pytest.mark.parametrize("one_write", [True, False], ids=["one write", "several"])
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_commands_behind_slices(small_slices: None, durable: bool, one_write: bool) -> None:
    for seed in first_seeds(60):
        run(seed, 600, durable=durable, one_write=one_write)


@pytest.mark.parametrize("one_write", [True, False], ids=["one write", "several"])
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_commands_behind_slices_as_large_as_they_are(durable: bool, one_write: bool) -> None:
    for seed in first_seeds(4):
        run(100 + seed, 4500, durable=durable, one_write=one_write)


def test_ack_behind_a_return_of_some() -> None:
    node = SimNode()
    client = outstanding(node, 600, durable=True)
    client.feed(m.frame(1, m.BasicNack(17, True, True)) + m.frame(1, m.BasicAck(600, True)))
    node.settle()
    assert node.queue("q").message_count() == 17
    assert drained(client) == [(number, True) for number in range(17)]


@pytest.mark.parametrize("last", [m.ChannelClose(200, "", 0, 0), m.ConnectionClose(200, "", 0, 0)])
def test_close_is_answered_when_everything_is_back(last: m.Method) -> None:
    node = SimNode()
    client = outstanding(node, 3000, durable=False)
    other = Client(node).open(1)
    client.feed(m.frame(1 if isinstance(last, m.ChannelClose) else 0, last))
    turns = 0
    while not client.take():
        node.turn()
        turns += 1
    assert turns > 3
    assert node.queue("q").message_count() == 3000
    assert other.call(m.QueuePurge("q"), m.QueuePurgeOk) == m.QueuePurgeOk(3000)


def test_exclusive_queues_go_before_the_answer_to_close() -> None:
    node = SimNode()
    client = outstanding(node, 2000, durable=False, exclusive=True)
    for number in range(450):
        client.send(m.QueueDeclare(f"x{number}", exclusive=True, nowait=True))
    node.quiet()
    client.feed(m.frame(0, m.ConnectionClose(200, "", 0, 0)))
    turns = 0
    while not client.take():
        node.turn()
        turns += 1
    assert turns > 3
    assert not node.vhost.queues
    assert node.budget.used == 0


def test_socket_that_goes_in_the_midst_of_slices() -> None:
    node = SimNode()
    client = outstanding(node, 3000, durable=True)
    client.feed(m.frame(1, m.BasicNack(2000, True, True)) + m.frame(1, m.BasicAck(3000, True)))
    node.turn()
    client.drop()  # the ack was not looked at yet
    node.settle()
    assert node.queue("q").message_count() == 3000
    assert not node.faults


def test_very_many_channels_of_a_lost_connection_end_in_slices() -> None:
    """2,047 channels that ended together held the event loop for 9 to 11 ms."""
    node = SimNode()
    client = Client(node).open(*range(1, 1001))
    client.send(m.ConfirmSelect(), channel=7)
    client.send(m.TxSelect(), channel=8)
    node.settle()
    counters, channels = node.vhost.counters, client.machine.channels
    closed = [0]
    client.drop()
    while channels:
        closed.append(counters.channel_closed)
        assert counters.channel_closed + len(channels) == 1000, "each is counted all the time"
        node.turn()
    closed.append(counters.channel_closed)
    assert closed[-1] == 1000
    assert max(after - before for before, after in pairwise(closed)) <= 2 * channel_module.END_SLICE
    node.settle()
    assert not node.faults


def test_failing_step_does_not_keep_what_is_behind_it() -> None:
    node = SimNode()
    client = Client(node).open(1)

    def bad() -> bool:
        raise RuntimeError("bad")

    node.enter(client.machine.work.add, bad)
    assert [str(fault) for fault in node.faults] == ["bad"]
    assert client.call(m.BasicQos(), m.BasicQosOk)
