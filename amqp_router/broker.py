"""The node: what connections share, and the order of starting and stopping.

Start: definitions, logs (each recovered), virtual hosts, then connections. Stop: connections say good-bye and
give back what they hold, the logs are flushed and marked clean, the definitions are flushed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from amqp_router import logs, process
from amqp_router.admission import Admission
from amqp_router.auth.backends import Authenticator, AuthOptions, User
from amqp_router.auth.guard import Guard
from amqp_router.auth.mechanisms import MECHANISMS
from amqp_router.auth.users import FirstStart, Users, first_definitions
from amqp_router.cluster import NodeIdentity
from amqp_router.connection.hangups import Hangups
from amqp_router.connection.ports import ConnectionOptions, Origin
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.transport import Transport
from amqp_router.connection.turn import Turn, turn_of
from amqp_router.disconnecting import close_those, force
from amqp_router.disk_watch import DiskWatch
from amqp_router.events import Events
from amqp_router.log_rows import refuse_misplaced
from amqp_router.machine_memory import memory_limit
from amqp_router.node_core import NodeCore, Ports
from amqp_router.parameters import Parameters
from amqp_router.protocol.errors import ConnectionForced
from amqp_router.protocol.fields import Table
from amqp_router.storage import RoutingSetup, Storage, Threads
from amqp_router.version import VERSION
from persistence.clock import WallClock
from persistence.definitions import Change, DefinitionStore, Put
from persistence.files import RealDisk
from persistence.log.routing.logs import RoutingOptions
from persistence.loop import Loop
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from persistence.plan import Flusher
from vhosts.exchanges.router import RouteCache
from vhosts.vhost import VirtualHost

#: Seconds that clients get for their close-ok when the node stops.
GOODBYE_S = 2.0
SHUTDOWN = ConnectionForced("broker forced connection closure with reason 'shutdown'")
LOOPBACK = ("127.", "::1", "::ffff:127.")


def _cpu_us() -> int:
    """CPU time of the event loop's thread in microseconds."""
    return time.thread_time_ns() // 1000


class Broker:
    """One node. ``store_id`` names its data directory for ever."""

    #: The event loop's turns, which its connections share.
    turns: Turn
    #: Names of the login mechanisms offered.
    mechanisms = " ".join(MECHANISMS)

    cpu_us = staticmethod(_cpu_us)

    def __init__(
        self,
        settings: Any,
        loop: asyncio.AbstractEventLoop,
        logger: logging.Logger,
        *,
        store_id: str = "",
        first: FirstStart | None = None,
    ) -> None:
        #: What a start on an empty data directory makes.
        self._first = first or FirstStart()
        self.settings = settings
        self.logger = logger
        self._loop = loop
        #: The time of day in µs.
        self.wall_us = WallClock().now_us
        self.registry = ConnectionRegistry[Transport]()
        self.hangups = Hangups(loop)
        self.options = ConnectionOptions(
            channel_max=settings.channel_max,
            frame_max=settings.frame_max,
            heartbeat_s=settings.heartbeat_s,
            handshake_timeout_s=settings.handshake_timeout_s,
            pre_login_bytes_max=settings.pre_login_bytes_max,
            message_bytes_max=settings.message_bytes_max,
            unsynced_bytes_max=settings.unsynced_bytes_max,
            output_bytes_max=settings.output_bytes_max,
            product=settings.product,
            version=settings.product_version,
            platform=settings.platform or _platform(),
            information=settings.information or "Licensed under the Apache License 2.0",
        )
        self.budget = MemoryBudget(settings.memory_budget, memory_limit(settings.memory_limit))
        ports = self._ports()
        self.definitions = DefinitionStore(
            settings.data_dir / "definitions.sqlite", ports.loop.post, account=self.budget
        )
        self.users = Users(self.definitions, os.urandom)
        self.logins = Guard(
            Authenticator(
                self.users,
                AuthOptions() if settings.guest_loopback_only else AuthOptions(loopback_users=frozenset()),
            )
        )
        self.admission = Admission(self.users, self.registry)
        self.core = NodeCore(
            ports,
            NodeIdentity(settings.node, store_id or uuid4().hex, uuid4().hex),
            self.definitions,
            self.users,
            self.registry,
            self.budget,
            settings.event_exchange_vhost,
        )
        self.definitions.on_submitted = self.feed.submitted
        # Connections and the administration look at these often.
        self.tick = self.core.tick
        self.alarms = self.core.alarms
        self.alarms.on_change = self._alarm_changed
        self.commits = self.core.commits
        self.virtual_hosts = self.core.virtual_hosts
        self.disk_watch: DiskWatch
        self._flusher: Flusher | None = None

    def _ports(self) -> Ports:
        loop = self._loop
        self.turns = turn_of(loop)
        self.turns.serve(loop.call_soon, self.enter, self.unexpected)

        def post(call: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(self.enter, call)

        return Ports(
            RealDisk(),
            str(self.settings.data_dir),
            Loop(post, loop.call_later, time.monotonic, self.wall_us),
            call_soon=loop.call_soon,
            ready_count=_ready_count(loop),
            random_bytes=os.urandom,
            event=self.event,
            unexpected=self.unexpected,
            cpu_us=self.cpu_us,
        )

    @property
    def identity(self) -> NodeIdentity:
        """This node, and this run of it."""
        return self.core.identity

    @property
    def feed(self) -> Events:
        """What happens on the node."""
        return self.core.events

    @property
    def parameters(self) -> Parameters:
        """Policies, limits and global parameters."""
        return self.core.parameters

    @property
    def storage(self) -> Storage:
        """The logs; after ``start``."""
        return self.core.storage

    @property
    def vhosts(self) -> dict[str, VirtualHost]:
        """The virtual hosts by name."""
        return self.virtual_hosts.by_name

    # -- start and stop -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what is on disk; afterwards ``connection_factory`` may be called."""
        settings = self.settings
        self.disk_watch = DiskWatch(
            settings.data_dir,
            settings.disk_free_limit,
            segment_bytes=settings.segment_bytes,
            alarms=self.alarms,
            call_later=self._loop.call_later,
            event=self.event,
            halt=self.core.halt_routing,
        )
        self.disk_watch.start()
        self.definitions.on_committed = self.commits.advance
        self.definitions.on_failed = self.core.definitions_failed
        self.definitions.on_recovered = self.core.definitions_recovered
        self.definitions.start()
        routing = _routing_setup(settings, self.disk_watch) if settings.routing_log else None
        self._flusher = self.core.ports.disk.flusher()
        self.core.start(Threads(self._flusher), _log_options(settings), routing)
        if self._flusher is not None:
            self._loop.add_reader(self._flusher.fileno(), self.enter, self.storage.sync.flushed)
        self._load()

    def _load(self) -> None:
        storage, definitions = self.storage, self.definitions
        snapshot = definitions.snapshot()
        if snapshot.rev == 0:
            storage.refuse_logs_of_others(definitions.path)
            snapshot = first_definitions(os.urandom, self._first)
            definitions.submit([Put(row) for row in snapshot.rows()])
        refuse_misplaced(
            storage.disk, storage.data_dir, storage.catalog, snapshot.queues, definitions.was_put
        )
        self.core.load(snapshot)

    async def stop(self) -> None:
        """Close every connection with 320, give back what they hold, flush, release all files."""
        if len(self.registry):
            self.event(logging.INFO, "closing connections", count=len(self.registry), reason="shutdown")
        for transport in self.registry:
            transport.close(partial(force, SHUTDOWN), logging.DEBUG)
        for _ in range(int(GOODBYE_S / 0.02)):
            if not len(self.registry):
                break
            await asyncio.sleep(0.02)
        if len(self.registry):
            self.event(logging.INFO, "connections cut off", count=len(self.registry), seconds=GOODBYE_S)
        for transport in self.registry:
            transport.abort()
        while self.tick.scheduled:
            await asyncio.sleep(0)
        self.disk_watch.stop()
        self.hangups.close()
        if self._flusher is not None:
            self._loop.remove_reader(self._flusher.fileno())
        self.core.stop()
        self.definitions.flush_and_stop()

    # -- definitions --------------------------------------------------------------------------------

    def apply(self, changes: Sequence[Change], rev: int) -> None:
        """Make ``changes``, which another node has made as its revision ``rev``, here too.

        They are stored under the same revision, and memory follows. A revision that is here already is left
        out, so a change may come twice.

        Raises:
            ValueError: revisions between the last one here and ``rev`` are missing; nothing has changed.
            PersistenceError: the definition store refuses; nothing has changed.
            LoadError: an exchange has a type that is not registered.
        """
        if rev <= self.definitions.rev:
            return
        if rev != self.definitions.rev + 1:
            raise ValueError(f"revision {rev} does not follow {self.definitions.rev}")
        self.definitions.submit(changes)
        self.users.apply(changes)
        self.virtual_hosts.apply(changes, rev)

    # -- what connections need of it ----------------------------------------------------------------

    def connection_factory(self, origin: Origin | None = None) -> asyncio.BaseProtocol:
        """The protocol of a connection just accepted; ``origin`` is what a proxy said of it."""
        return Transport(self, self.registry, self._loop, origin)

    def account(self, change: int) -> None:
        """Count ``change`` more bytes that clients make the node hold."""
        self.budget.held += change
        self.core.look_at_memory()

    @property
    def connection_count(self) -> int:
        """Open connections, handshakes included."""
        return len(self.registry)

    def login(self, mechanism: str, response: bytes, peer_host: str, *, is_relayed: bool = False) -> Any:
        """See ``connection.ports.Services``."""
        is_loopback = peer_host.startswith(LOOPBACK) and not is_relayed
        return self.logins.login(mechanism, response, peer_host, is_loopback=is_loopback)

    def login_external(self, name: str, peer_host: str, *, is_relayed: bool = False) -> Any:
        """See ``connection.ports.Services``."""
        is_loopback = peer_host.startswith(LOOPBACK) and not is_relayed
        return self.logins.login_external(name, peer_host, is_loopback=is_loopback)

    def authenticate(self, mechanism: str, response: bytes, peer_host: str) -> User:
        """As ``login``, for callers that slow down guessing themselves.

        Raises:
            LoginFailed: nobody who may come from ``peer_host``.
        """
        is_loopback = peer_host.startswith(LOOPBACK)
        return self.logins.authenticator.login(mechanism, response, is_loopback=is_loopback)

    def route_cache(self, user: Any, vhost: VirtualHost, permissions: Any) -> RouteCache:
        """See ``connection.ports.Services``."""
        return self.virtual_hosts.route_cache(user, vhost, permissions)

    def delete_user(self, name: str) -> int:
        """Delete the user and close its connections, as many in each turn as there is time for.

        Returns the revision to wait for.

        Raises:
            KeyError: there is no such user.
        """
        rev = self.users.delete_user(name)
        close_those(
            self.registry,
            lambda machine: machine.user is not None and machine.user.name == name,
            ConnectionForced(f"user '{name}' is deleted"),
            self.in_slices,
        )
        return rev

    def generate_name(self, prefix: str) -> str:
        """See ``connection.ports.Services``."""
        return self.core.generate_name(prefix)

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """See ``connection.ports.Services``."""
        self.core.ticker.enter(call, *args)

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``connection.ports.Services``."""
        self.core.ticker.in_slices(step)

    def server_properties(self) -> Table:
        """What connection.start says of us."""
        options = self.options
        cluster_name = self.parameters.cluster_name(self.settings.node)
        capabilities = (
            "publisher_confirms",
            "connection.blocked",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "consumer_priorities",
            "per_consumer_qos",
            "authentication_failure_close",
            "direct_reply_to",
        )
        return {
            "capabilities": ("F", dict.fromkeys(capabilities, ("t", True))),
            "cluster_name": ("S", cluster_name.encode(errors="replace")),
            "product": ("S", options.product.encode()),
            "version": ("S", options.version.encode()),
            "platform": ("S", options.platform.encode()),
            "copyright": ("S", b"The amqp-router authors"),
            "information": ("S", options.information.encode()),
        }

    def _alarm_changed(self, name: str, is_on: bool) -> None:
        self.feed.alarm(name, is_on)
        if is_on:
            self.event(logging.WARNING, "alarm set: connections that publish wait", resource=name)
        else:
            self.event(logging.INFO, "alarm cleared", resource=name)

    def event(self, level: int, event: str, **facts: object) -> None:
        """One line in the broker's log."""
        logs.event(self.logger, level, event, **facts)

    def unexpected(self, where: str, error: BaseException) -> None:
        """A fault of ours, with its traceback."""
        self.logger.error("unexpected error in %s", where, exc_info=error)


def _platform() -> str:
    return f"amqp-router {VERSION}, Python {sys.version_info.major}.{sys.version_info.minor}"


def _log_options(settings: Any) -> LogOptions:
    return LogOptions(
        segment_bytes_max=settings.segment_bytes,
        settle_delay_ms=settings.settle_sync_ms,
        descriptors_max=process.log_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    )


def _routing_setup(settings: Any, disk_watch: DiskWatch) -> RoutingSetup:
    options = RoutingOptions(
        partitions=settings.routing_partitions,
        bytes_max=settings.routing_log_bytes,
        days=settings.routing_log_days,
    )
    return RoutingSetup(options, disk_watch.has_room_for_routing)


def _ready_count(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """How many callbacks ``loop`` still has in this turn, for ``Ticker``.

    No public name of asyncio tells that. A call by ``call_soon`` would come after them, but not before the
    next turn, and that turn is what the count saves (a fifth of a lone publisher's CPU). The deque is read
    and never changed. A loop without it works, and saves nothing.
    """
    ready = getattr(loop, "_ready", None)
    return _unknown if ready is None else ready.__len__


def _unknown() -> int:
    return 1 << 30
