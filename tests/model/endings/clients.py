"""What clients know of their channels and of the deliveries that they have not settled."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.endings.queue import Entry, ModelConsumer, ModelQueue
from tests.model.endings.says import Says
from tests.nodes import Client, SimNode


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
        """Its timeout; 0 for none."""
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
    """One client and its channels."""

    def __init__(self, name: str, *channels: Channel) -> None:
        self.name = name
        self.channels = {channel.number: channel for channel in channels}
        self.client: Client

    def connect(self, node: SimNode) -> None:
        """A new connection with all channels, of which nothing is known yet."""
        self.client = Client(node).open(*self.channels)
        for channel in self.channels.values():
            channel.reset()
            if channel.is_transacted:
                self.client.send(m.TxSelect(), channel=channel.number)
                channel.expected.append(m.TxSelectOk())
