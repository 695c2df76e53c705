"""A node over a simulated disk, its clients, and beside it the lists that say how messages must end.

As in ``tests.model.world`` nothing runs by itself, so a seed is a run. This walk is about what ends a message
or a queue without a consumer's will: time, limits, returns, rejections, timeouts, and policies that change
all of them. After every move

- each queue has as many ready messages as its list, and nobody with credit waits while one is ready;
- what was delivered is what the lists gave, in their order, and says each death, flag and count that they
  foretell;
- a publisher is answered by ack, or by nack if a queue was full;
- no delivery has been out for longer than its timeout, and no channel was closed before.

After every start, clean or not, each log has what it must and nothing that it must not (``starts``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from amqp_router.channel import returns
from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from tests.model.endings.lists import KINDS, Death, Entry, Lists, ModelConsumer, ModelQueue, Says
from tests.model.endings.rules import Rules, Told, choose, refuses, rules, target
from tests.model.endings.sizes import LOG_OPTIONS
from tests.model.endings.wire import check, properties_of, read, serial_of
from tests.nodes import Client, Received, SimDefinitions, SimNode, publish_frames
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import ManualClock, ManualTimer
from tests.vhosts.queues.local import typed

FANOUT = "amq.fanout"
#: A channel closes so much later than the timeout of its deliveries says, at most.
LATE_US = 210_000


class Clock(ManualClock):
    """A clock of whole microseconds, so that what is due in one goes off in it."""

    def wall_us(self) -> int:
        return round(self.now * 1_000_000)

    def call_later(self, delay: float, callback: Callable[[], None]) -> ManualTimer:
        timer = super().call_later(delay, callback)
        timer.due = round(timer.due, 6)
        return timer

    def advance(self, seconds: float) -> list[ManualTimer]:
        self.now = round(self.now + seconds, 6)
        return super().advance(0)

    def next_due(self, end: float) -> float:
        """When the next timer goes off, or ``end`` if that is sooner."""
        return min([end, *[timer.due for timer in self._timers if not timer.cancelled]])


class Out:
    """One delivery that is not settled; ``consumer`` is None for basic.get."""

    def __init__(self, queue: ModelQueue, entry: Entry, consumer: ModelConsumer | None, at_us: int) -> None:
        self.queue = queue
        self.entry = entry
        self.consumer = consumer
        self.at_us = at_us
        #: Since when its timeout is watched: a policy may set one later, and a loop that is late looks late.
        self.since_us = at_us

    def place(self) -> tuple[str, str]:
        """Where it comes among others that return with it."""
        return self.queue.name, self.consumer.tag if self.consumer is not None else ""

    def timeout_us(self) -> int:
        """0: none."""
        own = self.consumer.timeout if self.consumer is not None else 0
        given = [each for each in (own, self.queue.rules.timeout or 0) if each]
        return min(given) * 1000 if given else 0


class Channel:
    """What a client knows of one of its channels."""

    def __init__(self, number: int, *, is_transacted: bool = False) -> None:
        self.number = number
        self.is_transacted = is_transacted
        self.reset()

    def settled(self) -> set[int]:
        """The tags that the open transaction settles: no timeout is for them."""
        return {tag for tags, _ in self.settles for tag in tags}

    def queues(self) -> set[str]:
        """Whose deliveries are not settled."""
        return {out.queue.name for out in self.out.values()}

    def reset(self) -> None:
        self.next_tag = 1
        self.out: dict[int, Out] = {}
        self.consumers: dict[str, ModelConsumer] = {}
        self.prefetch = 0
        self.confirming = False
        self.next_sequence = 1
        #: Publishes without an answer: what was taken, and whether a queue refused.
        self.unanswered: dict[int, tuple[list[Entry], bool]] = {}
        self.expected: list[m.Method] = []
        #: Replies that wait for the disk or for the definitions.
        self.late: list[m.Method] = []
        self.cancels: list[str] = []
        #: Of the transaction that is open: publishes, and settled tags with what is done with them.
        self.publishes: list[tuple[list[ModelQueue], Says, bytes]] = []
        self.settles: list[tuple[list[int], str]] = []


class Peer:
    def __init__(self, name: str, *channels: Channel) -> None:
        self.name = name
        self.channels = {channel.number: channel for channel in channels}
        self.client: Client

    def connect(self, node: SimNode) -> None:
        self.client = Client(node).open(*self.channels)
        for channel in self.channels.values():
            channel.reset()
            if channel.is_transacted:
                self.client.send(m.TxSelect(), channel=channel.number)
                channel.expected.append(m.TxSelectOk())


class World:
    """The node, the lists and the clients; ``moves`` has the moves."""

    def __init__(self, random: Random, memory_bytes: int) -> None:
        self.random = random
        self.memory_bytes = memory_bytes
        self.disk = SimDisk()
        self.definitions = SimDefinitions()
        self.boot = 0
        self.serial = 0
        self.moves: Counter[str] = Counter()
        self.lists = Lists()
        self.lists.seen = self._seen
        self.lists.leaving = self._leaving
        #: Lives of queues that are over, or may be.
        self.past: dict[str, ModelQueue] = {}
        self.publisher = Peer("publisher", Channel(1), Channel(2, is_transacted=True))
        self.consumers = [
            Peer("consumer 1", Channel(1), Channel(2)),
            Peer("consumer 2", Channel(1), Channel(2, is_transacted=True)),
        ]
        self.admin = Peer("admin", Channel(1))
        self.peers = [self.publisher, *self.consumers, self.admin]
        self._received: list[tuple[Peer, Received]] = []
        #: Queues whose declare-ok has not come.
        self._declaring: list[ModelQueue] = []
        self.start(Clock(1000.0))

    def start(self, clock: Clock) -> None:
        """A new process over what there is."""
        self.boot += 1
        self.clock = clock
        self.node = SimNode(
            self.disk,
            self.definitions,
            boot=self.boot,
            log_options=LOG_OPTIONS,
            memory_bytes=self.memory_bytes,
            clock=clock,
        )
        self.lists.now_us = clock.wall_us()

    def connect(self) -> None:
        """All clients, and what their channels begin with."""
        self._declaring = []
        for peer in self.peers:
            peer.connect(self.node)
        self.publisher.client.send(m.ConfirmSelect())
        self.publisher.channels[1].expected.append(m.ConfirmSelectOk())
        self.publisher.channels[1].confirming = True
        self.come_to_rest()

    # -- what came of it --------------------------------------------------------------------------------

    def look(self) -> None:
        """Let the loop come to rest and see what left it. The model follows with ``compare``."""
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        for peer in self.peers:
            self._received += [(peer, received) for received in peer.client.take()]

    def come_to_rest(self) -> None:
        """``look`` and ``compare`` after a move in which the model has nothing to do."""
        self.look()
        self.compare()

    def compare(self) -> None:
        """Let the lists come to rest too, and compare."""
        self._note_closed_channels()
        self.lists.rest()
        received, self._received = self._received, []
        taken: dict[ModelQueue, set[int]] = {}
        for peer, each in received:
            self._hear(peer, peer.channels[each.channel], each, taken)
        for queue in self.lists.queues.values():
            assert not queue.given, f"{queue.name} gives {[e.serial for e in queue.given]} to nobody"
            is_foretold = not queue.arrived or queue.kind.priorities is None
            assert not (is_foretold and queue.is_out_of_order), f"{queue.name} did not give its head"
            queue.arrived, queue.returned, queue.is_out_of_order = 0, 0, False
            self._compare(queue)
        for peer in self.peers:
            for channel in peer.channels.values():
                where = f"{peer.name}, channel {channel.number}"
                assert not channel.cancels, f"{where} was not told of {channel.cancels}"
                assert not channel.expected, f"{where} did not get {channel.expected}"
                self._check_timeouts(where, channel)
        self._note_pages()

    def _compare(self, queue: ModelQueue) -> None:
        real = self.node.queue(queue.name)
        ready = [entry.serial for entry in queue.ready]
        assert real.message_count() == len(ready), f"{queue.name}: {real.message_count()}, not {ready}"
        assert real.unacked_count == queue.out, queue.name
        assert real.consumer_count() == len(queue.consumers)
        assert not ready or queue.credit() <= 0, f"{queue.name} keeps a consumer waiting"

    def _watch_anew(self) -> None:
        for peer in self.consumers:
            for channel in peer.channels.values():
                for out in channel.out.values():
                    out.since_us = self.lists.now_us

    def _check_timeouts(self, where: str, channel: Channel) -> None:
        settled = channel.settled()
        for tag, out in channel.out.items():
            timeout_us = out.timeout_us()
            if timeout_us and tag not in settled:
                age_us = self.lists.now_us - out.since_us
                limit_us = timeout_us + max(timeout_us // 4, LATE_US)
                assert age_us <= limit_us, f"{where} is not closed: a delivery is {age_us} µs old"

    def _note_pages(self) -> None:
        for queue in self.lists.queues.values():
            ready: Any = self.node.queue(queue.name).ready
            if getattr(ready, "pager", None) is None:
                continue
            # Behind what is in memory.
            behind = queue.ready[len(ready.requeued or ()) + ready.in_memory() :]  # no quorum queue has one
            for entry in behind:
                if not entry.logged:
                    self.lists.note(queue, entry, "paging")

    def _seen(self, queue: ModelQueue) -> set[tuple[int, tuple[Death, ...]]]:
        """The messages of a queue that were delivered in this move."""
        found = set()
        for peer, received in self._received:
            method = received.method
            if isinstance(method, m.BasicDeliver):
                consumer = peer.channels[received.channel].consumers.get(method.consumer_tag)
                if consumer is not None and consumer.queue is queue:
                    says, _ = read(received.properties, method.exchange, method.routing_key)
                    found.add((serial_of(received.body), says.deaths))
        return found

    def _leaving(self) -> set[str]:
        return {queue.name for queue in self.past.values() if not queue.was_removed}

    # -- hearing ------------------------------------------------------------------------------------------

    def _hear(
        self, peer: Peer, channel: Channel, received: Received, taken: dict[ModelQueue, set[int]]
    ) -> None:
        method = received.method
        if isinstance(method, m.BasicDeliver):
            self._hear_delivery(channel, method, received)
        elif isinstance(method, (m.BasicAck, m.BasicNack)):
            self._hear_confirm(channel, method)
        elif isinstance(method, m.BasicCancel):
            channel.cancels.remove(method.consumer_tag)
        elif channel.late and type(method) is type(channel.late[0]):
            assert method == channel.late.pop(0)
            self._note_answer(method)
        else:
            assert channel.expected, f"{peer.name} got {method} unasked"
            expected = channel.expected.pop(0)
            if isinstance(expected, m.ChannelClose) and isinstance(method, m.ChannelClose):
                assert method.reply_code == expected.reply_code, method
            else:
                assert method == expected, f"{peer.name} got {method} instead of {expected}"

    def _note_answer(self, method: m.Method) -> None:
        if isinstance(method, m.QueueDeclareOk):
            self._declaring.pop(0).was_declared = True

    def _hear_delivery(self, channel: Channel, method: m.BasicDeliver, received: Received) -> None:
        consumer = channel.consumers[method.consumer_tag]
        queue = consumer.queue
        assert consumer.credit() > 0, f"{method} beyond the prefetch limit"
        assert method.delivery_tag == channel.next_tag
        channel.next_tag += 1
        says, count = read(received.properties, method.exchange, method.routing_key)
        shown = (serial_of(received.body), says.deaths)
        # One consumer's messages come in order; of two consumers it is not known who was first.
        entry = next((each for each in queue.given if each.shown == shown), None)
        assert entry is not None, f"{queue.name} gave {says}, body {received.body[:9]!r}: not its turn"
        is_alone = not queue.arrived or queue.arrived + queue.returned <= 1
        is_ordered = queue.kind.priorities is None or is_alone
        assert entry.turn > consumer.last_turn or not is_ordered, f"{queue.name} gave {entry.serial} too late"
        consumer.last_turn = max(entry.turn, consumer.last_turn)
        queue.given.remove(entry)
        assert received.body == entry.body
        assert bool(method.redelivered) == entry.redelivered, f"redelivered flag of {entry.serial}"
        check(entry, queue, says, count, is_get=False)
        queue.out += 1
        if consumer.no_ack:
            self.lists.settle(queue, entry, ack=True)
        else:
            consumer.out += 1
            channel.out[method.delivery_tag] = Out(queue, entry, consumer, self.lists.now_us)

    def _hear_confirm(self, channel: Channel, method: m.BasicAck | m.BasicNack) -> None:
        tag = method.delivery_tag
        assert tag in channel.unanswered, f"{method} answers nothing"
        for number in [n for n in channel.unanswered if n == tag or (method.multiple and n < tag)]:
            entries, is_refused = channel.unanswered.pop(number)
            is_nack = isinstance(method, m.BasicNack)
            assert is_nack == is_refused, f"{method} for publish {number}"
            self.moves["(nack)" if is_nack else "(ack)"] += 1
            if not is_nack:
                for entry in entries:
                    entry.safe = True

    def _note_closed_channels(self) -> None:
        """Channels of consumers that the node has closed because of a timeout."""
        for peer, received in list(self._received):
            method = received.method
            if not isinstance(method, m.ChannelClose) or "timed out" not in method.reply_text:
                continue
            channel = peer.channels[received.channel]
            ages = [
                (self.lists.now_us - out.at_us, out.timeout_us())
                for tag, out in channel.out.items()
                if out.timeout_us() and tag not in channel.settled()
            ]
            assert any(age >= timeout for age, timeout in ages), f"{peer.name} timed out: {ages}"
            self.moves["(timed out)"] += 1
            # What came before the close is given back with the rest.
            mine = [pair for pair in self._received if pair[0] is peer and pair[1].channel == channel.number]
            self._received = [pair for pair in self._received if pair not in mine]
            assert [pair[1].method for pair in mine] == [method], mine
            self.give_back(channel, by_timeout=True)
            self.open_again(peer, channel)

    def open_again(self, peer: Peer, channel: Channel) -> None:
        """Open the channel that the node has closed again."""
        channel.reset()
        opening = [m.ChannelCloseOk(), m.ChannelOpen()]
        channel.expected.append(m.ChannelOpenOk())
        if channel.is_transacted:
            opening.append(m.TxSelect())
            channel.expected.append(m.TxSelectOk())
        peer.client.send(*opening, channel=channel.number)
        self.look()

    def give_back(self, channel: Channel, *, by_timeout: bool = False) -> None:
        """The channel is gone: its consumers leave, and what is out goes back."""
        for consumer in channel.consumers.values():
            consumer.queue.consumers.remove(consumer)
            consumer.queue.used_us = self.lists.now_us
        tags = sorted(channel.out)
        if len(tags) <= returns.RETURN_SLICE:
            # What a get took stands among consumers as if its number were the tag of one.
            tags.sort(key=lambda tag: (channel.out[tag].queue.name, channel.out[tag].place()[1] or str(tag)))
        for tag in tags:
            out = channel.out[tag]
            self.lists.put_back(out.queue, out.entry, by_timeout=by_timeout, is_slice=True)
        for queue in {out.queue.name: out.queue for out in channel.out.values()}.values():
            self.lists.end_return(queue)
        channel.reset()

    # -- queues -------------------------------------------------------------------------------------------

    def targets_left(self, name: str) -> list[str | None]:
        """Where the letters of a queue may go so that no two queues send to the same one.

        Nor to one that refuses them: the node sends those again for a long time (``test_waiting_letters``).
        """
        used = {target(each.kind, each.rules) for each in self.lists.queues.values() if each.name != name}
        used |= {each for each in KINDS if any(refuses(told) for told in self._told(each))}
        return [each for each in ("c", "p", "q", "t", None) if (each or name) not in used]

    def may_refuse(self, name: str) -> bool:
        """Whether no queue sends its letters to this one, or may begin to."""
        told = [each for other in KINDS for each in self._told(other)]
        own = [each for each in self._told(name) if "dead-letter-exchange" in each]
        keys = {each.get("dead-letter-routing-key") for each in told}
        return name not in keys and all("dead-letter-routing-key" in each for each in own)

    def choose(self, name: str, *, is_policy: bool) -> dict[str, Any]:
        """Random arguments or a random policy for a queue.

        If letters of a queue with priorities come back to it while it still gives up messages, those with a
        high one are the next to leave; its limit may have had room for them later. In RabbitMQ, too, they may
        come before or after the rest of what is published; but after a policy all have left that must.
        """
        told = choose(
            self.random,
            KINDS[name],
            self.targets_left(name),
            is_policy=is_policy,
            may_refuse=self.may_refuse(name),
        )
        if self._is_open(name, told, is_policy=is_policy) and name == "p":
            told.pop("max-length-bytes", None)
            told.pop("max-length", None)
        if self._is_open(name, told, is_policy=is_policy):
            told.pop("dead-letter-exchange", None)
            told.pop("dead-letter-routing-key", None)
        return told

    def _is_open(self, name: str, told: Told, *, is_policy: bool) -> bool:
        """Whether letters of the queue with priorities come back to it then, and it is limited."""
        found = self._rules_with(name, told, is_policy=is_policy)
        return found["p"].is_limited and _goes_round("p", found)

    def _rules_with(self, name: str, told: Told, *, is_policy: bool) -> dict[str, Rules]:
        """What the queues obey once one of them is told so."""
        found: dict[str, Rules] = {}
        for each, kind in KINDS.items():
            policy, arguments = self._told(each)
            if each == name and is_policy:
                policy = told
            elif each == name:
                arguments = told
            found[each] = rules(kind, arguments, policy)
        return found

    def _drops_what_is_over(self, queue: ModelQueue, policy: Told) -> bool:
        """Whether a policy makes a queue drop messages of which some are over behind others, and letters come
        back to it meanwhile: then more are dropped, and fewer expire.
        """
        found = self._rules_with(queue.name, policy, is_policy=True)
        told = found[queue.name]
        is_over = any(
            each.deadline_us is not None and each.deadline_us <= self.lists.now_us for each in queue.ready
        )
        return is_over and told.is_limited and told.overflow == "drop-head" and _goes_round(queue.name, found)

    def _told(self, name: str) -> list[Told]:
        """What a queue was told by arguments and policy; the policy may wait for the queue."""
        queue = self.lists.queues.get(name)
        return [self.policy_of(name), queue.arguments if queue is not None else {}]

    def policy_of(self, name: str) -> dict[str, Any]:
        value = self.node.core.parameters.values.get(("/", "policy", f"of {name}"))
        return dict(value["definition"]) if value is not None else {}

    def declare(self, name: str) -> None:
        """Declare a queue with random arguments, or one that is there again."""
        kind = KINDS[name]
        queue = self.lists.queues.get(name)
        channel = self.admin.channels[1]
        if queue is None:
            arguments = self.choose(name, is_policy=False)
            policy = self.policy_of(name)
            if name != "x" and self.random.random() < 0.5:
                # Most walks change by policy where letters go.
                arguments.pop("dead-letter-exchange", None)
                arguments.pop("dead-letter-routing-key", None)
            if "dead-letter-routing-key" in policy:
                arguments.pop("dead-letter-exchange", None)
                arguments.pop("dead-letter-routing-key", None)
        else:
            arguments = dict(queue.arguments)
        method = m.QueueDeclare(name, durable=kind.durable, arguments=_typed(kind, arguments))
        methods = [method]
        if queue is None:
            methods.append(m.QueueBind(name, FANOUT))
        self.admin.client.send(*methods)
        self.look()
        count = len(queue.ready) if queue is not None else 0
        consumers = self._consumers_of(queue) if queue is not None else 0
        channel.late.append(m.QueueDeclareOk(name, count, consumers))
        if queue is None:
            channel.late.append(m.QueueBindOk())
            real = self.node.queue(name)
            queue = ModelQueue(kind, real.incarnation, arguments, self.policy_of(name), self.lists.now_us)
            self.lists.queues[name] = queue
        queue.used_us = self.lists.now_us
        self._declaring.append(queue)
        self.compare()

    def delete(self, name: str) -> None:
        queue = self.lists.queues.get(name)
        if queue is None:
            return
        self.moves["delete"] += 1
        self.admin.client.send(m.QueueDelete(name))
        self.look()
        self.admin.channels[1].late.append(m.QueueDeleteOk(len(queue.ready)))
        self.gone(queue)
        self.compare()

    def gone(self, queue: ModelQueue) -> None:
        """The queue is deleted, or has expired."""
        del self.lists.queues[queue.name]
        self.past[queue.incarnation] = queue
        queue.deleted = True
        queue.ready = []
        for consumer in queue.consumers:
            channel = next(
                each
                for peer in self.consumers
                for each in peer.channels.values()
                if consumer in each.consumers.values()
            )
            channel.cancels.append(consumer.tag)
            del channel.consumers[consumer.tag]
        queue.consumers = []

    def set_policy(self, name: str, definition: Told | None) -> None:
        """Set or clear the policy of one queue, over the messages that wait in it."""
        queue = self.lists.queues.get(name)
        if queue is not None and self._drops_what_is_over(queue, definition or {}):
            return
        self.moves["policy" if definition is not None else "policy cleared"] += 1
        parameters = self.node.core.parameters
        if definition is None or not definition:
            if ("/", "policy", f"of {name}") not in parameters.values:
                return
            self.node.enter(parameters.delete, self.node.vhost, "policy", f"of {name}")
            definition = {}
        else:
            value = {"pattern": f"^{name}$", "definition": dict(definition), "apply-to": "queues"}
            self.node.enter(parameters.put, self.node.vhost, "policy", f"of {name}", value)
        self.look()
        if queue is not None:
            if definition != queue.policy:
                queue.used_us = self.lists.now_us
            was = queue.rules
            queue.obey(definition)
            if queue.rules.timeout != was.timeout:
                self._watch_anew()
            if queue.rules != was:
                for entry in queue.ready:
                    self.lists.note(queue, entry, "policy change")
        self.compare()

    # -- publishing ---------------------------------------------------------------------------------------

    def says(
        self, exchange: str, key: str, *, persistent: bool, priority: int | None, ms: int | None
    ) -> Says:
        return Says(exchange, key, priority, None if ms is None else str(ms), persistent)

    def publish(self, messages: list[Says], sizes: list[int]) -> None:
        """Publish in one chunk, with confirms."""
        self.moves["publish"] += 1
        channel = self.publisher.channels[1]
        data = []
        bodies = [self._body(size) for size in sizes]
        for says, body in zip(messages, bodies, strict=True):
            method = m.BasicPublish(says.exchange, says.key)
            data += publish_frames(1, method, properties_of(says), body)
        self.publisher.client.feed(b"".join(data))
        self.look()
        for says, body in zip(messages, bodies, strict=True):
            entries, is_refused = self._published(self._targets(says), says, body)
            channel.unanswered[channel.next_sequence] = (entries, is_refused)
            channel.next_sequence += 1
        self.compare()

    def _body(self, size: int) -> bytes:
        self.serial += 1
        return (b"%d:" % self.serial).ljust(size, b".")

    def _targets(self, says: Says) -> list[ModelQueue]:
        if says.exchange == FANOUT:
            return [queue for queue in self.lists.queues.values() if queue.is_bound]
        return [self.lists.queues[says.key]] if says.key in self.lists.queues else []

    def _published(self, targets: list[ModelQueue], says: Says, body: bytes) -> tuple[list[Entry], bool]:
        """What the queues do with it: the entries taken, and whether one was refused."""
        entries, is_refused = [], False
        for queue in targets:
            if queue.deleted:
                continue  # since the transaction began
            entry = Entry(serial_of(body), body, says, set())
            if self.lists.publish(queue, entry):
                entries.append(entry)
            else:
                is_refused = True
        return entries, is_refused

    def publish_in_transaction(self, messages: list[Says], sizes: list[int]) -> None:
        """Publish on the channel with transactions: nothing is seen of it before the commit."""
        self.moves["publish in a transaction"] += 1
        channel = self.publisher.channels[2]
        for says, size in zip(messages, sizes, strict=True):
            body = self._body(size)
            method = m.BasicPublish(says.exchange, says.key)
            self.publisher.client.feed(b"".join(publish_frames(2, method, properties_of(says), body)))
            channel.publishes.append((self._targets(says), says, body))
        self.come_to_rest()

    def end_publishes(self, *, commit: bool) -> None:
        """Commit or roll back what was published.

        If one queue gets messages of it and letters of another one, their order is open, in RabbitMQ too.
        """
        channel = self.publisher.channels[2]
        if channel.late:
            return  # the last commit still waits for the disk
        queues = {queue.name for targets, _, _ in channel.publishes for queue in targets}
        commit = commit and not any(queues & self._letters_go_to(name) for name in queues)
        self.moves["commit of publishes" if commit else "rollback of publishes"] += 1
        publishes, channel.publishes = channel.publishes, []
        self.publisher.client.send(m.TxCommit() if commit else m.TxRollback(), channel=2)
        self.look()
        if not commit:
            channel.expected.append(m.TxRollbackOk())
            self.compare()
            return
        is_refused = False
        for targets, says, body in publishes:
            is_refused |= self._published(targets, says, body)[1]
        if is_refused:
            self._close_when_told(self.publisher, channel)
        else:
            channel.late.append(m.TxCommitOk())
        self.compare()

    def _letters_go_to(self, name: str) -> set[str]:
        """The queues that letters of a queue may come to, but for itself."""
        found: set[str] = set()
        into = name
        for _ in KINDS:
            queue = self.lists.queues.get(into)
            into = (target(queue.kind, queue.rules) if queue is not None else None) or name
            found.add(into)
        return found - {name}

    def _comes_round(self, name: str) -> bool:
        """Whether letters of a queue may come back to it."""
        return _goes_round(name, {each.name: each.rules for each in self.lists.queues.values()})

    def _close_when_told(self, peer: Peer, channel: Channel) -> None:
        """A commit has failed: the channel closes when the rest of it is on disk."""
        self.moves["(commit refused)"] += 1
        for _ in range(100):
            closes = [
                pair
                for pair in self._received
                if pair[0] is peer and isinstance(pair[1].method, m.ChannelClose)
            ]
            if closes:
                (pair,) = closes
                method: Any = pair[1].method
                assert (method.reply_code, pair[1].channel) == (406, channel.number), method
                self._received.remove(pair)
                self.open_again(peer, channel)
                return
            self.node.sync_once()
            self.node.commit()
            self.look()
        raise AssertionError("a commit that was refused has no answer")

    # -- consuming ----------------------------------------------------------------------------------------

    def consume(self, who: int, number: int, name: str, tag: str, *, no_ack: bool, prefetch: int) -> None:
        peer, channel = self.channel(who, number)
        queue = self.lists.queues.get(name)
        if queue is None or tag in channel.consumers:
            return
        self.moves["consume without ack" if no_ack else "consume"] += 1
        timeout = self.random.choice((0, 0, 0, 500, 800)) if not no_ack else 0
        arguments = typed(consumer_timeout=timeout) if timeout else {}
        peer.client.send(
            m.BasicQos(0, prefetch, False),
            m.BasicConsume(name, tag, no_ack=no_ack, arguments=arguments),
            channel=number,
        )
        self.look()
        consumer = ModelConsumer(queue, tag, no_ack=no_ack, prefetch=prefetch, timeout=timeout)
        channel.consumers[tag] = consumer
        queue.consumers.append(consumer)
        channel.expected += [m.BasicQosOk(), m.BasicConsumeOk(tag)]
        self.compare()

    def cancel(self, who: int, number: int, tag: str) -> None:
        peer, channel = self.channel(who, number)
        if tag not in channel.consumers:
            return
        self.moves["cancel"] += 1
        peer.client.send(m.BasicCancel(tag), channel=number)
        self.look()
        consumer = channel.consumers.pop(tag)
        consumer.queue.consumers.remove(consumer)
        consumer.queue.used_us = self.lists.now_us
        channel.expected.append(m.BasicCancelOk(tag))
        self.compare()

    def get(self, who: int, number: int, name: str, *, no_ack: bool) -> None:
        peer, channel = self.channel(who, number)
        queue = self.lists.queues.get(name)
        if queue is None:
            return
        self.moves["get"] += 1
        peer.client.send(m.BasicGet(name, no_ack), channel=number)
        self.look()
        self.got(peer, channel, queue, no_ack=no_ack)
        self.compare()

    def got(self, peer: Peer, channel: Channel, queue: ModelQueue, *, no_ack: bool) -> None:
        """The answer to a get, which the node has given."""
        queue.used_us = self.lists.now_us
        self.lists.pump(queue)
        if not queue.ready:
            self._take(peer, channel, m.BasicGetEmpty)
            return
        received = self._take(peer, channel, m.BasicGetOk)
        entry = queue.ready.pop(0)
        self.lists.pump(queue)  # a next message whose time is over is not counted
        tag = channel.next_tag
        channel.next_tag += 1
        method: Any = received.method
        assert received.body == entry.body
        assert (method.delivery_tag, bool(method.redelivered)) == (tag, entry.redelivered)
        assert method.message_count == len(queue.ready)
        says, count = read(received.properties, method.exchange, method.routing_key)
        check(entry, queue, says, count, is_get=True)
        queue.out += 1
        if no_ack:
            self.lists.settle(queue, entry, ack=True)
        else:
            channel.out[tag] = Out(queue, entry, None, self.lists.now_us)

    def _take(self, peer: Peer, channel: Channel, kind: type[m.Method]) -> Received:
        """The answer of this kind that came on a channel; the rest is heard later."""
        for pair in self._received:
            if pair[0] is peer and pair[1].channel == channel.number and isinstance(pair[1].method, kind):
                self._received.remove(pair)
                return pair[1]
        raise AssertionError(f"{peer.name} did not get {kind.__name__}")

    def purge(self, name: str) -> None:
        queue = self.lists.queues.get(name)
        if queue is None:
            return
        self.moves["purge"] += 1
        peer, channel = self.channel(0, 1)
        peer.client.send(m.QueuePurge(name))
        self.look()
        channel.expected.append(m.QueuePurgeOk(self.lists.purge(queue)))
        self.compare()

    # -- settling -----------------------------------------------------------------------------------------

    def settle(self, who: int, number: int, which: int, how: str, *, multiple: bool, follow: bool) -> None:
        """Acknowledge, reject or requeue one delivery or all up to it; ``follow``: and at once look into the
        queue, while the node may still be at it.
        """
        peer, channel = self.channel(who, number)
        settled = channel.settled()
        # A transaction has settled all up to the last one with multiple, or none.
        free = sorted(tag for tag in channel.out if tag not in settled)
        if not free:
            return
        tag = free[which % len(free)]
        multiple = multiple and how != "reject"
        tags = [each for each in free if each <= tag] if multiple else [tag]
        self.moves[how + (" multiple" if multiple else "")] += 1
        method: m.Method
        if how == "ack":
            method = m.BasicAck(tag, multiple)
        elif how == "reject":
            method = m.BasicReject(tag, False)
        else:
            method = m.BasicNack(tag, multiple, how == "requeue")
        queue = channel.out[tag].queue
        follow = follow and not channel.is_transacted and queue.was_declared and not queue.deleted
        sent = [method, m.QueueDeclare(queue.name, passive=True)] if follow else [method]
        peer.client.send(*sent, channel=number)
        self.look()
        if channel.is_transacted:
            channel.settles.append((tags, how))
        else:
            self._settle(channel, tags, how)
        if follow:
            self._looked_into(peer, channel, queue)
        self.compare()

    def _looked_into(self, peer: Peer, channel: Channel, queue: ModelQueue) -> None:
        """A declare came while the node was still at the queue, and is answered as if it was not."""
        self.moves["(looked into at once)"] += 1
        self.lists.pump(queue)
        queue.used_us = self.lists.now_us
        count = self._counted_at_once(peer, channel, len(queue.ready))
        channel.expected.append(m.QueueDeclareOk(queue.name, count, self._consumers_of(queue)))

    def _consumers_of(self, queue: ModelQueue) -> int:
        """What a declare counts: of a quorum queue also unsettled messages of basic.get, and each cancelled
        consumer that has some.
        """
        if not queue.kind.quorum:
            return len(queue.consumers)
        holders = [
            out.consumer
            for peer in self.peers
            for channel in peer.channels.values()
            for out in channel.out.values()
            if out.queue is queue and out.consumer not in queue.consumers
        ]
        cancelled = {holder for holder in holders if holder is not None}
        return len(queue.consumers) + len(cancelled) + holders.count(None)

    def _counted_at_once(self, peer: Peer, channel: Channel, count: int) -> int:
        """What a declare counts that came while the node was at it: ``count``, and letters that came to the
        queue before its turn.
        """
        for found, received in self._received:
            if (found, received.channel) == (peer, channel.number):
                method = received.method
                if isinstance(method, m.QueueDeclareOk):
                    assert count <= method.message_count <= count + self.lists.letters_to_come(), method
                    return method.message_count
        return count

    def _settle(self, channel: Channel, tags: list[int], how: str) -> None:
        owners = {channel.out[tag].consumer for tag in tags}
        is_apart = len(owners) > 1 or (None in owners and len(tags) > 1)
        are_few = len(channel.out) <= returns.RETURN_SLICE
        if not channel.is_transacted:
            are_few |= max(tags) < min(channel.out) + returns.RETURN_SLICE
        if how == "requeue" and is_apart and are_few:
            self._return_apart([channel.out.pop(tag) for tag in sorted(tags)])
            return
        together: list[ModelQueue] = []
        for tag in tags:
            out = channel.out.pop(tag)
            if out.consumer is not None:
                out.consumer.out -= 1
            if how == "requeue":
                if len(tags) > 1 and out.consumer is not None and out.queue not in together:
                    together.append(out.queue)
                self.lists.put_back(out.queue, out.entry, is_slice=out.queue in together)
            else:
                self.lists.settle(out.queue, out.entry, ack=how == "ack")
        for queue in together:
            self.lists.end_return(queue)

    def _return_apart(self, outs: list[Out]) -> None:
        """As few as these come back consumer by consumer, and what a get took before that and one by one. The
        queue delivers between two of them.
        """
        for out in sorted(outs, key=Out.place):
            if out.consumer is not None:
                out.consumer.out -= 1
            self.lists.put_back(out.queue, out.entry)
            self.lists.pump(out.queue)

    def end_settles(self, *, commit: bool) -> None:
        """Commit or roll back what the consumer with transactions has settled.

        What a full queue drops of messages that return one after the other is open, in RabbitMQ too: its
        consumers may get some of them before the last one is back. So is which is first at a queue: a letter,
        or what returns and the room that a consumer got.
        """
        peer, channel = self.channel(1, 2)
        commit = commit and not _returns_apart(channel) and not self._settles_where_letters_come(channel)
        self.moves["commit of acks" if commit else "rollback of acks"] += 1
        for tag in channel.settled():
            channel.out[tag].since_us = self.lists.now_us  # until the next look at it, after a rollback
        settles, channel.settles = channel.settles, []
        peer.client.send(m.TxCommit() if commit else m.TxRollback(), channel=2)
        self.look()
        if commit:
            for tags, how in settles:
                self._settle(channel, tags, how)
        else:
            self._watch_anew()
        channel.expected.append(m.TxCommitOk() if commit else m.TxRollbackOk())
        self.compare()

    def _settles_where_letters_come(self, channel: Channel) -> bool:
        """Whether messages of a queue are settled that gets letters of what is settled with them."""
        settled = [(channel.out[tag].queue.name, how) for tags, how in channel.settles for tag in tags]
        fed = {into for name, how in settled if how != "ack" for into in self._letters_go_to(name)}
        return any(name in fed for name, _ in settled)

    def close_channel(self, who: int, number: int) -> None:
        peer, channel = self.channel(who, number)
        self.keep_letters_apart(who, number)
        self.moves["channel close"] += 1
        sent: list[m.Method] = [m.ChannelClose(), m.ChannelOpen()]
        if channel.is_transacted:
            sent.append(m.TxSelect())
        peer.client.send(*sent, channel=number)
        self.look()
        self.give_back(channel)
        channel.expected += [m.ChannelCloseOk(), m.ChannelOpenOk()]
        if channel.is_transacted:
            channel.expected.append(m.TxSelectOk())
        self.compare()

    def lose_connection(self, who: int) -> None:
        """A consumer's socket is gone, and it comes back."""
        peer = self.consumers[who]
        self.close_all_but_one(peer)
        self.moves["connection lost"] += 1
        peer.client.drop()
        peer.client.machine.state = ConnectionState.CLOSED
        self.look()
        for channel in reversed(peer.channels.values()):  # in any order in RabbitMQ
            self.give_back(channel)
        self.compare()
        peer.connect(self.node)
        self.come_to_rest()

    def close_all_but_one(self, *peers: Peer) -> None:
        """Close channels one by one until at most one has messages of a queue that drops some.

        Several that come to an end together give back in an order that is not foretold. What is over goes
        if it comes back before what stands in front of it.
        """
        outs = [
            out
            for peer in self.consumers
            for channel in peer.channels.values()
            for out in channel.out.values()
        ]
        timed = {out.queue for out in outs if out.entry.deadline_us is not None}
        is_seen = False
        for who, peer in enumerate(self.consumers):
            for number, channel in peer.channels.items():
                if peer in peers:
                    self.keep_letters_apart(who, number)
                drops = any(_drops(out.queue) or out.queue in timed for out in channel.out.values())
                if peer in peers and drops and is_seen:
                    self.close_channel(who, number)
                is_seen |= drops

    def keep_letters_apart(self, who: int, number: int) -> None:
        """Acknowledge what would return to a queue that gets letters of what returns with it: which of them
        comes first is open.
        """
        _, channel = self.channel(who, number)
        names = {
            name
            for queue in {out.queue for out in channel.out.values()}
            if _drops(queue) and not queue.deleted
            for name in self._letters_go_to(queue.name)
        }
        settled = channel.settled()
        for tag, out in sorted(channel.out.items()):
            if out.queue.name in names and _drops(out.queue) and tag not in settled:
                free = sorted(channel.out.keys() - channel.settled())
                self.settle(who, number, free.index(tag), "ack", multiple=False, follow=False)
        if channel.is_transacted and channel.settled() != settled:
            self.end_settles(commit=True)

    def keep_timeouts_apart(self) -> None:
        """Close channels until no two can time out together that would give back to one queue, or one to a
        queue that gets letters because of the other one, if it shows which of them was first.

        In RabbitMQ, too, either may be first, and a queue drops what is too long after each of them.
        """
        returned: set[ModelQueue] = set()
        shown: set[ModelQueue] = set()
        fed: set[ModelQueue] = set()
        for who, peer in enumerate(self.consumers):
            for number, channel in peer.channels.items():
                settled = channel.settled()
                if not any(out.timeout_us() for tag, out in channel.out.items() if tag not in settled):
                    continue
                self.keep_letters_apart(who, number)
                queues = {out.queue for out in channel.out.values()}
                drops = {queue for queue in queues if _drops(queue)}
                shows = {queue for queue in queues if _shows_order(queue)}
                names = {name for queue in drops for name in self._letters_go_to(queue.name)}
                feeds = {queue for name, queue in self.lists.queues.items() if name in names}
                if shows & shown or drops & fed or feeds & returned:
                    self.close_channel(who, number)
                returned, shown, fed = returned | drops, shown | shows, fed | feeds

    def channel(self, who: int, number: int) -> tuple[Peer, Channel]:
        peer = self.consumers[who]
        return peer, peer.channels[number]

    # -- time ---------------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Time goes by, from timer to timer."""
        self.moves["time passes"] += 1
        end = round(self.clock.now + seconds, 6)
        while self.clock.now < end:
            self.keep_timeouts_apart()
            self.node.sleep(max(self.clock.next_due(end) - self.clock.now, 0))
            self.let_timers_go_off()
            self.pass_time()

    def let_timers_go_off(self) -> None:
        """All that are due: some set another one for the rest of their work."""
        for _ in range(1000):
            if self.clock.next_due(self.clock.now + 1) > self.clock.now:
                return
            self.node.sleep(0)
        raise AssertionError("timers go off for ever")

    def pass_time(self) -> None:
        """The time has changed; the timers that had to go off have."""
        self.lists.now_us = self.clock.wall_us()
        self.look()
        self._note_closed_channels()  # what they had came back before the queue expired
        for queue in list(self.lists.queues.values()):
            expires = queue.rules.expires
            if expires is None or queue.consumers:
                continue
            if self.lists.now_us >= queue.used_us + expires * 1000:
                assert queue.name not in self.node.vhost.queues, f"{queue.name} has not expired"
                self.moves["(queue expires)"] += 1
                self.lists.pump(queue)  # messages whose time was over by then are not lost with it
                self.gone(queue)
        self.compare()

    def late_frame(self, who: int, number: int, name: str, seconds: float, *, get: bool) -> None:
        """The loop is late: a client's frame is there before the timers of ``seconds`` go off."""
        peer, channel = self.channel(who, number)
        queue = self.lists.queues.get(name)
        if queue is None or not queue.was_declared or queue.rules.expires is not None:
            return
        self.keep_timeouts_apart()
        seconds = min(self._until_others_are_due(queue), seconds)
        if self._gets_letters_and_returns(name):
            seconds = min(self._until_timed_out(), seconds)
        if seconds <= 0:
            return
        self.moves["late get" if get else "late declare"] += 1
        self.clock.now = round(self.clock.now + seconds, 6)
        self.node.tick.now_us = self.lists.now_us = self.clock.wall_us()
        method = m.BasicGet(name, True) if get else m.QueueDeclare(name, passive=True)
        peer.client.send(method, channel=number)
        self.look()
        self.lists.pump(queue)
        if get:
            self.got(peer, channel, queue, no_ack=True)
            self.lists.pump(queue)  # before the timers go off
        else:
            queue.used_us = self.lists.now_us
            answer = self._take(peer, channel, m.QueueDeclareOk).method
            assert answer == m.QueueDeclareOk(name, len(queue.ready), self._consumers_of(queue)), answer
        self._watch_anew()
        self.node.sleep(0)
        self.let_timers_go_off()
        self.pass_time()

    def frame_among_slices(
        self, who: int, number: int, name: str, seconds: float, *, frame: str, turns: int
    ) -> None:
        """Timers go off, and some ``turns`` later, while messages still expire in slices, a client's frame
        comes: a declare, a get, a publish, or messages that return.

        In RabbitMQ all have expired before the queue looks at it.
        """
        peer, channel = self.channel(who, number)
        queue = self.lists.queues.get(name)
        if queue is None or not queue.was_declared or queue.rules.expires is not None:
            return
        if frame != "declare" and self._comes_round(name):
            return  # what expires comes again before the frame or after it, also by way of other queues
        mine = sorted(tag for tag, out in channel.out.items() if out.queue is queue)
        if frame == "requeue" and (channel.is_transacted or len(mine) != len(channel.out) or not mine):
            return
        if frame == "requeue" and all(each.queue is not queue for each in channel.consumers.values()):
            return  # a nack with multiple does not wait for the queue of a consumer that was cancelled
        seconds = min(self._until_others_are_due(queue), self._until_timed_out(), seconds)
        if seconds <= 0:
            return
        timers = self.clock.advance(seconds)
        self.node.tick.now_us = self.lists.now_us = self.clock.wall_us()
        for timer in timers:
            self.node.enter(timer.go_off)
        for _ in range(turns):
            self.node.turn()
        self.moves[f"{frame} among slices"] += 1
        before = self.node.queue(name).message_count()
        if frame == "publish":
            says = self.says("", name, persistent=number == 1, priority=who * 3 or None, ms=None)
            channel, body = self.publisher.channels[1], self._body(20)
            method: m.Method = m.BasicPublish("", name)
            self.publisher.client.feed(
                b"".join(publish_frames(1, m.BasicPublish("", name), properties_of(says), body))
            )
        else:
            if frame == "declare":
                method = m.QueueDeclare(name, passive=True)
            elif frame == "get":
                method = m.BasicGet(name, True)
            else:
                method = m.BasicNack(mine[-1], True, True)
            peer.client.send(method, channel=number)
        self.look()
        self.lists.pump(queue)
        if before > len(queue.ready):
            self.moves["(the slices were unfinished)"] += 1
        if frame == "publish":
            channel.unanswered[channel.next_sequence] = self._published([queue], says, body)
            channel.next_sequence += 1
        elif frame == "declare":
            self._looked_into(peer, channel, queue)
        elif frame == "get":
            self.got(peer, channel, queue, no_ack=True)
        else:
            self._settle(channel, mine, "requeue")
        self._watch_anew()
        self.let_timers_go_off()
        self.pass_time()

    def _until_timed_out(self) -> float:
        """Seconds until just before a delivery may be too old."""
        outs = [
            out for peer in self.consumers for each in peer.channels.values() for out in each.out.values()
        ]
        times = [out.at_us + out.timeout_us() for out in outs if out.timeout_us()]
        return min([60.0, *[(due_us - 1 - self.lists.now_us) / 1e6 for due_us in times]])

    def _gets_letters_and_returns(self, name: str) -> bool:
        """Whether a timeout would give back to a queue that gets the letters of this one: the frame makes
        those come first, while the model hears of the return first.
        """
        fed = self._letters_go_to(name)
        channels = [channel for peer in self.consumers for channel in peer.channels.values()]
        return any(
            out.queue.name in fed and out.timeout_us() for each in channels for out in each.out.values()
        )

    def _until_others_are_due(self, queue: ModelQueue | None) -> float:
        """Seconds until just before something is due in another queue, which might come before or after."""
        others = [each for each in self.lists.queues.values() if each is not queue]
        times = [e.deadline_us for each in others for e in each.ready if e.deadline_us is not None]
        times += [each.used_us + each.rules.expires * 1000 for each in others if each.rules.expires]
        return min([60.0, *[(due_us - 1 - self.lists.now_us) / 1e6 for due_us in times]])

    # -- what happens elsewhere ---------------------------------------------------------------------------

    def work(self) -> None:
        """One of the threads that write does a job; the loop has not heard of it."""
        self.moves["a thread works"] += 1
        self.node.work()

    def hear(self) -> None:
        if self.node.posted:
            self.moves["the loop hears"] += 1
            self.node.hear()
            self.come_to_rest()

    def commit(self) -> None:
        if self.definitions.pending:
            self.moves["definitions stored"] += 1
            self.node.commit(1)
            self.come_to_rest()

    def settle_down(self) -> None:
        """Everything is synced and stored; nobody waits any more."""
        self.moves["settle down"] += 1
        self.node.commit()
        for _ in range(20):
            self.node.settle()
            self.sleep(0.3)
            self.node.settle()
            self.come_to_rest()
            if self.node.sync.is_idle:
                break
        assert self.node.sync.is_idle
        for peer in self.peers:
            for channel in peer.channels.values():
                assert not channel.unanswered, f"no confirm for {list(channel.unanswered)}"
                assert not channel.late, f"{peer.name} did not get {channel.late}"
        self.harden()

    def harden(self) -> None:
        """All that happened so far is durable."""
        for queue in self.past.values():
            queue.was_removed = True
        for queue in self.lists.queues.values():
            queue.entries = {
                key: entry for key, entry in queue.entries.items() if not entry.ended and not entry.letters
            }
            for entry in queue.entries.values():
                entry.safe = True


def _typed(kind: Any, told: Told) -> Any:
    values = {key.replace("-", "_"): value for key, value in told.items()}
    if kind.priorities is not None:
        values["max_priority"] = kind.priorities
    if kind.quorum:
        values["queue_type"] = "quorum"
    return typed(**values)


def _goes_round(name: str, found: Mapping[str, Rules]) -> bool:
    """Whether letters of a queue come back to it, if the queues obey ``found``."""
    into: str | None = name
    for _ in KINDS:
        into = target(KINDS[into], found[into]) if into in found else None
        if into == name:
            return True
    return False


def _returns_apart(channel: Channel) -> bool:
    """Whether messages of a queue with consumers are settled apart, some return, and it shows: the queue is
    full, or a later one came to it before.

    They return together unless a slice of the commit ends between them; slices are small here.
    """
    returned: set[ModelQueue] = set()
    found: dict[ModelQueue, list[int]] = {}
    times: Counter[ModelQueue] = Counter()
    for tags, how in channel.settles:
        queues = {channel.out[tag].queue for tag in tags}
        times.update(queues)
        for tag in tags:
            found.setdefault(channel.out[tag].queue, []).append(tag)
        if how == "requeue":
            returned |= queues
    apart = [each for each in returned if each.consumers and times[each] > 1]
    return any(each.rules.is_limited or found[each] != sorted(found[each]) for each in apart)


def _drops(queue: ModelQueue) -> bool:
    """Whether what comes back may make a queue give up messages."""
    found = queue.rules
    return found.is_limited or found.ttl is not None or found.returns is not None


def _shows_order(queue: ModelQueue) -> bool:
    """Whether it shows which of two returns was first.

    Of many octets that come back at once more is dropped than of the same ones after each other. Otherwise
    the same messages are dropped, but their letters come in another order. A quorum queue gives again in the
    order of the returns.
    """
    found = queue.rules
    drops_octets = found.octets is not None and found.overflow == "drop-head"
    return queue.kind.quorum or drops_octets or (found.exchange is not None and _drops(queue))
