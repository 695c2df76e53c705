"""Counters with their rates: ``publish`` and ``publish_details``.

As in RabbitMQ, a key of ``message_stats`` exists when something of its family has happened. An idle object
has no ``message_stats``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from amqp_router.metrics import (
    BASIC,
    DELIVER_GET,
    DELIVERED,
    INTERVAL_S,
    PUBLISHED,
    History,
    Kind,
    Metrics,
    Policy,
    Span,
)

DELIVERED_FIELDS = ("deliver_get", *DELIVERED)

#: RabbitMQ's fields about an object's Erlang process. Documents share them, so they must not be changed.
NO_PROCESS: dict[str, Any] = {
    "garbage_collection": {
        "fullsweep_after": 0,
        "max_heap_size": 0,
        "min_bin_vheap_size": 0,
        "min_heap_size": 0,
        "minor_gcs": 0,
    },
    "reductions": 0,
}


class Stats:
    """Adds ``<field>`` and ``<field>_details`` to documents, in the form that a request wants."""

    def __init__(self, metrics: Metrics, spans: Mapping[str, Span]) -> None:
        self.metrics = metrics
        self.spans = spans

    def details(
        self, history: History | None, columns: tuple[int, ...], span_name: str, policy: Policy = BASIC
    ) -> dict[str, Any]:
        """``rate``, and ``samples``, ``avg`` and ``avg_rate`` if the request wants them."""
        found: dict[str, Any] = {"rate": self.metrics.rate(history, columns)}
        span = self.spans.get(span_name)
        if span is not None:
            samples = self.metrics.samples(history, columns, span, policy)
            found["samples"] = [{"sample": value, "timestamp": stamp} for value, stamp in samples]
            found["avg"] = found["avg_rate"] = 0.0
            if samples:
                (newest, at), (oldest, since) = samples[0], samples[-1]
                found["avg"] = sum([value for value, _ in samples]) / len(samples)
                if at > since:
                    found["avg_rate"] = (newest - oldest) * 1000 / (at - since)
        return found

    def zero(self, span_name: str) -> dict[str, Any]:
        """Details of something that does not exist."""
        if span_name in self.spans:
            return {"rate": 0.0, "samples": [], "avg": 0.0, "avg_rate": 0.0}
        return {"rate": 0.0}

    def put(
        self,
        document: dict[str, Any],
        values: Mapping[str, int],
        history: History | None,
        kind: Kind,
        span_name: str,
        policy: Policy = BASIC,
    ) -> dict[str, Any]:
        """Add every field of ``values`` with its details; returns ``document``."""
        fields = kind.fields
        if history is not None and span_name not in self.spans and history.last == history.previous:
            for name, value in values.items():
                document[name] = value
                document[f"{name}_details"] = {"rate": 0.0}
            return document
        for name, value in values.items():
            document[name] = value
            document[f"{name}_details"] = self.details(history, fields[name], span_name, policy)
        return document


def idle_since(history: History | None) -> str | None:
    """The time of the newest change, if it was not just now."""
    if history is None or history.changed == history.seen:
        return None
    moment = datetime.datetime.fromtimestamp(history.changed * INTERVAL_S, datetime.UTC)
    return moment.isoformat(timespec="milliseconds")


def with_deliver_get(values: dict[str, int]) -> dict[str, int]:
    """Add the sum of deliveries and gets, with and without acknowledgement."""
    values["deliver_get"] = sum([values[name] for name in DELIVER_GET])
    return values


def happened(values: Mapping[str, int]) -> dict[str, int]:
    """The fields of the families in which anything happened."""
    found: dict[str, int] = {}
    for family in (PUBLISHED, DELIVERED_FIELDS, ("publish_in",), ("publish_out",)):
        family_values = {name: values[name] for name in family if name in values}
        if any(family_values.values()):
            found.update(family_values)
    return found
