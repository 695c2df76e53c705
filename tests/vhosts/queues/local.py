"""Queues without a node around them, and consumers that keep what they get."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.flags import ACK, PERSISTENT, REDELIVERED
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.output import Output
from amqp_router.protocol.tick import Tick
from persistence.memory import MemoryBudget
from vhosts.queues.contents import Contents
from vhosts.queues.destination import Host
from vhosts.queues.handle import REDELIVERY_UNITS, UNLIMITED, Consumer
from vhosts.queues.queue import Queue
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.queues.services import QueueServices


def new_tick() -> Tick:
    """An agenda that nobody runs."""
    tick = Tick(lambda callback: None)
    tick.callback = list
    return tick


def transient_queue(name: str = "q", *, memory_bytes: int = 1 << 30, tick: Tick | None = None) -> Queue:
    """A queue without a log."""
    queue = Queue(QueueServices(tick or new_tick(), Contents(MemoryBudget(memory_bytes))))
    queue.name = name
    queue.vhost = Host("/")
    queue.attach(name)
    return queue


def order(queue: Any) -> FifoOrder:
    """The ready messages of a queue of the usual kind."""
    assert isinstance(queue.ready, FifoOrder)
    return queue.ready


def message(text: Any, *, persistent: bool = False, size: int = 0) -> Message:
    made = build_message(b"\x00\x01q", b"\x00\x00", str(text).encode().ljust(size, b" "))
    if persistent:
        made.flags = PERSISTENT
    return made


def text_of(message: Message) -> str:
    return message.body().decode().rstrip()


def typed(**values: Any) -> Arguments:
    """Arguments of a declaration; ``message_ttl`` is ``x-message-ttl``."""
    return decode_table(
        encode_plain({f"x-{key.replace('_', '-')}": value for key, value in values.items()}), 0
    )[0]


def declared(node: Any, name: str = "q", *, durable: bool = True, **arguments: Any) -> Queue:
    """A queue of a ``SimNode`` with arguments as for ``typed``."""
    node.vhost.declare_queue(name, durable=durable, arguments=typed(**arguments))
    node.settle()
    queue: Queue = node.queue(name)
    return queue


class Sink(Consumer):
    """Keeps what it is delivered; ``got`` holds texts, ``messages`` what is not settled yet."""

    def __init__(self, queue: Queue, credit: int = UNLIMITED, *, no_ack: bool = False) -> None:
        super().__init__()
        self.queue = queue
        self.credit = credit
        self.no_ack = no_ack
        self.output = Output()
        self.got: list[str] = []
        self.flags: list[bool] = []
        self.messages: list[Message] = []
        self.is_cancelled = False

    def deliver(self, message: Message) -> None:
        self.got.append(text_of(message))
        self.flags.append(message.flags & REDELIVERED != 0)
        if not self.no_ack:
            self.credit -= 1
            self.messages.append(message)

    def cancelled(self) -> None:
        self.is_cancelled = True

    def ack(self, index: int = 0, kind: int = ACK) -> None:
        self.queue.settle(self.messages.pop(index), kind)
        self.credit += 1
        self.wake()

    def requeue(self, index: int = 0) -> None:
        self.queue.requeue(self.messages.pop(index))
        self.credit += 1
        self.wake()


def drained(queue: Queue) -> list[str]:
    """Bodies of all that is ready, got one after the other."""
    texts = []
    while (found := queue.take(True)) is not None:
        texts.append(text_of(found))
    return texts


def numbers(*values: int) -> list[str]:
    """Bodies of the messages of these numbers."""
    return [str(value) for value in values]


def reached(ready: Sequence[int], returned: Collection[int], budget: int, credit: int) -> tuple[int, int]:
    """How many of ``ready`` a pump of ``budget`` reaches, and how many units they are."""
    count = units = 0
    while count < min(credit, len(ready)) and units < budget:
        units += REDELIVERY_UNITS if ready[count] in returned else 1
        count += 1
    return count, units
