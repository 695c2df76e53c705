"""The process that Spark forks its Python workers from, with everything imported that our tasks need.

Set as ``spark.python.daemon.module`` by ``session``. Spark's own daemon imports anew in every worker, and
each worker's collection after every task walks all of it; imported before the fork and frozen, both cost
nothing: with Unix sockets a task costs 20 to 25 ms instead of 60 to 87.
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
