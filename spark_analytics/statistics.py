"""Routing statistics as DataFrames: messages per exchange, routing key, queue and hour, and unroutable ones.

All tables of a ``RoutingStats`` show the moment at which it was made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from .arrow import end_offsets


class RoutingStats:
    """Statistics of one data directory, up to what was durable when the object was made.

    ``options`` are those of the data source (``vhosts``, ``startingTimestamp`` ...). They apply to every
    table.
    """

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> None:
        self._spark = spark
        self._path = os.path.abspath(path)
        self._options: Mapping[str, str] = {name: _as_option(value) for name, value in options.items()}
        self._ends = {table: end_offsets(self._path, table) for table in ("routing", "messages")}

    def events(self, *columns: str, table: str = "routing", **more: str) -> DataFrame:
        """The rows behind the statistics, with only these columns; ``more`` options narrow them further."""
        options = {"endingOffsets": self._ends[table], **self._options, **more}
        reader = self._spark.read.format("amqp_router").options(**options)
        return reader.load(self._path, table=table, columns=",".join(columns))

    def per_exchange(self) -> DataFrame:
        """vhost, exchange, messages, bytes, unroutable, returned, copies (in queues); most messages first."""
        rows = self.events("vhost", "exchange", "body_size", "unroutable", "returned", "fanout")
        return _most_first(
            rows.groupBy("vhost", "exchange").agg(
                *_counts(),
                _count_if("unroutable"),
                _count_if("returned"),
                sql.sum("fanout").alias("copies"),
            ),
            "vhost",
            "exchange",
        )

    def per_routing_key(self) -> DataFrame:
        """vhost, exchange, routing_key, messages, bytes, unroutable; most messages first."""
        rows = self.events("vhost", "exchange", "routing_key", "body_size", "unroutable")
        return _most_first(
            rows.groupBy("vhost", "exchange", "routing_key").agg(*_counts(), _count_if("unroutable")),
            "vhost",
            "exchange",
            "routing_key",
        )

    def per_queue(self) -> DataFrame:
        """vhost, queue, messages, bytes that were routed to each queue; most messages first."""
        rows = self.events("vhost", "queues", "body_size")
        # There are few routes and many rows, so rows are counted by route first.
        routes = rows.groupBy("vhost", "queues").agg(*_counts())
        copies = routes.select("vhost", sql.explode("queues").alias("queue"), "messages", "bytes")
        sums = copies.groupBy("vhost", "queue").agg(
            sql.sum("messages").alias("messages"), sql.sum("bytes").alias("bytes")
        )
        return _most_first(sums, "vhost", "queue")

    def per_hour(self, *, timestamp: str = "broker", queues: Any = None) -> DataFrame:
        """vhost, hour (UTC), messages, bytes; ``broker`` time adds unroutable. In order of time.

        ``timestamp="broker"`` counts publishes by the time at which the broker took them. ``"amqp"`` counts
        the messages that are still in the queues' logs by their property ``timestamp`` (hour null: without
        one). A message in several queues counts in each of them; name ``queues`` to avoid that.

        Raises:
            ValueError: another ``timestamp``.
        """
        if timestamp == "broker":
            if queues is not None:
                raise ValueError("queues belong to timestamp='amqp'")
            rows = self.events("vhost", "timestamp", "body_size", "unroutable")
            counts = [*_counts(), _count_if("unroutable")]
        elif timestamp == "amqp":
            chosen = {} if queues is None else {"queues": _as_option(queues)}
            rows = self.events("vhost", "message_timestamp", "body_size", table="messages", **chosen)
            rows = rows.withColumnRenamed("message_timestamp", "timestamp")
            counts = _counts()
        else:
            raise ValueError(f"timestamp is 'broker' or 'amqp', not {timestamp!r}")
        # Not date_trunc, which uses the session's time zone.
        second = "unix_seconds(timestamp)"
        hour = sql.expr(f"timestamp_seconds({second} - pmod({second}, 3600))").alias("hour")
        return rows.groupBy("vhost", hour).agg(*counts).orderBy("vhost", "hour")

    def unroutable(self) -> DataFrame:
        """vhost, exchange, routing_key, messages, returned of what went to no queue; most messages first."""
        rows = self.events("vhost", "exchange", "routing_key", "unroutable", "returned")
        counts = rows.filter("unroutable").groupBy("vhost", "exchange", "routing_key")
        return _most_first(
            counts.agg(sql.count("*").alias("messages"), _count_if("returned")),
            "vhost",
            "exchange",
            "routing_key",
        )

    def totals(self) -> DataFrame:
        """One row: messages, bytes, unroutable, returned, refused, copies, and the first and last time."""
        rows = self.events("timestamp", "body_size", "fanout", "unroutable", "returned", "refused")
        return rows.agg(
            *_counts(),
            _count_if("unroutable"),
            _count_if("returned"),
            _count_if("refused"),
            sql.coalesce(sql.sum("fanout"), sql.lit(0)).alias("copies"),
            sql.min("timestamp").alias("first"),
            sql.max("timestamp").alias("last"),
        )


def routing_stats(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> RoutingStats:
    """Routing statistics of a data directory; each table is a method that gives a DataFrame."""
    return RoutingStats(spark, path, **options)


def _as_option(value: Any) -> str:
    """Times in ISO 8601, lists as JSON, text as it is."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else json.dumps(value)


def _counts() -> list[Column]:
    """Rows, and the bytes of their bodies."""
    bytes_ = sql.coalesce(sql.sum("body_size"), sql.lit(0)).alias("bytes")
    return [sql.count("*").alias("messages"), bytes_]


def _count_if(flag: str) -> Column:
    return sql.count_if(sql.col(flag)).alias(flag)


def _most_first(rows: DataFrame, *names: str) -> DataFrame:
    return rows.orderBy(sql.desc("messages"), *names)
