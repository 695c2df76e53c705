"""Bindings, and who has which.

A binding is told from others by source, destination, routing key and arguments; the order of arguments does
not matter. ``Bindings`` is kept at both ends, so that whatever goes away takes its bindings with it in time
proportional to their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from amqp_router.protocol.fields import Table, encode_table
from persistence.definitions.records import NO_ARGUMENTS, BindingRow
from vhosts.exchanges.exchange import Exchange
from vhosts.queues.handle import QueueHandle

BindingKey = tuple[str, str, str, str, bytes]
_End = TypeVar("_End")


class Binding:
    """What ``source`` takes with ``routing_key`` or ``arguments``, by its type, goes to ``destination``."""

    __slots__ = ("arguments", "destination", "encoded", "routing_key", "source")

    def __init__(
        self, source: Exchange, destination: QueueHandle | Exchange, routing_key: str, arguments: Table
    ) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        #: The arguments as an encoded table, sorted by name.
        self.encoded = encode_table(dict(sorted(arguments.items()))) if arguments else NO_ARGUMENTS

    @property
    def destination_type(self) -> str:
        """``exchange`` or ``queue``."""
        return "exchange" if isinstance(self.destination, Exchange) else "queue"

    @property
    def key(self) -> BindingKey:
        """What tells it from the other bindings of a virtual host."""
        return (
            self.source.name,
            self.destination.name,
            self.destination_type,
            self.routing_key,
            self.encoded,
        )

    def is_durable(self) -> bool:
        """A binding lasts as long as both of its ends."""
        return self.source.durable and self.destination.durable

    def row(self, vhost: str) -> BindingRow:
        """Its form in the definition store."""
        return BindingRow(vhost, *self.key)


class Bindings:
    """All bindings of a virtual host but the implicit ones of the default exchange."""

    def __init__(self) -> None:
        self._by_key: dict[BindingKey, Binding] = {}
        self._by_source: dict[Exchange, dict[Binding, None]] = {}
        self._by_destination: dict[QueueHandle | Exchange, dict[Binding, None]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._by_key.values())

    def __contains__(self, binding: Binding) -> bool:
        return self.find(binding) is binding

    def find(self, like: Binding) -> Binding | None:
        """The binding that has the key of ``like``."""
        return self._by_key.get(like.key)

    def add(self, binding: Binding) -> None:
        """Keep ``binding``, whose key is new."""
        assert binding.key not in self._by_key
        self._by_key[binding.key] = binding
        self._by_source.setdefault(binding.source, {})[binding] = None
        self._by_destination.setdefault(binding.destination, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        """Forget ``binding``."""
        del self._by_key[binding.key]
        _discard(self._by_source, binding.source, binding)
        _discard(self._by_destination, binding.destination, binding)

    def of_source(self, exchange: Exchange) -> list[Binding]:
        """The bindings that ``exchange`` routes by."""
        return list(self._by_source.get(exchange, ()))

    def of_destination(self, destination: QueueHandle | Exchange) -> list[Binding]:
        """The bindings that lead to ``destination``."""
        return list(self._by_destination.get(destination, ()))

    def count_of_source(self, exchange: Exchange) -> int:
        """How many bindings ``exchange`` routes by."""
        return len(self._by_source.get(exchange, ()))

    def has_source(self, exchange: Exchange) -> bool:
        """Whether ``exchange`` has any binding."""
        return exchange in self._by_source


def _discard(index: dict[_End, dict[Binding, None]], end: _End, binding: Binding) -> None:
    at_end = index[end]
    del at_end[binding]
    if not at_end:
        del index[end]
