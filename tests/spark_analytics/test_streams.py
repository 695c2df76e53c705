"""Streams without Spark: ``queries.Query`` does with the reader what Spark does."""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StringType, StructField, StructType

from persistence.log.format.checkpoint import LogState, SegmentState, pack_file, pack_log
from spark_analytics import (
    AnalyticsError,
    CheckpointError,
    CorruptLog,
    DataLoss,
    OptionError,
    following,
    snapshot,
    stream_source,
)
from spark_analytics.data_source import AmqpRouterSource
from spark_analytics.errors import IncompleteDirectory, NoMarks
from spark_analytics.following import Follower
from spark_analytics.index import GrownIndexes, load_index
from spark_analytics.options import parse_options
from spark_analytics.schema import LATER_COLUMNS, MESSAGES_COLUMNS
from spark_analytics.snapshot import take_snapshot

from .encoder import (
    LogFiles,
    Run,
    Sent,
    messages_batch,
    name,
    node_of,
    queue_log,
    routing_batch,
    routing_log,
    stamp,
    write_marks,
)
from .queries import NO_LIMIT, ROUTING_SCHEMA, Checkpoint, Crash, Query

NAMES = [name("flights", "all"), name("", "q")]
T0 = 1_700_000_000_000_000
ONE, TWO = "cd" * 16, "ef" * 16


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_PAUSE_S", 0.0)


def send(log: LogFiles, count: int) -> None:
    """A batch of messages in a queue, or of events in a routing log."""
    if log.names is not None:
        log.append(routing_batch(log.end, [Run(n % 2, b"k%d" % n, T0 + log.end + n) for n in range(count)]))
    else:
        sent = [Sent(log.end + n, T0 + log.end + n) for n in range(count)]
        log.append(messages_batch(log.end, log.end + count - 1, sent))


def drop(log: LogFiles, *bases: int, history: int = -1) -> None:
    """Remove segments of a queue as the broker does: a checkpoint first, then the files."""
    found = sorted(int(path.stem) for path in log.directory.glob("*.log"))
    state = LogState(log.directory.parent.name, 0, recovery_offset=log.end)
    for base, end in zip(found, [*found[1:], log.end], strict=True):
        if base in bases:
            state.history_start = max(state.history_start, end)
            (log.directory / f"{base:020d}.log").unlink()
        else:
            state.segments.append(SegmentState(base, end, 1, end - base, end - base))
    state.history_start = max(state.history_start, history)
    (log.directory / "checkpoint").write_bytes(pack_file([pack_log(state)], clean=False, now_us=T0))
    left = [base for base in found if base not in bases]
    log.start = max(log.start, left[0] if left else log.end)


def retain(log: LogFiles, base: int) -> None:
    """Remove a routing log's segments below ``base``, as retention does."""
    for path in log.directory.glob("*.log"):
        if int(path.stem) < base:
            path.unlink()
            path.with_suffix(".names").unlink()
    log.start = base


def offsets(rows: list[tuple[Any, ...]]) -> list[int]:
    return [row[-1] for row in rows]


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


# --- every row once ----------------------------------------------------------------------------------------
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


# --- what is gone ------------------------------------------------------------------------------------------
def test_retention_takes_what_was_not_read(
    data: Path, routing: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Query(data, checkpoint).all()
    send(routing, 5)
    routing.roll()
    send(routing, 5)
    retain(routing, 15)
    write_marks(data, [routing])
    with pytest.raises(DataLoss) as error:
        Query(data, checkpoint).step()
    assert str(error.value) == (
        "offsets 10 to 14 of the routing log of virtual host '/', partition 0 are gone before this stream "
        "read them (the routing log keeps only as much as its options say); set option failOnDataLoss=false "
        "to go on with what is left"
    )
    with caplog.at_level(logging.WARNING):
        assert offsets(Query(data, checkpoint, failOnDataLoss=False).all()) == list(range(15, 20))
    assert "offsets 10 to 14 of the routing log of virtual host '/', partition 0 are gone" in caplog.text


def test_retention_between_planning_and_reading(data: Path, routing: LogFiles) -> None:
    routing.roll()
    send(routing, 5)
    write_marks(data, [routing])
    for fails in (True, False):
        query = Query(data, Checkpoint(), failOnDataLoss=fails)
        begin = query.planner.initialOffset()
        end = query.planner.latestOffset(begin, NO_LIMIT)
        (partition,) = query.planner.partitions(begin, end)
        first = routing.directory / f"{0:020d}.log"
        first.rename(data / "away")
        try:
            batches = pickle.loads(query.task).read(partition)
            if fails:
                with pytest.raises(DataLoss, match="offsets 0 to 9 of the routing log"):
                    list(batches)
            else:
                assert [n for batch in batches for n in batch.column(0).to_pylist()] == list(range(10, 15))
        finally:
            (data / "away").rename(first)


def test_settled_messages_that_were_read_may_go(data: Path, jobs: LogFiles) -> None:
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, table="messages")
    query.all()
    jobs.roll()
    send(jobs, 5)
    drop(jobs, 0)
    write_marks(data, [jobs])
    assert offsets(query.all()) == list(range(10, 15))


@pytest.mark.parametrize("how", ["first", "middle", "cleaned"])
def test_settled_messages_that_were_not_read(
    data: Path, jobs: LogFiles, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Query(data, checkpoint, table="messages").all()
    for _ in range(3):
        jobs.roll()
        send(jobs, 5)
    lost = {"first": (0, 10), "middle": (15,), "cleaned": ()}[how]
    drop(jobs, *lost, history=15 if how == "cleaned" else -1)
    write_marks(data, [jobs])
    with pytest.raises(DataLoss) as error:
        Query(data, checkpoint, table="messages").step()
    last, text = {
        "first": (14, "are gone"),
        "middle": (19, "were removed or cleaned, wholly or in part"),
        "cleaned": (14, "were removed or cleaned, wholly or in part"),
    }[how]
    what = f"offsets 10 to {last} of queue 'jobs' of virtual host '/', partition 0 {text} before this stream"
    assert str(error.value).startswith(what)
    with caplog.at_level(logging.WARNING):
        rows = Query(data, checkpoint, table="messages", failOnDataLoss=False).all()
    assert offsets(rows) == [n for n in range(10, 25) if n // 5 * 5 not in lost]
    assert what in caplog.text


def test_holes_from_before_the_stream_began(data: Path, jobs: LogFiles) -> None:
    """A queue that had settled messages can be followed from its earliest message on."""
    for _ in range(3):
        jobs.roll()
        send(jobs, 5)
    drop(jobs, 10)
    write_marks(data, [jobs])
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, table="messages", maxOffsetsPerTrigger=12)
    assert query.step()
    assert json.loads(checkpoint.ends[0])["began"]["holes"] == {f"{node_of(data)}/{ONE}": {"0": 15}}
    assert "holes" in json.loads(checkpoint.ends[0])
    query = Query(data, checkpoint, table="messages", maxOffsetsPerTrigger=12)
    query.all()
    assert offsets(checkpoint.rows()) == [*range(10), *range(15, 25)]
    assert "holes" not in json.loads(checkpoint.ends[-1])


def test_a_new_queue_that_has_lost_messages(data: Path, jobs: LogFiles) -> None:
    checkpoint = Checkpoint()
    Query(data, checkpoint, table="messages").all()
    other = queue_log(data, "/", "other", TWO)
    send(other, 5)
    other.roll()
    send(other, 5)
    drop(other, 0)
    write_marks(data, [jobs, other])
    with pytest.raises(DataLoss, match="offsets 0 to 4 of queue 'other'"):
        Query(data, checkpoint, table="messages").step()
    assert offsets(Query(data, Checkpoint(), table="messages", queues="other").all()) == list(range(5, 10))


def test_a_deleted_queue_is_no_loss(data: Path, jobs: LogFiles, caplog: pytest.LogCaptureFixture) -> None:
    other = queue_log(data, "/", "other", TWO)
    send(other, 5)
    write_marks(data, [jobs, other])
    checkpoint = Checkpoint()
    query = Query(data, checkpoint, table="messages")
    query.all()
    write_marks(data, [other])
    assert not query.step()  # its files go after its mark
    shutil.rmtree(jobs.directory.parent)
    again = queue_log(data, "/", "jobs", "ab" * 16)
    send(again, 3)
    write_marks(data, [other, again])
    with caplog.at_level(logging.WARNING):
        assert query.all() == [("jobs", 0), ("jobs", 1), ("jobs", 2)]
    assert (
        "queue 'jobs' of virtual host '/', partition 0 was deleted; the stream had read it up to offset 10"
        in (caplog.text)
    )
    assert ONE not in checkpoint.ends[-1]


def test_a_queue_deleted_between_the_end_and_the_plan(
    data: Path, jobs: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    other = queue_log(data, "/", "other", TWO)
    send(other, 5)
    write_marks(data, [jobs, other])
    checkpoint = Checkpoint()
    with pytest.raises(Crash):
        Query(data, checkpoint, table="messages").step(crash="logged")
    write_marks(data, [other])
    shutil.rmtree(jobs.directory.parent)
    with caplog.at_level(logging.WARNING):
        assert Query(data, checkpoint, table="messages").all() == [("other", n) for n in range(5)]
    assert "was deleted; offsets 0 to 9 were not read" in caplog.text


def test_a_queue_deleted_between_the_plan_and_the_read(
    data: Path, jobs: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    other = queue_log(data, "/", "other", TWO)
    send(other, 5)
    write_marks(data, [jobs, other])
    query = Query(data, Checkpoint(), table="messages")
    begin = query.planner.initialOffset()
    (partition,) = query.planner.partitions(begin, query.planner.latestOffset(begin, NO_LIMIT))
    assert partition.value.logs[0].segments == ()
    shutil.rmtree(jobs.directory.parent)
    task = pickle.loads(query.task)
    with pytest.raises(DataLoss, match="offsets 0 to 9 of queue 'jobs'"):
        list(task.read(partition))
    write_marks(data, [other])
    with caplog.at_level(logging.WARNING):
        assert sum(batch.num_rows for batch in task.read(partition)) == 5
    assert (
        "queue 'jobs' of virtual host '/', partition 0 was deleted; offsets 0 to 9 were not read"
        in caplog.text
    )


# --- what is missing ---------------------------------------------------------------------------------------
def test_missing_files_are_errors(data: Path, jobs: LogFiles, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint()
    Query(data, checkpoint, table="messages").all()
    jobs.roll()
    send(jobs, 5)
    jobs.roll()
    send(jobs, 5)
    write_marks(data, [jobs])
    for path, error, text in (
        (jobs.directory.parent, IncompleteDirectory, "this folder of a log is missing"),
        (jobs.directory.parent / "log.json", IncompleteDirectory, "the file is missing"),
        (jobs.directory, IncompleteDirectory, "this folder of a partition is missing"),
        (jobs.path, CorruptLog, "the log is durable up to here, but the file is not there or shorter"),
        (jobs.directory / f"{10:020d}.log", DataLoss, "offsets 10 to 14"),
        (data / "synced", NoMarks, "a stream cannot do without it"),
    ):
        query = Query(data, Checkpoint(list(checkpoint.ends), checkpoint.committed), table="messages")
        path.rename(data / "away")
        try:
            with pytest.raises(error, match=text):
                query.step()
        finally:
            (data / "away").rename(path)
    size = (data / "synced").stat().st_size
    content = (data / "synced").read_bytes()
    query = Query(data, checkpoint, table="messages")
    (data / "synced").write_bytes(content[: size // 4])
    with pytest.raises(CorruptLog, match="the file is cut short"):
        query.step()
    (data / "synced").write_bytes(content)
    lenient = Query(data, checkpoint, table="messages", failOnDataLoss=False)
    jobs.directory.parent.rename(data / "away")
    assert not lenient.step()
    (data / "away").rename(jobs.directory.parent)
    assert offsets(lenient.all()) == list(range(10, 20))


def test_no_synced_in_a_stream_is_always_an_error(data: Path, routing: LogFiles) -> None:
    query = Query(data, Checkpoint(), failOnDataLoss=False)
    (data / "synced").unlink()
    with pytest.raises(NoMarks, match="a stream cannot do without it"):
        query.step()


def test_a_damaged_batch_is_an_error(data: Path, routing: LogFiles) -> None:
    content = bytearray(routing.path.read_bytes())
    content[-1] ^= 1
    routing.path.write_bytes(content)
    with pytest.raises(CorruptLog, match="offsets 0 to 9 cannot be read"):
        Query(data, Checkpoint()).step()


def test_an_older_copy_of_the_directory(
    data: Path, routing: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint()
    Query(data, checkpoint).all()
    shutil.copytree(data, data.parent / "copy")
    send(routing, 5)
    write_marks(data, [routing])
    Query(data, checkpoint).all()
    (data.parent / "copy" / "synced").rename(data / "synced")
    with pytest.raises(DataLoss, match="ends at offset 10, but this stream has read it up to 15"):
        Query(data, checkpoint).step()
    query = Query(data, checkpoint, failOnDataLoss=False)
    with caplog.at_level(logging.WARNING):
        assert not query.step()
        assert not query.step()
    assert caplog.text.count("waiting until it is there again") == 1
    send(routing, 1)
    write_marks(data, [routing])
    assert offsets(query.all()) == [15]


# --- what is refused ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingOffsets": '{"/": {"0": 5}}'}, "option 'endingOffsets' is not for streams"),
        ({"endingTimestamp": "2026-01-31T12:00:00Z"}, "option 'endingTimestamp' is not for streams"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'"),
    ],
)
def test_options_that_do_not_fit(data: Path, jobs: LogFiles, options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        AmqpRouterSource({"path": str(data), **options}).streamReader(ROUTING_SCHEMA)


@pytest.mark.parametrize("options", [{"columns": "outcome"}, {}])
def test_what_becomes_of_a_message_later(data: Path, jobs: LogFiles, options: dict[str, str]) -> None:
    source = AmqpRouterSource({"path": str(data), "table": "messages", **options})
    with pytest.raises(OptionError) as error:
        source.streamReader(StructType([StructField("outcome", StringType())]))
    assert str(error.value).startswith("column 'outcome' cannot be read as a stream: it says what became of")
    named = str(error.value).rpartition("the columns for streams are ")[2].split(", ")
    assert named == [column.name for column in MESSAGES_COLUMNS if column.name not in LATER_COLUMNS]
    assert len(named) == len(MESSAGES_COLUMNS) - 4


def test_a_limit_is_not_for_batches(data: Path, routing: LogFiles) -> None:
    source = AmqpRouterSource({"path": str(data), "maxOffsetsPerTrigger": "5"})
    with pytest.raises(OptionError, match=r"'maxOffsetsPerTrigger' is for spark\.readStream"):
        source.reader(ROUTING_SCHEMA)


def test_a_checkpoint_of_something_else(tmp_path: Path, data: Path, jobs: LogFiles) -> None:
    (log,) = routing_log(data, "/", NAMES)
    send(log, 10)
    write_marks(data, [jobs, log])
    checkpoint = Checkpoint()
    Query(data, checkpoint).all()
    send(log, 1)
    write_marks(data, [jobs, log])
    with pytest.raises(CheckpointError, match="it is of table 'routing', and this stream reads 'messages'"):
        Query(data, checkpoint, table="messages").step()
    stamp(tmp_path / "other")
    (other,) = routing_log(tmp_path / "other", "/", NAMES)
    send(other, 3)
    write_marks(tmp_path / "other", [other])
    with pytest.raises(
        CheckpointError, match=f"it has log {log.directory.parent.name} of node {node_of(data)}"
    ):
        Query(tmp_path / "other", checkpoint).step()
    checkpoint.ends[-1] = checkpoint.ends[-1].replace('"version": 1', '"version": 7')
    with pytest.raises(CheckpointError, match="its offsets have version 7, this release knows version 1"):
        Query(data, checkpoint).step()


def test_other_queues_selected_at_a_restart(data: Path, jobs: LogFiles) -> None:
    other = queue_log(data, "/", "other", TWO)
    send(other, 5)
    write_marks(data, [jobs, other])
    checkpoint = Checkpoint()
    assert len(Query(data, checkpoint, table="messages").all()) == 15
    send(other, 1)
    send(jobs, 1)
    write_marks(data, [jobs, other])
    assert Query(data, checkpoint, table="messages", queues="other").all() == [("other", 5)]
    assert Query(data, checkpoint, table="messages").all() == [("jobs", 10)]


# --- what it costs -----------------------------------------------------------------------------------------
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


# --- older PySpark -----------------------------------------------------------------------------------------
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


# --- any history: every row once ---------------------------------------------------------------------------
steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "roll", "mark", "batch", "logged", "read", "restart", "new", "drop"]),
        st.integers(1, 60),
    ),
    max_size=30,
)


def play(directory: Path, story: list[tuple[str, int]], limit: int) -> None:
    """A queue or two live through a story while a stream with restarts and crashes reads them."""
    data = directory / "data"
    shutil.rmtree(data, ignore_errors=True)
    stamp(data)
    logs = [queue_log(data, "/", "q0", f"{0:032x}")]
    sent: list[tuple[str, int]] = []
    checkpoint = Checkpoint()
    options = {"table": "messages", "maxOffsetsPerTrigger": limit, "splitBytes": 1 << 16}
    write_marks(data, logs)
    query = Query(data, checkpoint, **options)
    for what, number in [*story, ("mark", 0)]:
        log = logs[number % len(logs)]
        if what == "send":
            sent += [(f"q{logs.index(log)}", log.end + n) for n in range(number)]
            send(log, number)
        elif what == "roll" and log.position:
            log.roll()
        elif what == "mark":
            write_marks(data, logs)
        elif what == "new":
            logs.append(queue_log(data, "/", f"q{len(logs)}", f"{len(logs):032x}"))
        elif what == "drop" and log.end:
            done = _read_up_to(checkpoint, log)
            bases = sorted(int(path.stem) for path in log.directory.glob("*.log"))
            old = [base for base, end in pairwise(bases) if end <= done]
            drop(log, *old)
            write_marks(data, logs)
        elif what in ("logged", "read"):
            try:
                query.step(crash=what)
            except Crash:
                query = Query(data, checkpoint, **options)
        elif what == "batch":
            query.step()
        elif what == "restart":
            query = Query(data, checkpoint, **options)
    query.all()
    assert all(len(batch) <= limit for batch in checkpoint.sink), "more rows than the limit"
    assert sorted(checkpoint.rows()) == sorted(sent), "not every row once"


def _read_up_to(checkpoint: Checkpoint, log: LogFiles) -> int:
    """How far the committed batches have read a log."""
    if not checkpoint.committed:
        return 0
    found = json.loads(checkpoint.ends[checkpoint.committed - 1])["offsets"]
    for name_, partitions in found.items():
        if name_.endswith(log.directory.parent.name):
            return int(partitions["0"])
    return 0


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(3, 80))
def test_any_history(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, int]], limit: int
) -> None:
    play(tmp_path_factory.mktemp("story"), story, limit)


@pytest.mark.parametrize("bug", ["the last offset of a range is left out", "a range begins one too early"])
def test_planted_bugs_in_planning_are_found(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    real = following.plan_ranges

    def bad(ranges: Any, *rest: Any) -> Any:
        moved = (0, -1) if "last" in bug else (-1, 0)
        return real([(log, max(low + moved[0], 0), high + moved[1]) for log, low, high in ranges], *rest)

    monkeypatch.setattr(following, "plan_ranges", bad)

    @settings(
        max_examples=200, deadline=None, database=None, phases=[Phase.generate], report_multiple_bugs=False
    )
    @given(steps, st.integers(3, 80))
    def walk(story: list[tuple[str, int]], limit: int) -> None:
        play(tmp_path_factory.mktemp("planted"), story, limit)

    with pytest.raises(AssertionError, match=r"not every row once|more rows than the limit"):
        walk()


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
