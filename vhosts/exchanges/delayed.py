"""Delayed-message exchange, type ``x-delayed-message``: it keeps a message for the time that its header
``x-delay`` says, in ms, and routes it then as an exchange of the type ``x-delayed-type`` does.

A delayed message goes to an internal queue of the exchange (``vhosts.queues.delayed``), which publishes it
here again when it is due, with the delay negated; so it is not delayed again, and its consumer can see that
it was.

Source: README of RabbitMQ's plugin rabbitmq_delayed_message_exchange; docs/exchanges.md has the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Unpack

from amqp_router.protocol.errors import CommandInvalid, PreconditionFailed
from amqp_router.protocol.fields import Table, plain
from amqp_router.protocol.message import Message
from amqp_router.protocol.properties import headers_named
from vhosts.exchanges.exchange import (
    NOT_REPEATABLE,
    Binding,
    Exchange,
    ExchangeOptions,
    Routable,
    Surroundings,
)

TYPE = "x-delayed-message"
TYPE_ARGUMENT = "x-delayed-type"
DELAY = "x-delay"
#: The longest delay in ms, 49 days; a longer one is none.
DELAY_MAX = 0xFFFF_FFFF

_INTEGER_TAGS = frozenset("bBsuIilL")
_FLOAT_TAGS = frozenset("fdD")


class DelayedExchange(Exchange):
    """Leaves everything but the delay to an exchange of another type, which has its bindings."""

    decided_by = NOT_REPEATABLE
    #: All exchange types, by name.
    types: ClassVar[Mapping[str, type[Exchange]]]

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        tag, value = self.arguments.get(TYPE_ARGUMENT, ("V", None))
        if tag != "S" or value == TYPE.encode():
            raise PreconditionFailed(f"Invalid argument, '{TYPE_ARGUMENT}' must be an existing exchange type")
        self.delayed_type = str(value.decode("utf-8", "surrogateescape"))
        cls = self.types.get(self.delayed_type)
        if cls is None:
            raise CommandInvalid(f"unknown exchange type '{self.delayed_type}'")
        self._inner = cls(name, self.delayed_type, **options)
        self.keeps = self._inner.keeps
        self.decodes_arguments = self._inner.decodes_arguments
        self._surroundings: Surroundings | None = None
        #: To the internal queue: always the same one, because the routing log knows routes by their bindings.
        self._to_queue: Binding | None = None

    def memory_bytes(self) -> int:
        """See ``Exchange``."""
        return super().memory_bytes() + self._inner.memory_bytes()

    def key_bytes(self, routing_key: str) -> int:
        """See ``Exchange``."""
        return self._inner.key_bytes(routing_key)

    def enter(self, surroundings: Surroundings) -> None:
        """See ``Exchange``."""
        self._surroundings = surroundings
        self._inner.enter(surroundings)

    def leave(self) -> None:
        """See ``Exchange``. What is delayed is gone, too."""
        if self._surroundings is not None:
            self._surroundings.drop_delay_queue(self)

    def keep(self, message: Message) -> None:
        """See ``Exchange``. A message that is delayed comes again."""
        if not self.deleted and not delay_ms(headers_named(message.properties(), DELAY)):
            self._inner.keep(message)

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        self._inner.bind(binding)

    def bound(self, binding: Binding) -> None:
        """See ``Exchange``."""
        self._inner.bound(binding)

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        self._inner.unbind(binding)

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``. A message that is delayed goes to the internal queue.

        Raises:
            PreconditionFailed: ``x-delay`` is a text and no number (406).
            InternalError: the internal queue cannot be declared (541).
        """
        if delay_ms(message.headers_named(DELAY)) and self._surroundings is not None:
            queue = self._surroundings.delay_queue(self)
            if self._to_queue is None or self._to_queue.destination is not queue:
                self._to_queue = Binding(self, queue, "", {})
            return [self._to_queue]
        return self._inner.route(message)


def delay_ms(headers: Table) -> int:
    """How long a message with these headers is to be delayed; 0 for not at all.

    Raises:
        PreconditionFailed: the header is a text and no number (406).
    """
    found = _delay(headers)
    return found if found is not None and 0 < found <= DELAY_MAX else 0


def without_delay(headers: Table) -> Table:
    """The headers of a message that was delayed long enough."""
    found = _delay(headers)
    return headers if found is None else {**headers, DELAY: ("l" if found > 0x7FFF_FFFF else "I", -found)}


def _delay(headers: Table) -> int | None:
    if DELAY not in headers:
        return None
    tag, value = headers[DELAY]
    if tag in _INTEGER_TAGS:
        return int(value)
    if tag == "S":
        try:
            return int(value)
        except ValueError:
            shown = value[:100].decode("utf-8", "replace")
            raise PreconditionFailed(f"invalid {DELAY} '{shown}': no_integer") from None
    if tag in _FLOAT_TAGS:
        number = plain({DELAY: (tag, value)})[DELAY]
        return int(number) if abs(number) <= DELAY_MAX + 1 else None  # infinite or NaN
    return None
