"""What a load sees: how far a log is durable, other versions, wrong paths, and what goes away later."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from zlib import crc32

import pytest

from spark_analytics.arrow import end_offsets, read_arrow, read_split
from spark_analytics.errors import (
    CorruptLog,
    DataLoss,
    FormatVersionError,
    NoMarks,
    NotADataDirectory,
    OptionError,
)
from spark_analytics.options import parse_options
from spark_analytics.planning import plan
from spark_analytics.schema import arrow_schema
from spark_analytics.snapshot import take_snapshot
from spark_analytics.synced import read_marks

from .encoder import (
    LogFiles,
    Run,
    Sent,
    batch,
    messages_batch,
    name,
    node_of,
    queue_log,
    routing_batch,
    routing_log,
    stamp,
    stamped,
    write_marks,
)

NAMES = [name("flights", "all"), name("", "q")]
T0 = 1_700_000_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> LogFiles:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES)
    for number in range(3):
        add(log, 10)
        if number < 2:
            log.roll()
    write_marks(tmp_path, [log])
    return log


def add(log: LogFiles, events: int) -> None:
    log.append(routing_batch(log.end, [Run(0, b"k", T0 + log.end + n) for n in range(events)]))


def offsets(data: Path, **options: object) -> list[int]:
    return list(read_arrow(data, columns="offset", **options)["offset"].to_pylist())


class Loaded:
    """A table loaded once and read as often as wanted, as a DataFrame is."""

    def __init__(self, data: Path, **options: str) -> None:
        self.options = parse_options({"path": str(data), "columns": "offset", **options})
        self.logs = take_snapshot(self.options)

    def read(self) -> list[int]:
        return [offset for split in self.plan() for offset in self.rows(split)]

    def plan(self):  # type: ignore[no-untyped-def]
        return plan(self.logs, self.options, self.options.selection, cores=1)

    def rows(self, split) -> list[int]:  # type: ignore[no-untyped-def]
        schema = arrow_schema(self.options.columns)
        return [
            offset
            for batch in read_split(split, self.options, self.options.selection, schema)
            for offset in batch["offset"].to_pylist()
        ]


# --- how far ----------------------------------------------------------------------------------------------
def test_read_up_to_the_mark(tmp_path: Path, log: LogFiles) -> None:
    add(log, 5)  # written, not synced
    assert offsets(tmp_path) == list(range(30))
    write_marks(tmp_path, [log])
    assert offsets(tmp_path) == list(range(35))


def test_bytes_behind_the_mark_may_be_anything(tmp_path: Path, log: LogFiles) -> None:
    with log.path.open("ab") as file:
        file.write(b"ARLB torn")
    assert offsets(tmp_path) == list(range(30))


def test_a_log_without_a_mark_has_nothing_yet(tmp_path: Path, log: LogFiles) -> None:
    (other,) = routing_log(tmp_path, "other", NAMES)
    add(other, 3)
    assert offsets(tmp_path, vhosts="other") == []


@pytest.mark.parametrize("table", ["routing", "messages"])
def test_without_marks_it_is_an_error(tmp_path: Path, log: LogFiles, table: str) -> None:
    path = tmp_path / "synced"
    path.unlink()
    with pytest.raises(NoMarks, match=f"{path}: the file is missing"):
        read_arrow(tmp_path, table=table)
    log.path.unlink()
    with pytest.raises(NoMarks):
        read_arrow(tmp_path, table=table)
    with pytest.raises(NoMarks):
        end_offsets(tmp_path, table)


def test_without_marks_up_to_the_first_bad_batch(tmp_path: Path, log: LogFiles) -> None:
    (tmp_path / "synced").unlink()
    with log.path.open("ab") as file:
        file.write(routing_batch(30, [Run(0, b"k", T0)])[:-1])
    assert offsets(tmp_path, failOnDataLoss="false") == list(range(30))


def test_without_marks_damage_in_a_closed_segment_is_left_out_with_a_warning(
    tmp_path: Path, log: LogFiles, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "synced").unlink()
    first = log.directory / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"!")
    assert offsets(tmp_path, failOnDataLoss="false") == list(range(10, 30))
    assert f"{first} at byte 0: the checksum of the payload" in caplog.text


@pytest.mark.parametrize("kind", ["segment", "names", "segment of a queue"])
def test_files_swapped_between_two_logs(tmp_path: Path, kind: str) -> None:
    stamp(tmp_path)
    names = [NAMES, [{**name, "exchange": "other"} for name in NAMES]]
    logs = [routing_log(tmp_path, vhost, given)[0] for vhost, given in zip(("/", "v"), names, strict=True)]
    logs += [queue_log(tmp_path, "/", name, name * 32) for name in ("a", "b")]
    for log in logs:
        one = Sent(0, T0) if log.names is None else Run(0, b"k", T0)
        log.append(messages_batch(0, 0, [one]) if isinstance(one, Sent) else routing_batch(0, [one]))
    write_marks(tmp_path, logs)
    tables = ("routing", "messages")
    assert [read_arrow(tmp_path, table=table).num_rows for table in tables] == [2, 2]
    one, two = logs[2:] if "queue" in kind else logs[:2]
    suffix = ".names" if kind == "names" else ".log"
    paths = [log.path.with_suffix(suffix) for log in (one, two)]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    with pytest.raises(CorruptLog, match="no name" if kind == "names" else "belongs to another log"):
        read_arrow(tmp_path, table=tables["queue" in kind])


def test_a_log_json_of_another_queue(tmp_path: Path) -> None:
    stamp(tmp_path)
    logs = [queue_log(tmp_path, "/", name, name * 32) for name in ("a", "b")]
    write_marks(tmp_path, logs)
    one, two = (log.directory.parent / "log.json" for log in logs)
    one.write_bytes(two.read_bytes())
    with pytest.raises(CorruptLog, match=f"{one} at byte 0.* description of another log, '{'b' * 32}'"):
        read_arrow(tmp_path, table="messages")


def test_a_log_of_version_0(tmp_path: Path) -> None:
    """As releases wrote it before batches had a salt; new batches follow in the same segment."""
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES, version=0)
    (log.directory.parent / "log.json").write_text('{"version": 0, "vhost": "/", "partitions": 1}')
    data = bytearray(routing_batch(0, [Run(0, b"k", T0)]))
    data[4] = 0
    log.append(bytes(data))
    path = log.path.with_suffix(".names")
    names = bytearray(path.read_bytes())
    names[4] = 0
    at = 16
    while at < len(names):
        size = int.from_bytes(names[at : at + 4], "little")
        names[at + 4 : at + 8] = struct.pack("<I", crc32(names[at + 8 : at + 12 + size]))
        at += 12 + size
    path.write_bytes(names)
    write_marks(tmp_path, [log])
    assert offsets(tmp_path) == [0]
    about = {"version": 1, "vhost": "/", "partitions": 1, "node": node_of(tmp_path)}
    (log.directory.parent / "log.json").write_text(json.dumps(about))
    log.append(routing_batch(1, [Run(0, b"k", T0)]))
    write_marks(tmp_path, [log])
    assert offsets(tmp_path) == [0, 1]


def test_bad_bytes_below_the_mark(tmp_path: Path, log: LogFiles) -> None:
    content = bytearray(log.path.read_bytes())
    content[100] ^= 1
    log.path.write_bytes(content)
    with pytest.raises(CorruptLog, match=re.escape(f"{log.path} at byte 0, offset 20")):
        offsets(tmp_path)
    assert len(offsets(tmp_path, verify="none")) == 30  # only headers are looked at
    with pytest.raises(CorruptLog):
        offsets(tmp_path, verify="tail")
    content[40] ^= 1
    log.path.write_bytes(content)
    with pytest.raises(CorruptLog, match="checksum of the batch header"):
        offsets(tmp_path, verify="none")


def test_verify_tail_trusts_closed_segments(tmp_path: Path, log: LogFiles) -> None:
    first = log.directory / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"!")
    assert len(offsets(tmp_path, verify="tail")) == 30


def test_a_file_shorter_than_its_mark(tmp_path: Path, log: LogFiles) -> None:
    log.path.write_bytes(log.path.read_bytes()[:-1])
    with pytest.raises(CorruptLog, match="start the broker once"):
        offsets(tmp_path)


def test_a_segment_that_is_missing_in_the_middle(tmp_path: Path, log: LogFiles) -> None:
    (log.directory / f"{10:020d}.log").unlink()
    with pytest.raises(DataLoss, match="offsets 10 to 19 of the routing log of virtual host '/'"):
        offsets(tmp_path)
    assert offsets(tmp_path, failOnDataLoss="false") == [*range(10), *range(20, 30)]


def test_names_that_are_missing(tmp_path: Path, log: LogFiles) -> None:
    log.path.with_suffix(".names").unlink()
    with pytest.raises(CorruptLog, match="names of this segment's routes are missing"):
        offsets(tmp_path)


def test_a_torn_name_at_the_end(tmp_path: Path, log: LogFiles) -> None:
    with log.path.with_suffix(".names").open("ab") as file:
        file.write(struct.pack("<III", 1000, 1, 2) + b"{")
    assert offsets(tmp_path) == list(range(30))


# --- marks ------------------------------------------------------------------------------------------------
def test_a_mark_that_is_being_written(tmp_path: Path, log: LogFiles) -> None:
    path = tmp_path / "synced"
    good = path.read_bytes()
    path.write_bytes(good[:90] + b"?" + good[91:])
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            path.write_bytes(good)

    marks = read_marks(str(tmp_path), sleep)
    assert len(pauses) == 3
    assert marks is not None
    assert marks[log.directory.parent.name, 0].end == 30


def test_a_mark_that_stays_wrong(tmp_path: Path, log: LogFiles) -> None:
    path = tmp_path / "synced"
    good = path.read_bytes()
    path.write_bytes(good[:90] + b"?" + good[91:])
    pauses: list[float] = []
    with pytest.raises(CorruptLog, match=r"synced at byte 64.* slot 0 stays wrong"):
        read_marks(str(tmp_path), pauses.append)
    assert len(pauses) == 19


def test_a_log_start_above_old_segments(tmp_path: Path, log: LogFiles) -> None:
    for start in (10, 13):
        log.start = start
        write_marks(tmp_path, [log])
        assert offsets(tmp_path) == list(range(start, 30))


# --- versions and places ----------------------------------------------------------------------------------
def test_wrong_paths(tmp_path: Path) -> None:
    with pytest.raises(NotADataDirectory, match=r"/nowhere does not exist; name the folder .*--data-dir"):
        offsets(tmp_path / "nowhere")
    with pytest.raises(NotADataDirectory, match=r"no file amqp-router\.json"):
        offsets(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotADataDirectory, match="is not a directory"):
        offsets(tmp_path / "file")
    with pytest.raises(NotADataDirectory, match="nothing matches"):
        read_arrow(logdirs=str(tmp_path / "x*"))
    with pytest.raises(NotADataDirectory, match="local file system"):
        read_arrow("s3a://bucket/data")
    (tmp_path / "amqp-router.json").write_text("{")
    with pytest.raises(NotADataDirectory, match="damaged"):
        offsets(tmp_path)


def test_an_empty_data_directory(tmp_path: Path) -> None:
    stamp(tmp_path)
    assert offsets(tmp_path) == []
    assert read_arrow(tmp_path, table="messages").num_rows == 0


def test_another_version_of_the_directory(tmp_path: Path) -> None:
    stamp(tmp_path, layout=7)
    with pytest.raises(FormatVersionError, match="version 7, this reader knows version 1"):
        offsets(tmp_path)


def test_another_version_of_a_log(tmp_path: Path) -> None:
    stamp(tmp_path)
    routing_log(tmp_path, "/", NAMES, version=3)
    with pytest.raises(FormatVersionError, match=r"log\.json: format version 3, this reader knows version 2"):
        offsets(tmp_path)


def test_another_version_of_the_marks(tmp_path: Path, log: LogFiles) -> None:
    write_marks(tmp_path, [log], version=2)
    with pytest.raises(FormatVersionError, match="synced: format version 2"):
        offsets(tmp_path)


def test_another_version_of_a_batch(tmp_path: Path, log: LogFiles) -> None:
    log.append(batch(4, 24, 1, 30, 30, T0, struct.pack("<IIIIIHH", 1, 0, 0, 0, 0, 0, 0), version=3))
    write_marks(tmp_path, [log])
    with pytest.raises(FormatVersionError, match=r"\.log: format version 3"):
        offsets(tmp_path)


def test_another_version_of_names(tmp_path: Path, log: LogFiles) -> None:
    path = log.path.with_suffix(".names")
    content = bytearray(path.read_bytes())
    content[4] = 9
    path.write_bytes(content)
    with pytest.raises(FormatVersionError, match=r"\.names: format version 9"):
        offsets(tmp_path)


def test_a_damaged_description(tmp_path: Path, log: LogFiles) -> None:
    (log.directory.parent / "log.json").write_text("{")
    with pytest.raises(CorruptLog, match=r"log\.json .*start of the broker makes it anew"):
        offsets(tmp_path)


def test_several_directories(tmp_path: Path) -> None:
    for number in (1, 2):
        data = tmp_path / f"node{number}"
        stamp(data)
        (log,) = routing_log(data, f"v{number}", NAMES)
        add(log, number)
        write_marks(data, [log])
    assert read_arrow(logdirs=f"{tmp_path}/node*", columns="vhost")["vhost"].to_pylist() == ["v1", "v2", "v2"]
    both = f"{tmp_path}/node1,{tmp_path}/node2"
    assert read_arrow(logdirs=both, columns="vhost").num_rows == 3


# --- the same answer, and what goes away ------------------------------------------------------------------
def test_a_loaded_table_stays_as_it_was(tmp_path: Path, log: LogFiles) -> None:
    table = Loaded(tmp_path)
    assert table.read() == list(range(30))
    add(log, 7)
    log.roll()
    add(log, 7)
    write_marks(tmp_path, [log])
    assert table.read() == list(range(30))
    assert len(Loaded(tmp_path).read()) == 44


def test_the_same_ending_offsets_give_the_same_rows(tmp_path: Path, log: LogFiles) -> None:
    ends = end_offsets(tmp_path)
    add(log, 7)
    (other,) = routing_log(tmp_path, "later", NAMES)
    add(other, 3)
    write_marks(tmp_path, [log, other])
    assert offsets(tmp_path, endingOffsets=ends) == list(range(30))
    assert offsets(tmp_path, startingOffsets=ends, vhosts="/") == list(range(30, 37))
    assert offsets(tmp_path, startingOffsets=ends) == [*range(30, 37), *range(3)]
    assert offsets(tmp_path, startingOffsets={"/": {0: 35}}, vhosts="/") == [35, 36]
    assert offsets(tmp_path, startingOffsets="latest") == []
    with pytest.raises(OptionError, match="ends at offset 37, 99 is not there yet"):
        offsets(tmp_path, endingOffsets={"/": {0: 99}})


def test_retention_between_load_and_plan(tmp_path: Path, log: LogFiles) -> None:
    strict, lenient = Loaded(tmp_path), Loaded(tmp_path, failOnDataLoss="false")
    (log.directory / f"{0:020d}.log").unlink()
    with pytest.raises(DataLoss, match=r"offsets 0 to 9 of the routing log .* failOnDataLoss=false"):
        strict.read()
    assert lenient.read() == list(range(10, 30))
    log.start = 10
    write_marks(tmp_path, [log])
    assert offsets(tmp_path) == list(range(10, 30))  # loaded anew


def test_retention_between_plan_and_read(tmp_path: Path, log: LogFiles) -> None:
    strict, lenient = Loaded(tmp_path), Loaded(tmp_path, failOnDataLoss="false")
    strict_splits, lenient_splits = strict.plan(), lenient.plan()
    (log.directory / f"{0:020d}.log").unlink()
    (log.directory / f"{0:020d}.names").unlink()
    with pytest.raises(DataLoss, match="offsets 0 to 9"):
        strict.rows(strict_splits[0])
    assert lenient.rows(lenient_splits[0]) == list(range(10, 30))


def test_asked_offsets_that_are_gone(tmp_path: Path, log: LogFiles) -> None:
    (log.directory / f"{0:020d}.log").unlink()
    log.start = 10
    write_marks(tmp_path, [log])
    with pytest.raises(DataLoss, match="option 'startingOffsets': offsets 5 to 9 of the routing log"):
        offsets(tmp_path, startingOffsets={"/": {0: 5}})
    assert offsets(tmp_path, startingOffsets={"/": {0: 5}}, failOnDataLoss="false") == list(range(10, 30))
    with pytest.raises(DataLoss, match="option 'startingOffsets': log 'gone' does not exist"):
        offsets(tmp_path, startingOffsets={"gone": {0: 5}})
    assert offsets(tmp_path, startingOffsets={"gone": {0: 5}}, failOnDataLoss="false") == list(range(10, 30))


def test_asked_offsets_as_names(tmp_path: Path, log: LogFiles) -> None:
    assert offsets(tmp_path, startingOffsets={"/": {0: -2}}) == list(range(30))
    assert offsets(tmp_path, startingOffsets={"/": {0: -1}}) == []
    with pytest.raises(OptionError, match="option 'endingOffsets': log '/' has no partition 7"):
        offsets(tmp_path, endingOffsets={"/": {7: 3}})


def queue(tmp_path: Path) -> LogFiles:
    stamp(tmp_path)
    log = queue_log(tmp_path, "/", "jobs", "cd" * 16)
    for first in (0, 10, 20):
        log.append(messages_batch(first, first + 9, [Sent(first + n, T0 + first + n) for n in range(10)]))
        if first < 20:
            log.roll()
    write_marks(tmp_path, [log])
    return log


def test_messages_settled_and_removed_since_the_load(tmp_path: Path) -> None:
    log = queue(tmp_path)
    strict = Loaded(tmp_path, table="messages")
    lenient = Loaded(tmp_path, table="messages", failOnDataLoss="false")
    (log.directory / f"{0:020d}.log").unlink()
    with pytest.raises(DataLoss, match=r"offsets 0 to 9 of queue 'jobs' .*\(their messages were settled"):
        strict.read()
    assert lenient.read() == list(range(10, 30))


def test_a_segment_cleaned_since_the_load(tmp_path: Path) -> None:
    """The broker keeps the live messages of an old segment in a new file of the same name."""
    log = queue(tmp_path)
    strict = Loaded(tmp_path, table="messages")
    lenient = Loaded(tmp_path, table="messages", failOnDataLoss="false")
    splits = lenient.plan()
    cleaned = log.directory / f"{10:020d}.log"
    temporary = cleaned.with_suffix(".tmp")
    temporary.write_bytes(stamped(messages_batch(10, 19, [Sent(n, T0 + n) for n in (12, 17)]), log.salt))
    temporary.rename(cleaned)
    with pytest.raises(DataLoss, match="offsets 10 to 19"):
        strict.read()
    expected = [*range(10), 12, 17, *range(20, 30)]
    assert lenient.rows(splits[0]) == expected  # cleaned between planning and reading
    assert lenient.read() == expected
    assert offsets(tmp_path, table="messages") == expected


def test_deleted_queue(tmp_path: Path) -> None:
    import shutil

    log = queue(tmp_path)
    table = Loaded(tmp_path, table="messages")
    ends = end_offsets(tmp_path, "messages")
    shutil.rmtree(log.directory.parent)
    write_marks(tmp_path, [])  # the broker takes the mark away first
    with pytest.raises(DataLoss, match="deleted"):
        table.read()
    with pytest.raises(DataLoss, match="does not exist"):
        offsets(tmp_path, table="messages", endingOffsets=ends)
    assert offsets(tmp_path, table="messages") == []


def test_selection_of_queues(tmp_path: Path) -> None:
    first = queue(tmp_path)
    other = queue_log(tmp_path, "v", "mail", "ef" * 16)
    other.append(messages_batch(0, 0, [Sent(0, T0)]))
    write_marks(tmp_path, [first, other])
    table = read_arrow(tmp_path, table="messages", columns="vhost,queue,log", queues="mail")
    assert table.to_pylist() == [{"vhost": "v", "queue": "mail", "log": "ef" * 16}]
    assert read_arrow(tmp_path, table="messages", vhosts="/").num_rows == 30


def test_a_damaged_header_of_the_marks(tmp_path: Path, log: LogFiles) -> None:
    path = tmp_path / "synced"
    head = b"ELSE" + path.read_bytes()[4:60]
    path.write_bytes(head + struct.pack("<I", crc32(head)) + path.read_bytes()[64:])
    with pytest.raises(CorruptLog, match="no file of synced marks"):
        offsets(tmp_path)
