"""The Spark data source ``amqp_router``: takes a snapshot at load, plans splits, and reads rows in the tasks.

Spark makes one object at ``load()``, pickles it, and unpickles it for every query. So every query of a table
reads the snapshot that was taken at its load. A streaming query takes only the checked options from it.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from .errors import DataLoss, OptionError
from .requirements import explained

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        InputPartition,
    )
    from pyspark.sql.types import StructType

    from .arrow import read_split
    from .options import ReadOptions, Selection, check_batch, parse_options
    from .planning import Split, check_offsets, plan
    from .schema import arrow_schema, ddl, pick
    from .snapshot import Log, take_snapshot
    from .stream_source import StreamReader
except ImportError as error:
    raise explained(error) from error


class AmqpRouterSource(DataSource):
    """``format("amqp_router")`` of ``spark.read`` and of ``spark.readStream``.

    ``cores`` is the number of tasks that the session runs at once, set by ``register``; 0 = cores of this
    machine.
    """

    cores = 0

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Here and not in schema(), because Spark does not call schema() if the user gives one.
        self._asked = parse_options(_ours(options))
        self._logs: list[Log] = take_snapshot(self._asked)
        self._lost: DataLoss | None = None
        try:
            check_offsets(self._logs, self._asked)
        except DataLoss as error:
            # No error for a stream that goes on from its checkpoint, and here nobody knows what this will be.
            self._lost = error

    @classmethod
    def name(cls) -> str:
        """The name to give to ``format``."""
        return "amqp_router"

    def schema(self) -> str:
        """The wanted columns."""
        # As text: StructType.fromDDL needs a SparkContext, and planning workers have none.
        return ddl(self._asked.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for one query."""
        _check_schema(schema, self._asked)
        check_batch(self._asked)
        if self._lost is not None:
            raise self._lost
        logs, self._logs = self._logs, []  # otherwise every task would get the whole snapshot with its reader
        # There is no pushFilters, because Spark would reuse a plan with pushed filters for other scans of the
        # same table with other filters (docs/spark-pushdown.md). Options narrow what is read.
        return Reader(logs, self._asked, schema, self.cores)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader for one streaming query."""
        _check_schema(schema, self._asked)
        self._logs = []
        return StreamReader(self._asked, schema, self.cores)


def _ours(options: MutableMapping[str, str]) -> dict[str, str]:
    """The options, with the paths of ``load([a, b])`` as ``logdirs``.

    Raises:
        OptionError: this is a CREATE TABLE, recognised by the options that Spark adds. A SELECT from such a
            table would have no options (Spark 4.3, for sources in Python).
    """
    ours = dict(options)
    if "provider" in ours and "owner" in ours:
        raise OptionError(
            "CREATE TABLE ... USING amqp_router cannot work, for Spark forgets the options of such a table; "
            "use CREATE TEMPORARY VIEW ... USING amqp_router OPTIONS (...)"
        )
    paths = ours.pop("paths", None)
    if paths is not None:
        ours["logdirs"] = paths
    return ours


class Reader(DataSourceReader):
    """Plans the splits of one query and reads them in the tasks."""

    def __init__(self, logs: list[Log], options: ReadOptions, schema: StructType, cores: int) -> None:
        self._logs = logs
        self._options = options
        self._cores = cores
        self._selection: Selection = options.selection
        #: The names as in the user's schema; ours are in small letters.
        self._names = schema.fieldNames()
        self._schema: Any = arrow_schema(pick(options.table, self._names))

    def __getstate__(self) -> dict[str, Any]:
        """The state for the tasks: everything except the snapshot."""
        return {**self.__dict__, "_logs": []}

    def partitions(self) -> list[InputPartition]:
        """One partition for each split. If there is none, Spark calls ``read`` with a None."""
        return [
            InputPartition(split) for split in plan(self._logs, self._options, self._selection, self._cores)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of a split."""
        split: Split | None = partition.value
        if split is None:
            return iter(())
        batches = read_split(split, self._options, self._selection, self._schema)
        if self._names == self._schema.names:
            return batches
        return (batch.rename_columns(self._names) for batch in batches)


def _check_schema(schema: StructType, options: ReadOptions) -> None:
    """Check that a schema given by the user names our columns with our types.

    Raises:
        OptionError: it does not.
    """
    columns = pick(options.table, schema.fieldNames())
    if options.columns_given and columns != options.columns:
        raise OptionError("the schema and the option 'columns' name different columns; give one of them")
    for column, theirs in zip(columns, schema.fields, strict=True):
        if theirs.dataType.simpleString() != column.sql:
            raise OptionError(
                f"column {column.name!r} has type {column.sql}, "
                f"the schema says {theirs.dataType.simpleString()}"
            )
