"""Bindings, and who has which.

A binding is told from others by source, destination, routing key and arguments; the order of arguments does
not matter. ``Bindings`` is kept at both ends, so that an end that goes finds what goes with it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TypeAlias

from amqp_router.protocol.kept_table import (
    DECODED_BYTES,
    OCTETS_MAX,
    Arguments,
    encoded_by_name,
    footprint,
    read_arguments,
)
from persistence.definitions.records import NO_ARGUMENTS, BindingRow
from persistence.log.memory import MemoryBudget
from vhosts.exchanges.exchange import BY_HEADERS, Exchange
from vhosts.queues.handle import QueueHandle

BindingKey = tuple[str, str, str, str, bytes]
#: Where bindings lead to; exchanges are also where they come from.
End: TypeAlias = QueueHandle | Exchange


#: Memory of a binding apart from its key and arguments; measured.
BINDING_BYTES = 900


class Binding:
    """What ``source`` takes with ``routing_key`` or ``arguments``, by its type, goes to ``destination``."""

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
        """What tells it from the other bindings of a virtual host."""
        return (
            self.source.name,
            self.destination.name,
            self.destination_type,
            self.routing_key,
            self.encoded,
        )

    def memory_bytes(self) -> int:
        """Of it and of what its exchange keeps of it: a headers exchange has the arguments decoded."""
        size = BINDING_BYTES + 2 * len(self.routing_key)
        if self.source.decided_by == BY_HEADERS:
            return size + DECODED_BYTES * len(self.encoded)
        return size + footprint(self.arguments)

    def is_durable(self) -> bool:
        """A binding lasts as long as both of its ends."""
        return self.source.durable and self.destination.durable

    def row(self, vhost: str) -> BindingRow:
        """Its form in the definition store."""
        return BindingRow(vhost, *self.key)


class Pair:
    """All bindings from ``source`` to ``destination``."""

    __slots__ = ("by_key", "destination", "source")

    def __init__(self, source: Exchange, destination: End) -> None:
        self.source = source
        self.destination = destination
        #: By routing key and encoded arguments.
        self.by_key: dict[tuple[str, bytes], Binding] = {}

    def is_live(self) -> bool:
        """Whether neither end is gone; what is left of the others' bindings is on its way out."""
        return not self.source.deleted and not self.destination.deleted

    def is_stored(self) -> bool:
        """Whether the definition store has them."""
        return self.source.durable and self.destination.durable


class Bindings:
    """All bindings of a virtual host but the implicit ones of the default exchange.

    They are found by the two ends themselves, not by their names: what is declared anew is another.
    """

    def __init__(self, account: MemoryBudget) -> None:
        #: The node's account of memory.
        self.account = account
        #: No queue is a source, but may be looked up.
        self._by_source: dict[End, dict[End, Pair]] = {}
        self._by_destination: dict[End, dict[End, Pair]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Binding]:
        for pairs in self._by_source.values():
            for pair in pairs.values():
                if pair.is_live():
                    yield from pair.by_key.values()

    def find(self, like: Binding) -> Binding | None:
        """The binding that has the ends, the routing key and the arguments of ``like``."""
        pair = self._by_source.get(like.source, _NONE).get(like.destination)
        return None if pair is None else pair.by_key.get((like.routing_key, like.encoded))

    def add(self, binding: Binding) -> None:
        """Keep ``binding``, which is none of those there."""
        source, destination = binding.source, binding.destination
        pairs = self._by_source.setdefault(source, {})
        pair = pairs.get(destination)
        if pair is None:
            pair = pairs[destination] = Pair(source, destination)
            self._by_destination.setdefault(destination, {})[source] = pair
        key = (binding.routing_key, binding.encoded)
        assert key not in pair.by_key
        pair.by_key[key] = binding
        self._count += 1
        self.account.kept += binding.memory_bytes()

    def remove(self, binding: Binding) -> None:
        """Forget ``binding``."""
        pair = self._by_source[binding.source][binding.destination]
        del pair.by_key[binding.routing_key, binding.encoded]
        self._count -= 1
        self.account.kept -= binding.memory_bytes()
        if not pair.by_key:
            self.forget(pair)

    def pairs_of(self, end: End) -> tuple[list[Pair], list[Pair]]:
        """What leads away from ``end``, and what leads to it from others; without what is on its way out."""
        return _pairs(end, self._by_source.get(end, _NONE), self._by_destination.get(end, _NONE))

    def take(self, end: End) -> tuple[list[Pair], list[Pair]]:
        """As ``pairs_of``, and ``end``, which goes, has them no more. Their other ends still do, until
        ``pop_from`` has emptied them and they are forgotten.
        """
        return _pairs(end, self._by_source.pop(end, _NONE), self._by_destination.pop(end, _NONE))

    def pop_from(self, pair: Pair) -> Binding:
        """Forget one of the bindings of ``pair``, which has some, and return it."""
        self._count -= 1
        binding = pair.by_key.popitem()[1]
        self.account.kept -= binding.memory_bytes()
        return binding

    def forget(self, pair: Pair) -> None:
        """Forget ``pair``, which is empty; that it is gone already is fine."""
        _discard(self._by_source, pair.source, pair.destination)
        _discard(self._by_destination, pair.destination, pair.source)

    def of_source(self, exchange: Exchange) -> list[Binding]:
        """The bindings that ``exchange`` routes by."""
        return _live(self._by_source.get(exchange, _NONE))

    def of_destination(self, destination: End) -> list[Binding]:
        """The bindings that lead to ``destination``."""
        return _live(self._by_destination.get(destination, _NONE))

    def has_source(self, exchange: Exchange, *, without: Container[End] = ()) -> bool:
        """Whether ``exchange`` has any binding, apart from those to the ends ``without``."""
        ends = self._by_source.get(exchange, ())
        return any(not end.deleted and end not in without for end in ends)

    def is_last(self, binding: Binding) -> bool:
        """Whether ``binding``, which is here, is the only one of its source."""
        source, destination = binding.source, binding.destination
        has_others = len(self._by_source[source][destination].by_key) > 1
        return not has_others and not self.has_source(source, without=(destination,))


def type_of(end: End) -> str:
    """``exchange`` or ``queue``."""
    return "exchange" if isinstance(end, Exchange) else "queue"


def _pairs(end: End, away: dict[End, Pair], here: dict[End, Pair]) -> tuple[list[Pair], list[Pair]]:
    return (
        [pair for pair in away.values() if pair.is_live()],
        [pair for pair in here.values() if pair.source is not end and pair.is_live()],
    )


def _live(pairs: dict[End, Pair]) -> list[Binding]:
    return [binding for pair in pairs.values() if pair.is_live() for binding in pair.by_key.values()]


def _discard(index: dict[End, dict[End, Pair]], end: End, other: End) -> None:
    pairs = index.get(end)
    if pairs is not None and pairs.pop(other, None) is not None and not pairs:
        del index[end]


_NONE: dict[End, Pair] = {}
