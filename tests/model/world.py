"""A whole node over a simulated disk, clients joined to it, and next to them queues made of lists.

``World`` is the set of moves; ``walk`` makes random ones from a seed (fast), ``test_model.py`` lets
hypothesis choose them. Nothing runs by itself: the loop, the sync, the definition store, the clock and the
disk move when a move says so, so a seed is a run.

After every move:

- what was delivered is the head of its queue's list, in order, marked as redelivered exactly if it is;
- nobody with credit waits while something is ready;
- counts of ready and unacknowledged messages, and the account of memory, are exact;
- confirms answer each publish once, and none before the queue's definition is stored.

After every start:

- a confirmed message that was not settled is there; what was settled durably is not;
- what is there was published to that life of that queue, persistent, in the order of publishing;
- after a clean stop nothing is missing, and redelivered is what was returned; after a crash, all;
- a queue exists if its declaration was answered, and does not if its deletion was.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from amqp_router.protocol.flags import SPILLED
from amqp_router.protocol.message import JOINED_BYTES_MAX
from persistence.definitions import QueueRow, StoreFailed
from tests.model.shadow import Out, Publish, ShadowChannel, ShadowConsumer, ShadowQueue
from tests.nodes import PERSISTENT, TRANSIENT, Client, Received, SimDefinitions, SimNode, publish_frames
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.sizes import OPTIONS
from tests.planting import walk_seeds
from tests.vhosts.queues.local import order
from vhosts.queues.state import FAILED

QUEUES = {"d": True, "e": True, "t": False}
FANOUT = "amq.fanout"
#: Small, so that transient messages are paged.
MEMORY_BYTES = 6000
#: Of a message that is never joined into one piece.
LARGE = JOINED_BYTES_MAX + 10

#: Where the power fails: the operation before which it does, and a part of the path.
CRASH_POINTS: dict[str, tuple[str, str]] = {
    "before a batch is written": ("write", ".log"),
    "between write and sync": ("sync", ".log"),
    "before a new segment is made": ("create", ".log"),
    "before a new segment's name is durable": ("sync_directory", "data/queues"),
    "before log.json is in place": ("rename", "log.json"),
    "before a checkpoint is in place": ("rename", "checkpoint"),
    "between checkpoint and removal of segments": ("unlink", ".log"),
    "before the commit journal is written": ("write", ".journal"),
    "before the commit journal is synced": ("sync", ".journal"),
    "before the commit journal is removed": ("unlink", ".journal"),
    "while a rewritten segment takes its place": ("rename", ".log"),
    "before a deleted log is renamed": ("rename", ".deleted"),
    "while a deleted log is removed": ("unlink", ".deleted"),
    "while transient messages are paged": ("write", ".page"),
}


class Peer:
    """One client and what it knows."""

    def __init__(self, name: str, channels: int) -> None:
        self.name = name
        self.channels = {number: ShadowChannel(number) for number in range(1, channels + 1)}
        self.client: Client

    def connect(self, node: SimNode) -> None:
        for channel in self.channels.values():
            channel.reset()
        self.client = Client(node).open(*self.channels)


class World:
    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self.moves: Counter[str] = Counter()
        self.disk = SimDisk()
        self.definitions = SimDefinitions()
        self.memory_bytes = memory_bytes
        #: Of the messages that a walk publishes; one in fifty is of the last size.
        self.sizes = [10, 60, 200, 900, 900]
        self.boot = 0
        self.serial = 0
        self.queues: dict[str, ShadowQueue] = {}
        #: Lives of queues that are over, or may be: by incarnation.
        self.past: dict[str, ShadowQueue] = {}
        #: The queues that the admin's unanswered methods are about.
        self._answers: list[ShadowQueue] = []
        self.publisher = Peer("publisher", 2)
        self.consumers = [Peer("consumer 1", 2), Peer("consumer 2", 2)]
        self.admin = Peer("admin", 1)
        self.peers = [self.publisher, *self.consumers, self.admin]
        self._start()
        self.publisher.client.send(m.ConfirmSelect())
        self.publisher.channels[1].expected.append(m.ConfirmSelectOk())
        self.publisher.channels[1].confirming = True
        self._absorb()

    def _start(self) -> None:
        self.boot += 1
        #: Whether the disk has failed in this life of the node.
        self.has_failed = False
        #: Whether the definition store can store for now.
        self.is_storing = True
        self.node = SimNode(
            self.disk, self.definitions, boot=self.boot, log_options=OPTIONS, memory_bytes=self.memory_bytes
        )
        for peer in self.peers:
            peer.connect(self.node)

    # -- what came of it ------------------------------------------------------------------------------

    def _absorb(self) -> None:
        """Let the loop come to rest and compare all that left it."""
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        self._note_failures()
        deliveries: dict[ShadowQueue, list[tuple[int, bool]]] = {}
        for peer in self.peers:
            for received in peer.client.take():
                self._hear(peer, peer.channels[received.channel], received, deliveries)
        for queue, found in deliveries.items():
            # They were taken off the list as they came, one consumer after the other.
            assert sorted(found)[0][0] not in queue.ready
        for queue in list(self.queues.values()):
            self._compare(queue)
        for peer in self.peers:
            for channel in peer.channels.values():
                assert not channel.cancels, f"{peer.name} was not told of {channel.cancels}"
                assert peer is self.admin or not channel.expected, f"no {channel.expected} for {peer.name}"
                assert not [n for n, publish in channel.unanswered.items() if publish.is_due()]
                assert not channel.limit or channel.counted() <= channel.limit
        self._compare_memory()

    def _note_failures(self) -> None:
        for name, queue in self.queues.items():
            if self.node.queue(name).state == FAILED and not queue.failed:
                assert self.has_failed, f"{name} failed by itself: {self.node.queue(name).reason}"
                queue.failed = True
                self.moves["(queue failed)"] += 1
                for consumer in queue.consumers:
                    consumer.channel.cancels.append(consumer.tag)
                    del consumer.channel.consumers[consumer.tag]
                queue.consumers = []

    def _hear(
        self,
        peer: Peer,
        channel: ShadowChannel,
        received: Received,
        deliveries: dict[ShadowQueue, list[tuple[int, bool]]],
    ) -> None:
        method = received.method
        if isinstance(method, m.BasicDeliver):
            self._hear_delivery(channel, method, received, deliveries)
        elif isinstance(method, (m.BasicAck, m.BasicNack)):
            self._hear_confirm(channel, method)
        elif isinstance(method, m.BasicCancel):
            channel.cancels.remove(method.consumer_tag)
        elif isinstance(method, m.BasicReturn):
            assert received.body
            channel.expected.remove(method)
        else:
            assert channel.expected, f"{peer.name} got {received} unasked"
            expected = channel.expected.pop(0)
            if isinstance(expected, m.ChannelClose):
                assert isinstance(method, m.ChannelClose)
                assert method.reply_code == expected.reply_code
            else:
                assert method == expected, f"{peer.name} got {method} instead of {expected}"
            self._note_answer(peer, method)

    def _note_answer(self, peer: Peer, method: m.Method) -> None:
        if peer is not self.admin:
            return
        queue = self._answers.pop(0)
        if isinstance(method, m.QueueDeclareOk):
            queue.is_declare_answered = True
        elif isinstance(method, m.QueueBindOk):
            queue.is_bind_answered = True
        elif isinstance(method, m.QueueDeleteOk):
            queue.is_delete_answered = True

    def _hear_delivery(
        self,
        channel: ShadowChannel,
        method: m.BasicDeliver,
        received: Received,
        deliveries: dict[ShadowQueue, list[tuple[int, bool]]],
    ) -> None:
        consumer = channel.consumers[method.consumer_tag]
        queue = consumer.queue
        assert consumer.has_credit(), f"{method} beyond the prefetch limit"
        assert method.delivery_tag == channel.next_tag
        channel.next_tag += 1
        serial = int(received.body.partition(b":")[0])
        assert serial in queue.ready, f"{serial} is not ready in {queue.name}"
        entry = queue.entries[serial]
        assert received.body == entry.body
        assert (method.exchange, method.routing_key) == entry.route
        assert received.properties == (PERSISTENT if entry.persistent else TRANSIENT)
        assert bool(method.redelivered) == entry.redelivered, f"redelivered flag of {serial} is wrong"
        came = deliveries.setdefault(queue, [])
        # Of two consumers' deliveries it is not known which came first; of one's it is.
        position = queue.ready.index(serial)
        came.append((serial, entry.redelivered))
        del queue.ready[position]
        queue.ready.insert(0, serial)
        queue.take()
        if consumer.no_ack:
            queue.settle(serial)
        else:
            channel.out[method.delivery_tag] = Out(queue, serial, consumer)

    def _hear_confirm(self, channel: ShadowChannel, method: m.BasicAck | m.BasicNack) -> None:
        tag = method.delivery_tag
        assert tag in channel.unanswered, f"{method} answers nothing"
        for number in [n for n in channel.unanswered if n == tag or (method.multiple and n < tag)]:
            publish = channel.unanswered.pop(number)
            if isinstance(method, m.BasicNack):
                self.moves["(nack)"] += 1
                assert (
                    publish.refused or publish.is_unsafe or any(queue.failed for queue, _ in publish.targets)
                )
                continue
            self.moves["(ack)"] += 1
            assert not publish.refused
            assert not publish.is_unsafe
            for queue in publish.passed_over:
                assert queue.is_removed, f"confirmed past {queue.name}, which a crash brings back"
            for queue, entry in publish.targets:
                if entry.logged and not queue.is_removed:
                    assert self._is_stored(queue), "confirmed before the definition"
                    entry.safe = True

    def _is_stored(self, queue: ShadowQueue) -> bool:
        row = self.definitions.rows.get(("queue", ("/", queue.name)))
        return isinstance(row, QueueRow) and row.incarnation == queue.incarnation

    def _note_stored(self) -> None:
        """The store has gone on."""
        for queue in [each for each in self.past.values() if each.durable]:
            queue.is_removed = self.definitions.committed >= queue.removal_rev

    def _compare(self, queue: ShadowQueue) -> None:
        real = self.node.queue(queue.name)
        assert real.incarnation == queue.incarnation
        assert real.message_count() == len(queue.ready), queue.name
        assert real.unacked_count == len(queue.out), queue.name
        assert real.consumer_count() == len(queue.consumers)
        if queue.ready and not queue.failed:
            assert not [c.tag for c in queue.consumers if c.has_credit()], (
                f"{queue.name} keeps a consumer waiting"
            )

    def _compare_memory(self) -> None:
        expected = sum(self.node.queue(name).ready.memory_bytes() for name in self.queues)
        for queue in {*self.queues.values(), *self.past.values()}:
            for serial in (*queue.out, *queue.returned):
                entry = queue.entries[serial]
                if not entry.logged:
                    expected += entry.memory_bytes()
        expected -= self._put_aside_bytes()
        assert self.node.budget.used == expected, "the account of memory is wrong"

    def _put_aside_bytes(self) -> int:
        """Contents that are on disk for as long as their messages are not settled."""
        orders = [order(self.node.queue(name)) for name in self.queues]
        messages = [each for one in orders if one.requeued is not None for each in one.requeued.messages()]
        for peer in self.peers:
            for channel in peer.client.machine.channels.values():
                delivery = channel.delivery
                rings = [delivery.messages, *(block.messages for block in delivery.older.blocks)]
                messages += [message for ring in rings for message in ring if message is not None]
        return sum(message.size() for message in messages if message.flags & SPILLED)

    # -- declarations ---------------------------------------------------------------------------------

    def declare(self, name: str) -> None:
        """Declare and bind a queue, or declare again the one that is there."""
        self.moves["declare"] += 1
        client, channel = self.admin.client, self.admin.channels[1]
        queue = self.queues.get(name)
        if not self.is_storing and QUEUES[name] and (queue is None or queue.is_refusing):
            self._refused(m.QueueDeclare(name, durable=True))
            assert queue is not None or name not in self.node.vhost.queues
            return
        if queue is None:
            client.send(m.QueueDeclare(name, durable=QUEUES[name]), m.QueueBind(name, FANOUT))
            queue = ShadowQueue(name, self.node.queue(name).incarnation, durable=QUEUES[name])
            queue.is_bound = True
            self.queues[name] = queue
            channel.expected += [m.QueueDeclareOk(name, 0, 0), m.QueueBindOk()]
            self._answers += [queue, queue]
        else:
            client.send(m.QueueDeclare(name, durable=QUEUES[name]))
            channel.expected.append(m.QueueDeclareOk(name, len(queue.ready), len(queue.consumers)))
            self._answers.append(queue)
        self._absorb()

    def delete(self, name: str) -> None:
        if name in self.queues and QUEUES[name] and not self.is_storing:
            self.moves["delete that is refused"] += 1
            self._refused(m.QueueDelete(name))
            return  # it is there as it was: compared like all others
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        self.moves["delete"] += 1
        self.admin.channels[1].expected.append(m.QueueDeleteOk(len(queue.ready)))
        self._answers.append(queue)
        for consumer in queue.consumers:
            consumer.channel.cancels.append(consumer.tag)
            del consumer.channel.consumers[consumer.tag]
        queue.consumers = []
        queue.delete()
        self.past[queue.incarnation] = queue
        self.admin.client.send(m.QueueDelete(name))
        queue.removal_rev = self.definitions.committed + len(self.definitions.pending)
        self._absorb()

    def purge(self, name: str) -> None:
        queue = self.queues.get(name)
        if queue is None or queue.failed or queue.is_refusing:
            return
        self.moves["purge"] += 1
        # On a consumer's channel: the admin's may have replies that wait.
        peer = self.consumers[0]
        peer.channels[1].expected.append(m.QueuePurgeOk(len(queue.ready)))
        queue.purge()
        peer.client.send(m.QueuePurge(name))
        self._absorb()

    def commit(self, count: int) -> None:
        """The definition store finishes some of what was submitted, and the loop hears of it."""
        if self.definitions.pending and self.is_storing:
            self.moves["definitions stored"] += 1
            self._commit(count)

    def _commit(self, count: int = 1 << 30) -> None:
        # What is stored is known before the loop hears of it, and confirms what waited for it.
        self.definitions.commit(count)
        self._note_stored()
        self.node.commit(0)
        self._absorb()

    def fail_definitions(self, *, lasting: bool) -> None:
        """The next transaction of the definition store fails: once, or until ``heal_definitions``."""
        if not self.is_storing:
            return
        self.moves["definitions fail" if lasting else "definitions fail once"] += 1
        self.is_storing = False
        for queue in self.queues.values():
            queue.is_refusing = queue.durable and not self._is_stored(queue)
        for queue in self.past.values():
            queue.is_refusing = not queue.is_removed and not self._is_stored(queue)
        for channel in self.publisher.channels.values():
            for publish in channel.unanswered.values():
                publish.is_unsafe = publish.is_unsafe or publish.depends_on_definitions()
        self.node.fail_definitions(StoreFailed(Path("simulated"), "simulated", passing=True))
        if self.admin.channels[1].expected:
            self._admin_is_closed()
        self._absorb()
        if not lasting:
            self.heal_definitions()

    def heal_definitions(self) -> None:
        """The definition store stores all that it had taken."""
        if self.is_storing:
            return
        self.moves["definitions heal"] += 1
        self.is_storing = True
        for queue in (*self.queues.values(), *self.past.values()):
            queue.is_refusing = False
        self.definitions.failed = None
        self.definitions.commit()
        self._note_stored()
        self.node.heal_definitions()
        self._absorb()
        self._compare_with_store()

    def _compare_with_store(self) -> None:
        """All is stored: memory and store have the same."""
        vhost = self.node.vhost
        rows = {(row.name, row.incarnation) for row in self.definitions.of_kind("queue")}
        assert rows == {(q.name, q.incarnation) for q in vhost.queues.values() if q.durable}
        keys = {row.key for row in self.definitions.of_kind("binding")}
        assert keys == {each.row("/").key for each in vhost.bindings if each.is_durable()}

    def _refused(self, method: m.Method) -> None:
        """The definition store refuses what the admin asks for."""
        self.admin.client.send(method)
        self._admin_is_closed()
        self._absorb()

    def _admin_is_closed(self) -> None:
        """The admin's connection is closed for what cannot be stored, and it comes back."""
        self.node.quiet()
        assert self.admin.client.take()[-1].method.reply_code == 541  # type: ignore[attr-defined]
        self._answers = []
        self.admin.client.drop()
        self.admin.client.machine.state = ConnectionState.CLOSED
        self.node.quiet()
        self.admin.connect(self.node)

    # -- publishing -----------------------------------------------------------------------------------

    def publish(self, number: int, keys: list[str], persistent: list[bool], size: int) -> None:
        """Publishes in one chunk; a key is a queue's name, ``*`` for all of them, or nobody's."""
        self.moves["publish"] += 1
        channel = self.publisher.channels[number]
        data = []
        for key, is_persistent in zip(keys, persistent, strict=True):
            self.serial += 1
            body = (b"%d:" % self.serial).ljust(size, b".")
            route = (FANOUT, "") if key == "*" else ("", key)
            method = m.BasicPublish(*route, mandatory=key == "nobody")
            data += publish_frames(number, method, PERSISTENT if is_persistent else TRANSIENT, body)
            if key == "*":
                targets = [queue for queue in self.queues.values() if queue.is_bound]
            else:
                targets = [self.queues[key]] if key in self.queues else []
            passed_over = []
            if is_persistent:
                passed_over = [
                    queue
                    for queue in self.past.values()
                    if not queue.is_removed and (key == queue.name or (key == "*" and queue.is_bound))
                ]
            if method.mandatory:
                channel.expected.append(m.BasicReturn(312, "NO_ROUTE", "", key))
            self._published(channel, targets, passed_over, body, route, is_persistent)
        self.publisher.client.feed(b"".join(data))
        self._absorb()

    def _published(
        self,
        channel: ShadowChannel,
        targets: list[ShadowQueue],
        passed_over: list[ShadowQueue],
        body: bytes,
        route: tuple[str, str],
        persistent: bool,
    ) -> None:
        taken = [
            (queue, queue.publish(self.serial, body, route, persistent=persistent))
            for queue in targets
            if not queue.failed and not queue.is_refusing
        ]
        if channel.confirming:
            publish = Publish(taken, passed_over, refused=len(taken) < len(targets))
            publish.is_unsafe = not self.is_storing and publish.depends_on_definitions()
            channel.unanswered[channel.next_sequence] = publish
            channel.next_sequence += 1

    def select_confirms(self) -> None:
        """From now on the second channel has confirms too."""
        self.moves["confirm.select"] += 1
        channel = self.publisher.channels[2]
        channel.confirming = True
        channel.expected.append(m.ConfirmSelectOk())
        self.publisher.client.send(m.ConfirmSelect(), channel=2)
        self._absorb()

    # -- consuming ------------------------------------------------------------------------------------

    def consume(self, who: int, number: int, name: str, tag: str, *, no_ack: bool) -> None:
        peer, channel = self._channel(who, number)
        queue = self.queues.get(name)
        if queue is None or queue.failed or tag in channel.consumers:
            return
        self.moves["consume without ack" if no_ack else "consume"] += 1
        consumer = ShadowConsumer(
            channel, queue, tag, no_ack=no_ack, prefetch=0 if no_ack else channel.prefetch
        )
        channel.consumers[tag] = consumer
        queue.consumers.append(consumer)
        channel.expected.append(m.BasicConsumeOk(tag))
        peer.client.send(m.BasicConsume(name, tag, no_ack=no_ack), channel=number)
        self._absorb()

    def cancel(self, who: int, number: int, tag: str) -> None:
        peer, channel = self._channel(who, number)
        consumer = channel.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.consumers.remove(consumer)
        self.moves["cancel"] += 1
        channel.expected.append(m.BasicCancelOk(tag))
        peer.client.send(m.BasicCancel(tag), channel=number)
        self._absorb()

    def qos(self, who: int, number: int, count: int, *, is_global: bool) -> None:
        peer, channel = self._channel(who, number)
        self.moves["qos global" if is_global else "qos"] += 1
        if is_global:
            # Lowered below what is out, the limit is kept from now on; then more may be out than it says.
            if count and channel.counted() > count:
                return
            channel.limit = count
        else:
            channel.prefetch = count
            channel.limit = 0
        channel.expected.append(m.BasicQosOk())
        peer.client.send(m.BasicQos(0, count, is_global), channel=number)
        self._absorb()

    def get(self, who: int, number: int, name: str, *, no_ack: bool) -> None:
        peer, channel = self._channel(who, number)
        queue = self.queues.get(name)
        if queue is None or queue.failed:
            return
        self.moves["get"] += 1
        peer.client.send(m.BasicGet(name, no_ack), channel=number)
        if not queue.ready:
            channel.expected.append(m.BasicGetEmpty())
            self._absorb()
            return
        self.node.quiet()
        received = [each for each in peer.client.take() if isinstance(each.method, m.BasicGetOk)]
        if not received and self.node.queue(name).state == FAILED:
            # It failed while it was read: the channel is closed with the reason.
            self._note_failures()
            self._closed_by_server(peer, channel, 406, sent=True)
            return
        entry = queue.take()
        tag = channel.next_tag
        channel.next_tag += 1
        ((_, method, properties, body),) = received
        assert method == m.BasicGetOk(tag, entry.redelivered, *entry.route, len(queue.ready))
        assert body == entry.body
        assert properties == (PERSISTENT if entry.persistent else TRANSIENT)
        if no_ack:
            queue.settle(entry.serial)
        else:
            channel.out[tag] = Out(queue, entry.serial, None)
        self._absorb()

    # -- settling -------------------------------------------------------------------------------------

    def settle(self, who: int, number: int, which: int, multiple: bool, how: str) -> None:
        """Acknowledge, reject or requeue one outstanding tag, or all up to it (0: all)."""
        peer, channel = self._channel(who, number)
        if not channel.out:
            return
        tags = [0, *sorted(channel.out)] if multiple and how != "reject" else sorted(channel.out)
        tag = tags[which % len(tags)]
        self.moves[
            how + (" multiple" if multiple and how not in ("reject", "reject and requeue") else "")
        ] += 1
        method = {
            "ack": m.BasicAck(tag, multiple),
            "nack": m.BasicNack(tag, multiple, False),
            "nack and requeue": m.BasicNack(tag, multiple, True),
            "reject": m.BasicReject(tag, False),
        }[how]
        if how == "reject":
            multiple = False
        for each in channel.covered(tag, multiple):
            if how == "nack and requeue":
                channel.put_back(each)
            else:
                channel.settle(each)
        peer.client.send(method, channel=number)
        self._absorb()

    def recover(self, who: int, number: int) -> None:
        peer, channel = self._channel(who, number)
        self.moves["recover"] += 1
        for tag in sorted(channel.out):
            channel.put_back(tag)
        channel.expected.append(m.BasicRecoverOk())
        peer.client.send(m.BasicRecover(True), channel=number)
        self._absorb()

    def ack_unknown_tag(self, who: int, number: int, back: int, multiple: bool) -> None:
        """A tag that is settled already, or was never given: the channel closes, and all goes back."""
        peer, channel = self._channel(who, number)
        tag = channel.next_tag - back if back < channel.next_tag else channel.next_tag + 5
        if back % 2 and channel.out:
            # One that stood in the ring where another stands now.
            tag = max(max(channel.out) - 16 * (1 + back // 8), 1)
        if tag in channel.out or (tag == 0 and multiple):
            return
        self.moves["ack of an unknown tag"] += 1
        peer.client.send(m.BasicAck(tag, multiple), channel=number)
        self._closed_by_server(peer, channel, 406)

    def _closed_by_server(self, peer: Peer, channel: ShadowChannel, code: int, *, sent: bool = False) -> None:
        cancels = channel.cancels
        channel.close()
        channel.cancels = cancels if not sent else []
        if not sent:
            channel.expected.append(m.ChannelClose(code))
        self._absorb()
        channel.expected.append(m.ChannelOpenOk())
        peer.client.send(m.ChannelCloseOk(), m.ChannelOpen(), channel=channel.number)
        self._absorb()

    def close_channel(self, who: int, number: int) -> None:
        peer, channel = self._channel(who, number)
        self.moves["channel close"] += 1
        channel.close()
        channel.expected += [m.ChannelCloseOk(), m.ChannelOpenOk()]
        peer.client.send(m.ChannelClose(), m.ChannelOpen(), channel=number)
        self._absorb()

    def lose_connection(self, who: int) -> None:
        """A client's socket is gone (the publisher is number 2); it comes back."""
        self.moves["connection lost"] += 1
        peer = [*self.consumers, self.publisher][who]
        for channel in peer.channels.values():
            channel.close()
        peer.client.drop()
        peer.client.machine.state = ConnectionState.CLOSED
        self.node.quiet()
        peer.connect(self.node)
        self._absorb()

    def _channel(self, who: int, number: int) -> tuple[Peer, ShadowChannel]:
        peer = self.consumers[who]
        return peer, peer.channels[number]

    # -- what happens elsewhere -----------------------------------------------------------------------

    def work(self) -> None:
        """One of the threads that write does a job; the loop has not heard of it."""
        if self.node.flusher.has_job:
            self.moves["flusher" if self.node.flusher.count == 1 else "flusher by the journal"] += 1
        elif self.node.worker.jobs:
            self.moves["worker"] += 1
        self.node.work()

    def hear(self) -> None:
        if self.node.posted:
            self.moves["loop hears of the worker"] += 1
            self.node.hear()
            self._absorb()

    def sleep(self, seconds: float) -> None:
        self.moves["time passes"] += 1
        self.node.sleep(seconds)
        self._absorb()

    def settle_down(self) -> None:
        """Everything is synced and stored; nobody waits any more."""
        self.moves["settle down"] += 1
        self.heal_definitions()
        self._settle_down()
        self._compare_with_store()
        for peer in self.peers:
            for channel in peer.channels.values():
                assert not channel.unanswered, f"no confirm for {list(channel.unanswered)}"
                assert not channel.expected
        for queue in self.queues.values():
            queue.harden()

    def _settle_down(self) -> None:
        if self.is_storing:
            self._commit()
        self.node.settle()
        self.node.sleep(0.3)
        self.node.settle()
        assert self.node.sync.is_idle
        self._absorb()

    def fail(self, operation: str, after: int) -> None:
        """The ``after``-th such operation of the disk fails, once."""
        self.moves[f"disk fails: {operation}"] += 1
        self.has_failed = True
        self.disk.fail(operation, after=after, once=True)
        self._settle_down()
        self.disk.hook = None

    # -- ends and starts ------------------------------------------------------------------------------

    def restart(self) -> None:
        """A clean stop and a start."""
        self.moves["clean restart"] += 1
        self._leave()
        self.node.stop()
        self._reopen(clean=True)

    def _leave(self) -> None:
        """All clients are gone at once: nothing that one gives back goes to another."""
        self.node.busy = True
        for peer in self.peers:
            for channel in peer.channels.values():
                channel.close()
            peer.client.drop()
            peer.client.machine.state = ConnectionState.CLOSED
        self.node.busy = False
        self.node.quiet()

    def kill(self) -> None:
        """The process dies; what it wrote stays in the page cache, synced or not."""
        self.moves["kill -9"] += 1
        self._die()
        self.disk.forget_files()
        self._reopen(clean=False)

    def crash(self, seed: int) -> None:
        """The power fails while nothing is being written."""
        self.moves["power fails"] += 1
        self._lose_power(seed)
        self._reopen(clean=False)

    def crash_at(self, point: str, after: int, seed: int) -> bool:
        """The power fails at one of ``CRASH_POINTS``, if the node comes there; whether it did."""
        operation, part = CRASH_POINTS[point]
        if not self._until_power_loss(lambda: self._provoke(Random(seed)), self._at(operation, part, after)):
            self.moves[f"({point}: not reached)"] += 1
            return False
        self.moves[f"power fails {point}"] += 1
        self._lose_power(seed)
        self._reopen(clean=False)
        return True

    def _provoke(self, random: Random) -> None:
        """Enough traffic to come by most of ``CRASH_POINTS``."""
        for _ in range(3):
            keys = [random.choice((*QUEUES, "*")) for _ in range(random.randint(1, 6))]
            self.publish(1, keys, [random.random() < 0.7 for _ in keys], 900)
            self._settle_down()
            name = random.choice([*QUEUES])
            if random.random() < 0.3:
                self.delete(name)
            elif random.random() < 0.3:
                self.purge(name)
            self.work()
        for name in QUEUES:
            self.declare(name)
        for seconds in (61.0, 0.01, 0.01, 0.01):
            self.sleep(seconds)
            self.node.settle()
        self._settle_down()

    def crash_in_stop(self, steps: int, seed: int) -> None:
        """The power fails ``steps`` operations into a clean stop, or right after it."""
        self._leave()
        self.disk.steps_left = steps
        with contextlib.suppress(PowerLoss):
            self.node.stop()
            # All that was to be durable is; the definitions were last.
            self.moves["power fails after a clean stop"] += 1
            self.disk.power_loss(Random(seed))
            self._reopen(clean=True)
            return
        self.moves["power fails in a clean stop"] += 1
        self._lose_power(seed)
        self._reopen(clean=None)

    def crash_at_start(self, steps: int, seed: int) -> None:
        """The power fails, and again while the next start recovers."""
        self._lose_power(seed)
        self.disk.steps_left = steps
        try:
            SimNode(self.disk, self.definitions, boot=self.boot + 1, log_options=OPTIONS)
            self.moves["power fails after a start"] += 1
        except PowerLoss:
            self.moves["power fails in a start"] += 1
        self.boot += 1
        self._lose_power(seed + 1)
        self._reopen(clean=False)

    def crash_unheard(self, seed: int) -> None:
        """A round is synced and definitions are stored, and the power fails before the loop hears of it."""
        self.moves["power fails before the loop hears"] += 1
        while self.node.work():
            pass
        if self.is_storing:
            self.definitions.commit(1)
        self._lose_power(seed)
        self._reopen(clean=False)

    def _at(self, operation: str, part: str, after: int) -> Callable[[str, str], None]:
        left = after

        def hook(name: str, path: str) -> None:
            nonlocal left
            if left < 0:
                raise PowerLoss
            if name == operation and part in path:
                left -= 1
                if left < 0:
                    raise PowerLoss

        return hook

    def _until_power_loss(self, call: Callable[[], None], hook: Callable[[str, str], None]) -> bool:
        self.disk.hook = hook
        try:
            call()
        except PowerLoss:
            return True
        finally:
            self.disk.hook = None
        return False

    def _die(self) -> None:
        self.disk.hook = None
        self.definitions.lose()

    def _lose_power(self, seed: int) -> None:
        self._die()
        self.disk.power_loss(Random(seed))

    def _reopen(self, *, clean: bool | None) -> None:
        """Start again; None: the last stop may have been clean, ask the node."""
        known = {queue.incarnation: queue for queue in (*self.past.values(), *self.queues.values())}
        rows = {row.incarnation: row for row in self.definitions.of_kind("queue")}
        bound = {row.destination for row in self.definitions.of_kind("binding")}
        for queue in known.values():
            stored = queue.incarnation in rows
            if queue.is_delete_answered:
                assert not stored, f"{queue.name} came back after delete-ok"
            elif queue.durable and queue.is_declare_answered and not queue.deleted:
                assert stored, f"{queue.name} is lost after declare-ok"
                assert queue.name in bound or not queue.is_bind_answered
        self._answers = []
        self._start()
        assert clean in (None, self.node.catalog.was_clean)
        clean = self.node.catalog.was_clean
        assert not [name for name in self.node.set_aside if name in rows]
        assert set(self.node.set_aside) <= known.keys()
        self.past = {}
        self.queues = {}
        for incarnation, row in rows.items():
            before = known[incarnation]
            fresh = self._recovered(before, clean=clean)
            fresh.is_bound = row.name in bound
            fresh.is_declare_answered = True
            fresh.is_bind_answered = fresh.is_bound
            self.queues[row.name] = fresh
        assert self.node.vhost.queues.keys() == self.queues.keys()
        channel = self.publisher.channels[1]
        channel.confirming = True
        channel.expected.append(m.ConfirmSelectOk())
        self.publisher.client.send(m.ConfirmSelect())
        self._absorb()

    def _recovered(self, before: ShadowQueue, *, clean: bool) -> ShadowQueue:
        """Compare what a log gave back with what it must, may and must not."""
        is_as_left = clean and not before.failed and not before.deleted
        queue = self.node.queue(before.name)
        messages, _ = queue.log.read(0, queue.log.end, 1 << 20, 1 << 30)
        fresh = ShadowQueue(before.name, before.incarnation, durable=True)
        for message in messages:
            serial = int(message.body().partition(b":")[0])
            entry = before.entries.get(serial)
            where = f"{serial} in {before.name}"
            assert entry is not None, f"{where} was never there, or was settled durably"
            assert entry.logged, f"{where} is not persistent"
            assert message.body() == entry.body
            assert message.route == b"".join(bytes([len(name)]) + name.encode() for name in entry.route)
            is_redelivered = bool(message.flags & 2)
            if is_as_left:
                assert not entry.settled, f"{where} was settled before the clean stop"
                assert is_redelivered == entry.redelivered, f"redelivered flag of {where} is wrong"
            elif not clean or before.failed:
                assert is_redelivered, f"{where} is not marked after a crash"
            kept = fresh.publish(serial, entry.body, entry.route, persistent=True)
            kept.redelivered = is_redelivered
            kept.safe = True  # it was read from the disk and synced by recovery
        assert fresh.ready == sorted(set(fresh.ready)), "the order is lost"
        for serial, entry in before.entries.items():
            if entry.logged and not entry.settled and (entry.safe or is_as_left):
                assert serial in fresh.entries, f"{serial} in {before.name} was confirmed and is lost"
        return fresh

    def close(self) -> None:
        """Consume all that is left: nothing stays behind in memory."""
        self.moves["the end"] += 1
        for peer in self.consumers:
            for number in peer.channels:
                self.close_channel(self.consumers.index(peer), number)
        self.settle_down()
        for name, queue in list(self.queues.items()):
            if not queue.failed:
                while queue.ready:
                    self.get(0, 1, name, no_ack=len(queue.ready) % 2 == 0)
                self.settle(0, 1, 0, True, "ack")
        for name in list(self.queues):
            self.delete(name)
        self.settle_down()
        assert self.node.budget.used == 0, "memory that nothing accounts for"
        self._leave()
        self.node.stop()
        for event, count in self.disk.events.items():
            if not event[-1].isdigit():
                self.moves[f"({event})"] += count


def walk(seed: int, moves: int, world: World | None = None) -> World:
    """Random moves from a seed."""
    random = Random(seed)
    world = world or World(random.choice((0, MEMORY_BYTES, 1 << 20)))
    if random.random() < 0.2:
        world.sizes[-1] = LARGE
    for name in QUEUES:
        world.declare(name)
    busy = random.choice([*QUEUES])
    for _ in range(moves):
        world.node.busy = random.random() < 0.3
        step(world, random, busy)
    world.node.busy = False
    world.close()
    return world


def step(world: World, random: Random, busy: str) -> None:
    """One random move; ``busy`` is the queue with most of the traffic."""
    name = busy if random.random() < 0.5 else random.choice([*QUEUES])
    who, number = random.randrange(2), random.randint(1, 2)
    choice = random.random()
    if choice < 0.24:
        count = random.choice((1, 1, 2, 5, 9))
        keys = [
            random.choice((name, name, name, "*", random.choice([*QUEUES]), "nobody")) for _ in range(count)
        ]
        share = random.choice((0.0, 0.7, 0.7, 1.0, 1.0))
        persistent = [random.random() < share for _ in keys]
        size = world.sizes[-1] if random.random() < 0.02 else random.choice(world.sizes[:-1])
        world.publish(random.choice((1, 1, 2)), keys, persistent, size)
    elif choice < 0.30:
        if random.random() < 0.5:
            world.qos(who, number, random.choice((1, 2, 7)), is_global=random.random() < 0.5)
        world.consume(who, number, name, random.choice("xyz"), no_ack=random.random() < 0.15)
    elif choice < 0.32:
        consuming = [
            (i, n, t) for i in (0, 1) for n in (1, 2) for t in world.consumers[i].channels[n].consumers
        ]
        world.cancel(*random.choice(consuming or [(0, 1, "x")]))
    elif choice < 0.335:
        world.qos(who, number, random.choice((0, 1, 2, 7)), is_global=random.random() < 0.5)
    elif choice < 0.38:
        world.get(who, number, name, no_ack=random.random() < 0.3)
    elif choice < 0.60:
        holding = [(i, n) for i in (0, 1) for n in (1, 2) if world.consumers[i].channels[n].out]
        how = random.choice(("ack",) * 6 + ("nack", "nack and requeue", "nack and requeue", "reject"))
        which = random.choice((0, random.randrange(20)))
        world.settle(*random.choice(holding or [(0, 1)]), which, random.random() < 0.3, how)
    elif choice < 0.615:
        world.recover(who, number)
    elif choice < 0.625:
        channels = [(world.consumers[i].channels[n].next_tag, i, n) for i in (0, 1) for n in (1, 2)]
        _, who, number = max(channels)
        world.ack_unknown_tag(who, number, random.randrange(-2, 20), random.random() < 0.5)
    elif choice < 0.63:
        world.close_channel(who, number)
    elif choice < 0.635:
        world.lose_connection(random.randrange(3))
    elif choice < 0.65:
        world.purge(name)
    elif choice < 0.66:
        world.delete(name)
    elif choice < 0.68:
        world.declare(name)
    elif choice < 0.70:
        world.commit(random.randint(1, 3))
    elif choice < 0.71:
        if world.is_storing:
            world.fail_definitions(lasting=random.random() < 0.7)
        else:
            world.heal_definitions()
    elif choice < 0.715:
        world.select_confirms()
    elif choice < 0.80:
        world.work()
    elif choice < 0.90:
        world.hear()
    elif choice < 0.92:
        world.settle_down()
    elif choice < 0.945:
        world.sleep(random.choice((0.05, 0.3, 0.3, 1.5, 61.0)))
    elif choice < 0.95:
        operations = ["sync", "write", "create", "rename", "sync_directory", "read"]
        if world.sizes[-1] == LARGE:
            # A large message is read while it is sent: its receiver loses the connection in its midst.
            operations.remove("read")
        world.fail(random.choice(operations), random.randrange(4))
    else:
        end(world, random)


def end(world: World, random: Random) -> None:
    """The node ends, one way or another, and starts again."""
    seed = random.randrange(1 << 30)
    choice = random.randrange(10)
    if choice < 2:
        world.restart()
    elif choice == 2:
        world.crash(seed)
    elif choice == 3:
        world.kill()
    elif choice == 4:
        world.crash_unheard(seed)
    elif choice == 5:
        world.crash_in_stop(random.randrange(20), seed)
    elif choice == 6:
        world.crash_at_start(random.randrange(12), seed)
    else:
        world.crash_at(random.choice([*CRASH_POINTS]), random.choice((0, 0, 1, 3)), seed)


def main(first: int, last: int, moves: int = 120) -> int:
    """Walk the seeds ``[first, last)``."""
    return walk_seeds(first, last, lambda seed: walk(seed, moves).moves)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
