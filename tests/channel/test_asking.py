"""basic.get, queue.declare, purge and delete of queues that answer later, or not at all.

``test_late_consumers`` has basic.consume and cancel.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router import queue_maker
from amqp_router.channel.asking import ANSWER_S
from amqp_router.connection.parking import PARKED_BYTES_MAX
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import NotFound, PreconditionFailed
from amqp_router.protocol.flags import REDELIVERED
from tests.nodes import PERSISTENT, TRANSIENT, Client, Received, SimNode, publish_frames
from tests.toys.late_queue import LateQueue


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)


@pytest.fixture(params=[False, True], ids=["transient", "durable"])
def durable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class House:
    """A node with a late queue and messages in it, and a client with two channels."""

    def __init__(self, *, durable: bool = False, count: int = 3) -> None:
        self.node = SimNode()
        other = Client(self.node).open(1)
        self.node.vhost.declare_queue("q", durable=durable)
        self.node.vhost.declare_queue("r")
        for number in range(count):
            other.publish(b"%d" % number, "q", properties=PERSISTENT)
        self.node.settle()
        other.take()
        other.drop()
        self.client = Client(self.node).open(1, 2)

    @property
    def queue(self) -> LateQueue:
        found = self.node.vhost.queues["q"]
        assert isinstance(found, LateQueue)
        return found

    def arrive(self, index: int = 0) -> None:
        """The answer to one question arrives."""
        queue = self.queue
        question = queue.questions.pop(index)
        self.node.enter(question.arrive)
        self.node.settle()

    def consume(self, tag: str, queue: str = "q", channel: int = 1, *, no_ack: bool = False) -> None:
        """Start a consumer, which is answered at once."""
        self.client.send(m.BasicConsume(queue, tag, no_ack=no_ack), channel=channel)
        found = self.node.vhost.queues[queue]
        assert isinstance(found, LateQueue)
        self.node.enter(found.questions.pop().arrive)
        assert self.heard()[0] == (channel, "BasicConsumeOk")

    def heard(self) -> list[tuple[int, str]]:
        """Channels and names of what came."""
        self.node.settle()
        return [(each.channel, type(each.method).__name__) for each in self.client.take()]


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


# -- whatever comes when -----------------------------------------------------------------------------

CHANNELS = [(0, 1), (0, 2), (1, 1), (1, 2)]
#: What a channel sends, and the answers that it may get.
SENT: dict[str, tuple[type[m.Method], ...]] = {
    "get": (m.BasicGetOk, m.BasicGetEmpty),
    "get no_ack": (m.BasicGetOk, m.BasicGetEmpty),
    "declare": (m.QueueDeclareOk,),
    "purge": (m.QueuePurgeOk,),
    "delete": (m.QueueDeleteOk,),
    "consume": (m.BasicConsumeOk,),
    "consume no_ack": (m.BasicConsumeOk,),
    "cancel": (m.BasicCancelOk,),
    "qos": (m.BasicQosOk,),
    "publish": (),
    "ack": (),
    "nack": (),
    "recover": (m.BasicRecoverOk,),
    "close": (m.ChannelCloseOk,),
}
sends = st.tuples(st.sampled_from(sorted(SENT)), st.sampled_from(CHANNELS))
events = st.sampled_from(
    ["act", "arrive", "arrive", "arrive", "drop", "leave", "lose", "time", "turn", "kill"]
)
moves = st.lists(st.one_of(sends, sends, st.tuples(events, st.integers(0, 5))), max_size=40)


class Model:
    """Two clients, and what must be true of all that they saw."""

    def __init__(self, *, durable: bool) -> None:
        self.durable = durable
        self.node = SimNode()
        self.published: list[bytes] = []
        self.purged: list[bytes] = []
        #: Consumer tags so far, and by client and channel those that may get messages now.
        self.consumers = 0
        self.live: dict[tuple[int, int], set[str]] = {}
        #: Bodies of what came, without and with acknowledgement, and of the latter those that were
        #: acknowledged.
        self.taken: list[bytes] = []
        self.shown: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.clients: list[Client] = []
        #: By client and channel: answers that must come, and outstanding tags with their bodies.
        self.expected: dict[tuple[int, int], list[str]] = {}
        self.tags: dict[tuple[int, int], dict[int, bytes]] = {}
        self.queues: list[LateQueue] = []
        for who in (0, 1):
            self.clients.append(self.new_client(who))
        self.declare()

    def new_client(self, who: int) -> Client:
        for number in (1, 2):
            self.forget((who, number))
            self.expected[who, number] = []
        return Client(self.node).open(1, 2)

    def forget(self, where: tuple[int, int]) -> None:
        """The channel has nothing any more."""
        self.tags[where], self.live[where] = {}, set()

    def declare(self) -> None:
        self.node.vhost.declare_queue("q", durable=self.durable)
        self.node.settle()
        queue = self.node.vhost.queues["q"]
        assert isinstance(queue, LateQueue)
        self.queues.append(queue)

    @property
    def queue(self) -> LateQueue:
        return self.queues[-1]

    def move(self, what: str, where: Any) -> None:
        if what in SENT:
            self.send(what, where)
        else:
            self.happen(what, where)
        self.node.settle()
        self.hear()
        if self.queue.deleted:
            self.purged += self.queue.purged
            self.declare()

    def send(self, what: str, where: tuple[int, int]) -> None:
        who, number = where
        client, tags = self.clients[who], self.tags[where]
        if "close" in self.expected[where]:
            return
        if what == "publish":
            body = b"%d" % len(self.published)
            self.published.append(body)
            client.publish(body, "q", properties=PERSISTENT, channel=number)
            self.expected[where].append(f"{what} {len(self.published) - 1}")
            return
        if what in ("ack", "nack"):
            if not tags or "recover" in self.expected[where]:
                return
            tag, body = tags.popitem()
            if what == "ack":
                self.acked.add(body)
            client.send(m.BasicAck(tag) if what == "ack" else m.BasicNack(tag), channel=number)
            return
        self.consumers += 1
        some = min(self.live[where], default="unknown")
        method = {
            "consume": m.BasicConsume("q", f"c{self.consumers}"),
            "consume no_ack": m.BasicConsume("q", f"n{self.consumers}", no_ack=True),
            "cancel": m.BasicCancel(some),
            "get": m.BasicGet("q"),
            "get no_ack": m.BasicGet("q", no_ack=True),
            "declare": m.QueueDeclare("q", durable=self.durable),
            "purge": m.QueuePurge("q"),
            "delete": m.QueueDelete("q"),
            "qos": m.BasicQos(0, 3),
            "recover": m.BasicRecover(True),
            "close": m.ChannelClose(200, "", 0, 0),
        }[what]
        client.send(method, channel=number)
        self.expected[where].append(what)

    def happen(self, what: str, number: int) -> None:
        questions = [(queue, question) for queue in self.queues for question in queue.questions]
        if what in ("act", "arrive") and questions:
            queue, question = questions[number % len(questions)]
            if what == "arrive":
                queue.questions.remove(question)
            self.node.enter(question.act if what == "act" else question.arrive)
        elif what == "lose":
            self.node.enter(self.queue.lose)
        elif what == "time":
            self.node.sleep(ANSWER_S + 1)
        elif what == "drop":
            who = number % 2
            self.clients[who].drop()
            self.node.settle()
            self.clients[who] = self.new_client(who)
        elif what == "leave":
            self.leave(number % 2)
        elif what == "kill":
            ready = self.queue.ready_bodies()
            self.node.vhost.delete_queue("q")
            self.queue.purged += ready

    def leave(self, who: int) -> None:
        client = self.clients[who]
        client.send(m.ConnectionClose(200, "", 0, 0), channel=0)
        for _ in range(2000):
            self.node.settle()
            self.hear(closing=who)
            waiting = [queue for queue in self.queues if queue.questions]
            if not waiting:
                break
            question = waiting[0].questions.pop(0)
            self.node.enter(question.arrive)
        client.drop()
        self.node.settle()
        self.clients[who] = self.new_client(who)

    def hear(self, closing: int = -1) -> None:
        for who, client in enumerate(self.clients):
            for received in client.take():
                if self.clients[who] is not client:
                    break  # it has left
                if received.channel == 0:
                    assert who == closing, received
                    assert isinstance(received.method, m.ConnectionCloseOk), received
                    # All that was sent before is done. A reply that waits for the store is not sent any more.
                    for number in (1, 2):
                        left = [each for each in self.expected[who, number] if not each.startswith("publish")]
                        assert not left or (self.durable and "delete" in left), left
                else:
                    self.answered((who, received.channel), received)

    def answered(self, where: tuple[int, int], received: Received) -> None:
        who, number = where
        expected, method = self.expected[where], received.method
        if isinstance(method, m.ChannelOpenOk):
            return
        if isinstance(method, m.BasicDeliver):
            assert method.consumer_tag in self.live[where], received
            self.took(where, received, method, no_ack=method.consumer_tag.startswith("n"))
            return
        if isinstance(method, m.BasicCancel):
            self.live[where].remove(method.consumer_tag)
            return
        if isinstance(method, m.ChannelClose):
            assert method.reply_code == 404, method
            closes = expected.count("close")
            expected.clear()
            self.forget(where)
            self.clients[who].send(m.ChannelCloseOk(), channel=number)
            if closes:  # crossed ours, and its open is refused or dropped: begin anew
                self.clients[who].drop()
                self.node.settle()
                self.clients[who] = self.new_client(who)
            else:
                self.clients[who].send(m.ChannelOpen(), channel=number)
            return
        while expected and expected[0].startswith("publish"):
            expected.pop(0)
        what = expected.pop(0)
        assert isinstance(method, SENT[what]), (what, received)
        if what == "recover":
            self.tags[where] = {}
        elif what == "close":
            self.forget(where)
            self.clients[who].send(m.ChannelOpen(), channel=number)
        elif isinstance(method, m.BasicGetOk):
            self.took(where, received, method, no_ack=what != "get")
        elif isinstance(method, m.BasicConsumeOk):
            self.live[where].add(method.consumer_tag)
        elif isinstance(method, m.BasicCancelOk):
            self.live[where].discard(method.consumer_tag)

    def took(
        self,
        where: tuple[int, int],
        received: Received,
        method: m.BasicGetOk | m.BasicDeliver,
        *,
        no_ack: bool,
    ) -> None:
        """A message came."""
        assert not method.redelivered or received.body in self.shown
        self.shown.add(received.body)
        if not no_ack:
            self.tags[where][method.delivery_tag] = received.body
        else:
            assert received.body not in self.taken
            self.taken.append(received.body)

    def answer_all(self) -> None:
        for _ in range(2000):
            waiting = [queue for queue in self.queues if queue.questions]
            if not waiting:
                break
            self.node.enter(waiting[0].questions.pop(0).arrive)
            self.node.settle()
            self.hear()
        self.node.settle()

    def end(self) -> None:
        self.answer_all()
        for client in self.clients:
            client.drop()
            self.node.settle()
            self.hear()
        self.answer_all()
        assert not self.node.faults
        assert not self.queue.consumers
        left = list(iter(lambda: self.queue.take(True), None))
        bodies = [message.body() for message in left]
        purged = self.purged + self.queue.purged
        # Nothing is there twice, or again after its end.
        gone = Counter(bodies) + Counter(self.taken) + Counter(purged)
        assert not [body for body, count in gone.items() if count > 1]
        for message in left:
            assert not message.flags & REDELIVERED or message.body() in self.shown
        assert self.queue.unacked_count == 0
        self.compare({*bodies, *self.taken, *purged})

    def compare(self, found: set[bytes]) -> None:
        """Nothing is lost: what is not found was acknowledged, was out when its queue was deleted, or was
        sent on a channel that closed before it.
        """
        missing = set(self.published) - found - self.acked
        refused = len(self.published) - sum(queue.publish_total for queue in self.queues)
        out = sum(queue.out_at_end for queue in self.queues)
        assert len(missing) <= refused + out, missing


@given(durable=st.booleans(), moves=moves)
@settings(max_examples=150, deadline=None)
def test_whatever_comes_when(durable: bool, moves: list[tuple[str, Any]]) -> None:
    before = queue_maker.Queue
    queue_maker.Queue = LateQueue  # type: ignore[misc]
    try:
        model = Model(durable=durable)
        for what, where in moves:
            model.move(what, where)
        model.end()
    finally:
        queue_maker.Queue = before  # type: ignore[misc]
