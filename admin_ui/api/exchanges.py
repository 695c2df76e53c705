"""Exchanges and bindings. The default exchange is ``amq.default`` in paths."""

from __future__ import annotations

from typing import Any, TypeAlias

from admin_ui.documents import exchanges
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Rows
from admin_ui.replies import not_found
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import VirtualHost

DEFAULT = "amq.default"


def every(call: Call) -> Rows:
    """The exchanges of all virtual hosts."""
    return _exchanges(call, call.vhosts())


def of_vhost(call: Call) -> Rows:
    """The exchanges of one virtual host."""
    return _exchanges(call, [call.vhost()])


def _exchanges(call: Call, vhosts: list[VirtualHost]) -> Rows:
    stats = Stats(call.state.metrics, call.query.spans)
    found = [(vhost.name, vhost.exchanges[name]) for vhost in vhosts for name in sorted(vhost.exchanges)]
    return Rows(
        found,
        lambda pair: exchanges.document(pair[1], pair[0], stats),
        name=lambda pair: str(pair[1].name),
        quick={"name": lambda pair: pair[1].name, "vhost": lambda pair: pair[0]},
    )


def real_name(part: str) -> str:
    """The name of the exchange that a path or topic means."""
    return "" if part == DEFAULT else part


def _exchange(call: Call, vhost: VirtualHost, part: str = "exchange") -> Any:
    exchange = vhost.exchanges.get(real_name(call.part(part)))
    if exchange is None:
        raise not_found()
    return exchange


def one(call: Call) -> dict[str, Any]:
    """One exchange."""
    vhost = call.vhost()
    stats = Stats(call.state.metrics, call.query.spans)
    return exchanges.single(_exchange(call, vhost), vhost.name, stats)


# -- bindings ---------------------------------------------------------------------------------------


#: A virtual host's name, and a binding there; or a queue, for the default exchange's way to it.
_Pair: TypeAlias = tuple[str, Any]


def _rows(found: list[_Pair]) -> Rows:
    return Rows(found, _document, name=lambda pair: str(getattr(pair[1], "destination", pair[1]).name))


def _document(pair: _Pair) -> dict[str, Any]:
    vhost, binding = pair
    if isinstance(binding, QueueHandle):
        return exchanges.implicit_binding(binding)
    return exchanges.binding(binding, vhost)


def _implicit(vhost: VirtualHost) -> list[_Pair]:
    name, queues = vhost.name, vhost.queues
    return [(name, queues[queue]) for queue in sorted(queues)]


def _bindings(vhost: VirtualHost) -> list[_Pair]:
    name = vhost.name
    return _implicit(vhost) + [(name, binding) for binding in vhost.bindings]


def every_binding(call: Call) -> Rows:
    """The bindings of all virtual hosts."""
    return _rows([pair for vhost in call.vhosts() for pair in _bindings(vhost)])


def bindings_of_vhost(call: Call) -> Rows:
    """The bindings of one virtual host."""
    return _rows(_bindings(call.vhost()))


def bindings_of_source(call: Call) -> Rows:
    """The bindings whose source is the exchange."""
    vhost = call.vhost()
    exchange = _exchange(call, vhost)
    if exchange.name == "":
        return _rows(_implicit(vhost))
    return _rows([(vhost.name, binding) for binding in vhost.bindings.of_source(exchange)])


def bindings_of_destination(call: Call) -> Rows:
    """The bindings whose destination is the exchange."""
    vhost = call.vhost()
    found = vhost.bindings.of_destination(_exchange(call, vhost))
    return _rows([(vhost.name, binding) for binding in found])


def bindings_of_queue(call: Call) -> Rows:
    """The bindings whose destination is the queue; that of the default exchange comes first."""
    vhost = call.vhost()
    queue = vhost.queues.get(call.part("queue"))
    if queue is None:
        raise not_found()
    found = [queue, *vhost.bindings.of_destination(queue)]
    return _rows([(vhost.name, binding) for binding in found])


def _between(call: Call) -> tuple[str, list[Any]]:
    """The bindings between the exchange and the queue (q) or exchange (e) of the path, if both exist."""
    vhost = call.vhost()
    kind = call.part("kind")
    if kind not in ("q", "e"):
        raise not_found()
    ends: dict[str, Any] = vhost.queues if kind == "q" else vhost.exchanges
    destination = ends.get(call.part("destination"))
    source = vhost.exchanges.get(real_name(call.part("source")))
    if source is None or destination is None:
        return vhost.name, []
    found: list[Any] = [
        binding for binding in vhost.bindings.of_destination(destination) if binding.source is source
    ]
    if source.name == "" and kind == "q":
        found.append(destination)
    return vhost.name, found


def bindings_between(call: Call) -> Rows:
    """The bindings between two objects."""
    vhost, found = _between(call)
    return _rows([(vhost, binding) for binding in found])


def one_binding(call: Call) -> dict[str, Any]:
    """One of them, by its properties key."""
    vhost, found = _between(call)
    for binding in found:
        document = _document((vhost, binding))
        if document["properties_key"] == call.part("props"):
            return document
    raise not_found()


#: An empty name stands for the default exchange, too.
_PAIR = "/bindings/{vhost}/e/{source:[^/]*}/{kind}/{destination}"

ENDPOINTS = [
    Endpoint("/exchanges", every),
    Endpoint("/exchanges/{vhost}", of_vhost),
    Endpoint("/exchanges/{vhost}/{exchange}", one),
    Endpoint("/exchanges/{vhost}/{exchange}/bindings/source", bindings_of_source),
    Endpoint("/exchanges/{vhost}/{exchange}/bindings/destination", bindings_of_destination),
    Endpoint("/exchanges/{vhost}/{exchange}/publish", None),
    Endpoint("/queues/{vhost}/{queue}/bindings", bindings_of_queue),
    Endpoint("/bindings", every_binding),
    Endpoint("/bindings/{vhost}", bindings_of_vhost),
    Endpoint(_PAIR, bindings_between),
    Endpoint(_PAIR + "/{props}", one_binding),
]
