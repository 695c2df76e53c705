"""The methods of AMQP 0-9-1 and of RabbitMQ's extensions, one class each.

``METHODS`` maps (class id, method id) to the class. Reserved arguments are left out; they are written as
zero or empty and ignored when read. Short strings are str (UTF-8 with surrogateescape: any octets encode
back to themselves), long strings bytes, tables as ``fields`` has them.

Source: AMQP 0-9-1, part 3 (the XML grammar's field order); RabbitMQ, "Protocol Extensions" (exchange.bind and
unbind, basic.nack, confirm, connection.blocked, update-secret).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, TypeVar, dataclass_transform

from amqp_router.protocol.constants import FRAME_END, FRAME_METHOD
from amqp_router.protocol.errors import (
    MALFORMED_TEXT,
    CommandInvalid,
    FieldError,
    FrameError,
    cannot_decode,
    malformed_frame,
)
from amqp_router.protocol.kept_table import Arguments
from amqp_router.protocol.method_wire import Layout

_IDS = struct.Struct(">HH")
_FRAME_HEADER = struct.Struct(">BHI")


class Method:
    """What all methods have. Equal if of one class with equal arguments; never changed once made.

    Secrets do not show in the representation, so a method may be logged.
    """

    __slots__ = ()

    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    #: As error texts name it: ``"queue.declare"``.
    NAME: ClassVar[str]
    #: Whether a content header and body follow it.
    HAS_CONTENT: ClassVar[bool]
    LAYOUT: ClassVar[Layout]
    #: Names of the arguments in the layout's order.
    ARGUMENTS: ClassVar[tuple[str, ...]]


METHODS: dict[tuple[int, int], type[Method]] = {}


def decode_method(payload: bytes) -> Method:
    """The method in the payload of a method frame.

    Raises:
        CommandInvalid: there is no such method (503); RabbitMQ resets the socket in this case.
        FrameError: the arguments are malformed, or the payload is too short for the ids (501).
    """
    if len(payload) < _IDS.size:
        raise malformed_frame(FRAME_METHOD, payload)
    ids = _IDS.unpack_from(payload)
    cls = METHODS.get(ids)
    if cls is None:
        class_id, method_id = ids
        text = f"unknown method {class_id}.{method_id}"
        raise CommandInvalid(text, class_id=class_id, method_id=method_id)
    try:
        return cls(*cls.LAYOUT.decode(payload, _IDS.size))
    except FieldError as error:
        raise cannot_decode(payload[_IDS.size :], *ids) from error


def check_texts(method: Method) -> None:
    """Check that the short strings of a client's method are UTF-8.

    The codec accepts any octets, because reply texts may be cut in the middle of a character.

    Raises:
        FrameError: one is not (501), with RabbitMQ's text.
    """
    for argument in method.ARGUMENTS:
        text = getattr(method, argument)
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise FrameError(MALFORMED_TEXT) from error


def encode(method: Method) -> bytes:
    """``method`` as the payload of a method frame.

    Raises:
        FieldError: an argument is out of its type's range.
    """
    out = bytearray()
    _append(out, method)
    return bytes(out)


def frame(channel: int, method: Method) -> bytes:
    """``method`` as a whole frame on ``channel``.

    Raises:
        FieldError: an argument is out of its type's range.
    """
    out = bytearray(_FRAME_HEADER.size)
    _append(out, method)
    _FRAME_HEADER.pack_into(out, 0, FRAME_METHOD, channel, len(out) - _FRAME_HEADER.size)
    out.append(FRAME_END)
    return bytes(out)


def _append(out: bytearray, method: Method) -> None:
    out += _IDS.pack(method.CLASS_ID, method.METHOD_ID)
    method.LAYOUT.encode(out, [getattr(method, name) for name in method.ARGUMENTS])


_M = TypeVar("_M", bound=Method)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _method(
    class_id: int, method_id: int, name: str, layout: str = "", *, content: bool = False
) -> Callable[[type[_M]], type[_M]]:
    """Make a class the method of these ids; ``layout`` as in ``method_wire``."""

    def register(plain_cls: type[_M]) -> type[_M]:
        cls = dataclasses.dataclass(frozen=True, slots=True)(plain_cls)
        cls.CLASS_ID = class_id
        cls.METHOD_ID = method_id
        cls.NAME = name
        cls.HAS_CONTENT = content
        cls.LAYOUT = Layout(layout)
        cls.ARGUMENTS = tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]  # one by now
        METHODS[class_id, method_id] = cls
        return cls

    return register


@_method(10, 10, "connection.start", "octet octet table longstr longstr")
class ConnectionStart(Method):
    version_major: int = 0
    version_minor: int = 9
    server_properties: Arguments = field(default_factory=dict)
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


@_method(10, 11, "connection.start-ok", "table shortstr longstr shortstr")
class ConnectionStartOk(Method):
    client_properties: Arguments = field(default_factory=dict)
    mechanism: str = "PLAIN"
    response: bytes = field(default=b"", repr=False)
    locale: str = "en_US"


@_method(10, 20, "connection.secure", "longstr")
class ConnectionSecure(Method):
    challenge: bytes = b""


@_method(10, 21, "connection.secure-ok", "longstr")
class ConnectionSecureOk(Method):
    response: bytes = field(default=b"", repr=False)


@_method(10, 30, "connection.tune", "short long short")
class ConnectionTune(Method):
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@_method(10, 31, "connection.tune-ok", "short long short")
class ConnectionTuneOk(Method):
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@_method(10, 40, "connection.open", "shortstr (shortstr) (bit)")
class ConnectionOpen(Method):
    virtual_host: str = "/"


@_method(10, 41, "connection.open-ok", "(shortstr)")
class ConnectionOpenOk(Method):
    pass


@_method(10, 50, "connection.close", "short shortstr short short")
class ConnectionClose(Method):
    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@_method(10, 51, "connection.close-ok")
class ConnectionCloseOk(Method):
    pass


@_method(10, 60, "connection.blocked", "shortstr")
class ConnectionBlocked(Method):
    """RabbitMQ's extension: the server stops reading this connection."""

    reason: str = ""


@_method(10, 61, "connection.unblocked")
class ConnectionUnblocked(Method):
    pass


@_method(10, 70, "connection.update-secret", "longstr shortstr")
class ConnectionUpdateSecret(Method):
    """RabbitMQ's extension: fresh credentials for a long-lived connection."""

    new_secret: bytes = field(default=b"", repr=False)
    reason: str = ""


@_method(10, 71, "connection.update-secret-ok")
class ConnectionUpdateSecretOk(Method):
    pass


@_method(20, 10, "channel.open", "(shortstr)")
class ChannelOpen(Method):
    pass


@_method(20, 11, "channel.open-ok", "(longstr)")
class ChannelOpenOk(Method):
    pass


@_method(20, 20, "channel.flow", "bit")
class ChannelFlow(Method):
    active: bool = True


@_method(20, 21, "channel.flow-ok", "bit")
class ChannelFlowOk(Method):
    active: bool = True


@_method(20, 40, "channel.close", "short shortstr short short")
class ChannelClose(Method):
    reply_code: int = 200
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@_method(20, 41, "channel.close-ok")
class ChannelCloseOk(Method):
    pass


@_method(30, 10, "access.request", "shortstr bit bit bit bit bit")
class AccessRequest(Method):
    """Left from AMQP 0-8; RabbitMQ still answers it."""

    realm: str = "/data"
    exclusive: bool = False
    passive: bool = True
    active: bool = True
    write: bool = True
    read: bool = True


@_method(30, 11, "access.request-ok", "short")
class AccessRequestOk(Method):
    ticket: int = 1


@_method(40, 10, "exchange.declare", "(short) shortstr shortstr bit bit bit bit bit table")
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


@_method(40, 11, "exchange.declare-ok")
class ExchangeDeclareOk(Method):
    pass


@_method(40, 20, "exchange.delete", "(short) shortstr bit bit")
class ExchangeDelete(Method):
    exchange: str = ""
    if_unused: bool = False
    nowait: bool = False


@_method(40, 21, "exchange.delete-ok")
class ExchangeDeleteOk(Method):
    pass


@_method(40, 30, "exchange.bind", "(short) shortstr shortstr shortstr bit table")
class ExchangeBind(Method):
    """RabbitMQ's extension: messages that match this binding at ``source`` go to ``destination`` too."""

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@_method(40, 31, "exchange.bind-ok")
class ExchangeBindOk(Method):
    pass


@_method(40, 40, "exchange.unbind", "(short) shortstr shortstr shortstr bit table")
class ExchangeUnbind(Method):
    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@_method(40, 51, "exchange.unbind-ok")
class ExchangeUnbindOk(Method):
    """40.51, not 40.41."""


@_method(50, 10, "queue.declare", "(short) shortstr bit bit bit bit bit table")
class QueueDeclare(Method):
    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@_method(50, 11, "queue.declare-ok", "shortstr long long")
class QueueDeclareOk(Method):
    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


@_method(50, 20, "queue.bind", "(short) shortstr shortstr shortstr bit table")
class QueueBind(Method):
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@_method(50, 21, "queue.bind-ok")
class QueueBindOk(Method):
    pass


@_method(50, 30, "queue.purge", "(short) shortstr bit")
class QueuePurge(Method):
    queue: str = ""
    nowait: bool = False


@_method(50, 31, "queue.purge-ok", "long")
class QueuePurgeOk(Method):
    message_count: int = 0


@_method(50, 40, "queue.delete", "(short) shortstr bit bit bit")
class QueueDelete(Method):
    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    nowait: bool = False


@_method(50, 41, "queue.delete-ok", "long")
class QueueDeleteOk(Method):
    message_count: int = 0


@_method(50, 50, "queue.unbind", "(short) shortstr shortstr shortstr table")
class QueueUnbind(Method):
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Arguments = field(default_factory=dict)


@_method(50, 51, "queue.unbind-ok")
class QueueUnbindOk(Method):
    pass


@_method(60, 10, "basic.qos", "long short bit")
class BasicQos(Method):
    """``prefetch_size`` in octets, 0 for no limit; ``is_global`` is ``global``, a word Python keeps."""

    prefetch_size: int = 0
    prefetch_count: int = 0
    is_global: bool = False


@_method(60, 11, "basic.qos-ok")
class BasicQosOk(Method):
    pass


@_method(60, 20, "basic.consume", "(short) shortstr shortstr bit bit bit bit table")
class BasicConsume(Method):
    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    nowait: bool = False
    arguments: Arguments = field(default_factory=dict)


@_method(60, 21, "basic.consume-ok", "shortstr")
class BasicConsumeOk(Method):
    consumer_tag: str = ""


@_method(60, 30, "basic.cancel", "shortstr bit")
class BasicCancel(Method):
    """The server sends it too when it ends a consumer, to clients with that capability."""

    consumer_tag: str = ""
    nowait: bool = False


@_method(60, 31, "basic.cancel-ok", "shortstr")
class BasicCancelOk(Method):
    consumer_tag: str = ""


@_method(60, 40, "basic.publish", "(short) shortstr shortstr bit bit", content=True)
class BasicPublish(Method):
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


@_method(60, 50, "basic.return", "short shortstr shortstr shortstr", content=True)
class BasicReturn(Method):
    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""


@_method(60, 60, "basic.deliver", "shortstr longlong bit shortstr shortstr", content=True)
class BasicDeliver(Method):
    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


@_method(60, 70, "basic.get", "(short) shortstr bit")
class BasicGet(Method):
    queue: str = ""
    no_ack: bool = False


@_method(60, 71, "basic.get-ok", "longlong bit shortstr shortstr long", content=True)
class BasicGetOk(Method):
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


@_method(60, 72, "basic.get-empty", "(shortstr)")
class BasicGetEmpty(Method):
    pass


@_method(60, 80, "basic.ack", "longlong bit")
class BasicAck(Method):
    delivery_tag: int = 0
    multiple: bool = False


@_method(60, 90, "basic.reject", "longlong bit")
class BasicReject(Method):
    delivery_tag: int = 0
    requeue: bool = True


@_method(60, 100, "basic.recover-async", "bit")
class BasicRecoverAsync(Method):
    """``recover`` without an answer."""

    requeue: bool = False


@_method(60, 110, "basic.recover", "bit")
class BasicRecover(Method):
    requeue: bool = False


@_method(60, 111, "basic.recover-ok")
class BasicRecoverOk(Method):
    pass


@_method(60, 120, "basic.nack", "longlong bit bit")
class BasicNack(Method):
    """RabbitMQ's extension; sent by the server too, in confirm mode."""

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True


@_method(85, 10, "confirm.select", "bit")
class ConfirmSelect(Method):
    """RabbitMQ's extension."""

    nowait: bool = False


@_method(85, 11, "confirm.select-ok")
class ConfirmSelectOk(Method):
    pass


@_method(90, 10, "tx.select")
class TxSelect(Method):
    pass


@_method(90, 11, "tx.select-ok")
class TxSelectOk(Method):
    pass


@_method(90, 20, "tx.commit")
class TxCommit(Method):
    pass


@_method(90, 21, "tx.commit-ok")
class TxCommitOk(Method):
    pass


@_method(90, 30, "tx.rollback")
class TxRollback(Method):
    pass


@_method(90, 31, "tx.rollback-ok")
class TxRollbackOk(Method):
    pass
