"""Bindings: listed, made and removed. The default exchange is ``amq.default`` in paths, or an empty part."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import quote

from admin_ui.api.exchanges import find as exchange_of
from admin_ui.api.exchanges import real_name
from admin_ui.documents import exchanges
from admin_ui.endpoints import Call, Endpoint, Rows
from admin_ui.ordering import add_pairs, by_name
from admin_ui.replies import Done, bad_request, not_found
from admin_ui.table_octets import arguments_of
from admin_ui.writing import DELETED, Caller, caller, change, read_object, text
from amqp_router.protocol.kept_table import Arguments, encoded_by_name
from vhosts import declarations
from vhosts.long_lists import unwatched
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import VirtualHost

#: A virtual host's name, and a binding there, or a queue for its binding to the default exchange.
_Pair: TypeAlias = tuple[str, Any]


def _rows(found: list[_Pair]) -> Rows:
    return Rows(found, _document, name=lambda pair: str(getattr(pair[1], "destination", pair[1]).name))


def _document(pair: _Pair) -> dict[str, Any]:
    vhost, binding = pair
    if isinstance(binding, QueueHandle):
        return exchanges.implicit_binding(binding)
    return exchanges.binding(binding, vhost)


async def _found(call: Call, vhost: VirtualHost, found: Iterable[Any]) -> Rows:
    pairs: list[_Pair] = unwatched([])
    await add_pairs(pairs, vhost.name, found, call.turns)
    return _rows(pairs)


async def _bindings(call: Call, vhosts: Iterable[VirtualHost]) -> Rows:
    pairs: list[_Pair] = unwatched([])
    for vhost in vhosts:
        await add_pairs(pairs, vhost.name, await by_name(vhost.queues, call.turns), call.turns)
        await add_pairs(pairs, vhost.name, vhost.bindings.each(), call.turns)
    return _rows(pairs)


async def every_binding(call: Call) -> Rows:
    """The bindings of all virtual hosts."""
    return await _bindings(call, call.vhosts())


async def bindings_of_vhost(call: Call) -> Rows:
    """The bindings of one virtual host."""
    return await _bindings(call, [call.vhost()])


async def bindings_of_source(call: Call) -> Rows:
    """The bindings whose source is the exchange."""
    vhost = call.vhost()
    exchange = exchange_of(call, vhost)
    if exchange.name == "":
        return await _found(call, vhost, await by_name(vhost.queues, call.turns))
    return await _found(call, vhost, vhost.bindings.each_of_source(exchange))


async def bindings_of_destination(call: Call) -> Rows:
    """The bindings whose destination is the exchange."""
    vhost = call.vhost()
    return await _found(call, vhost, vhost.bindings.each_of_destination(exchange_of(call, vhost)))


async def bindings_of_queue(call: Call) -> Rows:
    """The bindings whose destination is the queue. That to the default exchange comes first."""
    vhost = call.vhost()
    queue = vhost.queues.get(call.part("queue"))
    if queue is None:
        raise not_found()
    return await _found(call, vhost, chain([queue], vhost.bindings.each_of_destination(queue)))


def _between(call: Call) -> tuple[VirtualHost, list[Any]]:
    """The bindings between the exchange and the queue (q) or exchange (e) of the path, if both exist."""
    vhost = call.vhost()
    kind = call.part("kind")
    if kind not in ("q", "e"):
        raise not_found()
    name = call.part("destination")
    destination = vhost.queues.get(name) if kind == "q" else vhost.exchanges.get(name)
    source = vhost.exchanges.get(real_name(call.part("source")))
    if source is None or destination is None:
        return vhost, []
    found: list[Any] = vhost.bindings.between(source, destination)
    if source.name == "" and kind == "q":
        found.append(destination)
    return vhost, found


async def bindings_between(call: Call) -> Rows:
    """The bindings between two objects."""
    return await _found(call, *_between(call))


async def one_binding(call: Call) -> dict[str, Any]:
    """One binding between two objects, by its properties key."""
    found = await _by_key(call)
    return _document((call.vhost().name, found))


async def _by_key(call: Call) -> Any:
    vhost, found = _between(call)
    props = call.part("props")
    for count, binding in enumerate(found):
        if count % 16 == 15:
            await call.turns.next()
        routing_key = binding.name if isinstance(binding, QueueHandle) else binding.routing_key
        if not props.startswith(exchanges.quoted_key(routing_key) or "~"):
            continue  # the hash of its arguments would take long
        if _document((vhost.name, binding))["properties_key"] == props:
            return binding
    raise not_found()


# -- changes -----------------------------------------------------------------------------------------


async def bind(call: Call) -> Done:
    """Bind the two: ``routing_key``, ``arguments``. The reply's Location ends with the properties key."""
    content = await read_object(call)
    routing_key, table = text(content, "routing_key"), await arguments_of(call, content)
    who, source, kind, destination = caller(call), *_ends(call)

    def act() -> tuple[None, int]:
        do = declarations.bind_queue if kind == "q" else declarations.bind_exchange
        return None, do(who, destination, source, routing_key, table)

    await change(call, act)
    key = exchanges.properties_key(routing_key, encoded_by_name(table) if table else b"")
    return Done(201, {"Location": f"{quote(destination, safe='')}/{quote(key, safe='')}"})


async def unbind(call: Call) -> Done:
    """Remove one of the bindings between the two, by its properties key."""
    who = caller(call)
    binding = await _by_key(call)
    if isinstance(binding, QueueHandle):  # the binding to the default exchange, which cannot be removed
        await change(call, lambda: _remove(who, "q", binding.name, "", "", {}))
    else:
        kind = "q" if binding.destination_type == "queue" else "e"
        ends = binding.destination.name, binding.source.name
        key, table = binding.routing_key, binding.arguments
        await change(call, lambda: _remove(who, kind, *ends, key, table))
    return DELETED


def _remove(
    who: Caller, kind: str, destination: str, source: str, routing_key: str, table: Arguments
) -> tuple[None, int]:
    do = declarations.unbind_queue if kind == "q" else declarations.unbind_exchange
    return None, do(who, destination, source, routing_key, table)


def _ends(call: Call) -> tuple[str, str, str]:
    """Source, kind (q or e) and destination of a binding's path."""
    kind = call.part("kind")
    if kind not in ("q", "e"):
        raise bad_request(f"a destination is a queue, q, or an exchange, e, not {kind!r}")
    return real_name(call.part("source")), kind, call.part("destination")


#: An empty name also means the default exchange.
_PAIR = "/bindings/{vhost}/e/{source:[^/]*}/{kind}/{destination}"

ENDPOINTS = [
    Endpoint("/exchanges/{vhost}/{exchange}/bindings/source", bindings_of_source),
    Endpoint("/exchanges/{vhost}/{exchange}/bindings/destination", bindings_of_destination),
    Endpoint("/queues/{vhost}/{queue}/bindings", bindings_of_queue),
    Endpoint("/bindings", every_binding),
    Endpoint("/bindings/{vhost}", bindings_of_vhost),
    Endpoint(_PAIR, bindings_between, post=bind),
    Endpoint(_PAIR + "/{props}", one_binding, delete=unbind),
]
