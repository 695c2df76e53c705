"""A node over a simulated disk, its clients, and the lists beside it.

Nothing runs by itself. A move lets a client send something, lets the loop come to rest (``Setting.look``),
and tells the lists the same. Then ``World.compare`` compares both.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from amqp_router.protocol import methods as m
from tests.model.endings.clients import Channel, Out, Peer
from tests.model.endings.clock import Clock
from tests.model.endings.lists import Lists
from tests.model.endings.queue import ModelQueue, Shown
from tests.model.endings.sizes import LOG_OPTIONS
from tests.model.endings.wire import read, serial_of
from tests.nodes import Received, SimDefinitions, SimNode
from tests.persistence.log.simdisk import SimDisk

FANOUT = "amq.fanout"


class Setting:
    """The node, the lists and the clients; ``moves`` is the histogram of what was done."""

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
        self.received: list[tuple[Peer, Received]] = []
        #: Queues whose declare-ok has not come.
        self.declaring: list[ModelQueue] = []
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

    def look(self) -> None:
        """Let the loop come to rest and see what left it. The model follows with ``compare``."""
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        for peer in self.peers:
            self.received += [(peer, received) for received in peer.client.take()]

    def take(self, peer: Peer, channel: Channel, kind: type[m.Method]) -> Received:
        """The answer of this kind that came on a channel; the rest is heard later."""
        for pair in self.received:
            if pair[0] is peer and pair[1].channel == channel.number and isinstance(pair[1].method, kind):
                self.received.remove(pair)
                return pair[1]
        raise AssertionError(f"{peer.name} did not get {kind.__name__}")

    def channel(self, who: int, number: int) -> tuple[Peer, Channel]:
        """A consumer and one of its channels."""
        peer = self.consumers[who]
        return peer, peer.channels[number]

    def policy_of(self, name: str) -> dict[str, Any]:
        """The policy of one queue, which may wait for the queue."""
        value = self.node.core.parameters.values.get(("/", "policy", f"of {name}"))
        return dict(value["definition"]) if value is not None else {}

    def outs(self) -> list[Out]:
        """All deliveries to consumers that are not settled."""
        channels = [channel for peer in self.consumers for channel in peer.channels.values()]
        return [out for channel in channels for out in channel.out.values()]

    def timed(self) -> set[ModelQueue]:
        """The queues of which messages with a time to live are out: one that is over when it returns goes if
        it comes before what stands in front of it.
        """
        return {out.queue for out in self.outs() if out.entry.deadline_us is not None}

    def watch_anew(self) -> None:
        """The timeouts of all deliveries are watched from now on."""
        for out in self.outs():
            out.since_us = self.lists.now_us

    def _seen(self, queue: ModelQueue) -> set[Shown]:
        """The messages of a queue that were delivered in this move."""
        found = set()
        for peer, received in self.received:
            method = received.method
            if isinstance(method, m.BasicDeliver):
                consumer = peer.channels[received.channel].consumers.get(method.consumer_tag)
                if consumer is not None and consumer.queue is queue:
                    says, _ = read(received.properties, method.exchange, method.routing_key)
                    found.add((serial_of(received.body), says.deaths))
        return found

    def _leaving(self) -> set[str]:
        """Names of queues whose removal may not be stored."""
        return {queue.name for queue in self.past.values() if not queue.was_removed}
