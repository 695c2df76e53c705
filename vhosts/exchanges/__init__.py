"""Exchange types and the router that walks their bindings.

To add an exchange type, write a subclass of ``Exchange`` with bind, unbind and route, and register it.
"""

from vhosts.exchanges.exchange import BY_HEADERS, BY_KEY, NOT_REPEATABLE, Exchange, Routable
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import RouteCache, RoutingTable
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
