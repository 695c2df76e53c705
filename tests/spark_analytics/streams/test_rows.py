"""Streams without Spark: each row comes once, over segments, restarts and crashes.

``queries.Query`` does with the reader what Spark does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_analytics import AnalyticsError, DataLoss, OptionError, stream_source
from spark_analytics.data_source import AmqpRouterSource
from spark_analytics.following import Follower
from spark_analytics.options import parse_options
from tests.spark_analytics.encoder import LogFiles, node_of, queue_log, routing_log, stamp, write_marks
from tests.spark_analytics.queries import ROUTING_SCHEMA, Checkpoint, Crash, Query
from tests.spark_analytics.streams.growing import NAMES, ONE, TWO, offsets, retain, send

# -- every row once -----------------------------------------------------------------------------------


def test_follows_over_segments_and_restarts(data: Path, routing: LogFiles) -> None:
    checkpoint = Checkpoint()
    query = Query(data, checkpoint)
    assert offsets(query.all()) == list(range(10))
    assert not query.step()
    for number in range(6):
        send(routing, 7)
        if number % 2:
            routing.roll(index=number == 3)
        if number == 4:
            query = Query(data, checkpoint)
        send(routing, 1)
        write_marks(data, [routing])
        assert len(query.all()) == 8
    assert offsets(checkpoint.rows()) == list(range(58))


def test_nothing_behind_the_mark_is_read(data: Path, routing: LogFiles) -> None:
    send(routing, 5)
    checkpoint = Checkpoint()
    assert offsets(Query(data, checkpoint).all()) == list(range(10))
    write_marks(data, [routing])
    assert offsets(Query(data, checkpoint).all()) == list(range(10, 15))


def test_an_empty_directory_and_logs_that_come(data: Path) -> None:
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, table="messages")
    assert query.all() == []
    logs = []
    for queue, log_id in (("a", ONE), ("b", TWO)):
        log = queue_log(data, "/", queue, log_id)
        send(log, 4)
        logs.append(log)
        write_marks(data, logs)
        assert query.all() == [(queue, n) for n in range(4)]
    assert len(checkpoint.rows()) == 8


def test_a_node_that_comes(tmp_path: Path, data: Path, routing: LogFiles) -> None:
    checkpoint = Checkpoint()
    source = {"logdirs": f"{tmp_path}/data*", "columns": "offset"}
    query = Query(data, checkpoint)
    query.planner = AmqpRouterSource(source).streamReader(ROUTING_SCHEMA)  # type: ignore[assignment]
    assert len(query.all()) == 10
    stamp(tmp_path / "data2")
    (other,) = routing_log(tmp_path / "data2", "/", NAMES)
    send(other, 3)
    write_marks(tmp_path / "data2", [other])
    assert offsets(query.all()) == [0, 1, 2]


@pytest.mark.parametrize("place", ["logged", "read"])
@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_killed_in_the_first_batch(data: Path, routing: LogFiles, place: str, starting: str) -> None:
    """Spark asks for the beginning a second time in each run, and it is a later one by then."""
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, startingOffsets=starting)
    begin = query.planner.initialOffset

    def begin_and_go_on() -> dict[str, Any]:
        begun = begin()
        send(routing, 5)
        write_marks(data, [routing])
        return begun

    query.planner.initialOffset = begin_and_go_on  # type: ignore[method-assign]
    with pytest.raises(Crash):
        query.step(crash=place)
    Query(data, checkpoint, startingOffsets=starting).all()
    assert offsets(checkpoint.rows()) == list(range(0 if starting == "earliest" else 10, routing.end))
    assert routing.end >= 15


def test_offsets_at_which_to_begin(data: Path, routing: LogFiles) -> None:
    def first(starting: str) -> list[int]:
        query = Query(data, Checkpoint(), startingOffsets=starting)
        rows = query.all()
        send(routing, 1)
        write_marks(data, [routing])
        return offsets(rows + query.all())

    log_id = f"{node_of(data)}/{routing.directory.parent.name}"
    assert first("latest") == [10]
    assert first("earliest") == list(range(12))
    assert first(json.dumps({log_id: {"0": 7}})) == list(range(7, 13))
    assert first(json.dumps({log_id: {"0": -1}})) == [13]
    assert first(json.dumps({"/": {"0": -2}})) == list(range(15))
    with pytest.raises(OptionError, match="ends at offset 15, 99 is not there yet"):
        Query(data, Checkpoint(), startingOffsets=json.dumps({log_id: {"0": 99}}))
    routing.roll()
    send(routing, 1)
    retain(routing, 15)
    write_marks(data, [routing])
    begun = Checkpoint()
    query = Query(data, begun, startingOffsets=json.dumps({log_id: {"0": 3}}))
    with pytest.raises(DataLoss, match=r"offsets 3 to 14 of the routing log of virtual host '/'.* are gone"):
        query.step()
    assert first(json.dumps({log_id: {"0": 15}})) == [15, 16]


def test_a_checkpoint_outlives_the_offsets_at_which_it_began(data: Path, routing: LogFiles) -> None:
    starting = json.dumps({"/": {"0": 3}})
    checkpoint = Checkpoint()
    assert offsets(Query(data, checkpoint, startingOffsets=starting).all()) == list(range(3, 10))
    routing.roll()
    send(routing, 2)
    retain(routing, 10)
    write_marks(data, [routing])
    assert offsets(Query(data, checkpoint, startingOffsets=starting).all()) == [10, 11]
    with pytest.raises(DataLoss, match="offsets 3 to 9"):
        AmqpRouterSource({"path": str(data), "startingOffsets": starting}).reader(ROUTING_SCHEMA)


def test_batches_keep_to_the_limit(data: Path) -> None:
    logs = [queue_log(data, "/", queue, log_id) for queue, log_id in (("a", ONE), ("b", TWO))]
    for log, count in zip(logs, (90, 10), strict=True):
        for _ in range(count // 5):
            send(log, 5)
    write_marks(data, logs)
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, table="messages", maxOffsetsPerTrigger=20)
    query.all()
    assert [len(batch) for batch in checkpoint.sink] == [20] * 5
    assert [sum(queue == "b" for queue, _ in batch) for batch in checkpoint.sink] == [2] * 5
    assert sorted(checkpoint.rows()) == [("a", n) for n in range(90)] + [("b", n) for n in range(10)]
    with pytest.raises(
        OptionError, match="maxOffsetsPerTrigger' takes a whole number of at least 1, not '0'"
    ):
        Query(data, Checkpoint(), maxOffsetsPerTrigger=0)


def test_available_now_ends(data: Path, routing: LogFiles) -> None:
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, maxOffsetsPerTrigger=4)
    query.planner.prepareForTriggerAvailableNow()
    for _ in range(5):
        query.step()
        send(routing, 3)
        write_marks(data, [routing])
    assert offsets(checkpoint.rows()) == list(range(10))
    assert not query.step()
    assert Query(data, checkpoint, maxOffsetsPerTrigger=4).available_now() == 4
    assert offsets(checkpoint.rows()) == list(range(25))
    # A log that comes later is not waited for, and is read by the next run.
    again = Query(data, checkpoint)
    again.planner.prepareForTriggerAvailableNow()
    other = routing_log(data, "other", NAMES)[0]
    send(other, 2)
    write_marks(data, [routing, other])
    assert not again.step()
    assert Query(data, checkpoint).available_now() == 1
    assert len(checkpoint.rows()) == 27


# -- older PySpark ------------------------------------------------------------------------------------


def test_pyspark_before_4_2(data: Path, routing: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the end first, without arguments, and then for the beginning."""
    monkeypatch.setattr(stream_source, "HAS_LIMITS", False)
    reader = Query(data, Checkpoint(), startingOffsets="latest").planner
    end = reader.latestOffset()
    send(routing, 5)
    write_marks(data, [routing])
    assert reader.partitions(reader.initialOffset(), end) == []
    later = reader.latestOffset()
    assert reader.partitions(reader.initialOffset(), later)[0].value.pieces[0].low == 10
    restarted = Query(data, Checkpoint(), startingOffsets="latest").planner
    (partition,) = restarted.partitions(restarted.initialOffset(), later)
    assert (partition.value.pieces[0].low, partition.value.pieces[0].high) == (10, 15)
    assert "began" not in _after(restarted, later, data, routing)
    with pytest.raises(OptionError, match=r"'maxOffsetsPerTrigger' needs PySpark 4\.2"):
        Query(data, Checkpoint(), maxOffsetsPerTrigger=5)


def _after(reader: Any, start: dict[str, Any], data: Path, log: LogFiles) -> dict[str, Any]:
    send(log, 1)
    write_marks(data, [log])
    end = reader.latestOffset()
    (partition,) = reader.partitions(start, end)
    assert (partition.value.pieces[0].low, partition.value.pieces[0].high) == (15, 16)
    return dict(reader.latestOffset())


# -- any history: every row once ----------------------------------------------------------------------


def test_a_follower_needs_nothing_but_the_files(data: Path, jobs: LogFiles) -> None:
    """Two followers that know nothing of each other plan the same batch."""
    options = parse_options({"path": str(data), "table": "messages"})
    first, second = Follower(options), Follower(options)
    start = first.initial()
    end = first.latest(start, 7)
    assert first.plan(start, end, 2) == second.plan(start, end, 2)
    assert isinstance(end.to_json(), dict)
    with pytest.raises(AnalyticsError):
        second.plan(end, start, 2)
