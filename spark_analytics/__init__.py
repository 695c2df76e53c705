"""Reads the broker's logs as tables, with Spark or plain Arrow. It needs only the broker's files.

    spark = spark_analytics.session()
    spark.read.format("amqp_router").option("path", "data").load().groupBy("exchange").count().show()
    spark_analytics.routing_stats(spark, "data").per_queue().show()
    table = spark_analytics.read_arrow("data", table="messages", columns="queue,offset,headers,body")

Options, tables and columns are in docs/analytics.md. The names below are imported when they are first used,
so that the command line loads Spark only if it needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arrow import end_offsets, read_arrow, read_batches
    from .errors import (
        AnalyticsError,
        CheckpointError,
        CorruptLog,
        DataLoss,
        FormatVersionError,
        MissingExtra,
        NoJava,
        NotADataDirectory,
        OptionError,
    )
    from .spark_session import register, session, write_executor_zip
    from .statistics import RoutingStats, routing_stats

__all__ = [
    "AnalyticsError",
    "CheckpointError",
    "CorruptLog",
    "DataLoss",
    "FormatVersionError",
    "MissingExtra",
    "NoJava",
    "NotADataDirectory",
    "OptionError",
    "RoutingStats",
    "end_offsets",
    "read_arrow",
    "read_batches",
    "register",
    "routing_stats",
    "session",
    "write_executor_zip",
]

_MODULES = {
    "arrow": ("end_offsets", "read_arrow", "read_batches"),
    "statistics": ("RoutingStats", "routing_stats"),
    "spark_session": ("register", "session", "write_executor_zip"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load the module of a name in ``__all__``."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
