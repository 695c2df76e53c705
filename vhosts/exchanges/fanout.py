"""Fanout exchange: every message goes to every binding.

Source: AMQP 0-9-1, section 3.1.3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from vhosts.exchanges.exchange import BY_KEY, Binding, Exchange, ExchangeOptions, Routable
from vhosts.spread_map import SpreadMap


class FanoutExchange(Exchange):
    """A set of bindings."""

    decided_by = BY_KEY

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        self._bindings: SpreadMap[Binding, None] = SpreadMap()

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``. Key and arguments are ignored."""
        self._bindings[binding] = None

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        del self._bindings[binding]

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``."""
        return self._bindings.steady_keys()
