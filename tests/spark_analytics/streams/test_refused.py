"""What a stream refuses: options, checkpoints of something else, other queues."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_analytics import CheckpointError, OptionError
from spark_analytics.data_source import AmqpRouterSource
from spark_analytics.schema import LATER_COLUMNS, MESSAGES_COLUMNS
from tests.spark_analytics.encoder import LogFiles, node_of, queue_log, routing_log, stamp, write_marks
from tests.spark_analytics.queries import ROUTING_SCHEMA, Checkpoint, Query
from tests.spark_analytics.streams.growing import NAMES, TWO, send


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
