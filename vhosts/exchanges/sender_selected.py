"""Further routing keys that a publisher gives in the headers ``CC`` and ``BCC``.

Each is an array of strings; items of other types are ignored. ``BCC`` is for routing only and is removed
before the message is stored or delivered.

Source: RabbitMQ, "Sender-selected Distribution".
"""

from __future__ import annotations

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import TYPE_NAMES, Table, decode_table, encode_table
from amqp_router.protocol.properties import header_range

HEADERS = ("CC", "BCC")


def further_keys(headers: Table) -> list[str]:
    """The routing keys in ``CC``, then those in ``BCC``.

    Raises:
        PreconditionFailed: one of the two is not an array (406).
    """
    keys = []
    for name in HEADERS:
        if name not in headers:
            continue
        tag, value = headers[name]
        if tag != "A":
            raise PreconditionFailed(
                f'invalid message: {{unacceptable_type_in_header,"{name}",{TYPE_NAMES[tag]}}}'
            )
        keys += [item.decode("utf-8", "surrogateescape") for item_tag, item in value if item_tag == "S"]
    return keys


def without_bcc(properties: bytes) -> bytes:
    """``properties`` as received, without the header ``BCC``, which must be there.

    Raises:
        FieldError: the headers are malformed.
    """
    start, end = header_range(properties)
    headers, _ = decode_table(properties, start)
    del headers["BCC"]
    return properties[:start] + encode_table(headers) + properties[end:]
