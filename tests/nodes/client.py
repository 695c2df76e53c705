"""A client of a simulated node, joined to it by lists of bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from amqp_router.connection.machine import Machine
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import AMQPError
from tests.nodes.node import SimNode
from tests.nodes.wire import TRANSIENT, Received, decode, opening, publish_frames, start_ok
from vhosts.queues.queue import Queue

M = TypeVar("M", bound=m.Method)


class Client:
    """One connection: bytes go into its machine, and what comes out is decoded.

    ``reading`` says whether the client takes what it is sent.
    """

    def __init__(self, node: SimNode, *, frame_max: int = 131072, capabilities: bool = True) -> None:
        self.node = node
        self.machine = Machine(node, "127.0.0.1:1000", "127.0.0.1")
        node.connections.add(self)
        self.machine.output.owner = self
        self.reading = True
        self.resumed = 0
        self.machine.inflow.resume = self._resume
        #: Everything that was sent to the client, and how much of it was decoded.
        self.wire = bytearray()
        self.decoded = 0
        self.recv_oct = 0
        self.frame_max = frame_max
        self._capabilities = capabilities

    @property
    def send_oct(self) -> int:
        return len(self.wire)

    def _resume(self) -> None:
        self.resumed += 1
        if self.machine.work_left:
            self.node.ready.append(self._more)

    def flush(self) -> None:
        """The transport's: write what waits, as long as the client reads."""
        output = self.machine.output
        if not self.reading:
            return
        while piece := output.next_piece():
            self.wire += piece
        if output.full:
            output.full = False
            self.machine.drained()

    def close(self, close: Callable[[Machine], None], level: int | None = None) -> None:
        """The transport's: let ``close`` send connection.close."""
        close(self.machine)

    def failed(self, error: Exception) -> None:
        """The transport's: what was to be written cannot be."""
        raise error

    # -- sending --------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """A chunk arrives, as from the transport; what is too much work for a turn goes on in the next."""
        self.node.enter(self._receive, data)

    def _receive(self, data: bytes) -> None:
        self.recv_oct += len(data)
        self.machine.receive_data(data)
        self._go_on()

    def _more(self) -> None:
        self.node.enter(self._receive_more)

    def _receive_more(self) -> None:
        self.machine.receive_more()
        self._go_on()

    def _go_on(self) -> None:
        machine = self.machine
        if machine.work_left and (machine.work.waiting or not (machine.blocked or machine.dispatch.stuck)):
            self.node.ready.append(self._more)

    def open(self, *channels: int) -> Client:
        """The whole handshake, then these channels."""
        self.feed(opening(self.frame_max, self._capabilities, channels))
        self.node.quiet()
        answers = [type(received.method) for received in self.take()]
        assert answers == [
            m.ConnectionStart,
            m.ConnectionTune,
            m.ConnectionOpenOk,
            *[m.ChannelOpenOk] * len(channels),
        ]
        return self

    def start_ok(self) -> m.ConnectionStartOk:
        return start_ok(self._capabilities)

    def send(self, *sent: m.Method, channel: int = 1) -> None:
        self.feed(b"".join(m.frame(channel, method) for method in sent))

    def publish(
        self,
        body: bytes,
        routing_key: str = "",
        exchange: str = "",
        properties: bytes = TRANSIENT,
        *,
        channel: int = 1,
        mandatory: bool = False,
    ) -> None:
        method = m.BasicPublish(exchange, routing_key, mandatory)
        self.feed(b"".join(publish_frames(channel, method, properties, body, self.frame_max - 8)))

    # -- what came ------------------------------------------------------------------------------------

    def take(self) -> list[Received]:
        """What came since the last look, decoded. Every frame must be whole and fit frame_max."""
        if self.decoded == len(self.wire):
            return []
        with memoryview(self.wire) as wire:  # a slice of a bytearray would be copied once more
            news = bytes(wire[self.decoded :])
        received, used = decode(news, self.frame_max)
        self.decoded += used
        assert self.decoded == len(self.wire), "bytes that are no whole frames and contents"
        return received

    def call(self, method: m.Method, answer: type[M], *, channel: int = 1) -> M:
        """Send ``method``; its answer must be all that comes, once the node is quiet."""
        return self.answer(m.frame(channel, method), answer, channel=channel)

    def answer(self, sent: bytes, answer: type[M], *, channel: int = 1) -> M:
        """As ``call``, of a method that is encoded already."""
        self.feed(sent)
        self.node.quiet()
        (received,) = self.take()
        assert received.channel == channel
        assert isinstance(received.method, answer), received
        return received.method

    def declare(self, name: str, *, durable: bool = False, channel: int = 1, **arguments: Any) -> Queue:
        """Declare a queue and let its definition be stored."""
        self.send(m.QueueDeclare(name, durable=durable, **arguments), channel=channel)
        self.node.quiet()
        self.node.commit()
        self.node.quiet()
        (received,) = self.take()
        assert isinstance(received.method, m.QueueDeclareOk)
        return self.node.queue(name)

    def closed_with(self, error: type[AMQPError]) -> m.ChannelClose | m.ConnectionClose:
        """The close that came last, which must be for ``error``."""
        self.node.quiet()
        method = self.take()[-1].method
        assert isinstance(method, (m.ChannelClose, m.ConnectionClose)), method
        assert method.reply_code == error.reply_code, method
        return method

    def drop(self) -> None:
        """The socket is gone."""
        self.node.connections.remove(self)
        self.node.enter(self.machine.socket_gone)
