"""The socket's side of a connection, with a socket that only notes what is done to it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import pytest

from amqp_router.auth.backends import LoginFailed
from amqp_router.channel.channel import Channel
from amqp_router.channel.confirms import Confirms
from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.publishing import Inflow, Publishing
from amqp_router.connection import turn as turn_module
from amqp_router.connection.dispatch import Dispatch
from amqp_router.connection.machine import Machine
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.shared import Shared
from amqp_router.connection.transport import Transport
from amqp_router.connection.writing import WRITE_BYTES
from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from amqp_router.protocol.errors import ConnectionForced
from amqp_router.protocol.input import Input
from amqp_router.protocol.output import LargeContent, Output
from persistence.log.queue.queue_log import QueueLog
from persistence.log.sync.writer import PartitionWriter
from tests.nodes import PERSISTENT, Client, SimNode, SimUser, publish_frames
from vhosts.exchanges.exchange import Binding
from vhosts.queues.queue import Queue


class Socket(asyncio.Transport):
    """Takes all that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False
        self.paused = False
        self.written: list[bytes] = []

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self if name == "socket" else default

    def fileno(self) -> int:
        return id(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.aborted

    def close(self) -> None:
        self.aborted = True

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
    assert node.faults == []  # no fault of ours: without a traceback


class ManualLoop:
    """What a connection asks of the event loop, on a clock that the test moves."""

    def __init__(self, node: SimNode) -> None:
        self.call_soon = node.ready.append
        self.call_later = node.clock.call_later
        self.time = node.clock.read


def opened(node: SimNode, heartbeat_s: int) -> tuple[Transport, Socket]:
    """A connection just opened, whose client sent its last octet."""
    transport = Transport(node, ConnectionRegistry(), cast(asyncio.AbstractEventLoop, ManualLoop(node)))
    sock = Socket()
    transport.connection_made(sock)
    start_ok = Client(node).start_ok()
    tune_ok, connection_open = m.ConnectionTuneOk(2047, 131072, heartbeat_s), m.ConnectionOpen("/")
    handshake = b"".join(m.frame(0, method) for method in (start_ok, tune_ok, connection_open))
    transport.data_received(PROTOCOL_HEADER + handshake)
    node.quiet()
    sock.written.clear()
    return transport, sock


def test_first_heartbeat_comes_half_an_interval_after_open_ok() -> None:
    node = SimNode()
    transport, sock = opened(node, 60)
    for _ in range(29):
        node.sleep(1)
    assert sock.written == []
    node.sleep(1)
    assert sock.written == [HEARTBEAT_FRAME]
    for _ in range(30):
        assert len(sock.written) == 1
        node.sleep(1)
    assert sock.written == [HEARTBEAT_FRAME] * 2
    transport.connection_lost(None)


@pytest.mark.parametrize("after_s", [0, 1, 14, 15, 16, 29, 30, 31, 44, 45, 46, 59])
def test_silence_never_lasts_longer_than_half_an_interval(after_s: int) -> None:
    """A client that is told after half an interval at the latest loses nothing to a late timer or network."""
    node = SimNode()
    transport, sock = opened(node, 60)
    silent = longest = 0
    for second in range(200):
        if second == after_s:
            transport.machine.shared.send(0, m.ConnectionUpdateSecretOk())
            node.quiet()
        silent = 0 if sock.written else silent + 1
        longest = max(longest, silent)
        sock.written.clear()
        transport.data_received(HEARTBEAT_FRAME)
        node.sleep(1)
    assert longest <= 30
    transport.connection_lost(None)


def test_no_heartbeat_inside_of_a_piece_that_is_half_written() -> None:
    node = SimNode()
    transport, sock = opened(node, 60)
    write = sock.write

    def write_and_be_full(data: bytes | bytearray | memoryview) -> None:
        write(data)
        transport.pause_writing()

    sock.write = write_and_be_full  # type: ignore[method-assign]
    transport.machine.output.pieces.append(bytes(WRITE_BYTES + 1))
    transport.machine.output.piece_bytes += WRITE_BYTES + 1
    transport.flush()
    assert [len(part) for part in sock.written] == [WRITE_BYTES]
    sock.written.clear()
    transport.writer.writable = True  # what is left is written in the next turn
    for _ in range(30):
        node.sleep(1)
    assert sock.written == []
    transport.connection_lost(None)


@pytest.mark.usefixtures("no_collections")
def test_collector_looks_at_what_a_large_chunk_makes_piece_by_piece() -> None:
    """It would come after some thousands of objects, find all of them at once, and take long."""
    node = SimNode()
    transport, _ = opened(node, 0)
    made: list[int] = []

    def before(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            made.append(len(node.vhost.queues))

    gc.callbacks.append(before)
    try:
        declares = [m.QueueDeclare(f"q{number}", durable=True, nowait=True) for number in range(200)]
        transport.data_received(b"".join(m.frame(1, each) for each in (m.ChannelOpen(), *declares)))
        node.quiet()
    finally:
        gc.callbacks.remove(before)
    assert made[-1] == 200
    assert all(after - before < 20 for before, after in pairwise(made))
    transport.connection_lost(None)


def handshaking(node: SimNode) -> tuple[Transport, Socket]:
    """A connection whose client has to say who it is."""
    transport = Transport(node, ConnectionRegistry(), cast(asyncio.AbstractEventLoop, ManualLoop(node)))
    sock = Socket()
    transport.connection_made(sock)
    transport.data_received(PROTOCOL_HEADER)
    node.quiet()
    sock.written.clear()
    return transport, sock


class Refusing(SimNode):
    """Lets nobody in, and holds the answer back."""

    def login(self, mechanism: str, response: bytes, peer_host: str, *, is_relayed: bool = False) -> SimUser:
        failure = LoginFailed(mechanism, "wrong")
        failure.delay_s = 3.0
        raise failure


def test_answer_to_a_wrong_password_is_held_back() -> None:
    node = Refusing()
    transport, sock = handshaking(node)
    transport.data_received(m.frame(0, Client(node).start_ok()))
    node.quiet()
    node.sleep(2.9)
    transport.data_received(HEARTBEAT_FRAME + m.frame(0, m.ConnectionTuneOk(0, 0, 0)))
    node.quiet()
    assert sock.written == []
    node.sleep(0.1)
    assert len(sock.written) == 1
    assert b"ACCESS_REFUSED - Login was refused" in sock.written[0]
    transport.data_received(m.frame(0, m.ConnectionCloseOk()))
    node.quiet()
    assert sock.is_closing()
    transport.connection_lost(None)


def test_client_that_goes_before_its_answer() -> None:
    node = Refusing()
    transport, sock = handshaking(node)
    transport.data_received(m.frame(0, Client(node).start_ok()))
    node.quiet()
    transport.connection_lost(None)
    node.sleep(10)
    assert sock.written == []
    assert node.faults == []


def test_missed_heartbeats_are_told_once_and_with_the_user() -> None:
    node = SimNode()
    transport, sock = opened(node, 60)
    node.events.clear()
    while not sock.aborted:
        node.sleep(1)
    transport.connection_lost(None)
    [(event, facts)] = node.events
    assert event == "connection lost"
    assert facts["user"] == "guest"
    assert facts["reason"] == "missed heartbeats from client, timeout: 60s"


def test_end_of_a_connection_is_told_with_its_name_and_how_long_it_was_open() -> None:
    node = SimNode()
    transport, _ = opened(node, 0)
    transport.machine.session.client_properties = {"connection_name": ("S", b"worker 7")}
    node.sleep(90)
    transport.data_received(m.frame(0, m.ConnectionClose()))
    transport.connection_lost(None)
    event, facts = node.events[-1]
    assert (event, facts["name"], facts["seconds"]) == ("connection closed", "worker 7", 90)


def test_connections_lost_in_a_turn_that_has_taken_long_give_back_in_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each may have thousands of channels, whose end takes milliseconds."""
    node = SimNode()
    now = 0.0
    monkeypatch.setattr(turn_module, "monotonic", lambda: now)
    watcher = Client(node).open(1)
    queue = watcher.declare("q")
    lost = [opened(node, 60) for _ in range(4)]
    frames = b"".join(m.frame(1, each) for each in (m.ChannelOpen(), m.QueueDeclare("", exclusive=True)))
    frames += m.frame(1, m.BasicConsume("q", "t", no_ack=True, nowait=True))
    for transport, _ in lost:
        transport.data_received(frames)
    node.quiet()
    before = len(node.vhost.queues)
    node.events.clear()
    node.turns.is_over()
    node.turns.begin()
    for transport, socket in lost:
        socket.aborted = True
        socket.written.clear()
        transport.connection_lost(None)
        now += 1.0
    assert len(queue.consumers) == 3
    watcher.publish(b"x", "q")
    counts = []
    while len(queue.consumers):
        node.turns.is_over()
        node.turns.begin()
        now += 1.0
        node.turn()
        counts.append(len(queue.consumers))
    assert counts == [2, 1, 0]
    node.settle()
    assert queue.message_count() == 1
    assert len(node.vhost.queues) == before - 4
    assert [event for event, _ in node.events].count("connection lost") == 4
    node.sleep(1000)
    assert not node.faults
    assert not any(socket.written for _, socket in lost)


@pytest.mark.parametrize("told", ["close", "unblocked"])
def test_what_the_node_tells_a_lost_connection_that_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    node = SimNode()
    now = 0.0
    monkeypatch.setattr(turn_module, "monotonic", lambda: now)
    lost, socket = opened(node, 60)
    node.events.clear()
    node.turns.begin()
    now += 1.0
    socket.aborted = True
    lost.connection_lost(None)
    if told == "close":
        lost.close(lambda machine: machine.close(ConnectionForced("shutdown")))
    else:
        lost.machine.unblocked()
    node.settle()
    assert [event for event, _ in node.events].count("connection lost") == 1
    node.sleep(1000)
    assert not node.faults
    assert socket.written == []


@pytest.mark.parametrize("given", [("S", b"x" * 10_000), ("I", 7), ("S", b"\xff\n"), None])
def test_name_of_a_connection_in_the_log_is_short_text(given: tuple[str, object] | None) -> None:
    node = SimNode()
    transport, _ = opened(node, 0)
    transport.machine.session.client_properties = {} if given is None else {"connection_name": given}
    transport.connection_lost(None)
    name = node.events[-1][1]["name"]
    assert name is None or (isinstance(name, str) and len(name) <= 200)


PARTS = (
    Transport,
    Machine,
    Dispatch,
    Shared,
    Input,
    Channel,
    Confirms,
    ChannelConsumer,
    Delivery,
    Inflow,
    Publishing,
    Output,
)
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
@pytest.mark.parametrize("published_to", ["", "amq.topic"])
@pytest.mark.parametrize("end", ["lost", "closed", "channel closed", "channel error", "connection error"])
def test_connection_is_freed_without_a_garbage_collection(
    loop: asyncio.AbstractEventLoop, end: str, published_to: str
) -> None:
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
        publish = b"".join(publish_frames(1, m.BasicPublish(published_to, "q"), PERSISTENT, b"x"))
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
    # The user's routes that are no longer good are forgotten when another one is needed.
    client.publish(b"x", "unroutable")
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
