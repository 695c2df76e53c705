"""A node without sockets, threads, disks and clocks.

Connections, channels, queues, logs, the sync and the virtual host are the real ones. What they would wait
for happens when the test says so: ``turn`` runs what the loop has ready, ``worker`` runs a sync round,
``hear`` lets the loop hear of it, ``commit`` stores definitions, ``sleep`` lets timers go off. ``settle``
does all of it until nothing is left to do.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp_router.auth.mechanisms import MECHANISMS
from amqp_router.auth.users import Users
from amqp_router.cluster import NodeIdentity
from amqp_router.connection.hangups import Hangups
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.registry import ConnectionRegistry, Registered
from amqp_router.connection.turn import Turn
from amqp_router.node_core import NodeCore, Ports
from amqp_router.protocol.errors import LoginRefused
from amqp_router.storage import Threads
from persistence.errors import PersistenceError
from persistence.loop import Loop
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.nodes.definitions import SimDefinitions
from tests.nodes.users import Everything, NoLimits, SimUser
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import InlineWorker, ManualClock, ManualWorker
from vhosts.exchanges.router import RouteCache
from vhosts.queues.queue import Queue
from vhosts.queues.ready.fifo import FifoOrder
from vhosts.vhost import VirtualHost

OPTIONS = ConnectionOptions()
#: Few logs, each synced by itself and made at once, so that a test says which of them fails when.
LOG_OPTIONS = LogOptions(journal_logs_min=4, new_logs_per_round=1000)


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
        self.connections = ConnectionRegistry[Registered]()
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
