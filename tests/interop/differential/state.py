"""The steps of a walk, and what the next ones depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.interop.differential.vocabulary import QUORUM_QUEUES, REPLY_TO
from tests.interop.wire import Received

Channel = tuple[int, int]

#: Methods that are answered unless "nowait" is set.
ANSWERED = frozenset(
    (
        "basic.cancel",
        "basic.consume",
        "basic.get",
        "basic.qos",
        "basic.recover",
        "channel.close",
        "channel.open",
        "confirm.select",
        "exchange.bind",
        "exchange.declare",
        "exchange.delete",
        "exchange.unbind",
        "queue.bind",
        "queue.declare",
        "queue.delete",
        "queue.purge",
        "queue.unbind",
        "tx.commit",
        "tx.rollback",
        "tx.select",
    )
)


class Step(NamedTuple):
    """One operation: a method, ``publish``, a ``burst`` of them, a ``frame`` or a ``close``."""

    connection: int
    channel: int
    name: str
    fields: dict[str, Any]

    @property
    def is_answered(self) -> bool:
        """Whether something comes in any case, an answer or an error, however busy the broker is."""
        return self.name in ANSWERED and not self.fields.get("nowait")


class State:
    """What the next operations depend on, as the answers tell."""

    def __init__(self) -> None:
        self.open: set[Channel] = set()
        #: unsettled delivery tags, and (channel, consumer tag) -> queue
        self.unacked: dict[Channel, list[int]] = {}
        #: Queue and consumer tag, "" after basic.get, of each delivery.
        self.sources: dict[tuple[Channel, int], tuple[str, str]] = {}
        self.consumers: dict[tuple[Channel, str], str] = {}
        self.no_ack: set[tuple[Channel, str]] = set()
        #: Transactional channels.
        self.tx: set[Channel] = set()
        #: The bodies of messages that ask for a direct reply, in the order in which they were seen.
        self.asking: list[str] = []
        #: Queue and key of the binding of the hash exchange. With one binding the hash has no choice.
        self.hashed: tuple[str, str] | None = None

    def queue_of(self, key: Channel, tag: str) -> str:
        return self.consumers.get((key, tag), "")

    def close(self, matches: Callable[[Channel], bool]) -> None:
        self.open = {key for key in self.open if not matches(key)}
        self.tx = {key for key in self.tx if not matches(key)}
        self.unacked = {key: tags for key, tags in self.unacked.items() if not matches(key)}
        self.consumers = {key: queue for key, queue in self.consumers.items() if not matches(key[0])}

    def learn(self, step: Step, answers: Iterable[tuple[Channel, Received]]) -> None:
        answers = list(answers)
        key = (step.connection, step.channel)
        is_silent = step.fields.get("nowait") and not any("close" in each.name for _, each in answers)
        if step.name == "basic.consume" and is_silent:
            self.begin_consumer(key, step.fields["tag"], step)
        elif step.name == "basic.cancel" and is_silent:
            self.consumers.pop((key, step.fields["tag"]), None)
        for key, received in answers:
            if received.properties.get("reply_to", "").startswith(f"{REPLY_TO}.") and received.body:
                self.asking.append(received.body.decode())
            if received.name == "channel.open-ok":
                self.open.add(key)
            elif received.name == "tx.select-ok":
                self.tx.add(key)
            elif received.name in ("channel.close", "channel.close-ok"):
                self.close(lambda other, key=key: other == key)  # type: ignore[misc]
            elif received.name in ("connection.close", "eof", "reset"):
                self.close(lambda other, key=key: other[0] == key[0])  # type: ignore[misc]
            elif received.name == "basic.consume-ok":
                self.begin_consumer(key, received.tag, step)
            elif received.name in ("basic.cancel", "basic.cancel-ok"):
                self.consumers.pop((key, received.tag), None)
            elif (received.name == "basic.deliver" and (key, received.tag) not in self.no_ack) or (
                received.name == "basic.get-ok" and not step.fields.get("no_ack")
            ):
                self.unacked.setdefault(key, []).append(received.delivery_tag)
                is_get = received.name == "basic.get-ok"
                tag = "" if is_get else received.tag
                queue = step.fields["queue"] if is_get else self.queue_of(key, tag)
                self.sources[key, received.delivery_tag] = (queue, tag)
            elif received.name == "queue.bind-ok" and step.fields["exchange"] == "x-hash":
                self.hashed = (step.fields["queue"], step.fields["routing_key"])
            elif self.unhashes(step, received.name):
                self.hashed = None

    def has_one_order(self, key: Channel, tags: Iterable[int]) -> bool:
        """Whether deliveries come again in the same order as in RabbitMQ when they return together.

        In a quorum queue without a delivery limit they go to its end there.
        """
        return not {self.sources[key, tag][0] for tag in tags} & {*QUORUM_QUEUES} - {"g1"}

    def returns_late(self, step: Step) -> Callable[[Channel, str], bool]:
        """Whether the queue of a consumer gets back later what the channel of ``step`` has, if that fails: it
        is a quorum queue, or the channel has no consumer there. As it is before the step.
        """
        key = (step.connection, step.channel)
        consumed = {queue for (other, _), queue in self.consumers.items() if other == key}
        at_once = consumed.difference(QUORUM_QUEUES)
        late = {each for each, queue in self.consumers.items() if queue not in at_once}
        return lambda channel, tag: (channel, tag) in late

    def channels_of_quorum_queues(self) -> set[Channel]:
        """The channels whose consumers are those of a quorum queue."""
        return {key for (key, _), queue in self.consumers.items() if queue in QUORUM_QUEUES}

    def begin_consumer(self, key: Channel, tag: str, step: Step) -> None:
        self.consumers[key, tag] = step.fields.get("queue", "")
        if step.fields.get("no_ack"):
            self.no_ack.add((key, tag))
        else:
            self.no_ack.discard((key, tag))

    def unhashes(self, step: Step, answer: str) -> bool:
        """Whether the hash exchange has no binding once ``step`` has that answer."""
        queue, exchange = step.fields.get("queue"), step.fields.get("exchange")
        if self.hashed is None:
            return False
        if answer == "queue.unbind-ok":
            return exchange == "x-hash" and self.hashed == (queue, step.fields["routing_key"])
        if answer == "queue.delete-ok":
            return queue == self.hashed[0]
        return answer == "exchange.delete-ok" and exchange == "x-hash"
