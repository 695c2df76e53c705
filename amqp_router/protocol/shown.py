"""A message as a client gets it, where that is not as its queue keeps it.

A queue keeps the header ``BCC``, because dead letters are routed by its keys, too. No client sees it. A
quorum queue adds the header ``x-delivery-count``.

Source: RabbitMQ, "Sender-selected Distribution"; dead letters go by the keys of BCC as measured with 3.10.8.
"""

from __future__ import annotations

from amqp_router.protocol.delivery_count import with_count
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.flags import BLIND
from amqp_router.protocol.message import Frames, Message, content_header
from amqp_router.protocol.nested import without_entry
from amqp_router.protocol.properties import header_range


class _Headed:
    """Frames of a large message with another content header frame."""

    def __init__(self, header: bytes, frames: Frames) -> None:
        self._header = header
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: int, /) -> bytes:
        return self._frames[index] if index else self._header


def shown(message: Message, counts: bool) -> Message:
    """What a client gets of ``message``, which has its content; ``counts``: with ``x-delivery-count``.

    Raises:
        FieldError: its properties are malformed.
    """
    if not counts and not message.flags & BLIND:
        return message
    content = message.content
    assert content is not None
    properties = message.properties()
    if message.flags & BLIND:
        properties = without_bcc(properties)
    if counts:
        properties = with_count(properties, message.delivery_count)
    header = content_header(properties, message.body_size)
    header = b"%b%b%b" % (header[:1], message.channel.to_bytes(2, "big"), header[3:])  # as the body's frames
    copy = message.copy()
    copy.flags = message.flags & ~BLIND
    copy.delivery_count = message.delivery_count
    copy.header_size = len(header)
    if isinstance(content, bytes):
        copy.content = header + content[message.header_size :]
    elif isinstance(content, tuple):
        copy.content = (header, *content[1:])
    else:
        copy.content = _Headed(header, content)
    return copy


def without_bcc(properties: bytes) -> bytes:
    """``properties`` as received, without the header ``BCC``.

    It is cut out of the octets: other headers may hold very many values, and each delivery does this.

    Raises:
        FieldError: the headers are malformed.
    """
    start, end = header_range(properties)
    headers = without_entry(properties[start:end], b"BCC")
    if headers is None:
        raise FieldError("the headers are malformed")
    return properties[:start] + headers + properties[end:]
