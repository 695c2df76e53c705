"""What makes a node out of a disk, clocks, an event loop, randomness and a store of definitions.

The process (``amqp_router.broker``) gives a ``NodeCore`` the real ones, the simulator (``tests/nodes``)
simulated ones, several nodes in one process if it likes. Nothing in here reaches the world but through
``Ports`` and ``Threads``. Listeners, logins and administration are not part of it.

A start opens the definition store, makes the parts (``NodeCore.start``), and recovers logs and virtual hosts
(``NodeCore.load``); then connections may come. At the end connections give back what they hold,
``NodeCore.stop`` flushes the logs and marks them clean, and the definition store is flushed last.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from amqp_router.auth.users import DEFAULT_VHOST, Users
from amqp_router.cluster import NodeIdentity, StandaloneQueues, StandaloneRegistry, count_boot
from amqp_router.commits import Commits
from amqp_router.connection.alarms import Alarms
from amqp_router.connection.pressure import Pressure
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.ticker import Ticker
from amqp_router.disconnecting import fail_waiting
from amqp_router.events import Events
from amqp_router.late_timeouts import LateTimeouts
from amqp_router.parameters import Parameters
from amqp_router.protocol.tick import Tick
from amqp_router.queue_maker import QueueMaker
from amqp_router.storage import RoutingSetup, Storage, Threads
from amqp_router.virtual_hosts import VirtualHosts
from persistence.definitions import Snapshot
from persistence.files import Disk
from persistence.loop import Loop
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from vhosts.queues.state import FAILED


class Definitions(Protocol):
    """The definition store."""

    @property
    def committed(self) -> int:
        """The last revision that is stored."""

    def submit(self, changes: Any) -> int:
        """Store ``changes`` in one transaction; returns their revision."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a node stands on."""

    disk: Disk
    data_dir: str
    #: ``post`` may be called by any thread, and runs the call as a handler (``NodeCore.enter``).
    loop: Loop
    #: The event loop's, for this thread.
    call_soon: Callable[[Callable[[], None]], object]
    #: How many callbacks the event loop still has in this turn.
    ready_count: Callable[[], int]
    #: As many random bytes as it is asked for.
    random_bytes: Callable[[int], bytes]
    #: Writes a line to the node's log: level, event and facts.
    event: Callable[..., None]
    #: Logs a bug of ours with its traceback.
    unexpected: Callable[[str, BaseException], None]
    #: CPU time of the event loop's thread in microseconds.
    cpu_us: Callable[[], int] = lambda: 0


class NodeCore:
    """One run of a node."""

    def __init__(
        self,
        ports: Ports,
        identity: NodeIdentity,
        definitions: Definitions,
        users: Users,
        connections: ConnectionRegistry[Any],
        budget: MemoryBudget,
        events_vhost: str = DEFAULT_VHOST,
    ) -> None:
        self.ports = ports
        self.identity = identity
        self.definitions = definitions
        self.users = users
        self.connections = connections
        self.budget = budget
        self.tick = Tick(ports.call_soon)
        self.alarms = Alarms(self.in_slices)
        #: Sets or clears the memory alarm, if the account has changed.
        self.look_at_memory = Pressure(budget, self.alarms).look
        self.commits = Commits(self.in_slices)
        self.parameters = Parameters(definitions)
        self.virtual_hosts = VirtualHosts(
            definitions,
            users,
            self.parameters,
            self.commits,
            connections,
            budget=budget,
            in_slices=self.in_slices,
            generate_name=self.generate_name,
            event=ports.event,
            node=identity.name,
        )
        users.on_change = self.virtual_hosts.forget_routes
        self.events = Events(
            events_vhost,
            identity.name,
            users,
            budget,
            in_slices=self.in_slices,
            wall_us=ports.loop.wall_us,
            event=ports.event,
        )
        self.events.find = self.virtual_hosts.by_name.get
        self.events.parameters = self.parameters.values
        self.virtual_hosts.on_made = self.events.adopt
        connections.on_opened = partial(self.events.connection, is_new=True)
        connections.on_removed = partial(self.events.connection, is_new=False)
        #: Who leads which queue. This and what follows is there after ``start``.
        self.registry: StandaloneRegistry
        self.storage: Storage
        self.ticker: Ticker

    # -- start and stop --------------------------------------------------------------------------------

    def start(self, threads: Threads, options: LogOptions, routing: RoutingSetup | None) -> None:
        """Make what reads and writes. The definition store is open; no routes are recorded without
        ``routing``.

        Raises:
            PersistenceError: the count of starts is damaged.
            OSError: it cannot be read or written.
        """
        ports, loop = self.ports, self.ports.loop
        self.registry = StandaloneRegistry(self.identity.boot_id, loop.post)
        leaders = StandaloneQueues(self.registry, self.identity, count_boot(ports.disk, ports.data_dir))
        self.commits.committed = self.definitions.committed
        self.storage = Storage(
            ports.disk,
            ports.data_dir,
            loop,
            threads,
            options,
            routing,
            identity=self.identity,
            tick=self.tick,
            budget=self.budget,
        )
        self.ticker = Ticker(
            self.tick,
            self.storage.sync.start_round,
            ports.ready_count,
            ports.unexpected,
            self.look_at_memory,
            ports.cpu_us,
        )
        self.virtual_hosts.routing = self.storage.routing
        self.virtual_hosts.make_queue = QueueMaker(
            self.storage,
            leaders,
            self.commits,
            tick=self.tick,
            budget=self.budget,
            in_slices=self.in_slices,
            event=ports.event,
            later=lambda seconds, call: loop.call_later(seconds, lambda: self.enter(call)),
            wall_us=loop.wall_us,
            random_bytes=ports.random_bytes,
            timeout_set=LateTimeouts(self.connections, self.in_slices).timeout_set,
        )
        # Queues that expire count the time from here on.
        self.tick.now_us = loop.wall_us()

    def load(self, snapshot: Snapshot) -> list[str]:
        """Recover the logs and fill the virtual hosts; returns the logs without a queue, which are set aside.

        Raises:
            LoadError: an exchange has a type that is not registered.
            OSError: the disk failed.
        """
        catalog = self.storage.catalog
        self.users.load(snapshot.users, snapshot.permissions, snapshot.topic_permissions)
        catalog.start()
        self.virtual_hosts.load(snapshot)
        self.events.start()
        set_aside = catalog.quarantine_unknown({row.incarnation for row in snapshot.queues})
        for left in set_aside:
            self.ports.event(logging.WARNING, "log without a queue set aside", directory=left)
        if snapshot.queues:
            self._tell_recovered(len(set_aside))
        return set_aside

    def _tell_recovered(self, set_aside: int) -> None:
        """One line on what the logs held and what recovery did to them."""
        catalog = self.storage.catalog
        reports = catalog.reports.values()
        queues: list[Any] = [
            queue for vhost in self.virtual_hosts.by_name.values() for queue in vhost.queues.values()
        ]
        self.ports.event(
            logging.INFO,
            "queues recovered",
            after="a clean stop" if catalog.was_clean else "a crash",
            queues=len(queues),
            messages=sum([queue.message_count() for queue in queues]),
            damaged=sum([queue.state == FAILED for queue in queues]) or None,
            replayed_batches=sum([report.replayed_batches for report in reports]) or None,
            torn_bytes_cut=sum([report.cut_bytes for report in reports]) or None,
            logs_set_aside=set_aside or None,
        )

    def stop(self) -> None:
        """Write and sync everything, mark the logs clean, release all files, end the session."""
        self.commits.finish()
        self.storage.stop()
        self.registry.close()

    # -- while it runs ---------------------------------------------------------------------------------

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Run a handler of the event loop; the agenda runs at the end of the turn."""
        self.ticker.enter(call, *args)

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` once per tick until it returns True."""
        self.ticker.in_slices(step)

    def generate_name(self, prefix: str) -> str:
        """``prefix`` and 22 random characters of the base64url alphabet."""
        return prefix + base64.urlsafe_b64encode(self.ports.random_bytes(16)).decode().rstrip("=")

    def halt_routing(self) -> None:
        """Record no routes for now, as the disk is short of room."""
        if self.virtual_hosts.routing is not None:
            self.virtual_hosts.routing.halt()

    def definitions_failed(self, error: Exception) -> None:
        """Nothing can be declared for now: whoever waits must not believe it was."""
        self.ports.event(logging.ERROR, "definitions cannot be stored", reason=error)
        self.commits.fail(error)
        fail_waiting(self.connections, error)

    def definitions_recovered(self) -> None:
        """Definitions are stored again, also those that waited."""
        self.ports.event(logging.INFO, "definitions are stored again")
        self.commits.recover()
