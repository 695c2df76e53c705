"""The exchanges, queues and bindings of a virtual host in memory, and how single ones enter and leave.

These are true at all times:

- ``table`` knows every exchange, and the route to every queue by its name;
- the default exchange reaches every queue, without entries in ``bindings``;
- every binding in ``bindings`` has both ends, and its source routes by it.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.kept_table import Arguments, footprint
from persistence.memory import MemoryBudget
from vhosts import arguments as args
from vhosts.arguments import are_too_many
from vhosts.bindings import Bindings
from vhosts.errors import default_exchange_refused, internal_queue, locked_queue, no_memory, not_found
from vhosts.exchanges.default import DefaultExchange
from vhosts.exchanges.exchange import Binding, End, Exchange
from vhosts.exchanges.route import default_route
from vhosts.exchanges.router import RoutingTable
from vhosts.exchanges.types import EXCHANGE_TYPES, SYSTEM_EXCHANGES, exchange_type
from vhosts.feed import SILENT, Feed
from vhosts.passing import Passing
from vhosts.ports import InSlices
from vhosts.queues.destination import Destination
from vhosts.queues.handle import QueueHandle
from vhosts.spread_map import Entries, roomy

#: Memory of a queue apart from messages, name and arguments; measured.
QUEUE_BYTES = 5200


class Topology:
    """What one virtual host has. ``account`` is the node's account of memory."""

    def __init__(self, name: str, account: MemoryBudget, in_slices: InSlices) -> None:
        self.name = name
        self.account = account
        self.queues: dict[str, QueueHandle] = {}
        #: Queues for direct reply-to (``direct_reply``), which are not among ``queues``.
        self.reply_queues: dict[str, QueueHandle] = {}
        self.bindings = Bindings(account)
        self.table = RoutingTable()
        self.table.vhost = name
        self.table.stale.in_slices = in_slices
        self.exchanges = self.table.exchanges
        #: Messages that exchanges pass on by themselves.
        self.passing = Passing(self.table, account, in_slices)
        #: The exclusive queues of each connection.
        self.owned: dict[object, Entries[QueueHandle, None]] = {}
        #: Hears what comes and goes.
        self.feed = SILENT
        #: Called with each queue and exchange that enters, before anything else can use it.
        self.on_entered: Callable[[End], object] = _nothing
        #: The virtual host is deleted: the error for whoever still declares something in it.
        self.gone: AMQPError | None = None
        self.enter_exchange(DefaultExchange(self.queues, self.reply_queues))
        for system_name, type_name, internal in SYSTEM_EXCHANGES:
            cls = EXCHANGE_TYPES[type_name]
            self.enter_exchange(cls(system_name, type_name, durable=True, internal=internal))

    def hear_by(self, feed: Feed) -> None:
        """Tell ``feed`` from now on what comes and goes, beginning with the exchanges that are here."""
        self.feed = feed
        self.bindings.hear_by(self.name, feed)
        if feed.on:
            for exchange in self.exchanges.values():
                feed.exchange(self.name, exchange, is_new=True)

    def check_room(self, kind: str, name: str) -> None:
        """Raise if a further ``kind`` cannot be declared: PreconditionFailed for want of memory (406)."""
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        if not self.account.has_room_to_keep(0):
            raise no_memory(kind, name, self.name)

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

    def bindable(self, name: str) -> Exchange:
        """The exchange ``name``, which something is about to be bound to.

        Raises:
            AccessRefused: it is the default exchange (403).
            NotFound: there is none (404).
        """
        if name == "":
            raise default_exchange_refused()
        return self.find_exchange(name)

    def new_exchange(self, name: str, type_name: str, *, arguments: Arguments, **flags: bool) -> Exchange:
        """An exchange that is not entered yet.

        Raises:
            CommandInvalid: there is no such type (503).
            PreconditionFailed: an argument is wrong (406).
        """
        alternate = args.alternate_exchange(name, self.name, arguments)
        exchange = exchange_type(type_name)(name, type_name, arguments=arguments, **flags)
        exchange.alternate = exchange.declared_alternate = alternate
        return exchange

    def enter_exchange(self, exchange: Exchange) -> None:
        """Add ``exchange``, whose name is free."""
        self.exchanges[exchange.name] = exchange
        exchange.enter(self.passing)
        self.on_entered(exchange)
        self.account.kept += exchange.memory_bytes()
        self.table.changed()
        if self.feed.on:
            self.feed.exchange(self.name, exchange, is_new=True)

    # -- queues ----------------------------------------------------------------------------------------

    def find_queue(self, name: str, owner: object) -> QueueHandle:
        """The queue ``name``, as the connection ``owner`` may use it.

        Raises:
            NotFound: there is none (404).
            ResourceLocked: it is exclusive to another connection (405).
        """
        queue = self.queues.get(name)
        if queue is None:
            raise not_found("queue", name, self.name)
        self.check_lock(queue, owner)
        return queue

    def check_lock(self, queue: QueueHandle, owner: object) -> None:
        """Raise ResourceLocked if ``queue`` is exclusive to another connection than ``owner`` (405), and
        AccessRefused if it is internal (403).
        """
        if queue.internal:
            raise internal_queue(queue.name, self.name)
        if queue.exclusive_owner is not None and queue.exclusive_owner is not owner:
            raise locked_queue(queue.name, self.name)

    def enter_queue(self, queue: QueueHandle) -> None:
        """Add ``queue``, whose name is free."""
        self.account.kept += _queue_bytes(queue)
        self.queues[queue.name] = queue
        self.on_entered(queue)
        if queue.internal:
            return
        self.table.default_routes[_octets(queue.name)] = default_route(queue, self.exchanges[""].counters)
        if queue.exclusive_owner is not None:
            owned = self.owned.setdefault(queue.exclusive_owner, {})
            owned[queue] = None
            self.owned[queue.exclusive_owner] = roomy(owned)
        if self.feed.on:
            self.feed.queue(self.name, queue, is_new=True)

    def forget_routes(self, queue: Destination | None) -> None:
        """Invalidate all cached routes, and let the one that is not cached see what ``queue`` logs now."""
        route = None if queue is None else self.table.default_routes.get(_octets(queue.name))
        if route is not None:
            route.lead_to(route.queues, route.durable_queues)
        self.table.changed()

    def leave_queue(self, queue: QueueHandle) -> None:
        """Remove ``queue``. Its bindings go another way (``vhosts.removal``)."""
        del self.queues[queue.name]
        self.account.kept -= _queue_bytes(queue)
        if queue.internal:
            return
        self.table.default_routes.pop(_octets(queue.name)).let_go()  # a channel may remember it
        if queue.exclusive_owner is not None:
            owned = self.owned[queue.exclusive_owner]
            del owned[queue]
            if not owned:
                del self.owned[queue.exclusive_owner]
            # A remembered route may keep the queue for a while, and must not keep its connection.
            queue.exclusive_owner = None
        if self.feed.on:
            self.feed.queue(self.name, queue, is_new=False)

    # -- bindings --------------------------------------------------------------------------------------

    def find_binding(
        self,
        source: Exchange | None,
        destination: QueueHandle | Exchange | None,
        routing_key: str,
        arguments: Arguments,
    ) -> Binding | None:
        """The binding between two ends, each of which may be missing."""
        if source is None or destination is None or are_too_many(arguments):
            return None
        return self.bindings.find(Binding(source, destination, routing_key, arguments))

    def enter_binding(self, binding: Binding) -> None:
        """Add ``binding``, by which its source routes already."""
        self.bindings.add(binding)
        self.table.changed()


def _nothing(_: End) -> None:
    """Default callback."""


def _queue_bytes(queue: QueueHandle) -> int:
    """Bytes of memory of a queue without its messages."""
    return QUEUE_BYTES + len(queue.name) + footprint(queue.arguments)


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
