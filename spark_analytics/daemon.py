"""The process from which Spark forks its Python workers. It has imported everything that our tasks need.

``session`` sets it as ``spark.python.daemon.module``. With Spark's own daemon every worker imports the
modules again, and its garbage collection after every task visits all of their objects. Here they are imported
before the fork and frozen. With Unix sockets a task costs 20 to 25 ms instead of 60 to 87.
"""

from __future__ import annotations

import gc
import importlib
import sys

import pyspark.daemon
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker

from . import data_source


def main() -> None:
    """Import, freeze, serve."""
    assert data_source.AmqpRouterSource.name()
    if len(sys.argv) > 1 and sys.argv[1].startswith("pyspark"):
        importlib.import_module(sys.argv[1])
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
