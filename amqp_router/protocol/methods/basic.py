"""The methods of class basic (60).

Source: AMQP 0-9-1, class basic; RabbitMQ, "Protocol Extensions" (basic.nack).
"""

from __future__ import annotations

from dataclasses import field

from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.methods.method import Method, method


@method(60, 10, "basic.qos", "long short bit")
class BasicQos(Method):
    """``prefetch_size`` in octets, 0 for no limit; ``is_global`` is ``global``, a word Python keeps."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    is_global: bool = False


@method(60, 11, "basic.qos-ok")
class BasicQosOk(Method):
    pass


@method(60, 20, "basic.consume", "(short) shortstr shortstr bit bit bit bit table")
class BasicConsume(Method):
    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@method(60, 21, "basic.consume-ok", "shortstr")
class BasicConsumeOk(Method):
    consumer_tag: str = ""


@method(60, 30, "basic.cancel", "shortstr bit")
class BasicCancel(Method):
    """The server sends it too when it ends a consumer, to clients with that capability."""

    consumer_tag: str = ""
    nowait: bool = False


@method(60, 31, "basic.cancel-ok", "shortstr")
class BasicCancelOk(Method):
    consumer_tag: str = ""


@method(60, 40, "basic.publish", "(short) shortstr shortstr bit bit", content=True)
class BasicPublish(Method):
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


@method(60, 50, "basic.return", "short shortstr shortstr shortstr", content=True)
class BasicReturn(Method):
    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""


@method(60, 60, "basic.deliver", "shortstr longlong bit shortstr shortstr", content=True)
class BasicDeliver(Method):
    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


@method(60, 70, "basic.get", "(short) shortstr bit")
class BasicGet(Method):
    queue: str = ""
    no_ack: bool = False


@method(60, 71, "basic.get-ok", "longlong bit shortstr shortstr long", content=True)
class BasicGetOk(Method):
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


@method(60, 72, "basic.get-empty", "(shortstr)")
class BasicGetEmpty(Method):
    pass


@method(60, 80, "basic.ack", "longlong bit")
class BasicAck(Method):
    delivery_tag: int = 0
    multiple: bool = False


@method(60, 90, "basic.reject", "longlong bit")
class BasicReject(Method):
    delivery_tag: int = 0
    requeue: bool = True


@method(60, 100, "basic.recover-async", "bit")
class BasicRecoverAsync(Method):
    """``recover`` without an answer."""

    requeue: bool = False


@method(60, 110, "basic.recover", "bit")
class BasicRecover(Method):
    requeue: bool = False


@method(60, 111, "basic.recover-ok")
class BasicRecoverOk(Method):
    pass


@method(60, 120, "basic.nack", "longlong bit bit")
class BasicNack(Method):
    """RabbitMQ's extension; sent by the server too, in confirm mode."""

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True
