"""The streaming side of the data source: what Spark asks of a stream, in terms of ``following.Follower``.

Spark makes the reader twice: one stays in a process that plans all batches of the query, the other is pickled
into every task. Only the first one has a follower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from .arrow import read_split
from .errors import DataLoss, OptionError
from .following import Follower, is_deleted
from .options import ReadOptions, check_stream
from .planning import Split
from .schema import arrow_schema, pick
from .stream_offsets import StreamOffsets, parse_offsets

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_LIMITS = True
except ImportError:
    # PySpark 4.0 and 4.1: there are no limits, and Spark makes one batch of AvailableNow by itself.
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """The name that later versions have."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("amqp_router")``."""

    def __init__(self, options: ReadOptions, schema: StructType, cores: int) -> None:
        #: The names as in the user's schema; ours are in small letters.
        self._names = schema.fieldNames()
        self._schema: Any = arrow_schema(pick(options.table, self._names))
        check_stream(options, self._schema.names)
        if options.offsets_max is not None and not HAS_LIMITS:
            raise OptionError("option 'maxOffsetsPerTrigger' needs PySpark 4.2")
        self._options = options
        self._cores = cores
        self._made: Follower | None = None
        self._began: StreamOffsets | None = None
        self._is_under_way = False

    def __getstate__(self) -> dict[str, Any]:
        """The state for the tasks, which follow nothing."""
        return {**self.__dict__, "_made": None, "_began": None}

    @property
    def _follower(self) -> Follower:
        if self._made is None:
            self._made = Follower(self._options)
        return self._made

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return (self._began or self._follower.initial()).to_json()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """The end of the next batch. PySpark 4.0 and 4.1 give no arguments."""
        if start is None:
            return self._latest_of_old_spark().to_json()
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if most is None and not isinstance(limit, ReadAllAvailable):
            raise OptionError(f"amqp_router cannot limit a batch by {type(limit).__name__}")
        return self._follower.latest(parse_offsets(start, self._options.table), most).to_json()

    def _latest_of_old_spark(self) -> StreamOffsets:
        # Asked before initialOffset, and the beginning must not be after this end.
        if self._began is None and not self._is_under_way:
            try:
                self._began = self._follower.initial()
            except DataLoss:
                # A query that goes on from its checkpoint does not begin there, and another one asks again.
                self._is_under_way = True
        end = self._follower.latest(None, None)
        if self._began is None or self._is_under_way:
            return end
        return replace(end, began=(self._began.offsets, self._began.holes))

    def getDefaultReadLimit(self) -> Any:
        """The option ``maxOffsetsPerTrigger``."""
        limit = self._options.offsets_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def reportLatestOffset(self) -> dict[str, Any]:
        """How far the logs are durable, for the progress of the query."""
        return StreamOffsets(self._options.table, self._follower.ends()).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """End with what is durable now."""
        self._follower.pin()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One partition for each split of a batch."""
        begin, until = (parse_offsets(offsets, self._options.table) for offsets in (start, end))
        self._is_under_way = self._is_under_way or not begin.is_initial
        return [InputPartition(split) for split in self._follower.plan(begin, until, self._cores)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of a split."""
        split: Split | None = partition.value
        if split is None:
            return iter(())
        selection = self._options.selection
        batches = read_split(split, self._options, selection, self._schema, may_lack=is_deleted)
        if self._names == self._schema.names:
            return batches
        return (batch.rename_columns(self._names) for batch in batches)
