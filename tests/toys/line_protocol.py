"""A listener for a protocol of lines. It stands on the publish service and on the queue port alone.

    PUB exchange key body    answered by TAKEN, UNROUTABLE, REFUSED, FAILED or LOST once the message is safe
    SUB queue                answered by MSG exchange key body for each message, without acknowledgements
    SUB queue octets         the same, but no more after so many octets of bodies that are not acknowledged
    ACK                      acknowledges all of them; what is not acknowledged by the end goes back

An exchange is written ``-`` if it is the default exchange. Any error is answered by ERR and a text.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.flags import ACK
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.output import Output
from amqp_router.protocol.properties import encode_properties
from persistence.memory import MemoryBudget
from vhosts.exchanges.router import Permits, RouteCache
from vhosts.ports import InSlices
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Listener, Run
from vhosts.publishing.publisher import Publisher
from vhosts.queues.destination import UNHEARD, Asker
from vhosts.queues.handle import Consumer, QueueHandle
from vhosts.vhost import VirtualHost

PERSISTENT = encode_properties({"delivery_mode": 2})


class LineConnection(Listener):
    """One client: ``receive`` takes its octets, ``write`` gets the answers."""

    def __init__(
        self, vhost: VirtualHost, account: MemoryBudget, in_slices: InSlices, write: Callable[[bytes], None]
    ) -> None:
        self.in_slices = in_slices
        self.write = write
        self._vhost = vhost
        cache = RouteCache(vhost.table, Permits(), account)
        self._publisher = Publisher(vhost.table, cache, account, self)
        self.is_open = True
        self.consumers: list[Subscription] = []
        self._number = 0
        self._rest = b""

    def receive(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                self._command(*line.decode().split(" ", 1))
            except AMQPError as error:
                self.write(b"ERR %b\n" % error.text.encode())
        self._publisher.close_run()

    def close(self) -> None:
        self.is_open = False
        for consumer in self.consumers:
            consumer.queue.cancel(consumer, UNHEARD)
            for message in consumer.held:
                consumer.queue.requeue(message)

    def _command(self, word: str, rest: str = "") -> None:
        if word == "SUB":
            name, _, octets = rest.partition(" ")
            queue = self._vhost.find_queue(name, self)
            consumer = Subscription(queue, self.write, int(octets) if octets else None)
            queue.consume(consumer, Start(self, consumer))
            return
        if word == "ACK":
            for consumer in self.consumers:
                consumer.ack()
            return
        exchange, key, body = rest.split(" ", 2)
        message = build_message(b"", PERSISTENT, body.encode())
        self._number += 1
        outcome = self._publisher.send("" if exchange == "-" else exchange, key, message, self._number)
        if outcome != Outcome.LATER:
            self.published(self._number, outcome, message)

    # -- what the publish service tells --------------------------------------------------------------

    def published(self, number: int, outcome: int, message: Message) -> None:
        if not outcome & Outcome.WAITS:
            self.write(b"%b\n" % str(Outcome(outcome).name).encode())

    def run_done(self, run: Run) -> None:
        self.write((b"LOST\n" if run.failed else b"TAKEN\n") * (run.last - run.first + 1))


class Start(Asker):
    """What a queue answers whom it is to send messages."""

    def __init__(self, connection: LineConnection, consumer: Subscription) -> None:
        self.connection = connection
        self.consumer = consumer

    def started(self) -> bool:
        if self.connection.is_open:
            self.connection.consumers.append(self.consumer)
        return self.connection.is_open

    def refused(self, error: AMQPError) -> None:
        self.connection.write(b"ERR %b\n" % error.text.encode())


class Subscription(Consumer):
    """A consumer that writes lines."""

    def __init__(self, queue: QueueHandle, write: Callable[[bytes], None], octets: int | None) -> None:
        super().__init__()
        self.no_ack = octets is None
        self.octets = octets or 0
        self.output = Output()
        self.queue = queue
        self.write = write
        self.held: list[Message] = []

    def ack(self) -> None:
        self.queue.settle_range(self.held, ACK)
        self.queue.grant(self, 0, sum([message.body_size for message in self.held]))
        self.held = []

    def deliver(self, message: Message) -> None:
        if not self.no_ack:
            self.octets -= message.body_size
            self.held.append(message)
        name_size = message.route[0]
        exchange, key = message.route[1 : 1 + name_size], message.route[2 + name_size :]
        self.write(b"MSG %b %b %b\n" % (exchange or b"-", key, message.body()))

    def cancelled(self) -> None:
        self.write(b"ERR the queue is gone\n")
