"""What ``log.json`` says of a queue's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from amqp_router.protocol.kept_table import Arguments, encoded

from ..format.identity import DESCRIPTION_VERSION

#: A JSON object, as it is written or found.
Description: TypeAlias = dict[str, object]
#: The argument of a queue that says how many partitions its log has; without it there is one.
PARTITIONS = "x-partitions"


def partitions_of(arguments: Arguments | None) -> int:
    """How many partitions the log of a queue with these arguments has."""
    found = arguments.get(PARTITIONS) if arguments else None
    return int(found[1]) if found is not None else 1


def describe(
    incarnation: str, vhost: str, name: str, arguments: Arguments | None, auto_delete: bool = False
) -> Description:
    """The description of a queue's log."""
    return {
        "version": DESCRIPTION_VERSION,
        "incarnation": incarnation,
        "vhost": vhost,
        "name": name,
        # A large table (kept as octets) is left out, because converting it to JSON would hold the event loop.
        "arguments": _plain(arguments) if isinstance(arguments, dict) else {},
        # Shared with the queue, and Base64 in the file: all that it takes to define the queue anew.
        "arguments_table": encoded(arguments or {}),
        "auto_delete": auto_delete,
        "partitions": partitions_of(arguments),
    }


def _plain(value: object) -> object:
    """Arguments as JSON, for people and tools. The definitions are authoritative."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
