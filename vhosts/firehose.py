"""The firehose: a copy of every publish and every delivery of a virtual host, for whoever debugs a program.

Copies go to the exchange ``amq.rabbitmq.trace``: a publish with the routing key ``publish.<exchange>`` and a
delivery with ``deliver.<queue>``. The headers tell the rest, the body is the message's. Nobody waits for a
copy: it is transient, has no receipt and costs nothing while no binding matches its key. What it costs
otherwise is work of the publisher or of the queue that delivers (``MemoryBudget.work``).

Copies are not traced when they are delivered, nor are dead letters of them.

Source: RabbitMQ, "Firehose Tracer"; headers measured on 3.10.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amqp_router.protocol.errors import AMQPError, FieldError
from amqp_router.protocol.fields import Field
from amqp_router.protocol.flags import REDELIVERED
from amqp_router.protocol.frames import NO_EXPIRY
from amqp_router.protocol.message import Message, content_header, with_properties
from amqp_router.protocol.nested import without_entry
from amqp_router.protocol.properties import decode_properties, encode_properties, headers_named
from persistence.memory import MemoryBudget
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import RouteCache, RoutingTable, publish_args
from vhosts.exchanges.sender_selected import HEADERS as SELECTING
from vhosts.exchanges.sender_selected import further_keys
from vhosts.exchanges.taps import Actor
from vhosts.ports import InSlices
from vhosts.publishing.ports import Listener, Run
from vhosts.publishing.publisher import Publisher

EXCHANGE = "amq.rabbitmq.trace"
FIRST_DEATH = "x-first-death-exchange"
#: The cost of one copy, in enqueues.
UNITS = 100
#: Names of queues in one copy, and octets of properties; the headers of a message beyond that are left out.
QUEUES_MAX = 1000
PROPERTIES_BYTES_MAX = 100_000

_OWN_ROUTE = b"%c%b" % (len(EXCHANGE), EXCHANGE.encode())
_INT32 = range(-(1 << 31), 1 << 31)


class Firehose(Listener):
    """Hears of the publishes and deliveries of one virtual host while it is among ``RoutingTable.taps``.

    ``node`` is the node's name.
    """

    def __init__(self, table: RoutingTable, account: MemoryBudget, in_slices: InSlices, node: str) -> None:
        self._table = table
        self._account = account
        self._node = node
        self._in_slices = in_slices
        self._cache = RouteCache(table, None, account)
        self._publisher = Publisher(table, self._cache, account, self)

    # -- for those who publish and deliver -------------------------------------------------------------

    def on_publish(self, route: Route, message: Message, actor: Actor) -> None:
        """``message`` is about to go to ``route``."""
        names = [queue.name for queue in route.queues[:QUEUES_MAX]]
        queues: Field = ("A", [_text(name) for name in names])
        self._send(f"publish.{route.exchange}", message, actor, {}, {"routed_queues": queues})

    def on_delivery(self, queue: str, message: Message, actor: Actor) -> None:
        """``queue`` delivers ``message``, which has its content."""
        if message.route.startswith(_OWN_ROUTE):
            return
        redelivered: Field = ("I", 1 if message.flags & REDELIVERED else 0)
        self._send(f"deliver.{queue}", message, actor, {"redelivered": redelivered}, {})

    # -- the copy -------------------------------------------------------------------------------------

    def _send(
        self,
        key: str,
        message: Message,
        actor: Actor,
        before: Mapping[str, Field],
        after: Mapping[str, Field],
    ) -> None:
        args = publish_args(EXCHANGE, _shortened(key))
        account = self._account
        work = account.take_work()
        try:
            route = self._cache.find(args) or self._cache.resolve(args, b"\0\0")
            if route is not None and route.queues:
                copy = self._copy(message, actor, before, after)
                if copy is not None:
                    copy.route = args[2 : len(args) - 1]
                    self._publisher.publish(route, copy, 0, 0)
                    work += UNITS + self._publisher.units
        except AMQPError:
            pass  # a headers exchange behind it cannot read it
        finally:
            account.work = work

    def _copy(
        self, message: Message, actor: Actor, before: Mapping[str, Field], after: Mapping[str, Field]
    ) -> Message | None:
        """None if ``message`` is a dead letter of a copy."""
        properties = message.properties()
        try:
            found = decode_properties(properties, True)
            headers = headers_named(properties, FIRST_DEATH, *SELECTING)
        except FieldError:
            found, headers = {}, {}
        if headers.get(FIRST_DEATH) == ("S", EXCHANGE.encode()):
            return None
        if "BCC" in headers:  # consumers do not see it, and neither do copies
            found["headers"] = without_entry(found["headers"], b"BCC")
        exchange, routing_key = _names(message.route)
        told = {
            "exchange_name": _text(exchange),
            "routing_keys": ("A", [_text(each) for each in (routing_key, *_further_keys(headers))]),
            "properties": ("F", {name: _field(name, value) for name, value in found.items()}),
            "node": _text(self._node),
            **before,
            "vhost": _text(self._table.vhost),
            "connection": _text(actor.connection),
            "channel": ("I", actor.channel),
            "user": _text(actor.user),
            **after,
        }
        return _with_properties(message, _encoded(told))

    # -- for the publisher ----------------------------------------------------------------------------

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``vhosts.publishing.ports.Listener``; nobody waits."""

    def run_done(self, run: Run) -> None:
        """See ``vhosts.publishing.ports.Listener``; nobody waits."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        self._in_slices(step)


def _with_properties(message: Message, properties: bytes) -> Message:
    """A transient message with the body of ``message``; without one that is read from disk frame by frame."""
    content = message.content
    first: bytes | None = content if isinstance(content, bytes) else None
    rest: tuple[bytes, ...] = ()
    if isinstance(content, tuple):
        first, rest = content[0], content[1:]
    copy = message.copy()
    copy.flags = 0
    copy.priority = 0
    copy.expire_ms = NO_EXPIRY
    copy.deadline_us = 0
    if first is None:
        header = content_header(properties, 0)
        copy.content = header
        copy.body_size = copy.frame_count = copy.frame_payload = copy.channel = 0
    else:
        header = with_properties(first, properties)
        copy.content = (header, *rest) if rest else header + first[message.header_size :]
    copy.header_size = len(header)
    return copy


def _encoded(told: dict[str, Field]) -> bytes:
    """Properties with the headers ``told``; without the traced message's headers if that is too much."""
    try:
        properties = encode_properties({"headers": told})
        if len(properties) <= PROPERTIES_BYTES_MAX:
            return properties
    except FieldError:
        pass  # they are nested as deep as may be
    shown: dict[str, Field] = dict(told["properties"][1])
    shown.pop("headers", None)
    told = {**told, "properties": ("F", shown)}
    queues: Sequence[Field] = told.get("routed_queues", ("A", ()))[1]
    if queues:
        told["routed_queues"] = ("A", list(queues[:100]))
    keys: Sequence[Field] = told["routing_keys"][1]
    told["routing_keys"] = ("A", list(keys[:100]))
    return encode_properties({"headers": told})


def _further_keys(headers: Mapping[str, Field]) -> list[str]:
    try:
        return further_keys(dict(headers))
    except AMQPError:
        return []


def _field(name: str, value: object) -> Field:
    if isinstance(value, int):
        return ("I" if value in _INT32 else "l", value)
    return _text(value) if isinstance(value, str) else ("F", value)


def _text(value: str) -> Field:
    return ("S", value.encode("utf-8", "surrogateescape"))


def _shortened(key: str) -> str:
    """``key`` within 255 octets: the names of queues and exchanges may have as many."""
    octets = key.encode("utf-8", "surrogateescape")
    return key if len(octets) <= 255 else octets[:255].decode("utf-8", "surrogateescape")


def _names(route: bytes) -> tuple[str, str]:
    """Exchange and routing key of two short strings."""
    key_at = 1 + route[0]
    return (
        route[1:key_at].decode("utf-8", "surrogateescape"),
        route[key_at + 1 :].decode("utf-8", "surrogateescape"),
    )
