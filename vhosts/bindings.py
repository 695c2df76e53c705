"""The index of bindings by source and by destination.

``Bindings`` has an index for both ends, so that the removal of an exchange or queue finds all bindings that
go with it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import islice

from persistence.memory import MemoryBudget
from vhosts.exchanges.exchange import Binding, End, Exchange
from vhosts.feed import SILENT, Feed
from vhosts.long_lists import unwatched
from vhosts.spread_map import Entries, SpreadMap, roomy


class Pair:
    """All bindings from ``source`` to ``destination``."""

    __slots__ = ("by_key", "destination", "source")

    def __init__(self, source: Exchange, destination: End) -> None:
        self.source = source
        self.destination = destination
        #: By routing key and encoded arguments.
        self.by_key: Entries[tuple[str, bytes], Binding] = {}

    def is_live(self) -> bool:
        """Whether both ends exist. Bindings of a deleted end are removed in slices and no longer count."""
        return not self.source.deleted and not self.destination.deleted

    def is_stored(self) -> bool:
        """Whether the definition store has these bindings."""
        return self.source.durable and self.destination.durable


class Bindings:
    """All bindings of a virtual host, except the implicit ones of the default exchange.

    The keys are the end objects, not their names, because an end that is deleted and declared again is
    another object.
    """

    def __init__(self, account: MemoryBudget) -> None:
        #: The node's account of memory.
        self.account = account
        #: By exchange: its pairs by their destination.
        self._by_source: SpreadMap[End, Entries[End, Pair]] = SpreadMap()
        #: By exchange or queue: its pairs by their source.
        self._by_destination: SpreadMap[End, Entries[End, Pair]] = SpreadMap()
        self._count = 0
        self._vhost = ""
        #: Hears of bindings, and of exchanges that are deleted.
        self.feed = SILENT

    def hear_by(self, vhost: str, feed: Feed) -> None:
        """Tell ``feed`` of the bindings of ``vhost`` that come and go from now on."""
        self._vhost, self.feed = vhost, feed

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Binding]:
        for pairs in self._by_source.values():
            for pair in pairs.values():
                if pair.is_live():
                    yield from pair.by_key.values()

    def each(self) -> Iterator[Binding]:
        """All bindings, also while they change: those that come or go meanwhile may be among them."""
        for pairs in unwatched(list(self._by_source.values())):
            yield from _each(pairs)

    def each_of_source(self, exchange: Exchange) -> Iterator[Binding]:
        """As ``each``, those that ``exchange`` routes by."""
        return _each(self._by_source.get(exchange, _NONE))

    def each_of_destination(self, destination: End) -> Iterator[Binding]:
        """As ``each``, those that lead to ``destination``."""
        return _each(self._by_destination.get(destination, _NONE))

    def between(self, source: Exchange, destination: End) -> list[Binding]:
        """The bindings by which ``source`` leads to ``destination``."""
        pair = self._by_source.get(source, _NONE).get(destination)
        return list(pair.by_key.values()) if pair is not None and pair.is_live() else []

    def find(self, like: Binding) -> Binding | None:
        """The binding that has the ends, the routing key and the arguments of ``like``."""
        pair = self._by_source.get(like.source, _NONE).get(like.destination)
        return None if pair is None else pair.by_key.get((like.routing_key, like.encoded))

    def add(self, binding: Binding) -> None:
        """Add ``binding``, which must not be there yet."""
        source, destination = binding.source, binding.destination
        pair = self._by_source.get(source, _NONE).get(destination)
        if pair is None:
            pair = Pair(source, destination)
            _enter(self._by_source, source, destination, pair)
            _enter(self._by_destination, destination, source, pair)
        key = (binding.routing_key, binding.encoded)
        assert key not in pair.by_key
        pair.by_key[key] = binding
        pair.by_key = roomy(pair.by_key)
        self._count += 1
        source.binding_count += 1
        self.account.kept += binding.memory_bytes()
        if self.feed.on:
            self.feed.binding(self._vhost, binding, is_new=True)

    def remove(self, binding: Binding) -> None:
        """Forget ``binding``."""
        pair = self._by_source[binding.source][binding.destination]
        del pair.by_key[binding.routing_key, binding.encoded]
        self._count -= 1
        pair.source.binding_count -= 1
        self.account.kept -= binding.memory_bytes()
        if self.feed.on:
            self.feed.binding(self._vhost, binding, is_new=False)
        if not pair.by_key:
            self.forget(pair)

    def pairs_of(self, end: End, limit: int) -> tuple[list[Pair], list[Pair]]:
        """The pairs with ``end`` as source, and those with ``end`` as destination and another source.

        At most ``limit`` of each kind. Pairs with a deleted end are left out.
        """
        away = self._by_source.get(end, _NONE).values()
        here = self._by_destination.get(end, _NONE).values()
        return (
            list(islice((pair for pair in away if pair.is_live()), limit)),
            list(islice((pair for pair in here if pair.source is not end and pair.is_live()), limit)),
        )

    def take(self, end: End) -> tuple[Entries[End, Pair], Entries[End, Pair]]:
        """Remove the index of ``end``, which is being deleted: its pairs as source, those as destination.

        The index of the other ends keeps them until ``pop_from`` has emptied them and ``forget`` was called.
        Pairs whose other end is deleted, too, are among them.
        """
        if self.feed.on and isinstance(end, Exchange):
            self.feed.exchange(self._vhost, end, is_new=False)
        return self._by_source.pop(end, None) or {}, self._by_destination.pop(end, None) or {}

    def pop_from(self, pair: Pair) -> Binding:
        """Remove and return a binding of ``pair``, which must not be empty."""
        self._count -= 1
        pair.source.binding_count -= 1
        binding = pair.by_key.popitem()[1]
        self.account.kept -= binding.memory_bytes()
        if self.feed.on:
            goes_with_queue = not binding.source.deleted
            self.feed.binding(self._vhost, binding, is_new=False, goes_with_queue=goes_with_queue)
        return binding

    def forget(self, pair: Pair) -> None:
        """Remove ``pair``, which is empty, from the index. Nothing happens if it is not there."""
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
        """Whether ``binding``, which must be here, is the only binding of its source."""
        source, destination = binding.source, binding.destination
        has_others = len(self._by_source[source][destination].by_key) > 1
        return not has_others and not self.has_source(source, without=(destination,))


def _live(pairs: Entries[End, Pair]) -> list[Binding]:
    return [binding for pair in pairs.values() if pair.is_live() for binding in pair.by_key.values()]


def _each(pairs: Entries[End, Pair]) -> Iterator[Binding]:
    for pair in unwatched(list(pairs.values())):
        if pair.is_live():
            yield from list(pair.by_key.values())


def _enter(index: SpreadMap[End, Entries[End, Pair]], end: End, other: End, pair: Pair) -> None:
    pairs = index.setdefault(end, {})
    pairs[other] = pair
    roomier = roomy(pairs)
    if roomier is not pairs:
        index[end] = roomier


def _discard(index: SpreadMap[End, Entries[End, Pair]], end: End, other: End) -> None:
    pairs = index.get(end)
    if pairs is not None and pairs.pop(other, None) is not None and not pairs:
        del index[end]


_NONE: dict[End, Pair] = {}
