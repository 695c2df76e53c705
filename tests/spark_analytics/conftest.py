"""One Spark session for all tests of this folder: its start costs more than most of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.spark_session import SHORT_LIVED_JAVA, session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # Workers are processes of their own, which find this tree by the environment alone.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    spark = session(
        "amqp-router tests",
        master="local[2]",
        log_file=tmp_path_factory.mktemp("spark") / "java.log",
        install_java=True,
        conf={
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
        },
    )
    yield spark
    spark.stop()
