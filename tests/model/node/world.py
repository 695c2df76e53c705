"""The node beside the queues made of lists, compared after every move:

- what was delivered is the head of its queue's list, in order, marked as redelivered exactly if it is;
- nobody with credit waits while something is ready;
- counts of ready and unacknowledged messages, and the account of memory, are exact;
- confirms answer each publish once, and none before the queue's definition is stored.

What holds after every start is said by the package, and compared by ``starts``.
"""

from __future__ import annotations

from amqp_router.protocol import methods as m
from amqp_router.protocol.flags import SPILLED
from tests.model.node import hearing
from tests.model.node.setting import MEMORY_BYTES, Setting
from tests.model.node.shadow import ShadowQueue
from tests.vhosts.queues.local import order


class World(Setting):
    """A setting whose node is compared with the lists after every move."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__(memory_bytes)
        self.begin()

    def begin(self) -> None:
        """The publisher's first channel has confirms in every life of the node."""
        self.publisher.client.send(m.ConfirmSelect())
        self.publisher.channels[1].expected.append(m.ConfirmSelectOk())
        self.publisher.channels[1].confirming = True
        self.absorb()

    def absorb(self) -> None:
        """Let the loop come to rest and compare all that left it."""
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        self.note_failures()
        deliveries: dict[ShadowQueue, list[tuple[int, bool]]] = {}
        for peer in self.peers:
            for received in peer.client.take():
                hearing.hear(self, peer, received, deliveries)
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
