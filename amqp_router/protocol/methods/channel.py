"""The methods of the classes channel (20) and access (30).

Source: AMQP 0-9-1, class channel; AMQP 0-8, class access, which old clients still use.
"""

from __future__ import annotations

from amqp_router.protocol.methods.method import Method, method


@method(20, 10, "channel.open", "(shortstr)")
class ChannelOpen(Method):
    pass


@method(20, 11, "channel.open-ok", "(longstr)")
class ChannelOpenOk(Method):
    pass


@method(20, 20, "channel.flow", "bit")
class ChannelFlow(Method):
    active: bool = True


@method(20, 21, "channel.flow-ok", "bit")
class ChannelFlowOk(Method):
    active: bool = True


@method(20, 40, "channel.close", "short shortstr short short")
class ChannelClose(Method):
    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@method(20, 41, "channel.close-ok")
class ChannelCloseOk(Method):
    pass


@method(30, 10, "access.request", "shortstr bit bit bit bit bit")
class AccessRequest(Method):
    """Left from AMQP 0-8; RabbitMQ still answers it."""

    realm: str = "/data"
    exclusive: bool = False
    passive: bool = True
    active: bool = True
    write: bool = True
    read: bool = True


@method(30, 11, "access.request-ok", "short")
class AccessRequestOk(Method):
    ticket: int = 1
