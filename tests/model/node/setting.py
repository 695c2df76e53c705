"""A node over a simulated disk, clients joined to it, and next to them queues made of lists."""

from __future__ import annotations

from collections import Counter

from persistence.definitions import QueueRow
from tests.model.node.shadow import ShadowChannel, ShadowQueue
from tests.nodes import Client, SimDefinitions, SimNode
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.sizes import OPTIONS
from vhosts.queues.state import FAILED

#: Names of the queues, and whether they are durable.
QUEUES = {"d": True, "e": True, "t": False}
FANOUT = "amq.fanout"
#: Small, so that transient messages are paged.
MEMORY_BYTES = 6000


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


class Setting:
    """The node, the clients and the model; ``moves`` is the histogram of what was done."""

    def __init__(self, memory_bytes: int) -> None:
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
        self.answers: list[ShadowQueue] = []
        self.publisher = Peer("publisher", 2)
        self.consumers = [Peer("consumer 1", 2), Peer("consumer 2", 2)]
        self.admin = Peer("admin", 1)
        self.peers = [self.publisher, *self.consumers, self.admin]
        self.start()

    def start(self) -> None:
        """A new process over what there is, and all clients."""
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

    def channel(self, who: int, number: int) -> tuple[Peer, ShadowChannel]:
        """A consumer and one of its channels."""
        peer = self.consumers[who]
        return peer, peer.channels[number]

    def is_stored(self, queue: ShadowQueue) -> bool:
        """Whether the definition store has this life of the queue."""
        row = self.definitions.rows.get(("queue", ("/", queue.name)))
        return isinstance(row, QueueRow) and row.incarnation == queue.incarnation

    def note_stored(self) -> None:
        """The store has gone on."""
        for queue in [each for each in self.past.values() if each.durable]:
            queue.is_removed = self.definitions.committed >= queue.removal_rev

    def note_failures(self) -> None:
        """Queues that failed have lost their consumers; only a disk that failed may be the reason."""
        for name, queue in self.queues.items():
            if self.node.queue(name).state == FAILED and not queue.failed:
                assert self.has_failed, f"{name} failed by itself: {self.node.queue(name).reason}"
                queue.failed = True
                self.moves["(queue failed)"] += 1
                for consumer in queue.consumers:
                    consumer.channel.cancels.append(consumer.tag)
                    del consumer.channel.consumers[consumer.tag]
                queue.consumers = []
