"""The node: what connections share, and the order of starting and stopping.

Start: definitions, logs (each recovered), virtual hosts, then connections. Stop: connections say good-bye and
give back what they hold, the logs are flushed and marked clean, the definitions are flushed.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from amqp_router import logs
from amqp_router.admission import Admission
from amqp_router.auth.backends import Authenticator, AuthOptions, User
from amqp_router.auth.guard import Guard
from amqp_router.auth.mechanisms import MECHANISMS
from amqp_router.auth.users import Users, first_definitions
from amqp_router.channel.states import ChannelState
from amqp_router.cluster import NodeIdentity, StandaloneQueues, StandaloneRegistry, count_boot
from amqp_router.commits import Commits
from amqp_router.connection.alarms import Alarms
from amqp_router.connection.hangups import Hangups
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.pressure import Pressure
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.ticker import Ticker
from amqp_router.connection.transport import Transport
from amqp_router.disconnecting import close_those, force
from amqp_router.disk_watch import DiskWatch
from amqp_router.log_rows import refuse_misplaced
from amqp_router.machine_memory import memory_limit
from amqp_router.parameters import Parameters
from amqp_router.protocol.errors import ConnectionForced, InternalError
from amqp_router.protocol.fields import Table
from amqp_router.protocol.tick import Tick
from amqp_router.queue_maker import QueueMaker
from amqp_router.storage import Storage
from amqp_router.version import VERSION
from amqp_router.virtual_hosts import VirtualHosts
from persistence.clock import WallClock
from persistence.definitions import Change, DefinitionStore, Put
from persistence.files import RealDisk
from persistence.memory import MemoryBudget
from vhosts.counters import MessageTotals
from vhosts.exchanges.router import RouteCache
from vhosts.queues.queue import Queue
from vhosts.vhost import VirtualHost

#: Seconds that clients get for their close-ok when the node stops.
GOODBYE_S = 2.0
SHUTDOWN = ConnectionForced("broker forced connection closure with reason 'shutdown'")
LOOPBACK = ("127.", "::1", "::ffff:127.")


class Broker:
    """One node. ``store_id`` names its data directory for ever."""

    #: Names of the login mechanisms offered.
    mechanisms = " ".join(MECHANISMS)

    def __init__(
        self, settings: Any, loop: asyncio.AbstractEventLoop, logger: logging.Logger, *, store_id: str = ""
    ) -> None:
        self.settings = settings
        self.logger = logger
        self._loop = loop
        self.tick = Tick(loop.call_soon)
        #: The time of day in µs.
        self.wall_us = WallClock().now_us
        self.alarms = Alarms(self.in_slices)
        self.alarms.on_change = self._alarm_changed
        self.commits = Commits()
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
            version=VERSION,
        )
        self.identity = NodeIdentity(settings.node, store_id or uuid4().hex, uuid4().hex)
        self.budget = MemoryBudget(settings.memory_budget, memory_limit(settings.memory_limit))
        self.look_at_memory = Pressure(self.budget, self.alarms).look
        self.definitions = DefinitionStore(
            settings.data_dir / "definitions.sqlite", self._post, account=self.budget
        )
        self.users = Users(self.definitions, os.urandom)
        self.logins = Guard(
            Authenticator(
                self.users,
                AuthOptions() if settings.guest_loopback_only else AuthOptions(loopback_users=frozenset()),
            )
        )
        self.admission = Admission(self.users, self.registry)
        self.parameters = Parameters(self.definitions)
        self.virtual_hosts = VirtualHosts(
            self.definitions,
            self.users,
            self.parameters,
            self.commits,
            self.registry,
            budget=self.budget,
            in_slices=self.in_slices,
            generate_name=self.generate_name,
            event=self.event,
        )
        self.users.on_change = self.virtual_hosts.forget_routes
        self.ticker: Ticker
        self.disk_watch: DiskWatch
        self.storage: Storage

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
            halt=self._halt_routing,
        )
        self.disk_watch.start()
        registry = StandaloneRegistry(self.identity.boot_id, self._post)
        leaders = StandaloneQueues(registry, self.identity, count_boot(RealDisk(), str(settings.data_dir)))
        self.definitions.on_committed = self.commits.advance
        self.definitions.on_failed = self._definitions_failed
        self.definitions.on_recovered = self._definitions_recovered
        self.definitions.start()
        self.commits.committed = self.definitions.committed
        self.storage = Storage(
            settings,
            self._loop,
            tick=self.tick,
            budget=self.budget,
            post=self._post,
            enter=self.enter,
            wall_us=self.wall_us,
            has_room_for_routing=self.disk_watch.has_room_for_routing,
            boot_id=self.identity.boot_id,
            store_id=self.identity.store_id,
        )
        # asyncio's loop keeps what is ready in a deque; another loop may not, and then nothing is saved.
        ready = getattr(self._loop, "_ready", None)
        self.ticker = Ticker(
            self.tick,
            self.storage.sync.start_round,
            _unknown if ready is None else ready.__len__,
            self.unexpected,
            self.look_at_memory,
        )
        self.virtual_hosts.routing = self.storage.routing
        self.virtual_hosts.make_queue = QueueMaker(
            self.storage,
            leaders,
            self.commits,
            tick=self.tick,
            budget=self.budget,
            in_slices=self.in_slices,
            event=self.event,
            later=lambda seconds, call: self._loop.call_later(seconds, self.enter, call),
            wall_us=self.wall_us,
        )
        # Queues that expire count the time from here on.
        self.tick.now_us = self.wall_us()
        self._load()

    def _load(self) -> None:
        catalog, definitions = self.storage.catalog, self.definitions
        snapshot = definitions.snapshot()
        if snapshot.rev == 0:
            self.storage.refuse_logs_of_others(definitions.path)
            snapshot = first_definitions(os.urandom)
            definitions.submit([Put(row) for row in snapshot.rows()])
        self.users.load(snapshot.users, snapshot.permissions, snapshot.topic_permissions)
        refuse_misplaced(
            self.storage.disk, self.storage.data_dir, catalog, snapshot.queues, definitions.was_put
        )
        catalog.start()
        self.virtual_hosts.load(snapshot)
        set_aside = catalog.quarantine_unknown({row.incarnation for row in snapshot.queues})
        for left in set_aside:
            self.event(logging.WARNING, "log without a queue set aside", directory=left)
        if snapshot.queues:
            self._tell_recovered(len(set_aside))

    def _tell_recovered(self, set_aside: int) -> None:
        """One line on what the logs held and what recovery did to them."""
        catalog = self.storage.catalog
        reports = catalog.reports.values()
        queues = [queue for vhost in self.vhosts.values() for queue in vhost.queues.values()]
        self.event(
            logging.INFO,
            "queues recovered",
            after="a clean stop" if catalog.was_clean else "a crash",
            queues=len(queues),
            messages=sum([queue.message_count() for queue in queues]),
            damaged=sum([isinstance(queue, Queue) and bool(queue.error) for queue in queues]) or None,
            replayed_batches=sum([report.replayed_batches for report in reports]) or None,
            torn_bytes_cut=sum([report.cut_bytes for report in reports]) or None,
            logs_set_aside=set_aside or None,
        )

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
        self.storage.stop()
        self.definitions.flush_and_stop()

    # -- definitions --------------------------------------------------------------------------------

    def _definitions_failed(self, error: Exception) -> None:
        """Nothing can be declared for now: whoever waits must not believe it was."""
        self.event(logging.ERROR, "definitions cannot be stored", reason=error)
        self.commits.fail(error)
        for transport in self.registry:
            changes = transport.machine.shared.unstored_changes
            if changes is not None:
                changes.failed()
            if any(channel.pending for channel in transport.machine.channels.values()):
                transport.close(lambda machine: machine.close(InternalError(str(error))))

    def _definitions_recovered(self) -> None:
        self.event(logging.INFO, "definitions are stored again")
        self.commits.recover()

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

    def connection_factory(self) -> asyncio.BaseProtocol:
        """The protocol of a connection just accepted."""
        return Transport(self, self.registry, self._loop)

    @property
    def connection_count(self) -> int:
        """Open connections, handshakes included."""
        return len(self.registry)

    def message_totals(self, vhost: str) -> MessageTotals:
        """What happened to messages in a virtual host since it was opened, on channels closed and open."""
        totals = MessageTotals()
        totals.add(self.vhosts[vhost].counters.closed)
        for transport in self.registry:
            machine = transport.machine
            if machine.vhost is not None and machine.vhost.name == vhost:
                for channel in machine.channels.values():
                    if channel.state is ChannelState.OPEN:
                        totals.add(channel.totals())
        return totals

    def login(self, mechanism: str, response: bytes, peer_host: str) -> Any:
        """See ``connection.ports.Services``."""
        return self.logins.login(mechanism, response, peer_host, is_loopback=peer_host.startswith(LOOPBACK))

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
        """``prefix`` and 22 random characters of the base64url alphabet."""
        return prefix + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")

    def _post(self, call: Callable[[], None]) -> None:
        """Run ``call`` on the loop; for the worker threads."""
        self._loop.call_soon_threadsafe(self.enter, call)

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """See ``connection.ports.Services``."""
        self.ticker.enter(call, *args)

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``connection.ports.Services``."""
        self.ticker.in_slices(step)

    def server_properties(self) -> Table:
        """What connection.start says of us."""
        options = self.options
        capabilities = (
            "publisher_confirms",
            "connection.blocked",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "per_consumer_qos",
            "authentication_failure_close",
        )
        return {
            "capabilities": ("F", dict.fromkeys(capabilities, ("t", True))),
            "cluster_name": ("S", self.settings.node.encode()),
            "product": ("S", options.product.encode()),
            "version": ("S", options.version.encode()),
            "platform": ("S", f"Python {sys.version_info.major}.{sys.version_info.minor}".encode()),
            "copyright": ("S", b"The amqp-router authors"),
            "information": ("S", b"Licensed under the Apache License 2.0"),
        }

    def _halt_routing(self) -> None:
        if self.virtual_hosts.routing is not None:
            self.virtual_hosts.routing.halt()

    def _alarm_changed(self, name: str, is_on: bool) -> None:
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


def _unknown() -> int:
    return 1 << 30
