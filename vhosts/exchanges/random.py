"""Random exchange, type ``x-random``: each message goes to one of the bindings, each as likely as any other.

Source: RabbitMQ's plugin rabbitmq_random_exchange; measured on 3.10.8.
"""

from __future__ import annotations

import zlib
from typing import Unpack

from vhosts.exchanges.exchange import ExchangeOptions, Routable
from vhosts.exchanges.one_of_many import OneOfMany

_BITS = 0xFFFF_FFFF_FFFF_FFFF


class RandomExchange(OneOfMany):
    """Draws by a generator of its own, so that a simulated run can be repeated. Nobody relies on its secrecy.

    Source of the constants: Knuth, The Art of Computer Programming, volume 2, section 3.3.4 (MMIX).
    """

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        self._state = zlib.crc32(name.encode("utf-8", "surrogateescape"))

    def place(self, message: Routable, count: int) -> int:
        """See ``OneOfMany``."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _BITS
        return (self._state >> 32) * count >> 32
