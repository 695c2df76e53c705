"""Direct exchange: a message matches the bindings whose routing key equals its own.

Source: AMQP 0-9-1, section 3.1.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from vhosts.exchanges.exchange import BY_KEY, Exchange, Routable

if TYPE_CHECKING:
    from vhosts.bindings import Binding


class DirectExchange(Exchange):
    """Bindings by routing key."""

    decided_by = BY_KEY

    def __init__(self, name: str, type_name: str, **options: Any) -> None:
        super().__init__(name, type_name, **options)
        self._by_key: dict[str, dict[Binding, None]] = {}

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``. Any key is legal; arguments are ignored."""
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        same_key = self._by_key[binding.routing_key]
        del same_key[binding]
        if not same_key:
            del self._by_key[binding.routing_key]

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``."""
        if len(message.keys) == 1:
            return list(self._by_key.get(message.keys[0], ()))
        return list(chain.from_iterable([self._by_key.get(key, ()) for key in message.keys]))
