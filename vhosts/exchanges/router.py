"""Finds the queues that a publish goes to, and caches the routes found.

Publishers repeat themselves, so a route is looked up by the octets of the publish method's arguments as they
arrived, and a hit decodes nothing. A route is cached this way only if exchange and routing key alone decide
it. If headers decide it, the octets of the headers table are part of the key. The default exchange is not
cached: one look-up by queue name is enough, and short-lived reply queues would push everything else out.

A cached ``Route`` is valid while its ``generation`` equals that of the virtual host's ``RoutingTable``. Every
change of exchanges, bindings or permissions raises the table's, and routes that are invalid let go of their
queues (``stale_routes``). A queue without bindings can come and go without raising it: its only route is
emptied when the queue is deleted.

Compiled: see ``router.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amqp_router.protocol.errors import FieldError, FrameError, NotImplementedByServer, cannot_decode
from amqp_router.protocol.properties import header_range
from persistence.memory import MemoryBudget
from vhosts.counters import RecentUnroutable
from vhosts.errors import internal_exchange, not_found
from vhosts.exchanges.exchange import BY_HEADERS, BY_KEY, Routable
from vhosts.exchanges.route import Route, RouteNamer
from vhosts.exchanges.sender_selected import HEADERS, further_keys
from vhosts.exchanges.stale_routes import StaleRoutes
from vhosts.exchanges.taps import Tap
from vhosts.exchanges.walk import Asked, Walk, WalkedTable
from vhosts.long_lists import unwatched
from vhosts.publishing.checks import DIRECT_REPLY
from vhosts.publishing.spread import SPREAD_SLICE
from vhosts.queues.handle import QueueHandle

if TYPE_CHECKING:
    from persistence.log.routing.recorder import RouteEntry

#: How many routes a cache holds of each kind before it is emptied.
ROUTES_MAX = 10_000
#: Limit of the queues and bindings of all cached routes together, some 10 MB.
WIDTH_MAX = 300_000
#: Headers tables above this size (octets) are not used as keys, because they would take too much memory.
HEADERS_BYTES_MAX = 512

#: Keys that no publish can have, as they are too long. A dict that grows moves all its entries: that takes
#: some 8 ms at 87,382 of them. With these keys, the routes to queues do not grow in the same declare as the
#: dict of the queues, unless just as many queues are internal.
UNNAMEABLE = tuple(bytes(256 + more) for more in range(16))

# C integers where compiled (see router.pxd).
_ROUTES_MAX = 10_000
_WIDTH_MAX = 300_000
#: Memory of a route apart from its key and its queues and bindings.
_ROUTE_BYTES = 700
_HEADERS_BYTES_MAX = 512
_SPREAD_SLICE = SPREAD_SLICE
#: The cost of a walk apart from what it visits, in enqueues.
_WALK_UNITS = 10
_MANDATORY = 1
_IMMEDIATE = 2


class Permits:
    """What the user of a route cache may publish to; a subclass asks for the permissions."""

    __slots__ = ()

    def publish(self, exchange: str) -> None:
        """See whether the user may publish to the exchange of that name. The answer is cached until the
        table's generation changes.

        Raises:
            AccessRefused: the user may not (403).
        """

    def topic(self, exchange: str, keys: Sequence[str]) -> None:
        """The same for the routing ``keys`` of a topic exchange."""


class RoutingTable(WalkedTable):
    """The part of a virtual host that its routes depend on. The virtual host changes it, route caches read
    it.
    """

    __slots__ = (
        "default_routes",
        "filled",
        "names",
        "stale",
        "taps",
        "unroutable",
        "vhost",
    )

    def __init__(self) -> None:
        super().__init__()
        #: Name of the virtual host.
        self.vhost = ""
        #: The route to each queue, by the octets of its name.
        self.default_routes: dict[bytes, Route] = dict.fromkeys(UNNAMEABLE, Route())
        #: Makes the routes' entries in the routing log; None if there is none.
        self.names: RouteNamer | None = None
        #: The last publishes that reached no queue.
        self.unroutable = RecentUnroutable()
        #: The caches that hold routes of this generation.
        self.filled: list[RouteCache] = []
        self.stale = StaleRoutes()
        #: Those who hear of every publish and delivery; mostly nobody.
        self.taps: list[Tap] = []

    def changed(self) -> None:
        """Exchanges, bindings or permissions have changed: no cached route is valid any more."""
        self.generation += 1
        filled = self.filled
        self.filled = []
        for cache in filled:
            cache.forget(self.generation)
        if self.names is not None:
            self.names.forget(self.generation)

    def default_entry(self, route: Route) -> RouteEntry | None:
        """Set the routing-log entry of the route to a queue by its name, if there is a routing log."""
        if self.names is not None and route.single is not None:
            route.entry = self.names.default_entry(route.route, route.single)
        return route.entry


class RouteCache:
    """The routes of one virtual host that one user may use.

    ``permits`` is None if the broker itself publishes: it may publish to every exchange, also to internal
    ones. ``account`` counts the routes as ``kept``.
    """

    __slots__ = (
        "_account",
        "_by_args",
        "_by_headers",
        "_bytes",
        "_default_permitted",
        "_generation",
        "_is_listed",
        "_permits",
        "_table",
        "_width",
        "unfinished",
        "units",
    )

    def __init__(
        self,
        table: RoutingTable,
        permits: Permits | None,
        account: MemoryBudget | None = None,
    ) -> None:
        self._account = account or MemoryBudget()
        self._table = table
        self._permits = permits
        self._by_args: dict[bytes, Route] = {}
        self._by_headers: dict[bytes, Route] = {}
        self._default_permitted = False
        self._generation = 0
        #: The work of the last call of ``resolve``, in enqueues.
        self.units = 0
        #: The unfinished walk, if the last call of ``resolve`` returned None. The caller takes it
        #: (``take_unfinished``), because one cache serves many channels in turn.
        self.unfinished: Walk | None = None
        #: Number of queues and bindings in the cached routes, and the bytes of memory they take.
        self._width = 0
        self._bytes = 0
        #: Whether the table has it among the caches that hold routes.
        self._is_listed = False

    def find(self, args: bytes) -> Route | None:
        """The cached route of a publish, or None: the caller must then ``resolve`` it.

        ``args`` are the arguments of basic.publish as on the wire. The message must have neither CC nor
        BCC among its headers, see ``may_select``.
        """
        table = self._table
        if self._generation != table.generation:
            self.forget(table.generation)
        octets = args
        size = len(args)
        if size < 5:
            return None
        if octets[2] != 0:
            return self._by_args.get(args)
        # u16 0, u8 0 (the exchange's length), the key's length, the key, the flags.
        if not self._default_permitted or octets[3] + 5 != size or octets[size - 1] & _IMMEDIATE:
            return None
        route = table.default_routes.get(args[4 : size - 1])
        if route is not None:
            route.generation = table.generation
        return route

    def resolve(self, args: bytes, properties: bytes, unfinished: Walk | None = None) -> Route | None:
        """Find the route of a publish, and cache it if possible.

        Returns None if the search is too long for one turn of the event loop. The caller then calls again in
        the next turn, with the same arguments and the value of ``unfinished``. ``units`` is the work done, in
        enqueues.

        Raises:
            FrameError: ``args`` are malformed, or the headers are and the route depends on them (501).
            NotImplementedByServer: ``immediate`` is set (540).
            AccessRefused: the user may not publish to the exchange, or it is internal (403).
            NotFound: there is no such exchange (404).
            PreconditionFailed: CC or BCC is no array (406).
        """
        table = self._table
        if self._generation != table.generation:
            self.forget(table.generation)
        self.units = 0
        self.unfinished = None
        try:
            start, end = header_range(properties)
            by_headers = b""
            if end - start <= _HEADERS_BYTES_MAX:
                by_headers = args + properties[start:end]
                known = self._by_headers.get(by_headers)
                if known is not None:
                    return known
            walk = unfinished
            if walk is None or not walk.asked.is_for(args, properties) or walk.exchange.deleted:
                walk = self._begun(args, properties, properties[start:end])
            if walk is None:
                return self.find(args)
            if walk.checked >= 0 and self._permits is not None:
                some = walk.next_keys()
                self._permits.topic(walk.exchange.name, some)
                self.units = len(some)
            if walk.checked >= 0:
                is_done = False
            else:
                is_done = walk.go_on()
                self.units += _WALK_UNITS + walk.units()
            if not is_done:
                self.unfinished = walk
                return None
            return self._finished(walk, by_headers)
        except FieldError as error:
            raise FrameError(f"cannot decode the headers: {error}", class_id=60, method_id=40) from error

    def take_unfinished(self) -> Walk | None:
        """``unfinished``, which only the caller keeps from now on."""
        walk = self.unfinished
        self.unfinished = None
        return walk

    def _begun(self, args: bytes, properties: bytes, headers: bytes) -> Walk | None:
        """A new walk; None if ``find`` knows the route."""
        exchange_name, key, flags = _decode(args)
        if flags & _IMMEDIATE:
            raise NotImplementedByServer("immediate=true")
        if self._permits is not None:
            self._permits.publish(exchange_name)
        table = self._table
        exchange = table.exchanges.get(exchange_name)
        if exchange is None:
            raise not_found("exchange", exchange_name, table.vhost)
        if exchange.internal and self._permits is not None:
            raise internal_exchange(exchange_name, table.vhost)
        if exchange_name == "":
            self._default_permitted = True
        message = Routable([key], properties)
        asked = Asked(args, properties)
        if may_select(headers):
            further = message.headers_named(*HEADERS)
            asked.has_cc = "CC" in further
            asked.has_bcc = "BCC" in further
            if further:
                message.keys = [key, *further_keys(further)]
        if not asked.has_cc and not asked.has_bcc and self.find(args) is not None:
            # The caller was not certain that there is no CC.
            return None
        walk = Walk(table, exchange, message, asked)
        if self._permits is not None and exchange.type == "topic":
            walk.checked = 0
        return walk

    def _finished(self, walk: Walk, by_headers: bytes) -> Route:
        """The route that ``walk`` has found; it is cached if possible."""
        table = self._table
        asked = walk.asked
        args = asked.args
        exchange_name, key, flags = _decode(args)
        route = Route()
        route.lead_to(_existing(walk.queues), _existing(walk.durable_queues))
        route.counters = walk.exchange.counters
        route.inner = walk.inner
        route.keepers = walk.keepers
        route.exchange = exchange_name
        route.routing_key = key
        route.route = args[2 : len(args) - 1]
        route.mandatory = flags & _MANDATORY != 0
        # A message that is delayed keeps the header for the time when it is due.
        route.has_bcc = asked.has_bcc and not (route.single is not None and route.single.internal)
        route.generation = walk.generation
        if exchange_name == "":
            _look_for_replies(route)
        if table.unstored.rev:
            route.waits_for = walk.waits_for()
        if table.names is not None:
            route.entry = table.names.entry(
                exchange_name,
                route.route,
                route.queues,
                walk.matched,
                table.generation,
                durable=len(route.durable_queues),
            )
        if walk.generation != table.generation:
            table.stale.release(walk.queues, walk.durable_queues)
            return route  # for this message only, because bindings changed during the walk
        if walk.decided_by == BY_KEY and not asked.has_cc and not asked.has_bcc:
            route.cacheable = True
            self._make_room(self._by_args, walk)
            self._by_args[args] = route
            self._count(args, walk)
        elif walk.decided_by <= BY_HEADERS and by_headers:
            self._make_room(self._by_headers, walk)
            self._by_headers[by_headers] = route
            self._count(by_headers, walk)
        else:
            table.stale.release(walk.queues, walk.durable_queues)
        return route

    def _make_room(self, routes: dict[bytes, Route], walk: Walk) -> None:
        """If the cache is too full for one more of ``routes``, drop all that is in it."""
        if len(routes) >= _ROUTES_MAX or self._width + len(walk.queues) + len(walk.matched) > _WIDTH_MAX:
            self._drop_all()

    def _count(self, by: bytes, walk: Walk) -> None:
        """Count the route that ``walk`` has found, which is now cached under ``by``."""
        if not self._is_listed:
            self._is_listed = True
            self._table.filled.append(self)
        width = len(walk.queues) + len(walk.matched)
        size = _ROUTE_BYTES + 2 * len(by) + 8 * width
        self._width += width
        self._bytes += size
        self._account.kept += size

    def _drop_all(self) -> None:
        stale = self._table.stale
        stale.drop(self._by_args)
        stale.drop(self._by_headers)
        self._by_args = {}
        self._by_headers = {}
        self._width = 0
        self._account.kept -= self._bytes
        self._bytes = 0

    def forget(self, generation: int) -> None:
        """The routing table has changed, and is now of this ``generation``."""
        self._drop_all()
        self._is_listed = False
        self._default_permitted = False
        self._generation = generation


def may_select(headers: bytes) -> bool:
    """Whether the encoded ``headers`` may have a CC or BCC: False is certain, True is likely."""
    return b"\x02CC" in headers or b"\x03BCC" in headers


def _existing(queues: list[QueueHandle]) -> list[QueueHandle]:
    """``queues`` without those deleted since they were found: the same list if there are none.

    A list too long for one turn is returned as it is, because ``Spread`` passes over deleted queues.
    """
    if len(queues) > _SPREAD_SLICE:
        return queues
    for index in range(len(queues)):
        queue = queues[index]
        if queue.deleted:
            return unwatched([each for each in queues if not each.deleted])
    return queues


def _look_for_replies(route: Route) -> int:
    """See whether ``route``, by the default exchange, has queues for direct replies. CC may name some."""
    queues = route.queues
    count = 0
    for index in range(len(queues)):
        queue = queues[index]
        if queue.name.startswith(DIRECT_REPLY):
            count += 1
    route.has_replies = count > 0
    route.is_reply = count > 0 and count == len(queues)
    return count


def publish_args(exchange: str, routing_key: str) -> bytes:
    """The arguments of basic.publish for names of at most 255 octets, without flags."""
    name = exchange.encode("utf-8", "surrogateescape")
    key = routing_key.encode("utf-8", "surrogateescape")
    return b"\0\0%c%b%c%b\0" % (len(name), name, len(key), key)


def _decode(args: bytes) -> tuple[str, str, int]:
    """Exchange, routing key and flags of a publish."""
    size = len(args)
    key_at = 3 + args[2] if size > 3 else size
    if key_at >= size or key_at + 1 + args[key_at] + 1 != size:
        raise cannot_decode(args, 60, 40)
    exchange = args[3:key_at].decode("utf-8", "surrogateescape")
    key = args[key_at + 1 : size - 1].decode("utf-8", "surrogateescape")
    return exchange, key, args[size - 1]
