"""Logs to stream from, and a reader that does not wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_analytics import snapshot
from tests.spark_analytics.encoder import LogFiles, queue_log, routing_log, stamp, write_marks
from tests.spark_analytics.streams.growing import NAMES, ONE, send


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_PAUSE_S", 0.0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    stamp(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def routing(data: Path) -> LogFiles:
    (log,) = routing_log(data, "/", NAMES)
    send(log, 10)
    write_marks(data, [log])
    return log


@pytest.fixture
def jobs(data: Path) -> LogFiles:
    log = queue_log(data, "/", "jobs", ONE)
    send(log, 10)
    write_marks(data, [log])
    return log
