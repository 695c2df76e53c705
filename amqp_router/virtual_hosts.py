"""The virtual hosts of a node: loaded, made and deleted.

A deleted virtual host is gone for clients at once: nobody opens it any more, its permissions are gone, its
connections are closed, and one of the same name may be made. What was in it is removed in slices as soon as
the deletion is stored, so that a crash before leaves it whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from amqp_router.auth.users import Users
from amqp_router.commits import Commits
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.transport import Transport
from amqp_router.disconnecting import close_those
from amqp_router.parameters import GLOBAL, Parameters
from amqp_router.protocol.errors import ConnectionForced, InternalError
from persistence.definitions import (
    Change,
    Delete,
    DeleteVhost,
    ParameterRow,
    PermissionRow,
    Put,
    QueueRow,
    Snapshot,
    VhostRow,
)
from persistence.errors import PersistenceError
from persistence.log.routing.logs import RoutingLogs
from persistence.memory import MemoryBudget
from vhosts.exchanges.route_names import RouteNames
from vhosts.exchanges.router import Permits, RouteCache
from vhosts.firehose import Firehose
from vhosts.ports import DefinitionsPort, InSlices, Permissions, QueueFactory
from vhosts.vhost import VirtualHost


class VirtualHosts:
    """All virtual hosts of one node, by name."""

    def __init__(
        self,
        definitions: DefinitionsPort,
        users: Users,
        parameters: Parameters,
        commits: Commits,
        registry: ConnectionRegistry[Transport],
        *,
        budget: MemoryBudget,
        in_slices: InSlices,
        generate_name: Callable[[str], str],
        event: Callable[..., None],
        node: str,
    ) -> None:
        self.by_name: dict[str, VirtualHost] = {}
        #: Called with each that is made, while it is empty; set before anything is loaded.
        self.on_made: Callable[[VirtualHost], None]
        #: Makes their queues; set before anything is loaded.
        self.make_queue: QueueFactory
        #: Where their routes are recorded; None if that is switched off.
        self.routing: RoutingLogs | None = None
        self._definitions = definitions
        self._users = users
        self._parameters = parameters
        self._commits = commits
        self._registry = registry
        self._budget = budget
        self._in_slices = in_slices
        self._generate_name = generate_name
        self._event = event
        #: Name of the node.
        self._node = node
        #: By user and virtual host.
        self._caches: dict[tuple[str, str], RouteCache] = {}

    # -- start -----------------------------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Load what the definition store holds.

        Raises:
            LoadError: an exchange has a type that is not registered.
        """
        for row in snapshot.vhosts:
            vhost = self._enter(row)
            for parameter in [each for each in snapshot.parameters if each.vhost == row.name]:
                self._enter_parameter(vhost, parameter)
            lost = vhost.load(
                [each for each in snapshot.exchanges if each.vhost == row.name],
                [each for each in snapshot.queues if each.vhost == row.name],
                [each for each in snapshot.bindings if each.vhost == row.name],
            )
            for binding in lost:
                self._event(logging.WARNING, "binding without an end left out", binding=binding)
        for parameter in [each for each in snapshot.parameters if each.vhost == GLOBAL]:
            self._enter_parameter(None, parameter)
        for vhost_name, number, what in self.routing.reports if self.routing is not None else ():
            self._event(logging.WARNING, "routing log", vhost=vhost_name, partition=number, found=what)

    def _enter(self, row: VhostRow) -> VirtualHost:
        vhost = VirtualHost(
            row.name,
            definitions=self._definitions,
            make_queue=self.make_queue,
            generate_name=self._generate_name,
            in_slices=self._in_slices,
            account=self._budget,
        )
        self.by_name[row.name] = vhost
        self.on_made(vhost)
        self._describe(vhost, row)
        self._commits.vhosts.append(vhost)
        routing = self.routing.open(row.name) if self.routing is not None else None
        if routing is not None:
            vhost.table.names = RouteNames(routing)
        return vhost

    def _describe(self, vhost: VirtualHost, row: VhostRow) -> None:
        """``row`` is what is stored of ``vhost`` from now on."""
        vhost.row = row
        taps = vhost.table.taps
        if bool(taps) is not row.tracing:
            taps[:] = [self._firehose(vhost)] if row.tracing else []

    def _firehose(self, vhost: VirtualHost) -> Firehose:
        return Firehose(vhost.table, self._budget, self._in_slices, self._node)

    def _enter_parameter(self, vhost: VirtualHost | None, row: ParameterRow) -> None:
        try:
            self._parameters.enter(vhost, row)
        except (ValueError, TypeError) as error:  # of a release that knew more
            self._event(logging.WARNING, "parameter left out", parameter=row, reason=str(error))

    # -- changes ---------------------------------------------------------------------------------------

    def put(self, name: str, creator: str = "", **metadata: Any) -> int:
        """Make a virtual host, or change the given fields of one (see ``VhostRow``).

        The user ``creator`` may do everything in a new one. Returns the revision to wait for.

        Raises:
            InternalError: the definition store refuses (541).
        """
        known = self.by_name.get(name)
        row = replace(VhostRow(name) if known is None else known.row, **metadata)
        if known is not None:
            rev = self._submit([Put(row)])
            self._describe(known, row)
            return rev
        grants = [PermissionRow(creator, name, ".*", ".*", ".*")] if creator in self._users.users else []
        rev = self._submit([Put(row), *map(Put, grants)])
        self._enter(row)
        for grant in grants:
            self._users.enter_permission(grant)
        self._event(logging.INFO, "virtual host made", vhost=name, user=creator or None)
        return rev

    def delete(self, name: str, user: str = "") -> int:
        """Delete a virtual host with all that is in it. Returns the revision to wait for.

        Raises:
            KeyError: there is none.
            InternalError: the definition store refuses (541).
        """
        self.by_name[name]
        rev = self._submit([DeleteVhost(name)])
        self._leave(name, rev)
        self._event(logging.INFO, "virtual host deleted", vhost=name, user=user or None)
        return rev

    def apply(self, changes: Sequence[Change], rev: int) -> None:
        """Change memory as ``changes`` tell, which revision ``rev`` stores here; users and
        permissions are left out.

        Raises:
            LoadError: an exchange has a type that is not registered.
        """
        for name, run in groupby(changes, _vhost_of):
            some = list(run)
            for change in some:
                if isinstance(change, Put) and isinstance(change.row, VhostRow):
                    self._describe(self.by_name.get(name) or self._enter(change.row), change.row)
            vhost = self.by_name.get(name)
            if vhost is not None or name == GLOBAL:
                for change in some:
                    self._apply_parameter(vhost, change)
            if vhost is None:
                continue
            if any(isinstance(change, DeleteVhost) for change in some):
                self._leave(name, rev)
                continue
            vhost.apply(some, rev)
            for change in some:
                if isinstance(change, Put) and change.kind == QueueRow.kind:
                    queue: Any = vhost.queues[str(change.key[1])]
                    self._commits.queue_declared(queue)

    def _apply_parameter(self, vhost: VirtualHost | None, change: Change) -> None:
        if isinstance(change, Put) and isinstance(change.row, ParameterRow):
            self._enter_parameter(vhost, change.row)
        elif isinstance(change, Delete) and change.kind == ParameterRow.kind:
            _, component, name = map(str, change.key)
            self._parameters.leave(vhost, component, name)

    def _leave(self, name: str, rev: int) -> None:
        """Take the virtual host out, close its connections, and empty it once ``rev`` is stored."""
        vhost = self.by_name.pop(name)
        error = ConnectionForced(f"vhost '{name}' is deleted")
        vhost.begin_deletion(error, rev)
        for key in [key for key in self._caches if key[1] == name]:
            del self._caches[key]
        self._users.forget_vhost(name)
        self._parameters.forget_vhost(name)
        self._registry.closed_octets.pop(name, None)
        close_those(self._registry, lambda machine: machine.vhost is vhost, error, self._in_slices)
        self._commits.after(rev, _Removal(partial(self._in_slices, partial(self._remove_some, vhost))))

    def _remove_some(self, vhost: VirtualHost) -> bool:
        if vhost.topology.feed.is_behind or not vhost.remove_some():
            return False
        self._commits.vhosts.remove(vhost)
        # One of the same name, made meanwhile, goes on with the routing log.
        if self.routing is not None and vhost.name not in self.by_name:
            self.routing.remove(vhost.name)
        return True

    def _submit(self, changes: Sequence[Change]) -> int:
        try:
            return self._definitions.submit(changes)
        except PersistenceError as error:
            raise InternalError(str(error)) from error

    # -- routes ----------------------------------------------------------------------------------------

    def forget_routes(self) -> None:
        """Invalidate all cached routes, because permissions have changed."""
        for vhost in self.by_name.values():
            vhost.forget_routes()

    def route_cache(self, user: Any, vhost: VirtualHost, permissions: Permissions) -> RouteCache:
        """The routes that ``user`` may use in ``vhost``."""
        cache = self._caches.get((user.name, vhost.name))
        if cache is None:
            cache = RouteCache(vhost.table, _WritePermits(permissions), self._budget)
            self._caches[user.name, vhost.name] = cache
        return cache


class _Removal:
    """Waits for the deletion of a virtual host to be stored."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove = remove

    def committed(self, rev: int) -> None:
        self._remove()


class _WritePermits(Permits):
    """What one user may publish to."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    def publish(self, exchange: str) -> None:
        self._permissions.check("write", "exchange", exchange)

    def topic(self, exchange: str, keys: Sequence[str]) -> None:
        for key in keys:
            self._permissions.check_topic("write", exchange, key)


def _vhost_of(change: Change) -> str:
    """The virtual host that ``change`` is about; empty if none."""
    if isinstance(change, Put):
        row = change.row
        return row.name if isinstance(row, VhostRow) else getattr(row, "vhost", "")
    return str(getattr(change, "vhost", "") or change.key[0])  # type: ignore[union-attr]  # a Delete has a key
