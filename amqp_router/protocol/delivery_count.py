"""The header ``x-delivery-count``, with which a quorum queue delivers its messages.

It says how often the message came back to its queue, as a signed 64-bit integer. ``basic.get`` always gives
it; a consumer gets it from the first return on. It is no part of the message: what a publisher sent by that
name is replaced for the delivery only, and a dead letter still has it.

Source: RabbitMQ, "Quorum Queues", poison message handling; type and place as measured with 3.10.8.
"""

from __future__ import annotations

from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.flags import HAS_HEADERS
from amqp_router.protocol.nested import without_entry
from amqp_router.protocol.properties import header_range

_NAME = b"x-delivery-count"
#: The field up to its value: short string and type.
_FIELD = b"%c%bl" % (len(_NAME), _NAME)
_HEADERS = HAS_HEADERS >> 8  # in the first octet of the flags


def with_count(properties: bytes, count: int) -> bytes:
    """``properties`` with the header.

    Raises:
        FieldError: they are malformed.
    """
    field = _FIELD + count.to_bytes(8, "big")
    start, end = header_range(properties)
    if not end:
        start = _headers_place(properties)
        table = len(field).to_bytes(4, "big") + field
        return b"%c%b%b%b" % (properties[0] | _HEADERS, properties[1:start], table, properties[start:])
    if _NAME in properties[start:end]:
        rest = without_entry(properties[start:end], _NAME)
        if rest is None:
            raise FieldError("the headers are malformed")
        properties = properties[:start] + rest + properties[end:]
        end = start + len(rest)
    size = end - start - 4 + len(field)
    return b"%b%b%b%b%b" % (
        properties[:start], size.to_bytes(4, "big"), properties[start + 4 : end], field, properties[end:]
    )  # fmt: skip


def _headers_place(properties: bytes) -> int:
    """Where the headers table would begin: behind content_type and content_encoding."""
    position = 2
    for flag in (0x80, 0x40):
        if properties[0] & flag:
            position += 1 + properties[position]
    return position
