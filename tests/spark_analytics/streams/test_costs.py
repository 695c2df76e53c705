"""What a stream costs that has little to read."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from spark_analytics import following
from spark_analytics.index import GrownIndexes, load_index
from spark_analytics.options import parse_options
from spark_analytics.snapshot import take_snapshot
from tests.spark_analytics.encoder import LogFiles, Run, queue_log, routing_batch, routing_log, write_marks
from tests.spark_analytics.queries import NO_LIMIT, Checkpoint, Query
from tests.spark_analytics.streams.growing import NAMES, T0, offsets, send


def test_an_idle_stream_only_reads_the_marks(
    data: Path, jobs: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(data, Checkpoint(), table="messages")
    query.all()
    for function in ("describe", "read_marks", "take_snapshot", "partitions_of", "log_ids"):
        monkeypatch.setattr(following, function, None)
    for _ in range(3):
        assert not query.step()


def test_a_log_is_described_once(data: Path, jobs: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(data, Checkpoint(), table="messages")
    query.all()
    monkeypatch.setattr(following, "describe", None)
    send(jobs, 5)
    write_marks(data, [jobs])
    assert offsets(query.all()) == list(range(10, 15))


def test_an_index_grows_with_its_segment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log,) = routing_log(data, "/", NAMES)
    indexes = GrownIndexes()
    loaded: list[int] = []
    monkeypatch.setattr(
        "spark_analytics.index.load_index", lambda *given_: loaded.append(1) or load_index(*given_)
    )
    for round_ in range(4):
        for _ in range(100):
            log.append(routing_batch(log.end, [Run(0, b"%0255d" % n, T0 + log.end) for n in range(20)]))
        write_marks(data, [log])
        (opened,) = take_snapshot(parse_options({"path": str(data)}))
        grown = indexes.load(opened.directory, opened.segments[0], opened.salt)
        assert grown.entries == load_index(opened.directory, opened.segments[0], opened.salt).entries
        assert len(grown.entries) > 5 * (round_ + 1)
    assert len(loaded) == 1
    copy = log.path.with_suffix(".copy")
    shutil.copy(log.path, copy)
    os.replace(copy, log.path)
    (opened,) = take_snapshot(parse_options({"path": str(data)}))
    indexes.load(opened.directory, opened.segments[0], opened.salt)
    assert len(loaded) == 2  # it is another file


def test_polls_of_many_idle_logs_are_quick(data: Path) -> None:
    logs = []
    for number in range(300):
        log = queue_log(data, "/", f"q{number}", f"{number:032x}")
        send(log, 1)
        logs.append(log)
    write_marks(data, logs)
    query = Query(data, Checkpoint(), table="messages")
    assert len(query.all()) == 300
    start = json.loads(query.checkpoint.ends[-1])
    spent = []
    for _ in range(5):
        began = time.process_time()
        assert query.planner.latestOffset(start, NO_LIMIT) == start
        spent.append(time.process_time() - began)
    assert min(spent) < 0.05
