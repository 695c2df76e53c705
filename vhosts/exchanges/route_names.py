"""What the routing log calls a route: exchange, queues and the bindings that matched, as one JSON text.

Reply queues come and go by the thousand, so exclusive queues and those with generated names share one name;
the log would otherwise have a route for each.

Source: persistence/log/FORMAT.md, "Names".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from persistence.log.routing_log import RouteEntry
from vhosts.exchanges.exchange import Exchange
from vhosts.queues.handle import QueueHandle

if TYPE_CHECKING:
    from vhosts.bindings import Binding

GENERATED_PREFIX = "amq.gen-"
#: What all exclusive and generated queues are called.
SHARED_NAME = "amq.gen-*"
#: The most queues, and the most bindings, that are named.
NAMED_MAX = 1000
#: Texts remembered; most routes of a virtual host share a few.
_TEXTS_MAX = 1000


class RoutingLogPort(Protocol):
    """What this needs of ``persistence.log.routing.RoutingLog``."""

    def entry(self, exchange: str, key: bytes, names: bytes) -> RouteEntry: ...


class RouteNames:
    """Makes the entries of a virtual host's routes in its routing log."""

    def __init__(self, log: RoutingLogPort) -> None:
        self._log = log
        self._texts: dict[tuple[object, ...], bytes] = {}
        self._generation = 0

    def entry(
        self,
        exchange: str,
        route: bytes,
        queues: list[QueueHandle],
        bindings: Iterable[Binding],
        generation: int,
    ) -> RouteEntry:
        """The entry of a route; ``route`` is exchange and key as two short strings.

        What is remembered holds as long as ``generation``, the routing table's, stays.
        """
        if generation != self._generation:
            self._texts.clear()
            self._generation = generation
        what = (exchange, *queues, *bindings)
        text = self._texts.get(what)
        if text is None:
            text = describe(exchange, queues, bindings)
            if len(self._texts) >= _TEXTS_MAX:
                self._texts.clear()
            self._texts[what] = text
        return self._log.entry(exchange, route[route[0] + 2 :], text)

    def default_entry(self, route: bytes, queue: QueueHandle) -> RouteEntry:
        """The entry of the route to ``queue`` by its name. It is as short-lived as the queue."""
        return self._log.entry("", route[2:], describe("", [queue], ()))


def describe(exchange: str, queues: list[QueueHandle], bindings: Iterable[Binding]) -> bytes:
    """The payload of a route's entry in the file of names."""
    names = dict.fromkeys(map(name_of, queues))
    matched = dict.fromkeys(map(_ends, bindings))
    about = {
        "exchange": exchange,
        "queues": list(islice(names, NAMED_MAX)),
        "bindings": list(islice(matched, NAMED_MAX)),
        "durable": sum(1 for queue in queues if queue.durable),
        "fanout": len(queues),
    }
    return json.dumps(about, separators=(",", ":")).encode()


def name_of(queue: QueueHandle) -> str:
    """A queue's name in the routing log."""
    if queue.exclusive_owner is not None or queue.name.startswith(GENERATED_PREFIX):
        return SHARED_NAME
    return queue.name


def _ends(binding: Binding) -> tuple[str, str, str, str]:
    destination = binding.destination
    if isinstance(destination, Exchange):
        return binding.source.name, binding.routing_key, destination.name, "exchange"
    name = name_of(destination)
    is_own = name == SHARED_NAME and binding.routing_key == destination.name
    return binding.source.name, name if is_own else binding.routing_key, name, "queue"
