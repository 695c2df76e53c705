"""What an exchange is, and what an exchange type must provide: bind, unbind and route.

The router follows bindings between exchanges, alternate exchanges, CC and BCC, and gives each queue one
copy. A type only says which of its bindings a message matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from amqp_router.protocol.fields import Table
from amqp_router.protocol.kept_table import Arguments, footprint, keep
from amqp_router.protocol.properties import headers_of
from vhosts.counters import ExchangeCounters

if TYPE_CHECKING:
    from vhosts.bindings import Binding

#: What the route of a message depends on. The router caches the routes of the first two kinds.
BY_KEY = 0
BY_HEADERS = 1
NOT_REPEATABLE = 2

_NO_HEADERS: Table = {}


class Routable:
    """What an exchange may look at in a message."""

    __slots__ = ("_headers", "keys", "properties")

    def __init__(self, keys: Sequence[str], properties: bytes = b"\x00\x00") -> None:
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


#: Memory of an exchange apart from bindings, name and arguments; measured.
EXCHANGE_BYTES = 1500


class Exchange:
    """Base of all exchange types. A subclass keeps its bindings in the structure that suits its way of
    matching.
    """

    #: BY_KEY, BY_HEADERS or NOT_REPEATABLE: what ``route`` looks at, apart from the bindings.
    decided_by: ClassVar[int] = NOT_REPEATABLE

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
        self.name = name
        #: The name under which the type is registered.
        self.type = type_name
        self.durable = durable
        #: It is deleted when its last binding as source is removed.
        self.auto_delete = auto_delete
        #: Takes messages from other exchanges only.
        self.internal = internal
        self.arguments: Arguments = keep(arguments or {})
        #: Name of the exchange that gets the messages that match no binding here.
        self.alternate: str | None = None
        #: Revision of the definition this exchange waits for; 0 if nothing was stored.
        self.definition_rev = 0
        #: It is deleted. Bindings that still lead here lead nowhere.
        self.deleted = False
        self.counters = ExchangeCounters()

    def memory_bytes(self) -> int:
        """Bytes of memory of the exchange without its bindings."""
        return EXCHANGE_BYTES + len(self.name) + footprint(self.arguments)

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
