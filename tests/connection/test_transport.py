"""The socket's side of a connection, with a socket that only notes what is done to it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from amqp_router.channel.channel import Channel
from amqp_router.channel.confirms import Confirms
from amqp_router.channel.delivery import ChannelConsumer, Delivery
from amqp_router.channel.publishing import Inflow, Publishing
from amqp_router.connection.machine import Machine
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.transport import Transport
from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import PROTOCOL_HEADER
from amqp_router.protocol.errors import ConnectionForced
from amqp_router.protocol.output import LargeContent, Output
from persistence.log.queue_log import QueueLog
from persistence.log.writer import PartitionWriter
from tests.nodes import PERSISTENT, Client, SimNode, publish_frames
from vhosts.bindings import Binding
from vhosts.queues.queue import Queue


class Socket(asyncio.Transport):
    """Takes all that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Unreadable:
    """A large message whose file is gone."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int, /) -> bytes:
        raise OSError("cannot be read")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("end", ["close", "resume_writing", "_end"])
def test_message_that_cannot_be_read_ends_its_connection_only(
    loop: asyncio.AbstractEventLoop, end: str
) -> None:
    """Whoever closes the connections of a node, one after the other, must come to the last of them."""
    node = SimNode()
    transport = Transport(node, ConnectionRegistry(), loop)
    sock = Socket()
    transport.connection_made(sock)
    transport.machine.output.pieces.append(LargeContent(Unreadable(), 1, 4088))
    if end == "close":
        transport.close(lambda machine: machine.close(ConnectionForced("shutdown")))
    else:
        getattr(transport, end)()
    assert sock.aborted
    assert [str(fault) for fault in node.faults] == ["cannot be read"]


PARTS = (Transport, Machine, Channel, Confirms, ChannelConsumer, Delivery, Inflow, Publishing, Output)
PARTS_OF_QUEUES = (Queue, QueueLog, PartitionWriter, Binding)


def alive() -> dict[str, int]:
    """How many parts of connections and queues there are."""
    counts: dict[str, int] = {}
    for found in gc.get_objects():
        if isinstance(found, (*PARTS, *PARTS_OF_QUEUES, asyncio.Transport)):
            counts[type(found).__name__] = counts.get(type(found).__name__, 0) + 1
    return counts


@pytest.fixture
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("end", ["lost", "closed", "channel closed", "channel error", "connection error"])
def test_connection_is_freed_without_a_garbage_collection(loop: asyncio.AbstractEventLoop, end: str) -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.declare("q", durable=True)
    before = alive()

    def live() -> None:
        transport = Transport(node, ConnectionRegistry(), loop)
        transport.connection_made(Socket())
        tune_ok, opened = m.ConnectionTuneOk(2047, 131072, 0), m.ConnectionOpen("/")
        handshake = b"".join(m.frame(0, method) for method in (client.start_ok(), tune_ok, opened))
        transport.data_received(PROTOCOL_HEADER + handshake)
        methods = (
            m.ChannelOpen(),
            m.ConfirmSelect(),
            m.BasicQos(0, 3, True),
            m.QueueDeclare("q", durable=True),
            m.BasicConsume("q", "t"),
            m.BasicGet("q"),
            m.QueueDeclare("mine", exclusive=True),
            m.QueueBind("mine", "amq.topic", "#"),
        )
        publish = b"".join(publish_frames(1, m.BasicPublish("", "q"), PERSISTENT, b"x"))
        transport.data_received(b"".join(m.frame(1, method) for method in methods) + publish * 5)
        node.settle()
        if end == "closed":
            transport.data_received(m.frame(0, m.ConnectionClose()))
        elif end == "channel closed":
            transport.data_received(m.frame(1, m.ChannelClose()))
        elif end == "channel error":
            transport.data_received(m.frame(1, m.BasicAck(99)))
        elif end == "connection error":
            transport.data_received(m.frame(1, m.ChannelOpen()))
        node.settle()
        transport.connection_lost(None)
        node.settle()

    live()
    assert node.queue("q").unacked_count == 0
    assert not node.faults
    # The loop keeps a call that is to come, or was cancelled, for a while.
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert alive() == before


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("durable", [False, True])
def test_deleted_queue_is_freed_without_a_garbage_collection(durable: bool) -> None:
    client = Client(SimNode()).open(1)
    before = alive()
    client.declare("q", durable=durable)
    client.send(m.QueueBind("q", "amq.topic", "#"), m.BasicConsume("q", "t", no_ack=True))
    client.publish(b"x", "q", properties=PERSISTENT)
    client.node.settle()
    client.send(m.QueueDelete("q"))
    client.node.settle()
    client.node.sleep(1)
    client.node.settle()
    client.take()
    assert alive() == before


@pytest.mark.usefixtures("no_collections")
def test_socket_is_freed_without_a_garbage_collection(loop: asyncio.AbstractEventLoop) -> None:
    node, registry = SimNode(), ConnectionRegistry()

    async def live() -> None:
        server = await loop.create_server(lambda: Transport(node, registry, loop), "127.0.0.1", 0)
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            while not len(registry):
                await asyncio.sleep(0.001)
            writer.close()
            while len(registry):
                await asyncio.sleep(0.001)
            # The client's own cycle.
            setattr(writer.transport, "_read_ready_cb", None)  # noqa: B010

    before = alive()
    loop.run_until_complete(live())
    loop.run_until_complete(asyncio.sleep(0))
    assert alive() == before
