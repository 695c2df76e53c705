"""Channels whose queues answer later against a model, whatever comes when."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router import queue_maker
from amqp_router.channel.asking import ANSWER_S
from amqp_router.protocol import methods as m
from amqp_router.protocol.flags import REDELIVERED
from tests.nodes import PERSISTENT, Client, Received, SimNode
from tests.toys.late_queue import LateQueue


@pytest.fixture(autouse=True)
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_maker, "Queue", LateQueue)


@pytest.fixture(params=[False, True], ids=["transient", "durable"])
def durable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


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
