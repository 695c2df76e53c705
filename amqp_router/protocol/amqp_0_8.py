"""AMQP 0-8 as a dialect of 0-9-1: what differs on the wire, changed where a connection reads and writes.

Publishes, deliveries, acknowledgements and contents have the same octets in both, so they pass as they are.
connection.close and close-ok have other numbers; basic.consume lacks its table, channel.open-ok its string.
What RabbitMQ added to 0-9-1 does not exist here: bindings between exchanges, basic.nack, confirms.

Source: AMQP 0-8; RabbitMQ's grammar of it, and its answers, measured on 3.10.8.
"""

from __future__ import annotations

from struct import Struct

from amqp_router.protocol.constants import FRAME_METHOD
from amqp_router.protocol.errors import CommandInvalid, cannot_decode
from amqp_router.protocol.message import make_frame
from amqp_router.protocol.methods import Method, encode

#: The header that clients send, and that of the specification as it was published.
HEADERS = (b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01")
#: The version in connection.start.
VERSION = (8, 0)

_IDS = Struct(">HH")
_CONSUME = (60, 20)
_CHANNEL_OPEN_OK = (20, 11)
#: connection.close and close-ok in 0-8, and in 0-9-1.
_CLOSES = {(10, 60): (10, 50), (10, 61): (10, 51)}
_CLOSES_BACK = {ids: moved for moved, ids in _CLOSES.items()}
#: Methods of 0-9-1 that 0-8 does not have.
_LATER = {
    *((10, number) for number in (51, 70, 71)),
    *((40, number) for number in (30, 31, 40, 51)),
    (60, 120),
    (85, 10),
    (85, 11),
}
#: Those of 0-8 that RabbitMQ reads and does not serve: connection.redirect, channel.alert, and the classes
#: file, stream, dtx, tunnel and test.
_UNSERVED = {
    (10, 50),
    (20, 30),
    *((70, number) for number in (10, 11, 20, 21, 30, 31, 40, 41, 50, 60, 70, 80, 90, 100)),
    *((80, number) for number in (10, 11, 20, 21, 30, 31, 40, 50, 60)),
    *((100, number) for number in (10, 11, 20, 21)),
    (110, 10),
    *((120, number) for number in (10, 11, 20, 21, 30, 31, 40, 41)),
}
#: A method that no client may send: exchange.declare-ok. It gets the answers that theirs get.
_UNEXPECTED = _IDS.pack(40, 11)


def as_0_9_1(payload: bytes) -> bytes:
    """The payload of a client's method frame, as 0-9-1 has it.

    Raises:
        CommandInvalid: 0-8 has no such method (503); RabbitMQ resets the socket in this case.
        FrameError: the arguments of basic.consume are malformed (501).
    """
    if len(payload) < _IDS.size:
        return payload
    ids = _IDS.unpack_from(payload)
    if ids == _CONSUME:
        return _with_table(payload)
    if ids in _CLOSES:
        return _IDS.pack(*_CLOSES[ids]) + payload[_IDS.size :]
    if ids in _UNSERVED:
        return _UNEXPECTED
    if ids in _LATER:
        class_id, method_id = ids
        text = f"unknown method {class_id}.{method_id}"
        raise CommandInvalid(text, class_id=class_id, method_id=method_id)
    return payload


def _with_table(payload: bytes) -> bytes:
    """basic.consume with an empty table behind its ticket, two short strings and an octet of bits."""
    at = _IDS.size + 2
    for _ in range(2):
        at += 1 + payload[at] if at < len(payload) else 1
    if at + 1 != len(payload):
        raise cannot_decode(payload[_IDS.size :], *_CONSUME)
    return payload + bytes(4)


def frame(channel: int, method: Method) -> bytes:
    """``method`` as a whole frame of 0-8 on ``channel``.

    Raises:
        FieldError: an argument is out of its type's range.
    """
    payload = encode(method)
    ids = _IDS.unpack_from(payload)
    if ids == _CHANNEL_OPEN_OK:
        payload = payload[: _IDS.size]
    elif ids in _CLOSES_BACK:
        payload = _IDS.pack(*_CLOSES_BACK[ids]) + payload[_IDS.size :]
    return make_frame(FRAME_METHOD, channel, payload)
