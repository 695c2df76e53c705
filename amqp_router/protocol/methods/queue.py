"""The methods of class queue (50).

Source: AMQP 0-9-1, class queue.
"""

from __future__ import annotations

from dataclasses import field

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.methods.method import Method, method


@method(50, 10, "queue.declare", "(short) shortstr bit bit bit bit bit table")
class QueueDeclare(Method):
    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@method(50, 11, "queue.declare-ok", "shortstr long long")
class QueueDeclareOk(Method):
    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


@method(50, 20, "queue.bind", "(short) shortstr shortstr shortstr bit table")
class QueueBind(Method):
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@method(50, 21, "queue.bind-ok")
class QueueBindOk(Method):
    pass


@method(50, 30, "queue.purge", "(short) shortstr bit")
class QueuePurge(Method):
    queue: str = ""
    nowait: bool = False


@method(50, 31, "queue.purge-ok", "long")
class QueuePurgeOk(Method):
    message_count: int = 0


@method(50, 40, "queue.delete", "(short) shortstr bit bit bit")
class QueueDelete(Method):
    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    nowait: bool = False


@method(50, 41, "queue.delete-ok", "long")
class QueueDeleteOk(Method):
    message_count: int = 0


@method(50, 50, "queue.unbind", "(short) shortstr shortstr shortstr table")
class QueueUnbind(Method):
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Arguments = field(default_factory=dict)


@method(50, 51, "queue.unbind-ok")
class QueueUnbindOk(Method):
    pass
