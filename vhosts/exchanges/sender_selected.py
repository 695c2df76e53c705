"""Further routing keys that a publisher gives in the headers ``CC`` and ``BCC``.

Each is an array of strings; items of other types are ignored. ``BCC`` is for routing only: queues keep it for
their dead letters, and no client sees it (``amqp_router/protocol/shown.py``).

Source: RabbitMQ, "Sender-selected Distribution".
"""

from __future__ import annotations

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import TYPE_NAMES, Table
from amqp_router.protocol.nested import long_strings

HEADERS = ("CC", "BCC")


def further_keys(headers: Table) -> list[str]:
    """The routing keys in ``CC``, then those in ``BCC``; ``headers`` has these two, if they are there.

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
        if isinstance(value, bytes):
            keys += long_strings(value)
        else:
            keys += [item.decode("utf-8", "surrogateescape") for item_tag, item in value if item_tag == "S"]
    return keys
