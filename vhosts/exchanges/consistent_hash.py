"""Consistent-hash exchange, type ``x-consistent-hash``: each message goes to one of the bound ends.

The hash of the routing key decides which, or that of a header (``hash-header``) or property
(``hash-property``). The binding key is the weight of its end: one with weight 2 gets twice as many messages
as one with weight 1. When an end comes, it takes only its own share of the messages from the others, and when
it goes, only its messages move.

The ends are compared by rendezvous hashing: each gets a number for the message, a hash of both, and the
highest one wins. A weight therefore takes no memory, however large it is.

An end that is bound more than once has the weight of its first binding.

Source: RabbitMQ's plugin rabbitmq_consistent_hash_exchange, errors measured on 3.10.8; Schindelhauer and
Schomaker, Weighted Distributed Hash Tables, SPAA 2005, for the weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import log
from typing import Unpack

from amqp_router.protocol.errors import PreconditionFailed, erlang_binary
from amqp_router.protocol.fields import TYPE_NAMES, Field
from amqp_router.protocol.properties import decode_properties
from vhosts.exchanges.exchange import (
    NOT_REPEATABLE,
    Binding,
    End,
    Exchange,
    ExchangeOptions,
    Routable,
    type_of,
)
from vhosts.exchanges.hashing import hash_of, joined
from vhosts.spread_map import SpreadMap

HEADER = "hash-header"
PROPERTY = "hash-property"
#: The properties that ``hash-property`` may name.
PROPERTIES = ("correlation_id", "message_id", "timestamp")

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_BITS = 0xFFFF_FFFF_FFFF_FFFF
#: Ends compared at once, each as much work as four visits of a walk.
_STEP = 64
_LOOKS_PER_END = 4


class Bucket:
    """One end, and its bindings with their weights in the order in which they were made."""

    __slots__ = ("end", "factor", "weight", "weights")

    def __init__(self, end: End) -> None:
        self.end = end
        #: Odd, so that a multiplication by it mixes all bits.
        self.factor = hash_of(f"{type_of(end)} {end.name}".encode("utf-8", "surrogateescape")) | 1
        self.weights: dict[Binding, int] = {}
        self.weight = 0.0

    def count(self) -> None:
        """Take the weight of the first binding."""
        self.weight = float(next(iter(self.weights.values())))


class ConsistentHashExchange(Exchange):
    """Keeps its bindings by the ends that they lead to."""

    decided_by = NOT_REPEATABLE

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        #: What is hashed, apart from the routing key.
        self._header = self._argument(HEADER)
        self._property = self._argument(PROPERTY)
        if self._header is not None and self._property is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        if self._property is not None and self._property not in PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {self._property}")
        self._buckets: SpreadMap[End, Bucket] = SpreadMap()

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``.

        Raises:
            PreconditionFailed: the key is no weight.
        """
        key = binding.routing_key
        if _INTEGER.fullmatch(key) is None:
            shown = erlang_binary(key.encode("utf-8", "surrogateescape"))
            raise PreconditionFailed(f"The binding key must be an integer: {shown}")
        weight = int(key)
        if weight <= 0:
            raise PreconditionFailed("The binding key must be greater than 0")
        bucket = self._buckets.get(binding.destination)
        if bucket is None:
            bucket = self._buckets[binding.destination] = Bucket(binding.destination)
        bucket.weights[binding] = weight
        bucket.count()

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        bucket = self._buckets[binding.destination]
        del bucket.weights[binding]
        if bucket.weights:
            bucket.count()
        else:
            del self._buckets[binding.destination]

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``."""
        number = hash_of(self._hashed(message))
        best: Bucket | None = None
        highest = 0.0
        for compared, end in enumerate(self._buckets.steady_keys(), 1):
            if compared % _STEP == 0:
                yield _STEP * _LOOKS_PER_END
            bucket = self._buckets.get(end)
            if bucket is None or end.deleted:
                continue
            score = log((number * bucket.factor & _BITS) + 1) - _LOG_OF_ALL
            score /= bucket.weight
            if best is None or score > highest:
                best, highest = bucket, score
        if best is not None and best.weights:
            yield next(iter(best.weights))

    def _hashed(self, message: Routable) -> bytes:
        """The octets that decide; none if the message has no such header or property."""
        if self._header is not None:
            return _octets(message.headers_named(self._header).get(self._header))
        if self._property is not None:
            value = decode_properties(message.properties, True).get(self._property, "")
            return str(value).encode("utf-8", "surrogateescape")
        return joined(message.keys)

    def _argument(self, name: str) -> str | None:
        if name not in self.arguments:
            return None
        tag, value = self.arguments[name]
        if tag != "S":
            raise PreconditionFailed(
                f"invalid type '{TYPE_NAMES[tag]}' for arg '{name}' in exchange '{self.name}'"
            )
        return str(value.decode("utf-8", "surrogateescape"))


def _octets(field: Field | None) -> bytes:
    """The value of a header. Numbers of every width are alike."""
    value = b"" if field is None else field[1]
    return value if isinstance(value, bytes) else repr(value).encode()


_LOG_OF_ALL = log(_BITS + 2)
