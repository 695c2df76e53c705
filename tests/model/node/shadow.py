"""The model: queues made of lists, channels made of dictionaries.

A message is known by its serial number, which rises with every publish, so a queue's order is that of its
serials. ``Entry`` keeps apart what is certain and what is not: confirmed and unsettled must survive whatever
happens, settled and durable must never come back, and all else may do either.
"""

from __future__ import annotations

from bisect import insort

from amqp_router.protocol import methods as m

#: What the memory budget counts for a message beside its frames.
OVERHEAD = 160


class Entry:
    """One message in one queue."""

    def __init__(
        self, serial: int, body: bytes, route: tuple[str, str], *, persistent: bool, logged: bool
    ) -> None:
        self.serial = serial
        self.body = body
        #: Exchange and routing key.
        self.route = route
        self.persistent = persistent
        #: The queue's log has it; else it lives in memory or in the page file.
        self.logged = logged
        self.redelivered = False
        #: The publisher was told, or everything was synced since: it must survive.
        self.safe = False
        self.settled = False

    def memory_bytes(self) -> int:
        properties = 3 if self.persistent else 2
        frames = -(-len(self.body) // 131064)
        return 8 + 12 + properties + len(self.body) + 8 * frames + OVERHEAD


class ShadowQueue:
    """What a queue must hold; ``ready`` in order, ``out`` delivered and not settled."""

    def __init__(self, name: str, incarnation: str, *, durable: bool) -> None:
        self.name = name
        self.incarnation = incarnation
        self.durable = durable
        self.entries: dict[int, Entry] = {}
        self.ready: list[int] = []
        self.out: set[int] = set()
        #: Of ``ready``, what was returned in this life of the node.
        self.returned: set[int] = set()
        self.consumers: list[ShadowConsumer] = []
        self.is_bound = False
        self.is_declare_answered = False
        self.is_bind_answered = False
        self.deleted = False
        #: The deletion is stored, so it does not come back.
        self.is_removed = not durable
        #: The revision of the definitions that stores the deletion.
        self.removal_rev = 0
        #: The definition store failed before it had it: until it has, nothing is taken.
        self.is_refusing = False
        self.is_delete_answered = False
        self.failed = False

    def publish(self, serial: int, body: bytes, route: tuple[str, str], *, persistent: bool) -> Entry:
        entry = Entry(serial, body, route, persistent=persistent, logged=persistent and self.durable)
        self.entries[serial] = entry
        self.ready.append(serial)
        return entry

    def take(self) -> Entry:
        """The next one is delivered."""
        serial = self.ready.pop(0)
        self.returned.discard(serial)
        self.out.add(serial)
        return self.entries[serial]

    def put_back(self, serial: int) -> None:
        self.out.remove(serial)
        if self.deleted:
            return
        self.entries[serial].redelivered = True
        self.returned.add(serial)
        insort(self.ready, serial)

    def settle(self, serial: int) -> None:
        self.out.discard(serial)
        if self.deleted:
            return  # not recorded any more: a crash may bring it back
        entry = self.entries[serial]
        entry.settled = True
        if not entry.logged:
            del self.entries[serial]

    def purge(self) -> None:
        for serial in self.ready:
            self.settle(serial)
        self.ready = []
        self.returned = set()

    def delete(self) -> None:
        self.deleted = True
        self.ready = []
        self.returned = set()

    def harden(self) -> None:
        """All that happened so far is durable."""
        if self.failed or self.deleted:
            return
        self.entries = {serial: entry for serial, entry in self.entries.items() if not entry.settled}
        for entry in self.entries.values():
            entry.safe = True


class ShadowConsumer:
    def __init__(
        self, channel: ShadowChannel, queue: ShadowQueue, tag: str, *, no_ack: bool, prefetch: int
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.prefetch = prefetch

    def has_credit(self) -> bool:
        if self.channel.limit and self.channel.counted() >= self.channel.limit:
            return False
        if self.no_ack:
            return True
        mine = sum(delivery.consumer is self for delivery in self.channel.out.values())
        return not self.prefetch or mine < self.prefetch


class Out:
    """One delivery that is not settled; ``consumer`` is None for basic.get."""

    def __init__(self, queue: ShadowQueue, serial: int, consumer: ShadowConsumer | None) -> None:
        self.queue = queue
        self.serial = serial
        self.consumer = consumer


class Publish:
    """A publish that is to be confirmed."""

    def __init__(
        self, targets: list[tuple[ShadowQueue, Entry]], passed_over: list[ShadowQueue], *, refused: bool
    ) -> None:
        self.targets = targets
        #: Queues that it would go to if their deletion was undone by a crash.
        self.passed_over = passed_over
        #: A target could not take it.
        self.refused = refused
        #: The definition store failed before it had a target or a deletion.
        self.is_unsafe = False

    def depends_on_definitions(self) -> bool:
        """Whether a failing definition store makes it unsafe."""
        return not all(queue.is_removed for queue in self.passed_over) or any(
            queue.is_refusing and entry.logged for queue, entry in self.targets
        )

    def is_due(self) -> bool:
        """Whether nothing stands against an answer at the end of the tick."""
        if self.refused:
            return True
        if any(entry.logged and not (q.is_removed or q.is_refusing) for q, entry in self.targets):
            return False
        return self.is_unsafe or all(queue.is_removed for queue in self.passed_over)


class ShadowChannel:
    def __init__(self, number: int) -> None:
        self.number = number
        self.reset()

    def reset(self) -> None:
        self.next_tag = 1
        self.out: dict[int, Out] = {}
        self.consumers: dict[str, ShadowConsumer] = {}
        self.prefetch = 0
        self.limit = 0
        self.confirming = False
        self.next_sequence = 1
        self.unanswered: dict[int, Publish] = {}
        #: Replies that must come, in order.
        self.expected: list[m.Method] = []
        #: Tags of consumers that must be cancelled by the server.
        self.cancels: list[str] = []

    def counted(self) -> int:
        """Deliveries that count against the channel's limit."""
        return sum(delivery.consumer is not None for delivery in self.out.values())

    def covered(self, tag: int, multiple: bool) -> list[int]:
        """The outstanding tags that a method names."""
        if not multiple:
            return [tag]
        return sorted(each for each in self.out if tag in (0, each) or each < tag)

    def settle(self, tag: int) -> None:
        delivery = self.out.pop(tag)
        delivery.queue.settle(delivery.serial)

    def put_back(self, tag: int) -> None:
        delivery = self.out.pop(tag)
        delivery.queue.put_back(delivery.serial)

    def close(self) -> None:
        """Consumers leave, what is out goes back, publishes are nobody's any more."""
        for consumer in self.consumers.values():
            consumer.queue.consumers.remove(consumer)
        for tag in sorted(self.out):
            self.put_back(tag)
        self.reset()
