"""The refusals of a virtual host, with RabbitMQ's texts.

Source: measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_router.protocol.errors import (
    AccessRefused,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
    erlang_binary,
)
from amqp_router.protocol.fields import TYPE_NAMES, Field

#: Tables and arrays within each other that an error text shows.
NESTED_MAX = 8
DEFAULT_EXCHANGE_REFUSED = "operation not permitted on the default exchange"
NO_PREVIOUS_QUEUE = "no previously declared queue"


def described(kind: str, name: str, vhost: str) -> str:
    """The name of a ``queue`` or an ``exchange`` in error texts."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def not_found(kind: str, name: str, vhost: str) -> NotFound:
    """404: there is no such queue or exchange."""
    return NotFound(f"no {described(kind, name, vhost)}")


def no_previous_queue() -> NotFound:
    """404: an empty queue name stands for the last queue declared on the channel, and there is none."""
    return NotFound(NO_PREVIOUS_QUEUE)


def default_exchange_refused() -> AccessRefused:
    """403: the default exchange cannot be declared, deleted or bound."""
    return AccessRefused(DEFAULT_EXCHANGE_REFUSED)


def reserved_name(kind: str, name: str) -> AccessRefused:
    """403: clients may not choose a name with the prefix ``amq.``."""
    return AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def system_exchange(name: str, vhost: str) -> AccessRefused:
    """403: the exchanges that every virtual host has cannot be deleted."""
    return AccessRefused(f"deletion of system {described('exchange', name, vhost)} not allowed")


def internal_exchange(name: str, vhost: str) -> AccessRefused:
    """403: only other exchanges publish to an internal exchange."""
    return AccessRefused(f"cannot publish to internal {described('exchange', name, vhost)}")


def internal_queue(name: str, vhost: str) -> AccessRefused:
    """403: the queue belongs to an exchange."""
    return AccessRefused(f"{described('queue', name, vhost)} is internal")


def locked_queue(name: str, vhost: str) -> ResourceLocked:
    """405: the queue is exclusive to another connection, or ``exclusive`` differs from the declaration."""
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {described('queue', name, vhost)}. It could be originally"
        " declared on another connection or the exclusive property value does not match that of the original"
        " declaration."
    )


def no_get_from_single_active(name: str, vhost: str) -> ResourceLocked:
    """405: a quorum queue with a single active consumer gives nothing to basic.get."""
    return ResourceLocked(
        f"cannot obtain access to locked {described('queue', name, vhost)}. basic.get operations are not"
        " supported by quorum queues with single active consumer"
    )


def in_use(kind: str, name: str, vhost: str) -> PreconditionFailed:
    """406: the client asked for deletion only if the object is unused."""
    return PreconditionFailed(f"{described(kind, name, vhost)} in use")


def not_empty(name: str, vhost: str) -> PreconditionFailed:
    """406: the client asked for deletion only if the queue is empty."""
    return PreconditionFailed(f"{described('queue', name, vhost)} not empty")


def queue_limit(name: str, vhost: str, limit: int) -> PreconditionFailed:
    """406: the virtual host may have no more queues."""
    return PreconditionFailed(
        f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached"
    )


def no_memory(kind: str, name: str, vhost: str) -> PreconditionFailed:
    """406: the definitions of all virtual hosts together have used up their share of the memory."""
    return PreconditionFailed(
        f"cannot declare {described(kind, name, vhost)}: definitions may take no more memory; delete some, "
        "or raise the broker's memory_limit"
    )


def erlang_term(value: object) -> str:
    """A JSON value as RabbitMQ prints it, in Erlang's notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return erlang_binary(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        pairs = [f"{{{erlang_term(key)},{erlang_term(each)}}}" for key, each in value.items()]
        return "[" + ",".join(pairs) + "]"
    if isinstance(value, list):
        return "[" + ",".join(map(erlang_term, value)) + "]"
    return str(value)


def erlang(value: object, depth: int = 0) -> str:
    """The value of a typed field as RabbitMQ prints it, in Erlang's notation; dots for what is deep."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, bytes):
        return erlang_binary(value)
    if isinstance(value, (dict, list)):
        return "[" + ",".join(_erlang_items(value, depth + 1)) + "]" if depth < NESTED_MAX else "..."
    if isinstance(value, tuple):  # a decimal
        return "{" + ",".join(map(str, value)) + "}"
    return str(value)


def _erlang_items(value: dict[str, Field] | list[Field], depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        for key, (tag, each) in value.items():
            yield f"{{{erlang_binary(key.encode())},{TYPE_NAMES[tag]},{erlang(each, depth)}}}"
    else:
        for tag, each in value:
            yield f"{{{TYPE_NAMES[tag]},{erlang(each, depth)}}}"
