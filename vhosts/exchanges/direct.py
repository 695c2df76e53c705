"""Direct exchange: a message matches the bindings whose routing key equals its own.

Source: AMQP 0-9-1, section 3.1.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

from vhosts.exchanges.exchange import BY_KEY, Binding, Exchange, ExchangeOptions, Routable
from vhosts.spread_map import Entries, SpreadMap, roomy, steady_keys

_NONE: Entries[Binding, None] = {}


class DirectExchange(Exchange):
    """Bindings by routing key."""

    decided_by = BY_KEY

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        #: By routing key, each a dict or a map that is grown from one.
        self._by_key: SpreadMap[str, Entries[Binding, None]] = SpreadMap()

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``. Any key is legal; arguments are ignored."""
        same_key = self._by_key.setdefault(binding.routing_key, {})
        same_key[binding] = None
        roomier = roomy(same_key)
        if roomier is not same_key:
            self._by_key[binding.routing_key] = roomier

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        same_key = self._by_key[binding.routing_key]
        del same_key[binding]
        if not same_key:
            del self._by_key[binding.routing_key]

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``."""
        if len(message.keys) == 1:
            return steady_keys(self._by_key.get(message.keys[0], _NONE))
        return self._route_keys(message.keys)

    def _route_keys(self, keys: list[str]) -> Iterator[Binding | int]:
        """The bindings of each; one that nobody is bound by is a visit, too: CC may have 20,000 of them."""
        for key in keys:
            found = self._by_key.get(key)
            if found is None:
                yield 1
            else:
                yield from steady_keys(found)
