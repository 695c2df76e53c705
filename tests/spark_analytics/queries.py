"""Plays Spark's part in a streaming query, without Spark: two copies of the reader, a checkpoint, crashes.

What Spark does was read from ``MicroBatchExecution`` of Spark 4.3: the end of a batch is written down before
the batch runs; a batch that was written down and not committed runs again after a restart, between the same
offsets; the beginning of the first one is asked for anew.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_analytics.data_source import AmqpRouterSource
from spark_analytics.stream_source import StreamReader

SCHEMA = StructType(
    [
        StructField("queue", StringType()),
        StructField("offset", LongType()),
    ]
)
ROUTING_SCHEMA = StructType([StructField("offset", LongType())])


class Crash(Exception):
    """The query was killed."""


@dataclass
class Checkpoint:
    """What outlives a query: the ends of the batches, how many are committed, and the rows of the sink."""

    ends: list[str] = field(default_factory=list)
    committed: int = 0
    sink: list[list[tuple[Any, ...]]] = field(default_factory=list)

    def rows(self) -> list[tuple[Any, ...]]:
        return [row for batch in self.sink for row in batch]


class Query:
    """One run of a query from its checkpoint on."""

    def __init__(self, data: Path, checkpoint: Checkpoint, **options: Any) -> None:
        table = options.get("table", "routing")
        self.schema = SCHEMA if table == "messages" else ROUTING_SCHEMA
        given = {"path": str(data), **{name: str(value) for name, value in options.items()}}
        source = pickle.loads(pickle.dumps(AmqpRouterSource(given)))
        reader = source.streamReader(self.schema)
        assert isinstance(reader, StreamReader)
        self.planner = reader
        self.task = pickle.dumps(source.streamReader(self.schema))
        self.checkpoint = checkpoint
        self.limit = self.planner.getDefaultReadLimit()

    def available_now(self) -> int:
        """Run with ``Trigger.AvailableNow``; how many batches."""
        self.planner.prepareForTriggerAvailableNow()
        for number in range(1000):
            if not self.step():
                return number
        raise AssertionError("it does not end")

    def step(self, crash: str = "") -> bool:
        """One trigger: whether there was a batch. ``crash``: "logged" or "read", when the query is killed."""
        checkpoint = self.checkpoint
        number = checkpoint.committed
        start = checkpoint.ends[number - 1] if number else None
        if number == len(checkpoint.ends):
            begin = start or json.dumps(self.planner.initialOffset())
            end = json.dumps(self.planner.latestOffset(json.loads(begin), self.limit))
            if end == start:
                return False
            checkpoint.ends.append(end)
        self._crash(crash, "logged")
        begin = start or json.dumps(self.planner.initialOffset())
        end = checkpoint.ends[number]
        rows = []
        for partition in self.planner.partitions(json.loads(begin), json.loads(end)):
            reader = pickle.loads(self.task)
            for batch in reader.read(pickle.loads(pickle.dumps(partition))):
                rows += [tuple(row.values()) for row in batch.to_pylist()]
        self._crash(crash, "read")
        checkpoint.sink.append(rows)
        checkpoint.committed += 1
        return True

    def _crash(self, wanted: str, here: str) -> None:
        if wanted == here:
            raise Crash

    def all(self) -> list[tuple[Any, ...]]:
        """Run until there is nothing new; the rows of the batches that this made."""
        before = len(self.checkpoint.sink)
        while self.step():
            pass
        return [row for batch in self.checkpoint.sink[before:] for row in batch]


NO_LIMIT = ReadAllAvailable()
