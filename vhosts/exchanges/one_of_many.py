"""Base of the exchange types that send each message to one of their bindings, whatever its routing key.

The bindings stand in the order of their ends, keys and arguments, so the same bindings have the same places
after a restart and on every node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Unpack

from vhosts.exchanges.exchange import NOT_REPEATABLE, Binding, BindingKey, Exchange, ExchangeOptions, Routable

#: Bindings to deleted queues and exchanges that are passed over at once.
_STEP = 512


class OneOfMany(Exchange):
    """A subclass says which one, by its place."""

    decided_by = NOT_REPEATABLE

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        self._bindings: list[Binding] = []

    def place(self, message: Routable, count: int) -> int:
        """The place of the binding that ``message`` goes to, of ``count``: 0 is the first."""
        raise NotImplementedError  # every type chooses in its own way; 0 would be a choice

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``. Key and arguments are ignored."""
        insort(self._bindings, binding, key=_key)

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        bindings = self._bindings
        at = bisect_left(bindings, _key(binding), key=_key)
        # Bindings of a deleted queue, and those of the new one of its name, have the same key for a while.
        while bindings[at] is not binding:
            at += 1
        del bindings[at]

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``. If the binding leads to what is being deleted, the next one is taken."""
        bindings = self._bindings
        count = len(bindings)
        start = self.place(message, count) if count else 0
        for passed in range(count):
            if passed % _STEP == _STEP - 1:
                yield _STEP
            if not bindings:
                return
            binding = bindings[(start + passed) % len(bindings)]
            if not binding.destination.deleted:
                yield binding
                return


def _key(binding: Binding) -> BindingKey:
    return binding.key
