"""What an exchange and a binding are, and what an exchange type must provide: bind, unbind and route.

The router follows bindings between exchanges, alternate exchanges, CC and BCC, and gives each queue one
copy. A type only says which of its bindings a message matches.

Source, destination, routing key and arguments together identify a binding; the order of the arguments does
not matter.

Compiled: see ``exchange.pxd``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, TypedDict

from amqp_router.protocol.fields import Table
from amqp_router.protocol.kept_table import (
    DECODED_BYTES,
    OCTETS_MAX,
    Arguments,
    encoded,
    encoded_by_name,
    footprint,
    keep,
    read_arguments,
)
from amqp_router.protocol.message import Message
from amqp_router.protocol.properties import headers_named, headers_of, outer_headers
from persistence.definitions.records import NO_ARGUMENTS, BindingRow, ExchangeRow
from persistence.memory import MemoryBudget
from vhosts.arguments import ExchangeAttributes
from vhosts.counters import ExchangeCounters
from vhosts.declared import Declared
from vhosts.policies import Definition
from vhosts.queues.handle import QueueHandle

#: What the route of a message depends on. The router caches the routes of the first two kinds.
BY_KEY = 0
BY_HEADERS = 1
NOT_REPEATABLE = 2

_NO_HEADERS: Table = {}


class Routable:
    """What an exchange may look at in a message."""

    __slots__ = ("_headers", "keys", "properties")

    def __init__(self, keys: list[str], properties: bytes = b"\x00\x00") -> None:
        #: The routing key, then those of the headers CC and BCC.
        self.keys = keys
        #: Property flags and values as received.
        self.properties = properties
        self._headers: Table | None = None

    @property
    def headers(self) -> Table:
        """The headers table, empty if there is none; decoded when first asked for.

        Raises:
            FieldError: it is malformed.
        """
        if self._headers is None:
            self._headers = headers_of(self.properties) or _NO_HEADERS
        return self._headers

    def outer_headers(self) -> Table:
        """As ``headers``, but tables and arrays among them stay octets.

        Raises:
            FieldError: they are malformed.
        """
        return outer_headers(self.properties)

    def headers_named(self, *names: str) -> Table:
        """Those of the headers that have one of the ``names``, as in ``outer_headers``; quick, however many
        there are.

        Raises:
            FieldError: they are malformed.
        """
        return headers_named(self.properties, *names)


class Surroundings(Protocol):
    """What an exchange may use of its virtual host."""

    @property
    def account(self) -> MemoryBudget:
        """The node's account of memory."""

    def delay_queue(self, exchange: Exchange) -> QueueHandle:
        """The internal queue of the delayed-message exchange; made if there is none.

        Raises:
            InternalError: the definition store refuses (541).
            PreconditionFailed: the definitions take too much memory (406).
        """

    def drop_delay_queue(self, exchange: Exchange) -> None:
        """Remove that queue, as the exchange is gone."""

    def pass_on(self, destination: End, messages: Sequence[Message]) -> None:
        """Give copies of ``messages`` to a queue, or to the queues of an exchange, as a binding would.

        Nobody hears whether they were taken. The first ones arrive at once, very many in slices.
        """


#: Memory of an exchange apart from name and arguments, with the maps of its bindings; measured.
EXCHANGE_BYTES = 2300


class ExchangeOptions(TypedDict, total=False):
    """See ``Exchange``."""

    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments | None


class Exchange(Declared):
    """Base of all exchange types. A subclass keeps its bindings in the structure that suits its way of
    matching.
    """

    #: BY_KEY, BY_HEADERS or NOT_REPEATABLE: what ``route`` looks at, apart from the bindings.
    decided_by = NOT_REPEATABLE
    #: ``keep`` is called with every message that comes here. Only for types that are ``NOT_REPEATABLE``.
    keeps = False
    #: It keeps the arguments of its bindings decoded.
    decodes_arguments = False

    def __init__(
        self,
        name: str,
        type_name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        #: The name under which the type is registered.
        self.type = type_name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = keep(arguments or {})
        #: Name of the exchange that gets the messages that match no binding here: by the arguments, or else
        #: by a policy.
        self.alternate: str | None = None
        self.declared_alternate: str | None = None
        self.counters = ExchangeCounters()
        #: Of the bindings that it routes by; those of a deleted end count until they are removed.
        self.binding_count = 0

    def memory_bytes(self) -> int:
        """Bytes of memory of the exchange without its bindings."""
        return EXCHANGE_BYTES + len(self.name) + footprint(self.arguments)

    def key_bytes(self, routing_key: str) -> int:
        """Bytes of memory that a binding with this key takes beyond other bindings."""
        return 0

    def obey(self, definition: Definition) -> None:
        if self.declared_alternate is None:
            alternate = definition.get("alternate-exchange")
            assert alternate is None or isinstance(alternate, str)  # see ``POLICY_KEYS``
            self.alternate = alternate

    def attributes(self) -> ExchangeAttributes:
        """What a redeclaration must repeat."""
        return {
            "type": self.type,
            "durable": self.durable,
            "auto_delete": self.auto_delete,
            "internal": self.internal,
            "arguments": self.arguments,
        }

    def row(self, vhost: str) -> ExchangeRow:
        """The exchange as a row of the definition store."""
        arguments = encoded(self.arguments) if self.arguments else NO_ARGUMENTS
        return ExchangeRow(vhost, self.name, self.type, self.auto_delete, self.internal, arguments)

    def enter(self, surroundings: Surroundings) -> None:
        """It belongs to a virtual host from now on."""

    def leave(self) -> None:
        """It is deleted here; not called if another node has deleted it."""

    def keep(self, message: Message) -> None:
        """``message`` has come here and its route is found; called before the queues get it.

        It belongs to the queues: whoever keeps it keeps a copy.
        """

    def bound(self, binding: Binding) -> None:
        """``binding`` has just been made; it is neither loaded at a start nor made by another node."""

    def bind(self, binding: Binding) -> None:
        """Route by ``binding``, which is new to this exchange, from now on.

        Raises:
            PreconditionFailed: its key or arguments are invalid for this type; nothing has changed.
        """
        raise NotImplementedError

    def unbind(self, binding: Binding) -> None:
        """Route by ``binding`` no longer; it was bound before."""
        raise NotImplementedError

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """The bindings that ``message`` matches by any of its keys; a binding may come twice.

        If the search is long, numbers come between the bindings: how many comparisons were made since the
        last number. The caller may stop anywhere and continue later. Bindings may be added and removed
        meanwhile. Those that exist during the whole search must be found.
        """
        raise NotImplementedError


BindingKey = tuple[str, str, str, str, bytes]
#: The destination of a binding. A source is always an exchange.
End: TypeAlias = QueueHandle | Exchange

#: Memory of a binding apart from its key and arguments, if it is its queue's only one; measured.
BINDING_BYTES = 1300


class Binding:
    """A rule of the exchange ``source``: messages that match the binding go to ``destination``.

    The type of the exchange decides what must match: ``routing_key``, ``arguments`` or nothing.
    """

    __slots__ = ("arguments", "destination", "encoded", "routing_key", "source")

    def __init__(self, source: Exchange, destination: End, routing_key: str, arguments: Arguments) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        #: The arguments as an encoded table, sorted by name.
        self.encoded = encoded_by_name(arguments) if arguments else NO_ARGUMENTS
        self.arguments = arguments if len(self.encoded) <= OCTETS_MAX else read_arguments(self.encoded, 0)[0]

    @property
    def destination_type(self) -> str:
        """``exchange`` or ``queue``."""
        return type_of(self.destination)

    @property
    def key(self) -> BindingKey:
        """Its identity among the bindings of a virtual host."""
        return (
            self.source.name,
            self.destination.name,
            self.destination_type,
            self.routing_key,
            self.encoded,
        )

    def memory_bytes(self) -> int:
        """Bytes of memory of the binding and of the exchange's entry for it."""
        size = BINDING_BYTES + 2 * len(self.routing_key) + self.source.key_bytes(self.routing_key)
        if self.source.decodes_arguments:
            return size + DECODED_BYTES * len(self.encoded)
        return size + footprint(self.arguments)

    def is_durable(self) -> bool:
        """Whether both ends are durable."""
        return self.source.durable and self.destination.durable

    def row(self, vhost: str) -> BindingRow:
        """The binding as a row of the definition store."""
        return BindingRow(vhost, *self.key)


def type_of(end: End) -> str:
    """``exchange`` or ``queue``."""
    return "exchange" if isinstance(end, Exchange) else "queue"
