"""The description of a route in the routing log: exchange, queues and matching bindings as one JSON text.

Exclusive queues and queues with generated names share one name. Clients make thousands of them as reply
queues, and the log would otherwise have a route for each.

Source: persistence/log/FORMAT.md, "Names".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from json.encoder import encode_basestring_ascii
from typing import Any, Protocol

from persistence.log.routing.names import WideNames
from persistence.log.routing.recorder import RouteEntry
from vhosts.exchanges.exchange import Binding, Exchange
from vhosts.exchanges.route import RouteNamer
from vhosts.queues.handle import QueueHandle

#: Followed by 22 characters of base64url, in names that the server gives.
GENERATED_PREFIX = "amq.gen-"
#: The shared name of exclusive queues and of queues with generated names.
SHARED_NAME = "amq.gen-*"
#: At most this many queues, and as many bindings, are named: the first ones. A route may have 100,000 queues,
#: and to look at each of them would hold up all clients.
NAMED_MAX = 1000
#: Their names may have this many octets as JSON, for each kind. Making so many takes a millisecond or two.
NAMED_BYTES_MAX = 256 * 1024
#: Routes with more characters of names refer to the names instead of holding them (``WideNames``).
NARROW_MAX = 512
#: Limit of the cached descriptions, counted in names. Most routes of a virtual host share a few.
_NAMED_TOTAL_MAX = 50_000
#: Limit of the cached JSON names of queues and bindings. Beyond it some are made twice.
_TEXTS_MAX = 200_000

_ENCODER = json.JSONEncoder(separators=(",", ":"))


class RoutingLogPort(Protocol):
    """The part of ``persistence.log.routing.logs.RoutingLog`` that is used here."""

    def entry(self, exchange: str, key: bytes, names: bytes | WideNames) -> RouteEntry: ...


class RouteNames(RouteNamer):
    """Makes the entries of a virtual host's routes in its routing log."""

    def __init__(self, log: RoutingLogPort) -> None:
        self._log = log
        self._descriptions: dict[tuple[object, ...], bytes | WideNames] = {}
        self._named_total = 0
        #: JSON text of each queue and binding; wide routes share them.
        self._texts: dict[object, bytes] = {}
        self._generation = 0

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
        """The entry of a route; ``route`` is exchange and key as two short strings.

        ``durable`` of the queues are durable. Only the first ``NAMED_MAX`` queues are looked at.
        Cached entries are valid while the routing table's ``generation`` stays the same.
        """
        if generation != self._generation:
            self.forget(generation)
        named = queues[:NAMED_MAX]
        what = (exchange, len(queues), durable, *named, *bindings)
        names = self._descriptions.get(what)
        if names is None:
            names = self._describe(exchange, named, list(bindings), len(queues), durable)
            if self._named_total > _NAMED_TOTAL_MAX:
                self._forget()
            self._named_total += len(what)
            self._descriptions[what] = names
        return self._log.entry(exchange, route[route[0] + 2 :], names)

    def forget(self, generation: int) -> None:
        """The routing table has changed, and is now of this ``generation``."""
        self._forget()
        if self._texts:
            self._texts = {}
        self._generation = generation

    def _forget(self) -> None:
        self._descriptions.clear()
        self._named_total = 0

    def _describe(
        self, exchange: str, queues: list[QueueHandle], bindings: list[Binding], fanout: int, durable: int
    ) -> bytes | WideNames:
        if is_narrow(queues, bindings):
            return describe(exchange, queues, bindings)
        if len(self._texts) > _TEXTS_MAX:
            self._texts.clear()
        return WideNames(
            json_of_names(exchange),
            self._distinct(queues, name_of),
            self._distinct(bindings, _ends),
            durable=durable,
            fanout=fanout,
        )

    # Queues or bindings, and the function that names them.
    def _distinct(self, of: Iterable[Any], name: Callable[[Any], str | tuple[str, ...]]) -> list[bytes]:
        """The first names as JSON, each once: at most ``NAMED_MAX`` names and ``NAMED_BYTES_MAX`` octets."""
        texts = self._texts
        made: dict[object, bytes] = {}  # a thousand exclusive queues share one name
        found: dict[bytes, None] = {}
        size = 0
        for each in of:
            text = texts.get(each)
            if text is None:
                named = name(each)
                text = made.get(named)
                if text is None:
                    text = made[named] = json_of_names(named)
                texts[each] = text
            if text in found:
                continue
            found[text] = None
            size += len(text)
            if len(found) == NAMED_MAX or size >= NAMED_BYTES_MAX:
                break
        return list(found)

    def default_entry(self, route: bytes, queue: QueueHandle) -> RouteEntry:
        """The entry of the route to ``queue`` by its name. It lives as long as the queue."""
        return self._log.entry("", route[2:], describe("", [queue], ()))


def describe(exchange: str, queues: list[QueueHandle], bindings: Iterable[Binding]) -> bytes:
    """The payload of a route's entry in the ``.names`` file."""
    names = dict.fromkeys(map(name_of, queues))
    matched = dict.fromkeys(map(_ends, bindings))
    about = {
        "exchange": exchange,
        "queues": list(islice(names, NAMED_MAX)),
        "bindings": list(islice(matched, NAMED_MAX)),
        "durable": sum(1 for queue in queues if queue.durable),
        "fanout": len(queues),
    }
    return _json(about)


def is_narrow(queues: list[QueueHandle], bindings: list[Binding]) -> bool:
    """Whether a route has so few names that its entry holds them."""
    size = 0
    for queue in queues:
        size += len(queue.name) + 1
        if size > NARROW_MAX:
            return False
    for binding in bindings:
        size += len(binding.routing_key) + len(binding.source.name) + len(binding.destination.name) + 1
        if size > NARROW_MAX:
            return False
    return True


def _json(about: object) -> bytes:
    return _ENCODER.encode(about).encode()


def json_of_names(names: str | tuple[str, ...]) -> bytes:
    """One name as JSON, or several in a list: a fifth of the time that an encoder for anything takes."""
    if isinstance(names, str):
        return encode_basestring_ascii(names).encode()
    return f"[{','.join(map(encode_basestring_ascii, names))}]".encode()


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
