"""A node without sockets, threads, disks and clocks, and clients joined to it by lists of bytes.

Connections, channels, queues, logs, the sync and the virtual host are the real ones. What they would wait
for happens when the test says so: ``turn`` runs what the loop has ready, ``worker`` runs a sync round,
``hear`` lets the loop hear of it, ``commit`` stores definitions, ``sleep`` lets timers go off. ``settle``
does all of it until nothing is left to do.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from amqp_router.auth.mechanisms import MECHANISMS
from amqp_router.auth.users import Users
from amqp_router.cluster import NodeIdentity
from amqp_router.connection.hangups import Hangups
from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.turn import Turn
from amqp_router.node_core import NodeCore, Ports
from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import PROTOCOL_HEADER
from amqp_router.protocol.errors import AccessRefused, AMQPError, LoginRefused
from amqp_router.storage import Threads
from persistence.definitions.records import (
    Change,
    Delete,
    DeleteBindings,
    DeleteVhost,
    Put,
    Row,
    Snapshot,
    VhostRow,
)
from persistence.errors import PersistenceError
from persistence.loop import Loop
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.definitions.support import applied
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import InlineWorker, ManualClock, ManualWorker
from vhosts.exchanges.router import RouteCache
from vhosts.queues.queue import Queue
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.vhost import VirtualHost

M = TypeVar("M", bound=m.Method)

FRAME_HEAD = struct.Struct(">BHI").unpack_from
FRAME_HEAD_OF = struct.Struct(">BHI").pack
CONTENT_HEAD = struct.Struct(">HHQ").unpack_from
HEADER_FRAME_HEAD = struct.Struct(">BHIHHQ").unpack_from
#: Of a content header and a body frame: two frames' heads and ends, class, weight and body size.
WHOLE_SIZE = 8 + 8 + 12

#: Properties of a plain message: flags word and values.
TRANSIENT = b"\x00\x00"
PERSISTENT = b"\x10\x00\x02"

OPTIONS = ConnectionOptions()
#: Few logs, each synced by itself and made at once, so that a test says which of them fails when.
LOG_OPTIONS = LogOptions(journal_logs_min=4, new_logs_per_round=1000)


class SimDefinitions:
    """Rows that are stored when the test says so. Outlives the node, as a database does."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, Any], Row] = {}
        self.pending: deque[list[Change]] = deque()
        self.committed = 0
        #: Why nothing is stored for now, or None.
        self.failed: PersistenceError | None = None
        self.on_submitted: Callable[[Sequence[Change]], None] = lambda changes: None

    def submit(self, changes: Any) -> int:
        if self.failed is not None:
            raise self.failed
        self.pending.append(list(changes))
        self.on_submitted(changes)
        return self.committed + len(self.pending)

    def commit(self, count: int = 1 << 30) -> int:
        """Store the next ``count`` submissions; returns the revision now stored."""
        for _ in range(min(count, len(self.pending))):
            for change in self.pending.popleft():
                if isinstance(change, Put):
                    self.rows[change.kind, change.key] = change.row
                elif isinstance(change, (DeleteBindings, DeleteVhost)):
                    applied(self.rows, change)
                else:
                    assert isinstance(change, Delete)
                    del self.rows[change.kind, change.key]
            self.committed += 1
        return self.committed

    def lose(self) -> None:
        """What is not stored is gone."""
        self.pending.clear()
        self.failed = None

    def snapshot(self) -> Snapshot:
        """All rows; there is a virtual host, and nobody but ``SimUser``."""
        return Snapshot(
            self.committed,
            vhosts=self.of_kind("vhost") or [VhostRow("/")],
            exchanges=self.of_kind("exchange"),
            queues=self.of_kind("queue"),
            bindings=self.of_kind("binding"),
            parameters=self.of_kind("parameter"),
        )

    def of_kind(self, kind: str) -> list[Any]:
        return [row for (row_kind, _), row in self.rows.items() if row_kind == kind]


class Everything:
    """Permissions that refuse only what ``refused`` names."""

    def __init__(self) -> None:
        self.refused: set[tuple[str, str, str]] = set()

    def check(self, action: str, kind: str, name: str) -> None:
        if (action, kind, name) in self.refused:
            raise AccessRefused(f"access to {kind} '{name}' in vhost '/' refused for user 'guest'")

    def check_topic(self, action: str, exchange: str, key: str) -> None:
        pass


class SimUser:
    def __init__(self, name: str, permissions: Everything) -> None:
        self.name = name
        self._permissions = permissions

    def enter(self, vhost: str) -> Everything:
        return self._permissions


class NoLimits:
    """Lets everybody in."""

    def connection(self, user: SimUser, vhost: VirtualHost) -> None:
        pass

    def channel(self, user: SimUser) -> None:
        pass


class SimHangups(Hangups):
    """Clients end when the test says so."""

    def __init__(self) -> None:
        self.watched: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, ended: Callable[[], None]) -> None:
        self.watched[descriptor] = ended

    def forget(self, descriptor: int) -> None:
        self.watched.pop(descriptor, None)


class SimNode:
    """One run of a node over ``disk`` and ``definitions``, which a next run may be given."""

    mechanisms = " ".join(MECHANISMS)
    admission = NoLimits()

    def __init__(
        self,
        disk: SimDisk | None = None,
        definitions: SimDefinitions | None = None,
        *,
        name: str = "node",
        boot: int = 1,
        options: ConnectionOptions | None = None,
        log_options: LogOptions | None = None,
        memory_bytes: int = 64 << 20,
        memory_limit: int = 0,
        clock: ManualClock | None = None,
    ) -> None:
        self.disk = disk or SimDisk()
        self.definitions = definitions or SimDefinitions()
        self.options = options or OPTIONS
        self.boot = boot
        self.clock = clock or ManualClock(1000.0 * boot)
        #: The event loop's CPU time in microseconds.
        self.cpu = 0
        self.names = 0
        #: No other node and no other run has it.
        self._origin = struct.pack(">HI", boot, zlib.crc32(name.encode()))
        self.ready: deque[Callable[[], None]] = deque()
        #: Calls that other threads have put onto the loop, which has not heard of them.
        self.posted: deque[Callable[[], None]] = deque()
        #: Set to run the agenda in a turn of its own, as under a loop that has more to do.
        self.busy = False
        self.events: list[tuple[str, dict[str, object]]] = []
        self.faults: list[BaseException] = []
        self.permissions = Everything()
        self.hangups = SimHangups()
        self.turns = Turn()
        self.connections = ConnectionRegistry[Client]()
        self.worker = ManualWorker()
        self.flusher = self.disk.flusher()
        self.worker.beside(self.flusher, self.posted.append)
        ports = Ports(
            self.disk,
            "data",
            Loop(self.posted.append, self.clock.call_later, self.clock.read, self.clock.wall_us),
            call_soon=self.ready.append,
            ready_count=lambda: len(self.ready) + self.busy,
            random_bytes=self.random_bytes,
            event=self.event,
            unexpected=self.unexpected,
            cpu_us=self.cpu_us,
        )
        self.core = NodeCore(
            ports,
            NodeIdentity(name, name.encode().hex(), self._origin.ljust(16, b"\0").hex()),
            self.definitions,
            Users(self.definitions, self.random_bytes),
            self.connections,
            MemoryBudget(memory_bytes, memory_limit),
        )
        self.tick = self.core.tick
        self.alarms = self.core.alarms
        self.commits = self.core.commits
        self.feed = self.core.events
        self.definitions.on_submitted = self.feed.submitted
        self.budget = self.core.budget
        self.look_at_memory = self.core.look_at_memory
        self.in_slices = self.core.in_slices
        self.generate_name = self.core.generate_name
        self.vhosts = self.core.virtual_hosts.by_name
        self.disk.make_directory("data")
        self.disk.sync_directory("")
        janitor = InlineWorker()
        # What is left of an ended process is freed at any time, and would remove files of this one.
        self.disk.begin_process(janitor.end)
        self.core.start(Threads(self.flusher, self.worker, janitor), log_options or LOG_OPTIONS, None)
        self.enter = self.core.ticker.enter
        self.turns.serve(self.ready.append, self.enter, self.unexpected)
        self.sync = self.core.storage.sync
        self.catalog = self.core.storage.catalog
        self.flusher.on_done = self.sync.flushed
        self.set_aside = self.core.load(self.definitions.snapshot())
        self.vhost = self.vhosts["/"]

    # -- what connections need of it ------------------------------------------------------------------

    def login(self, mechanism: str, response: bytes, peer_host: str, *, is_relayed: bool = False) -> SimUser:
        credentials = MECHANISMS[mechanism](response)
        if credentials.username != "guest" or credentials.password != b"guest":
            raise LoginRefused("Login was refused")
        return SimUser("guest", self.permissions)

    def account(self, change: int) -> None:
        self.budget.held += change
        self.look_at_memory()

    def login_external(self, name: str, peer_host: str, *, is_relayed: bool = False) -> SimUser:
        if name != "guest":
            raise LoginRefused("Login was refused using authentication mechanism EXTERNAL.")
        return SimUser(name, self.permissions)

    def route_cache(self, user: SimUser, vhost: VirtualHost, permissions: Everything) -> RouteCache:
        return self.core.virtual_hosts.route_cache(user, vhost, permissions)

    def wall_us(self) -> int:
        return self.clock.wall_us()

    def cpu_us(self) -> int:
        return self.cpu

    def random_bytes(self, count: int) -> bytes:
        """The same in each run, and never the same twice."""
        self.names += 1
        return self._origin + self.names.to_bytes(count - len(self._origin), "big")

    def server_properties(self) -> dict[str, Any]:
        return {"product": ("S", b"test")}

    def event(self, level: int, event: str, **facts: object) -> None:
        self.events.append((event, facts))

    def unexpected(self, where: str, error: BaseException) -> None:
        self.faults.append(error)

    # -- what happens when ----------------------------------------------------------------------------

    def turn(self) -> None:
        """One turn of the loop."""
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def quiet(self) -> None:
        """Turns until the loop has nothing ready; nothing is synced or stored."""
        for _ in range(10_000):
            if not self.ready:
                return
            self.turn()
        raise AssertionError("the loop does not come to rest")

    def hear(self) -> None:
        """The loop hears of one thing that another thread has done."""
        self.enter(self.posted.popleft())

    def work(self) -> bool:
        """One of the threads that write does a job, if there is one; the loop has not heard of it."""
        if self.flusher.has_job:
            self.flusher.run()
        elif self.worker.jobs:
            self.worker.run_one()
        else:
            return False
        return True

    def commit(self, count: int = 1 << 30) -> None:
        """The next ``count`` submissions are stored and the loop hears of it."""
        assert self.definitions.failed is None
        self.enter(self.commits.advance, self.definitions.commit(count))

    def fail_definitions(self, error: PersistenceError) -> None:
        """Storing fails, and the loop hears of it."""
        self.definitions.failed = error
        self.enter(self.core.definitions_failed, error)

    def heal_definitions(self) -> None:
        """An attempt to store what was taken when storing failed succeeds, and the loop hears of it."""
        self.definitions.failed = None
        self.commit()
        self.enter(self.core.definitions_recovered)

    def sync_once(self) -> None:
        """What the loop has ready, and one round for all that is dirty."""
        self.quiet()
        while self.work():
            pass
        while self.posted:
            self.hear()
        self.quiet()

    def settle(self) -> None:
        """Everything that is to happen without time going by, happens."""
        for _ in range(1000):
            self.quiet()
            if self.definitions.pending and self.definitions.failed is None:
                self.commit()
            elif self.work():
                continue
            elif self.posted:
                self.hear()
            elif not self.ready:
                return
        raise AssertionError("the node does not settle")

    def sleep(self, seconds: float) -> None:
        """Time goes by; timers go off."""
        timers = self.clock.advance(seconds)
        self.tick.now_us = self.clock.wall_us()
        for timer in timers:
            self.enter(timer.go_off)
        self.quiet()

    def stop(self) -> None:
        """A clean stop; connections are gone already."""
        self.quiet()
        self.core.stop()
        # The definition store stops last and tells of what it still had to store.
        if self.definitions.failed is not None:
            self.definitions.lose()  # its last attempt fails too
        self.commits.advance(self.definitions.commit())
        while self.worker.jobs:
            self.worker.run_one()
        # Page files end with the process.
        pagers = [
            queue
            for queue in self.vhost.queues.values()
            if isinstance(queue.ready, FifoOrder) and queue.ready.pager is not None
        ]
        assert self.disk.open_files <= len(pagers)
        self.disk.forget_files()

    def queue(self, name: str) -> Queue:
        queue = self.vhost.queues[name]
        assert isinstance(queue, Queue)
        return queue


class Received(NamedTuple):
    """A method from the broker and, if it has content, that too."""

    channel: int
    method: m.Method
    properties: bytes = b""
    body: bytes = b""


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


@lru_cache(maxsize=256)
def before_body(method: bytes, channel: int, properties: bytes, body_size: int) -> bytes:
    """What comes before a body that one frame holds: the frame ``method``, the content header, and the head
    of the body frame. Its end octet comes after the body.
    """
    return method + content_header(channel, body_size, properties) + FRAME_HEAD_OF(3, channel, body_size)


def raw_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME_HEAD_OF(kind, channel, len(payload)) + payload + b"\xce"


@lru_cache(maxsize=256)
def content_header(channel: int, body_size: int, properties: bytes = TRANSIENT) -> bytes:
    return raw_frame(2, channel, struct.pack(">HHQ", 60, 0, body_size) + properties)


def content_frames(channel: int, properties: bytes, body: bytes, payload_max: int = 131064) -> list[bytes]:
    """Content header and body frames of at most ``payload_max`` octets of payload."""
    frames = [content_header(channel, len(body), properties)]
    frames += [
        raw_frame(3, channel, body[start : start + payload_max]) for start in range(0, len(body), payload_max)
    ]
    return frames


def publish_frames(
    channel: int, method: m.BasicPublish, properties: bytes, body: bytes, payload_max: int = 131064
) -> list[bytes]:
    return [m.frame(channel, method), *content_frames(channel, properties, body, payload_max)]


def split_frames(data: bytes) -> list[bytes]:
    """Whole frames, end octets included."""
    frames = []
    position = 0
    while position < len(data):
        end = position + 8 + int.from_bytes(data[position + 3 : position + 7], "big")
        assert data[end - 1] == 0xCE, f"frame without end octet at {position}"
        frames.append(data[position:end])
        position = end
    assert position == len(data), "the last frame is cut"
    return frames


@lru_cache(maxsize=4096)
def decode_method(payload: bytes) -> m.Method:
    """As the product's. Many answers of a broker are the same; nobody changes a method that was received."""
    return m.decode_method(payload)


def start_ok(capabilities: bool) -> m.ConnectionStartOk:
    """The answer of a client that can do everything a broker may ask, or nothing of it."""
    names = (
        ("consumer_cancel_notify", "authentication_failure_close", "connection.blocked")
        if capabilities
        else ()
    )
    properties = {"capabilities": ("F", dict.fromkeys(names, ("t", True)))}
    return m.ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US")


@lru_cache(maxsize=64)
def opening(frame_max: int, capabilities: bool, channels: tuple[int, ...]) -> bytes:
    """What a client sends to open a connection and its channels, if it waits for no answer."""
    tune = m.ConnectionTuneOk(2047, frame_max, 0)
    frames = [m.frame(0, method) for method in (start_ok(capabilities), tune, m.ConnectionOpen("/"))]
    frames += [m.frame(number, m.ChannelOpen()) for number in channels]
    return PROTOCOL_HEADER + b"".join(frames)


def whole_content(data: bytes, at: int, channel: int, method: m.Method, frame_max: int) -> Received | None:
    """What ``decode`` makes of a content header and one body frame at ``at``; None if other frames are there,
    or are not right. ``WHOLE_SIZE`` octets of them are neither properties nor body.
    """
    kind, number, size, class_id, weight, body_size = HEADER_FRAME_HEAD(data, at)
    body_at = at + size + 8
    if (kind, number, class_id, weight) != (2, channel, 60, 0) or body_at + 8 > len(data):
        return None
    if FRAME_HEAD(data, body_at) != (3, channel, body_size) or not 0 < body_size <= frame_max - 8:
        return None
    end = body_at + body_size + 7
    if size + 8 > frame_max or end >= len(data) or not data[end] == data[body_at - 1] == 0xCE:
        return None
    return Received(channel, method, data[at + 19 : body_at - 1], data[body_at + 7 : end])


def decode(data: bytes, frame_max: int = 1 << 31) -> tuple[list[Received], int]:
    """Methods with their contents, and how many octets of ``data`` they took.

    Asserts what holds for every broker: contents of a channel are not torn apart by its other frames, and no
    frame is larger than was agreed.
    """
    received: list[Received] = []
    partial: dict[int, tuple[m.Method, bytes, int, list[bytes]]] = {}
    at = 0
    size_of_all = len(data)
    while at < size_of_all:
        kind, channel, size = FRAME_HEAD(data, at)
        end = at + size + 8
        assert data[end - 1] == 0xCE, f"frame without end octet at {at}"
        assert size + 8 <= frame_max, f"a frame of {size + 8} octets"
        payload = data[at + 7 : end - 1]
        at = end
        if kind == 8:
            continue
        if kind == 1:
            assert channel not in partial, "a method inside of a content"
            method = decode_method(payload)
            if not method.HAS_CONTENT:
                received.append(Received(channel, method))
            elif at + WHOLE_SIZE < size_of_all and (
                whole := whole_content(data, at, channel, method, frame_max)
            ):
                received.append(whole)
                at += WHOLE_SIZE + len(whole.properties) + len(whole.body)
            else:
                partial[channel] = (method, b"", -1, [])
            continue
        method, properties, missing, parts = partial[channel]
        if kind == 2:
            assert missing < 0, "a second content header"
            class_id, weight, missing = CONTENT_HEAD(payload)
            assert (class_id, weight) == (60, 0)
            properties = payload[12:]
        else:
            assert kind == 3
            parts.append(payload)
            missing -= size
            assert missing >= 0, "a body longer than announced, or before its header"
        if missing:
            partial[channel] = (method, properties, missing, parts)
        else:
            del partial[channel]
            received.append(Received(channel, method, properties, b"".join(parts)))
    assert at == len(data), "the last frame is cut"
    assert not partial, "a content that does not end"
    return received, len(data)
