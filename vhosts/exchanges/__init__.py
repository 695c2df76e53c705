"""Exchange types and the router that walks their bindings.

A third party writes a subclass of ``Exchange`` that gives bind, unbind and route, and registers it.
"""

from vhosts.exchanges.exchange import BY_HEADERS, BY_KEY, NOT_REPEATABLE, Exchange, Routable
from vhosts.exchanges.router import Route, RouteCache, RoutingTable
from vhosts.exchanges.types import EXCHANGE_TYPES, register_exchange_type

__all__ = [
    "BY_HEADERS",
    "BY_KEY",
    "EXCHANGE_TYPES",
    "NOT_REPEATABLE",
    "Exchange",
    "Routable",
    "Route",
    "RouteCache",
    "RoutingTable",
    "register_exchange_type",
]
