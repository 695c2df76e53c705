"""Topic exchange: a message matches the bindings whose pattern of words its routing key matches.

Source: AMQP 0-9-1, section 3.1.3.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Unpack

from vhosts.exchanges.exchange import BY_KEY, Binding, Exchange, ExchangeOptions, Routable
from vhosts.exchanges.topic_trie import TopicTrie

#: Memory of a node of the trie; measured.
WORD_BYTES = 370


class TopicExchange(Exchange):
    """Keeps its bindings in a trie of the words of their patterns."""

    decided_by = BY_KEY

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        self._trie = TopicTrie()

    def key_bytes(self, routing_key: str) -> int:
        """See ``Exchange``. Every word may be a node of the trie by itself."""
        return WORD_BYTES * (routing_key.count(".") + 1)

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``. Any key is a legal pattern; arguments are ignored."""
        self._trie.insert(binding.routing_key, binding)

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        self._trie.remove(binding.routing_key, binding)

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``."""
        if len(message.keys) == 1:
            return self._trie.match(message.keys[0])
        return chain.from_iterable(map(self._trie.match, message.keys))
