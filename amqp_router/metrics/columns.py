"""The columns that are sampled of each kind of object, and how they are read from its counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from amqp_router.metrics.history import Row

MESSAGES = ("messages_ready", "messages_unacknowledged")
PUBLISHED = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERED = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack")
DELIVER_GET = ("deliver", "deliver_no_ack", "get", "get_no_ack")
OCTETS = ("recv_oct", "send_oct")
CHURN = ("queue_declared", "queue_created", "queue_deleted", "channel_created", "channel_closed")
CONNECTION_CHURN = ("connection_created", "connection_closed")
NODE_COLUMNS = (
    "mem_used",
    "fd_used",
    "sockets_used",
    "disk_free",
    "context_switches",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "cpu_us",
    "loop_lag_us",
    # The node's account of memory, see ``persistence.memory``.
    "account_contents",
    "account_held",
    "account_kept",
)


class Kind:
    """What is sampled of one sort of object: columns, and fields that are sums of columns."""

    def __init__(self, read: Callable[[Any], Row], columns: Sequence[str], **sums: Sequence[str]) -> None:
        self.read = read
        self.width = len(columns)
        #: Positions of the columns that a field adds up.
        self.fields: dict[str, tuple[int, ...]] = {name: (i,) for i, name in enumerate(columns)}
        for name, parts in sums.items():
            self.fields[name] = tuple(columns.index(part) for part in parts)


_DELIVERED_TOTALS = tuple(f"{column}_total" for column in DELIVERED)
_queue_columns = attrgetter("unacked_count", "publish_total", *_DELIVERED_TOTALS)
_delivered = attrgetter(*_DELIVERED_TOTALS)
read_totals = attrgetter(*PUBLISHED, *DELIVERED)
EXCHANGE_COLUMNS = ("publish_in", "publish_out", "unroutable", "inner_in", "inner_out")
_exchange_columns = attrgetter(*EXCHANGE_COLUMNS)
_octets = attrgetter(*OCTETS)
read_churn = attrgetter(*CHURN)


def read_queue(queue: Any) -> Row:
    """A row of ``QUEUE``."""
    return (queue.message_count(), *_queue_columns(queue))


def read_exchange(exchange: Any) -> Row:
    """A row of ``EXCHANGE``."""
    row: Row = _exchange_columns(exchange.counters)
    return row


def read_channel(channel: Any) -> Row:
    """A row of ``CHANNEL``."""
    publishing, confirms = channel.publishing, channel.confirms
    return (
        publishing.publish_total,
        confirms.confirm_total if confirms is not None else 0,
        publishing.return_total,
        publishing.drop_total,
        *_delivered(channel.delivery),
    )


def read_connection(transport: Any) -> Row:
    """A row of ``CONNECTION``, of a transport."""
    row: Row = _octets(transport)
    return row


def read_nothing(thing: Any) -> Row:
    """In place of a reader where rows are put together from others."""
    raise AssertionError("put together from others, not read")


QUEUE = Kind(read_queue, (*MESSAGES, "publish", *DELIVERED), messages=MESSAGES, deliver_get=DELIVER_GET)
EXCHANGE = Kind(read_exchange, EXCHANGE_COLUMNS)
CHANNEL = Kind(read_channel, (*PUBLISHED, *DELIVERED), deliver_get=DELIVER_GET)
CONNECTION = Kind(read_connection, OCTETS)
_SUMMED = (*MESSAGES, *PUBLISHED, *DELIVERED, *CHURN, *OCTETS)
VHOST = Kind(read_nothing, _SUMMED, messages=MESSAGES, deliver_get=DELIVER_GET)
OVERVIEW = Kind(read_nothing, (*_SUMMED, *CONNECTION_CHURN), messages=MESSAGES, deliver_get=DELIVER_GET)
NODE = Kind(read_nothing, NODE_COLUMNS)
