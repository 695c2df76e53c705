"""Headers exchange: a message matches the bindings whose arguments its headers match.

The argument ``x-match`` says how many must match: ``all`` (the default) or ``any`` of the other arguments
must be found among the headers with an equal value, or with any value if the argument is
void. Arguments that begin with ``x-`` count only
with ``all-with-x`` and ``any-with-x``; ``x-match`` itself never does.

Source: AMQP 0-9-1, section 3.1.3.4; details measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, repeat
from typing import Unpack

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import TYPE_NAMES, Table
from amqp_router.protocol.kept_table import Arguments, outer
from vhosts.errors import erlang
from vhosts.exchanges.exchange import BY_HEADERS, Binding, Exchange, ExchangeOptions, Routable
from vhosts.exchanges.headers_index import HeadersIndex

#: To decode the headers of properties from this size on counts as so many looks for each 512 octets.
LARGE_OCTETS = 4096
LOOKS_SHIFT = 9
LOOKS = 64
MODES = ("all", "any", "all-with-x", "any-with-x")


class HeadersExchange(Exchange):
    """Keeps its bindings in an index by the header values that they require."""

    decided_by = BY_HEADERS
    decodes_arguments = True

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        self._index = HeadersIndex()

    def bind(self, binding: Binding) -> None:
        """See ``Exchange``. The routing key is ignored.

        Raises:
            PreconditionFailed: ``x-match`` is none of ``MODES``.
        """
        arguments = outer(binding.arguments)  # once, as a large table would be decoded for each look-up
        mode = match_mode(arguments)
        self._index.insert(criteria(arguments, mode), mode.startswith("all"), binding)

    def unbind(self, binding: Binding) -> None:
        """See ``Exchange``."""
        self._index.remove(binding)

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``."""
        found = self._index.match(message.outer_headers())
        octets = len(message.properties)
        return found if octets < LARGE_OCTETS else chain(repeat(LOOKS, octets >> LOOKS_SHIFT), found)


def match_mode(arguments: Arguments) -> str:
    """The value of a binding's ``x-match``, one of ``MODES``.

    Raises:
        PreconditionFailed: it is something else.
    """
    tag, value = arguments.get("x-match", ("S", b"all"))
    if tag != "S":
        raise PreconditionFailed(
            f"Invalid x-match field type {TYPE_NAMES[tag]} (value {erlang(value)}); expected longstr"
        )
    mode = value.decode("utf-8", "surrogateescape")
    if mode not in MODES:
        raise PreconditionFailed(
            f"Invalid x-match field value {erlang(value)}; expected all, any, all-with-x, or any-with-x"
        )
    return str(mode)


def criteria(arguments: Arguments, mode: str) -> Table:
    """The arguments that a message's headers are compared with."""
    skipped = "x-match" if mode.endswith("-with-x") else "x-"
    return {
        name: field
        for name, field in arguments.items()
        if name != "x-match" and not (skipped == "x-" and name.startswith("x-"))
    }
