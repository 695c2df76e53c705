"""The methods of class exchange (40).

Source: AMQP 0-9-1, class exchange; RabbitMQ, "Protocol Extensions" (exchange.bind and unbind).
"""

from __future__ import annotations

from dataclasses import field

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.methods.method import Method, method


@method(40, 10, "exchange.declare", "(short) shortstr shortstr bit bit bit bit bit table")
class ExchangeDeclare(Method):
    """``auto_delete`` and ``internal`` are reserved in the specification; RabbitMQ uses them."""

    exchange: str = ""
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@method(40, 11, "exchange.declare-ok")
class ExchangeDeclareOk(Method):
    pass


@method(40, 20, "exchange.delete", "(short) shortstr bit bit")
class ExchangeDelete(Method):
    exchange: str = ""
    if_unused: bool = False
    nowait: bool = False


@method(40, 21, "exchange.delete-ok")
class ExchangeDeleteOk(Method):
    pass


@method(40, 30, "exchange.bind", "(short) shortstr shortstr shortstr bit table")
class ExchangeBind(Method):
    """RabbitMQ's extension: messages that match this binding at ``source`` go to ``destination`` too."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@method(40, 31, "exchange.bind-ok")
class ExchangeBindOk(Method):
    pass


@method(40, 40, "exchange.unbind", "(short) shortstr shortstr shortstr bit table")
class ExchangeUnbind(Method):
    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@method(40, 51, "exchange.unbind-ok")
class ExchangeUnbindOk(Method):
    """40.51, not 40.41."""
