"""A virtual host: its exchanges, its queues and the bindings between them, and how they change.

Durable changes are first submitted to the definition store as rows; what belongs together is one submission.
If the store refuses it, memory stays as it was and the client gets an error (541). Otherwise memory changes
at once, and the client's reply waits for the revision that the store returned. A call that finds nothing to
change returns the revision of the change it relies on, which may not be committed yet.

These are true at all times:

- ``table`` knows every exchange, and the route to every queue by its name;
- the default exchange reaches every queue, without entries in ``bindings``;
- every binding in ``bindings`` has both ends, and its source routes by it.

Source: AMQP 0-9-1, classes exchange and queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from amqp_router.protocol.errors import InternalError
from amqp_router.protocol.kept_table import Arguments, encoded, footprint, keep, read_arguments
from persistence.definitions.records import (
    NO_ARGUMENTS,
    BindingRow,
    Change,
    Delete,
    ExchangeRow,
    Put,
    QueueRow,
)
from persistence.errors import PersistenceError
from persistence.memory import MemoryBudget
from vhosts import arguments as args
from vhosts.bindings import Binding, Bindings
from vhosts.counters import Counters
from vhosts.errors import (
    default_exchange_refused,
    in_use,
    locked_queue,
    no_memory,
    not_empty,
    not_found,
    system_exchange,
)
from vhosts.exchanges.default import DefaultExchange
from vhosts.exchanges.exchange import Exchange
from vhosts.exchanges.router import RoutingTable, default_route
from vhosts.exchanges.types import EXCHANGE_TYPES, SYSTEM_EXCHANGES, exchange_type
from vhosts.ports import DefinitionsPort, InSlices, QueueFactory
from vhosts.queues.handle import QueueHandle
from vhosts.removal import SLICE, Removals
from vhosts.spread_map import Entries, roomy

RESERVED_PREFIX = "amq."
#: Memory of a queue apart from messages, name and arguments; measured.
QUEUE_BYTES = 5200


class LoadError(Exception):
    """A stored exchange has a type that this program does not have."""


class VirtualHost:
    """Exchanges, queues and bindings under one name. The caller checks permissions."""

    def __init__(
        self,
        name: str,
        *,
        definitions: DefinitionsPort,
        make_queue: QueueFactory,
        generate_name: Callable[[str], str],
        in_slices: InSlices,
        account: MemoryBudget | None = None,
    ) -> None:
        self.name = name
        #: Makes a unique name from a prefix.
        self.generate_name = generate_name
        self.queues: dict[str, QueueHandle] = {}
        #: The node's account of memory.
        self._account = account or MemoryBudget()
        self.bindings = Bindings(self._account)
        self.counters = Counters()
        self.table = RoutingTable()
        self.table.vhost = name
        self.table.stale.in_slices = in_slices
        self.exchanges = self.table.exchanges
        self._definitions = definitions
        self._removals = Removals(self.table, self.bindings, in_slices=in_slices, submit=self._submit)
        self._in_slices = in_slices
        self._make_queue = make_queue
        #: Auto-delete queues that could not be removed because the definition store refused.
        self._overdue: dict[QueueHandle, None] = {}
        #: The exclusive queues of each connection.
        self._owned: dict[Any, Entries] = {}
        self._last_rev = 0
        self.exchanges[""] = DefaultExchange(self.queues)
        for system_name, type_name, internal in SYSTEM_EXCHANGES:
            cls = EXCHANGE_TYPES[type_name]
            self.exchanges[system_name] = cls(system_name, type_name, durable=True, internal=internal)

    @property
    def generation(self) -> int:
        """A number that every change of a route raises."""
        return self.table.generation

    def forget_routes(self) -> None:
        """Invalidate all cached routes, because permissions have changed."""
        self.table.changed()

    # -- the definition store --------------------------------------------------------------------------

    def definitions_stored(self, rev: int) -> None:
        """Everything up to ``rev`` is stored."""
        self.table.unstored.stored(rev)

    def definitions_failed(self) -> None:
        """Nothing is stored for now. A removed queue or binding may come back after a restart, so messages
        that were routed without it are not safe.
        """
        self.table.unstored.failed()

    def definitions_recovered(self) -> None:
        """The store works again: remove what could not be removed."""
        self.table.unstored.recovered()
        self._removals.definitions_recovered()
        if self._overdue:
            self._in_slices(self._remove_overdue)

    def last_consumer_left(self, queue: QueueHandle) -> bool:
        """Remove the auto-delete queue ``queue``; False if the definition store refuses.

        In that case it is removed when the store works again, unless it has a consumer by then.
        """
        try:
            self.remove_queue(queue)
        except InternalError:
            self._overdue[queue] = None
            return False
        return True

    def _remove_overdue(self) -> bool:
        """Remove some of the overdue queues; True if all are removed, or the store refuses again."""
        spent = 0
        while self._overdue and spent < SLICE:
            queue = self._overdue.popitem()[0]
            spent += 1
            if not queue.deleted and queue.is_unused():
                if not self.last_consumer_left(queue):
                    return True
                spent += self._removals.spent
        return not self._overdue

    # -- start -----------------------------------------------------------------------------------------

    def load(
        self,
        exchanges: Iterable[ExchangeRow],
        queues: Iterable[QueueRow],
        bindings: Iterable[BindingRow],
    ) -> list[BindingRow]:
        """Load this virtual host from the definition store; returns the bindings that lack an end.

        Raises:
            LoadError: an exchange has a type that is not registered.
        """
        for exchange_row in exchanges:
            self._load_exchange(exchange_row)
        for queue_row in queues:
            queue = self._make_queue(
                vhost=self,
                name=queue_row.name,
                durable=True,
                exclusive_owner=None,
                auto_delete=queue_row.auto_delete,
                arguments=read_arguments(queue_row.arguments, 0)[0],
                incarnation=queue_row.incarnation,
            )
            self._enter(queue)
        return [row for row in bindings if not self._load_binding(row)]

    def _load_exchange(self, row: ExchangeRow) -> None:
        if row.type not in EXCHANGE_TYPES:
            raise LoadError(
                f"exchange '{row.name}' in vhost '{self.name}' is of type '{row.type}', "
                "which is not registered"
            )
        exchange = self._make_exchange(
            row.name,
            row.type,
            durable=True,
            auto_delete=row.auto_delete,
            internal=row.internal,
            arguments=read_arguments(row.arguments, 0)[0],
        )
        self._enter_exchange(exchange)

    def _load_binding(self, row: BindingRow) -> bool:
        source = self.exchanges.get(row.source)
        ends: dict[str, Any] = self.queues if row.destination_type == "queue" else self.exchanges
        destination = ends.get(row.destination)
        if source is None or destination is None:
            return False
        binding = Binding(source, destination, row.routing_key, read_arguments(row.arguments, 0)[0])
        source.bind(binding)
        self.bindings.add(binding)
        return True

    # -- exchanges -------------------------------------------------------------------------------------

    def find_exchange(self, name: str) -> Exchange:
        """The exchange ``name``.

        Raises:
            NotFound: there is none (404).
        """
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise not_found("exchange", name, self.name)
        return exchange

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
    ) -> int:
        """Make the exchange, or check that the existing one is the same. ``passive``: only check that it
        exists.

        Returns the revision to wait for, 0 for none.

        Raises:
            AccessRefused: it is the default exchange (403).
            NotFound: ``passive``, and there is none (404).
            CommandInvalid: there is no such type (503).
            PreconditionFailed: the existing one differs, or an argument is wrong (406).
        """
        if name == "":
            raise default_exchange_refused()
        if passive:
            return self.find_exchange(name).definition_rev
        exchange_type(type_name)
        declared = {
            "type": type_name,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": arguments or {},
        }
        exchange = self.exchanges.get(name)
        if exchange is not None:
            current = {attribute: getattr(exchange, attribute) for attribute in declared}
            args.check_exchange_equivalence(name, self.name, current, declared)
            return exchange.definition_rev
        self._check_room("exchange", name)
        exchange = self._make_exchange(
            name,
            type_name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments or {},
        )
        if durable:
            row = ExchangeRow(self.name, name, type_name, auto_delete, internal, _encoded(arguments or {}))
            exchange.definition_rev = self._submit([Put(row)])
        self._enter_exchange(exchange)
        self.table.changed()
        return exchange.definition_rev

    def _enter_exchange(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self._account.kept += exchange.memory_bytes()

    def _make_exchange(self, name: str, type_name: str, *, arguments: Arguments, **flags: bool) -> Exchange:
        alternate = args.alternate_exchange(name, self.name, arguments)
        exchange = exchange_type(type_name)(name, type_name, arguments=arguments, **flags)
        exchange.alternate = alternate
        return exchange

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> int:
        """Remove the exchange and all bindings from it and to it. Nothing happens if it does not exist.

        Returns the revision to wait for.

        Raises:
            AccessRefused: it is the default exchange, or has the name of a system exchange (403).
            PreconditionFailed: ``if_unused``, and it has bindings (406).
        """
        if name == "":
            raise default_exchange_refused()
        if name.startswith(RESERVED_PREFIX):
            raise system_exchange(name, self.name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return self._last_rev
        if if_unused and self.bindings.has_source(exchange):
            raise in_use("exchange", name, self.name)
        return self._removals.remove_end(exchange)

    # -- queues ----------------------------------------------------------------------------------------

    def find_queue(self, name: str, owner: Any) -> QueueHandle:
        """The queue ``name``, as the connection ``owner`` may use it.

        Raises:
            NotFound: there is none (404).
            ResourceLocked: it is exclusive to another connection (405).
        """
        queue = self.queues.get(name)
        if queue is None:
            raise not_found("queue", name, self.name)
        self._check_lock(queue, owner)
        return queue

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        owner: Any = None,
    ) -> tuple[QueueHandle, int]:
        """Make the queue, or check that the existing one is the same; returns it and the revision to wait
        for.

        An exclusive queue belongs to the connection ``owner``, is deleted with it, and is never durable.

        Raises:
            ResourceLocked: the existing one is exclusive to another connection, or ``exclusive`` differs
                (405).
            PreconditionFailed: the existing one differs, or an argument is wrong or not supported yet (406).
        """
        table = arguments or {}
        stays = durable and not exclusive
        exclusive_owner = owner if exclusive else None
        queue = self.queues.get(name)
        if queue is not None:
            if queue.exclusive_owner is not exclusive_owner:
                raise locked_queue(name, self.name)
            current = (bool(queue.durable), bool(queue.auto_delete), queue.arguments)
            args.check_queue_equivalence(name, self.name, current, (stays, auto_delete, table))
            self.counters.queue_declared += 1
            return queue, queue.definition_rev
        args.check_queue_arguments(
            name, self.name, table, durable=durable, exclusive=exclusive, auto_delete=auto_delete
        )
        self._check_room("queue", name)
        queue = self._make_queue(
            vhost=self,
            name=name,
            durable=stays,
            exclusive_owner=exclusive_owner,
            auto_delete=auto_delete,
            arguments=keep(table),
            incarnation="",
        )
        if stays:
            row = QueueRow(self.name, name, auto_delete, _encoded(table), queue.incarnation)
            try:
                queue.definition_rev = self._submit([Put(row)])
            except InternalError:
                queue.delete(0)
                raise
        self._enter(queue)
        self.counters.queue_declared += 1
        self.counters.queue_created += 1
        return queue, queue.definition_rev

    def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False, owner: Any = None
    ) -> tuple[int, int]:
        """Remove the queue and its bindings. Nothing happens if it does not exist.

        Returns how many messages were ready, and the revision to wait for.

        Raises:
            ResourceLocked: it is exclusive to another connection (405).
            PreconditionFailed: ``if_empty`` and it is not empty, or ``if_unused`` and it has consumers (406).
        """
        queue = self.queues.get(name)
        if queue is None:
            return 0, self._last_rev
        self._check_lock(queue, owner)
        if if_empty and not queue.is_empty():
            raise not_empty(name, self.name)
        if if_unused and not queue.is_unused():
            raise in_use("queue", name, self.name)
        return self.remove_queue(queue)

    def remove_queue(self, queue: QueueHandle) -> tuple[int, int]:
        """Remove ``queue``, which must exist, whoever owns it. Used for delete, and for auto-delete after its
        last consumer.

        Returns how many messages were ready, and the revision to wait for.

        Raises:
            InternalError: the definition store refuses; the queue stays (541).
        """
        rows: list[Change] = [Delete(QueueRow.kind, (self.name, queue.name))] if queue.durable else []
        rev = self._removals.remove_end(queue, rows)
        del self.queues[queue.name]
        self._account.kept -= _queue_bytes(queue)
        self.table.default_routes.pop(_octets(queue.name)).let_go()  # a channel may remember it
        if queue.exclusive_owner is not None:
            owned = self._owned[queue.exclusive_owner]
            del owned[queue]
            if not owned:
                del self._owned[queue.exclusive_owner]
            # A remembered route may keep the queue for a while, and must not keep its connection.
            queue.exclusive_owner = None
        self.counters.queue_deleted += 1
        return queue.delete(rev), rev

    def remove_exclusive_queues(self, owner: Any, limit: int) -> bool:
        """Remove up to ``limit`` of the queues that are exclusive to ``owner``; True if some are left.

        Removes fewer if they have many bindings or consumers.
        """
        spent = 0
        for queue in list(islice(self._owned.get(owner, ()), limit)):
            spent += queue.consumer_count()
            self.remove_queue(queue)
            spent += self._removals.spent
            if spent >= SLICE:
                break
        return owner in self._owned

    def _check_room(self, kind: str, name: str) -> None:
        if not self._account.has_room_to_keep(0):
            raise no_memory(kind, name, self.name)

    def _enter(self, queue: QueueHandle) -> None:
        self._account.kept += _queue_bytes(queue)
        self.queues[queue.name] = queue
        self.table.default_routes[_octets(queue.name)] = default_route(queue, self.exchanges[""].counters)
        if queue.exclusive_owner is not None:
            owned = self._owned.setdefault(queue.exclusive_owner, {})
            owned[queue] = None
            self._owned[queue.exclusive_owner] = roomy(owned)

    def _check_lock(self, queue: QueueHandle, owner: Any) -> None:
        if queue.exclusive_owner is not None and queue.exclusive_owner is not owner:
            raise locked_queue(queue.name, self.name)

    # -- bindings --------------------------------------------------------------------------------------

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, owner: Any
    ) -> int:
        """Bind ``queue`` to ``exchange``, if it is not bound yet; returns the revision to wait for.

        Raises:
            AccessRefused: it is the default exchange (403).
            NotFound: one of the two does not exist; the exchange is named if both do not (404).
            ResourceLocked: the queue is exclusive to another connection (405).
            PreconditionFailed: the exchange cannot use the key or the arguments (406).
        """
        source = self._bindable(exchange)
        return self._bind(source, self.find_queue(queue, owner), routing_key, arguments)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, owner: Any
    ) -> int:
        """Undo ``bind_queue``. Nothing happens if the binding, queue or exchange does not exist.

        Raises:
            AccessRefused: it is the default exchange (403).
            ResourceLocked: the queue is exclusive to another connection (405).
        """
        if exchange == "":
            raise default_exchange_refused()
        binding = self._find_binding(
            self.exchanges.get(exchange), self.queues.get(queue), routing_key, arguments
        )
        if binding is None:
            return self._last_rev
        self._check_lock(self.queues[queue], owner)
        return self._removals.remove_binding(binding)

    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> int:
        """Bind the exchange ``destination`` to the exchange ``source``; returns the revision to wait for.

        Raises:
            AccessRefused: one of them is the default exchange (403).
            NotFound: one of them does not exist (404).
            PreconditionFailed: the source cannot use the key or the arguments (406).
        """
        if destination == "":
            raise default_exchange_refused()
        from_exchange = self._bindable(source)
        return self._bind(from_exchange, self.find_exchange(destination), routing_key, arguments)

    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> int:
        """Undo ``bind_exchange``. Nothing happens if the binding or exchange does not exist.

        Raises:
            AccessRefused: one of them is the default exchange (403).
        """
        if "" in (destination, source):
            raise default_exchange_refused()
        binding = self._find_binding(
            self.exchanges.get(source), self.exchanges.get(destination), routing_key, arguments
        )
        return self._last_rev if binding is None else self._removals.remove_binding(binding)

    def _bindable(self, exchange: str) -> Exchange:
        if exchange == "":
            raise default_exchange_refused()
        return self.find_exchange(exchange)

    def _bind(
        self, source: Exchange, destination: QueueHandle | Exchange, routing_key: str, arguments: Arguments
    ) -> int:
        binding = Binding(source, destination, routing_key, arguments)
        if self.bindings.find(binding) is not None:
            return self._last_rev if binding.is_durable() else 0
        self._check_room("binding of exchange", source.name)
        # First, because the exchange may refuse the arguments.
        source.bind(binding)
        try:
            rev = self._submit([Put(binding.row(self.name))]) if binding.is_durable() else 0
        except InternalError:
            source.unbind(binding)
            raise
        self.bindings.add(binding)
        self.table.changed()
        return rev

    def _find_binding(
        self,
        source: Exchange | None,
        destination: QueueHandle | Exchange | None,
        routing_key: str,
        arguments: Arguments,
    ) -> Binding | None:
        if source is None or destination is None:
            return None
        return self.bindings.find(Binding(source, destination, routing_key, arguments))

    def _submit(self, changes: Sequence[Change]) -> int:
        if not changes:
            return 0
        try:
            self._last_rev = self._definitions.submit(changes)
        except PersistenceError as error:
            raise InternalError(str(error)) from error
        return self._last_rev


def _queue_bytes(queue: QueueHandle) -> int:
    """Bytes of memory of a queue without its messages."""
    return QUEUE_BYTES + len(queue.name) + footprint(queue.arguments)


def _encoded(table: Arguments) -> bytes:
    return encoded(table) if table else NO_ARGUMENTS


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
