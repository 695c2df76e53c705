"""Streams over logs of which something is gone or missing."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from pathlib import Path

import pytest

from spark_analytics import CorruptLog, DataLoss
from spark_analytics.errors import IncompleteDirectory, NoMarks
from tests.spark_analytics.encoder import LogFiles, node_of, queue_log, write_marks
from tests.spark_analytics.queries import NO_LIMIT, Checkpoint, Crash, Query
from tests.spark_analytics.streams.growing import ONE, TWO, drop, offsets, retain, send

# -- what is gone -------------------------------------------------------------------------------------


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


# -- what is missing ----------------------------------------------------------------------------------


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
