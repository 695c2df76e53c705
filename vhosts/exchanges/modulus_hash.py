"""Modulus-hash exchange, type ``x-modulus-hash``: messages with one routing key go to one of the bindings.

The hash of the routing keys, modulo the number of bindings, is the binding's place. A binding that comes or
goes therefore moves most keys; ``consistent_hash`` moves few.

Source: RabbitMQ's plugin rabbitmq_sharding; measured on 3.10.8.
"""

from __future__ import annotations

from vhosts.exchanges.exchange import Routable
from vhosts.exchanges.hashing import hash_of, joined
from vhosts.exchanges.one_of_many import OneOfMany


class ModulusHashExchange(OneOfMany):
    """Keys of the headers CC and BCC count as parts of the routing key."""

    def place(self, message: Routable, count: int) -> int:
        """See ``OneOfMany``."""
        return hash_of(joined(message.keys)) % count
