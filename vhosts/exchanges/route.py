"""Where a publish goes.

Compiled: see ``route.pxd``.
"""

from __future__ import annotations

from collections.abc import Iterable

from persistence.log.routing.recorder import RouteEntry
from vhosts.counters import ExchangeCounters
from vhosts.exchanges.exchange import Binding, Exchange
from vhosts.queues.handle import QueueHandle


class Route:
    """Where a publish goes."""

    __slots__ = (
        "cacheable",
        "counters",
        "durable_queues",
        "entry",
        "exchange",
        "generation",
        "has_bcc",
        "has_replies",
        "inner",
        "is_reply",
        "keepers",
        "logs_all",
        "mandatory",
        "queues",
        "route",
        "routing_key",
        "single",
        "waits_for",
    )

    def __init__(self) -> None:
        #: Each queue once, in the order in which bindings led there.
        self.queues: list[QueueHandle] = []
        #: The queue, if there is exactly one.
        self.single: QueueHandle | None = None
        self.durable_queues: list[QueueHandle] = []
        #: It leads to queues of direct reply-to, and (``is_reply``) to nothing else.
        self.has_replies = False
        self.is_reply = False
        #: One of them logs every message, whatever its delivery mode.
        self.logs_all = False
        #: Counters of the exchange published to.
        self.counters: ExchangeCounters
        #: The other exchanges on the way, each with the number of its bindings that match.
        self.inner: list[tuple[ExchangeCounters, int]] = []
        #: The exchanges on the way that keep messages (``Exchange.keep``); None if there are none.
        self.keepers: list[Exchange] | None = None
        #: Exchange and routing key as two short strings, as basic.deliver carries them.
        self.route = b""
        self.exchange = ""
        self.routing_key = ""
        #: Its entry in the routing log; None until it is first needed, or if there is no routing log.
        self.entry: RouteEntry | None = None
        #: The publisher wants an unroutable message back. Always False for a route to a queue by the default
        #: exchange.
        self.mandatory = False
        #: The headers have ``BCC``, which ``sender_selected.without_bcc`` must remove, as no consumer may see
        #: it.
        self.has_bcc = False
        #: The route is valid for every publish with the same arguments, without CC and BCC, in this
        #: generation.
        self.cacheable = False
        #: The route may be reused while the routing table has this generation; 0: never.
        self.generation = 0
        #: The revision of the definitions that stores the removals it depends on; 0 if there are none.
        self.waits_for = 0

    def lead_to(self, queues: list[QueueHandle], durable_queues: list[QueueHandle]) -> None:
        """Set the queues, and those of them that are durable."""
        self.queues = queues
        self.single = queues[0] if len(queues) == 1 else None
        self.durable_queues = durable_queues
        self.logs_all = False
        for index in range(len(durable_queues)):
            queue = durable_queues[index]
            if queue.logs_all:
                self.logs_all = True
                break

    def let_go(self) -> None:
        """The route is not valid any more. Whoever still works with its lists holds them himself."""
        self.generation = 0
        self.lead_to([], [])
        self.inner = []
        self.keepers = None


class RouteNamer:
    """Makes the routes' entries in the routing log (``route_names.RouteNames``)."""

    __slots__ = ()

    def entry(
        self,
        exchange: str,
        route: bytes,
        queues: list[QueueHandle],
        bindings: Iterable[Binding],
        generation: int,
        *,
        durable: int,
    ) -> RouteEntry:
        """The entry of a route to ``queues``, of which so many are ``durable``, by these ``bindings``.

        ``route`` is exchange and key as two short strings, ``generation`` that of the routing table.
        """
        raise AssertionError("a route must have a name")

    def default_entry(self, route: bytes, queue: QueueHandle) -> RouteEntry:
        """The entry of the route to ``queue`` by its name."""
        raise AssertionError("a route must have a name")

    def forget(self, generation: int) -> None:
        """The routing table has changed, and is now of this ``generation``."""


def lasting(route: Route) -> Route:
    """A copy of ``route``, which leads to the same queues when ``route`` has let go of them."""
    copy = Route()
    copy.lead_to(route.queues, route.durable_queues)
    copy.counters = route.counters
    copy.inner = route.inner
    copy.keepers = route.keepers
    copy.route = route.route
    copy.exchange = route.exchange
    copy.routing_key = route.routing_key
    copy.entry = route.entry
    copy.mandatory = route.mandatory
    copy.has_bcc = route.has_bcc
    copy.has_replies = route.has_replies
    copy.is_reply = route.is_reply
    copy.waits_for = route.waits_for
    return copy


def default_route(queue: QueueHandle, counters: ExchangeCounters) -> Route:
    """The route to ``queue`` by its name; ``counters`` are the default exchange's."""
    name = queue.name.encode("utf-8", "surrogateescape")
    route = Route()
    route.lead_to([queue], [queue] if queue.durable else [])
    route.route = b"\x00%c%b" % (len(name), name)
    route.routing_key = queue.name
    route.counters = counters
    route.cacheable = True
    return route
