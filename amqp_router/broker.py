"""The node: what connections share, and the order of starting and stopping.

Start: definitions, logs (each recovered), virtual hosts, then connections. Stop: connections say good-bye and
give back what they hold, the logs are flushed and marked clean, the definitions are flushed.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from amqp_router import logs, process
from amqp_router.auth.backends import Authenticator, AuthOptions, User
from amqp_router.auth.guard import Guard
from amqp_router.auth.mechanisms import MECHANISMS
from amqp_router.auth.users import Users, first_definitions
from amqp_router.channel.states import ChannelState
from amqp_router.cluster import NodeIdentity, StandaloneQueues, StandaloneRegistry, count_boot
from amqp_router.commits import Commits
from amqp_router.connection.alarms import Alarms
from amqp_router.connection.hangups import Hangups
from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.pressure import Pressure
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.ticker import Ticker
from amqp_router.connection.transport import Transport
from amqp_router.disk_watch import DiskWatch
from amqp_router.log_rows import refuse_misplaced
from amqp_router.machine_memory import memory_limit
from amqp_router.protocol.errors import ConnectionForced, InternalError
from amqp_router.protocol.fields import Table
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.tick import Tick
from amqp_router.version import VERSION
from persistence.clock import WallClock
from persistence.definitions import DefinitionStore, Put, VhostRow
from persistence.errors import LogsWithoutDefinitions, PersistenceError
from persistence.files import RealDisk
from persistence.log.queue.catalog import Catalog
from persistence.log.routing.logs import RoutingLogs, RoutingOptions
from persistence.log.sync._flush import Flusher
from persistence.log.sync.log_sync import LogSync
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from vhosts.counters import MessageTotals
from vhosts.exchanges.route_names import RouteNames
from vhosts.exchanges.router import RouteCache
from vhosts.ports import Host
from vhosts.queues.contents import Contents
from vhosts.queues.queue import Queue
from vhosts.queues.services import QueueServices
from vhosts.vhost import VirtualHost

#: Connections of a deleted user that are closed in one turn of the loop.
CLOSED_PER_TURN = 50
#: Seconds that clients get for their close-ok when the node stops.
GOODBYE_S = 2.0
#: Messages freed per turn of the loop when a long queue is purged or deleted.
FREE_SLICE = 10_000
#: Seconds until a queue tries again to read messages after an error that passes.
STALL_S = 0.5
LOOPBACK = ("127.", "::1", "::ffff:127.")


class Broker:
    """One node. ``store_id`` names its data directory for ever."""

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
        self.registry = ConnectionRegistry()
        self.hangups = Hangups(loop)
        self.vhosts: dict[str, VirtualHost] = {}
        self.mechanisms = " ".join(MECHANISMS)
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
        self._data_dir = str(settings.data_dir)
        self.definitions = DefinitionStore(
            settings.data_dir / "definitions.sqlite", self._post, account=self.budget
        )
        self.users = Users(self.definitions, os.urandom)
        self.users.on_change = self._permissions_changed
        self._authenticator = Authenticator(
            self.users,
            AuthOptions() if settings.guest_loopback_only else AuthOptions(loopback_users=frozenset()),
        )
        self._guard = Guard(self._authenticator)
        self._registry = StandaloneRegistry(self.identity.boot_id, self._post)
        self._queues: StandaloneQueues | None = None
        self._caches: dict[tuple[str, str], RouteCache] = {}
        #: None if it is switched off.
        self.routing: RoutingLogs | None = None
        self.sync: LogSync
        self.ticker: Ticker
        self._flusher: Flusher
        self._queue_services: QueueServices
        self.catalog: Catalog
        self.disk_watch: DiskWatch

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
        disk = RealDisk()
        self._queues = StandaloneQueues(self._registry, self.identity, count_boot(disk, self._data_dir))
        self.definitions.on_committed = self.commits.advance
        self.definitions.on_failed = self._definitions_failed
        self.definitions.on_recovered = self._definitions_recovered
        self.definitions.start()
        self.commits.committed = self.definitions.committed
        options = LogOptions(
            segment_bytes_max=settings.segment_bytes,
            settle_delay_ms=settings.settle_sync_ms,
            descriptors_max=process.log_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )
        loop = self._loop
        flusher = self._flusher = Flusher()
        self.sync = LogSync(
            disk,
            self._data_dir,
            options,
            post=self._post,
            call_later=loop.call_later,
            wall_us=self.wall_us,
            flusher=flusher,
        )
        loop.add_reader(flusher.fileno(), self.enter, self.sync.flushed)
        self.catalog = Catalog(
            self._data_dir,
            self.sync,
            options,
            self.budget,
            disk=disk,
            boot_id=bytes.fromhex(self.identity.boot_id),
        )
        services = self._queue_services = QueueServices(
            self.tick, Contents(self.budget, self.catalog.new_spill())
        )
        services.in_slices = self.in_slices
        services.discard = self._discard
        services.open_pager = self.catalog.new_page_log
        services.deleted = self._queue_deleted
        services.failed = self._queue_failed
        services.resumed = self._queue_resumed
        services.stalled = self._queue_stalled
        # asyncio's loop keeps what is ready in a deque; another loop may not, and then nothing is saved.
        ready = getattr(loop, "_ready", None)
        self.ticker = Ticker(
            self.tick,
            self.sync.start_round,
            _unknown if ready is None else ready.__len__,
            self.unexpected,
            self.look_at_memory,
        )
        if settings.routing_log:
            self.routing = RoutingLogs(
                disk,
                self._data_dir,
                RoutingOptions(
                    partitions=settings.routing_partitions,
                    bytes_max=settings.routing_log_bytes,
                    days=settings.routing_log_days,
                ),
                tick=self.tick,
                marks=self.sync.marks,
                post=self._post,
                call_later=loop.call_later,
                wall_us=self.wall_us,
                has_room=self.disk_watch.has_room_for_routing,
                node=self.identity.store_id,
                account=self.budget,
            )
        self._load()

    def _load(self) -> None:
        snapshot = self.definitions.snapshot()
        if snapshot.rev == 0:
            self._refuse_logs_of_others()
            snapshot = first_definitions(os.urandom)
            self.definitions.submit([Put(row) for row in snapshot.rows()])
        self.users.load(snapshot.users, snapshot.permissions)
        refuse_misplaced(RealDisk(), self._data_dir, self.catalog, snapshot.queues, self.definitions.was_put)
        self.catalog.start()
        for vhost_row in snapshot.vhosts:
            vhost = self._make_vhost(vhost_row)
            lost = vhost.load(
                [row for row in snapshot.exchanges if row.vhost == vhost.name],
                [row for row in snapshot.queues if row.vhost == vhost.name],
                [row for row in snapshot.bindings if row.vhost == vhost.name],
            )
            for binding in lost:
                self.event(logging.WARNING, "binding without an end left out", binding=binding)
        for vhost_name, number, what in self.routing.reports if self.routing is not None else ():
            self.event(logging.WARNING, "routing log", vhost=vhost_name, partition=number, found=what)
        set_aside = self.catalog.quarantine_unknown({row.incarnation for row in snapshot.queues})
        for left in set_aside:
            self.event(logging.WARNING, "log without a queue set aside", directory=left)
        if snapshot.queues:
            self._tell_recovered(len(set_aside))

    def _tell_recovered(self, set_aside: int) -> None:
        """One line on what the logs held and what recovery did to them."""
        reports = self.catalog.reports.values()
        queues = [queue for vhost in self.vhosts.values() for queue in vhost.queues.values()]
        self.event(
            logging.INFO,
            "queues recovered",
            after="a clean stop" if self.catalog.was_clean else "a crash",
            queues=len(queues),
            messages=sum([queue.message_count() for queue in queues]),
            damaged=sum([isinstance(queue, Queue) and bool(queue.error) for queue in queues]) or None,
            replayed_batches=sum([report.replayed_batches for report in reports]) or None,
            torn_bytes_cut=sum([report.cut_bytes for report in reports]) or None,
            logs_set_aside=set_aside or None,
        )

    def _refuse_logs_of_others(self) -> None:
        """The definitions are new: logs beside them mean that the old ones are gone.

        Raises:
            LogsWithoutDefinitions: there are some.
        """
        names = self.catalog.incarnations()
        if names:
            raise LogsWithoutDefinitions(
                f"{self.definitions.path}: holds no definitions, but {self._data_dir}/queues has the logs of "
                f"{len(names)} queues; restore definitions.sqlite (and its -wal, if any) from a backup, or "
                f"let `amqp-router log adopt --data-dir {self._data_dir}` make definitions of the logs, "
                "or move the folders from queues/ into quarantine/ to begin without them"
            )

    def _make_vhost(self, row: VhostRow) -> VirtualHost:
        vhost = VirtualHost(
            row.name,
            definitions=self.definitions,
            make_queue=self._make_queue,
            generate_name=self.generate_name,
            in_slices=self.in_slices,
            account=self.budget,
        )
        self.vhosts[row.name] = vhost
        self.commits.vhosts.append(vhost)
        routing = self.routing.open(row.name) if self.routing is not None else None
        if routing is not None:
            vhost.table.names = RouteNames(routing)
        return vhost

    async def stop(self) -> None:
        """Close every connection with 320, give back what they hold, flush, release all files."""
        if len(self.registry):
            self.event(logging.INFO, "closing connections", count=len(self.registry), reason="shutdown")
        for transport in self.registry:
            transport.close(_shutdown, logging.DEBUG)
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
        self._loop.remove_reader(self._flusher.fileno())
        if self.routing is not None:
            self.routing.stop()
        self.catalog.stop()
        self.definitions.flush_and_stop()

    # -- queues -------------------------------------------------------------------------------------

    def _make_queue(
        self,
        *,
        vhost: Host,
        name: str,
        durable: bool,
        exclusive_owner: Any,
        auto_delete: bool,
        arguments: Arguments,
        incarnation: str,
    ) -> Queue:
        queue = Queue(self._queue_services)
        queue.vhost = vhost
        queue.name = name
        queue.durable = durable
        queue.exclusive_owner = exclusive_owner
        queue.auto_delete = auto_delete
        queue.arguments = arguments
        if durable:
            self._open_log(queue, incarnation)
        else:
            queue.attach(uuid4().hex)
        return queue

    def _open_log(self, queue: Queue, incarnation: str) -> None:
        assert self._queues is not None
        vhost = queue.vhost.name
        if not incarnation:
            made = uuid4().hex
            self.commits.queue_declared(queue)
            log = self.catalog.create(made, vhost, queue.name, queue.arguments, auto_delete=queue.auto_delete)
            queue.attach(made, log)
        else:
            try:
                log = self.catalog.open(
                    incarnation, vhost, queue.name, queue.arguments, auto_delete=queue.auto_delete
                )
            except (PersistenceError, OSError) as error:
                # That queue alone stands still; what is on disk is left as it is.
                queue.attach(incarnation)
                queue.error = queue.refusing = f"its log cannot be read: {error}"
                self.event(
                    logging.ERROR,
                    "queue not available",
                    queue=queue.name,
                    vhost=vhost,
                    reason=error,
                    way_out='docs/operations.md, "Damage"; `amqp-router log salvage` copies what is readable',
                )
                return
            queue.attach(incarnation, log, recovered=True)
        # The log asks for more than its last batch's: what comes after a checkpoint in an earlier epoch than
        # the checkpoint's is taken for the leftover of a truncation.
        log.epoch = self._queues.lead(queue.incarnation, log.epoch).epoch

    def _discard(self, messages: list[Any]) -> None:
        self.in_slices(partial(_free_some, messages))

    def _queue_failed(self, queue: Queue) -> None:
        """The operator must hear of it; clients do from their methods."""
        what = "queue failed" if queue.error else "queue takes no messages until its log can be written"
        self.event(logging.ERROR, what, queue=queue.name, vhost=queue.vhost.name, reason=queue.refusing)

    def _queue_resumed(self, queue: Queue) -> None:
        self.event(logging.INFO, "queue takes messages again", queue=queue.name, vhost=queue.vhost.name)

    def _queue_stalled(self, queue: Queue) -> None:
        """Its messages cannot be read while descriptors are used up."""
        self._loop.call_later(STALL_S, self.enter, queue.unstall)

    def _queue_deleted(self, queue: Queue, rev: int) -> None:
        if queue.log is None and not queue.durable:
            return
        assert self._queues is not None
        self._queues.forget(queue.incarnation)
        self.commits.queue_deleted(queue, rev, self.catalog)

    # -- definitions --------------------------------------------------------------------------------

    def _definitions_failed(self, error: Exception) -> None:
        """Nothing can be declared for now: whoever waits must not believe it was."""
        self.event(logging.ERROR, "definitions cannot be stored", reason=error)
        self.commits.fail(error)
        for transport in self.registry:
            changes = transport.machine.unstored_changes
            if changes is not None:
                changes.failed()
            if any(channel.pending for channel in transport.machine.channels.values()):
                transport.close(lambda machine: machine.close(InternalError(str(error))))

    def _definitions_recovered(self) -> None:
        self.event(logging.INFO, "definitions are stored again")
        self.commits.recover()

    def _permissions_changed(self) -> None:
        for vhost in self.vhosts.values():
            vhost.forget_routes()

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
        return self._guard.login(mechanism, response, peer_host, is_loopback=peer_host.startswith(LOOPBACK))

    def authenticate(self, mechanism: str, response: bytes, peer_host: str) -> User:
        """As ``login``, for callers that slow down guessing themselves.

        Raises:
            LoginFailed: nobody who may come from ``peer_host``.
        """
        return self._authenticator.login(mechanism, response, is_loopback=peer_host.startswith(LOOPBACK))

    def route_cache(self, user: Any, vhost: VirtualHost, permissions: Any) -> RouteCache:
        """One per user and virtual host."""
        cache = self._caches.get((user.name, vhost.name))
        if cache is None:
            cache = RouteCache(
                vhost.table, lambda exchange: permissions.check("write", "exchange", exchange), self.budget
            )
            self._caches[user.name, vhost.name] = cache
        return cache

    def delete_user(self, name: str) -> int:
        """Delete the user and close its connections, as many in each turn as there is time for.

        Returns the revision to wait for.

        Raises:
            KeyError: there is no such user.
        """
        rev = self.users.delete_user(name)
        error = ConnectionForced(f"user '{name}' is deleted")
        leaving = [
            transport
            for transport in self.registry
            if transport.machine.user is not None and transport.machine.user.name == name
        ]

        def step() -> bool:
            for _ in range(min(len(leaving), CLOSED_PER_TURN)):
                leaving.pop().close(lambda machine: machine.close(error))
            return not leaving

        if leaving:
            self.in_slices(step)
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
        if self.routing is not None:
            self.routing.halt()

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


def _free_some(messages: list[Any]) -> bool:
    del messages[-FREE_SLICE:]
    return not messages


def _unknown() -> int:
    return 1 << 30


def _shutdown(machine: Machine) -> None:
    machine.class_id = machine.method_id = 0
    machine.close(ConnectionForced("broker forced connection closure with reason 'shutdown'"))
