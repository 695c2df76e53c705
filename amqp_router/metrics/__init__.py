"""Rates and short histories of everything that counts, sampled from plain integer counters."""

from amqp_router.metrics.columns import (
    CHANNEL,
    CHURN,
    CONNECTION,
    CONNECTION_CHURN,
    DELIVER_GET,
    DELIVERED,
    EXCHANGE,
    EXCHANGE_COLUMNS,
    MESSAGES,
    NODE,
    NODE_COLUMNS,
    OCTETS,
    OVERVIEW,
    PUBLISHED,
    QUEUE,
    VHOST,
    Kind,
)
from amqp_router.metrics.history import BASIC, GLOBAL, INTERVAL_S, History, Policy, Row, Span
from amqp_router.metrics.sampler import HISTORY_BYTES_MAX, SLICE_OBJECTS, SLICE_S, Metrics
from amqp_router.metrics.starved import capacity
from amqp_router.metrics.usage import Usage

__all__ = [
    "BASIC",
    "CHANNEL",
    "CHURN",
    "CONNECTION",
    "CONNECTION_CHURN",
    "DELIVERED",
    "DELIVER_GET",
    "EXCHANGE",
    "EXCHANGE_COLUMNS",
    "GLOBAL",
    "HISTORY_BYTES_MAX",
    "INTERVAL_S",
    "MESSAGES",
    "NODE",
    "NODE_COLUMNS",
    "OCTETS",
    "OVERVIEW",
    "PUBLISHED",
    "QUEUE",
    "SLICE_OBJECTS",
    "SLICE_S",
    "VHOST",
    "History",
    "Kind",
    "Metrics",
    "Policy",
    "Row",
    "Span",
    "Usage",
    "capacity",
]
