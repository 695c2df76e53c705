"""Never fewer rows without an error: what is missing, which names exist, whose offsets they are."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert

from persistence.definitions.schema import EXCHANGES, METADATA
from persistence.log.format.checkpoint import LogState, SegmentState, pack_file, pack_log
from spark_analytics import snapshot
from spark_analytics.arrow import end_offsets, read_arrow
from spark_analytics.errors import AnalyticsError, CorruptLog, DataLoss, IncompleteDirectory, OptionError

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

NAMES = [name("flights", "all"), name("", "q")]
T0 = 1_700_000_000_000_000


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_PAUSE_S", 0.0)


def fill_queue(data: Path, queue: str, log_id: str, segments: int = 3) -> LogFiles:
    log = queue_log(data, "/", queue, log_id)
    for number in range(segments):
        for half in (0, 5):
            first = number * 10 + half
            log.append(messages_batch(first, first + 4, [Sent(first + n, T0 + first + n) for n in range(5)]))
        if number + 1 < segments:
            log.roll()
    return log


def live_directory(data: Path) -> list[LogFiles]:
    """Two partitions of a routing log and two queues, one of them with a checkpoint."""
    stamp(data)
    logs = routing_log(data, "/", NAMES, partitions=2)
    for log in logs:
        for number in range(3):
            for _ in range(2):
                log.append(
                    routing_batch(log.end, [Run(n % 2, b"k%d" % n, T0 + log.end + n) for n in range(5)])
                )
            if number < 2:
                log.roll()
    logs.append(fill_queue(data, "jobs", "cd" * 16))
    mail = fill_queue(data, "mail", "ef" * 16)
    write_checkpoint(mail)
    logs.append(mail)
    write_marks(data, logs)
    return logs


def write_checkpoint(log: LogFiles, *, without: int | None = None) -> None:
    """As of now, ``without`` a segment all of whose messages are settled."""
    bases = sorted(int(path.stem) for path in log.directory.glob("*.log"))
    state = LogState(log.directory.parent.name, 0, recovery_offset=log.end)
    for base, end in zip(bases, [*bases[1:], log.end], strict=True):
        if base != without:
            state.segments.append(SegmentState(base, end, 1, end - base, end - base))
    state.start = log.start = state.segments[0].base
    (log.directory / "checkpoint").write_bytes(pack_file([pack_log(state)], clean=False, now_us=T0))


def rows(data: Path) -> list[list[dict[str, object]]]:
    return [read_arrow(data, table=table).to_pylist() for table in ("routing", "messages")]


def test_any_one_file_removed_or_cut(tmp_path: Path) -> None:
    """The same rows, or an error that names something of the directory."""
    data = tmp_path / "data"
    live_directory(data)
    whole = rows(data)
    assert [len(table) for table in whole] == [60, 60]
    kept = tmp_path / "kept"
    shutil.copytree(data, kept)
    refused = 0
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        content = path.read_bytes()
        middle = len(content) // 2
        # Between two batches too, where nothing is torn.
        for size in (None, 0, 1, 64, middle, len(content) - 1):
            if size is None:
                path.unlink()
            else:
                path.write_bytes(content[:size])
            try:
                assert rows(data) == whole, (path, size)
            except AnalyticsError as error:
                assert str(data) in str(error) or "offsets" in str(error), (path, size)  # noqa: PT017
                refused += 1
            path.write_bytes(content)
    assert refused > 50
    assert rows(data) == whole


def test_any_one_folder_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    live_directory(data)
    for path in sorted(path for path in data.rglob("*") if path.is_dir()):
        path.rename(tmp_path / "away")
        with pytest.raises(IncompleteDirectory, match=str(path)):
            rows(data)
        (tmp_path / "away").rename(path)


def test_what_is_left_of_a_segment_that_is_cut(tmp_path: Path) -> None:
    log = live_directory(tmp_path)[2]
    os.truncate(log.path, log.path.stat().st_size // 2 + 3)
    with pytest.raises(CorruptLog, match="the file is not there or shorter"):
        read_arrow(tmp_path, table="messages")
    assert read_arrow(tmp_path, table="messages", failOnDataLoss="false").num_rows == 55


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"partitions": 2', '"partitions": 1', "knows no partition 1, only 1"),
        ('"partitions"', '"partition3"', "knows no partition 1, only 1"),
        ('"vhost": "/"', '"vhost": "x"', "description of another log"),
    ],
)
def test_a_changed_log_json_of_a_routing_log(tmp_path: Path, old: str, new: str, text: str) -> None:
    live_directory(tmp_path)
    (path,) = tmp_path.glob("routing/*/log.json")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(AnalyticsError, match=f"{path}.*{text}"):
        read_arrow(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    logs = live_directory(tmp_path)
    description = logs[0].directory.parent / "log.json"
    description.unlink()
    with pytest.raises(IncompleteDirectory, match=rf"{description}: the file is missing.*up to offset 30"):
        read_arrow(tmp_path)
    assert read_arrow(tmp_path, table="messages").num_rows == 60  # nothing of this table is missing
    assert read_arrow(tmp_path, failOnDataLoss="false").num_rows == 0
    os.truncate(tmp_path / "synced", 128)
    with pytest.raises(CorruptLog, match=r"synced at byte 128.*cut short: it has 4 slots"):
        read_arrow(tmp_path, table="messages")


def test_segments_of_a_queue(tmp_path: Path) -> None:
    jobs, mail = live_directory(tmp_path)[2:]
    for log in (jobs, mail):
        closed = log.directory / f"{10:020d}.log"
        content = closed.read_bytes()
        os.truncate(closed, len(content) // 2)  # between two batches
        with pytest.raises(DataLoss, match="offsets 15 to 19 of queue"):
            read_arrow(tmp_path, table="messages")
        assert read_arrow(tmp_path, table="messages", failOnDataLoss="false").num_rows == 55
        closed.write_bytes(content)
    (mail.directory / f"{10:020d}.log").unlink()
    with pytest.raises(IncompleteDirectory, match=rf"{10:020d}\.log: this segment of queue 'mail'"):
        read_arrow(tmp_path, table="messages")


@pytest.mark.parametrize("byte", [100, 140, 30, 0])
def test_a_bad_batch_is_named_and_may_be_left_out(
    tmp_path: Path, byte: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In its payload, or in its header: then the next batch is searched for."""
    stamp(tmp_path)
    (events,) = routing_log(tmp_path, "/", NAMES)
    queue = queue_log(tmp_path, "/", "jobs", "cd" * 16)
    for number in range(3):
        base = number * 5
        events.append(routing_batch(base, [Run(0, b"ARLB", T0 + base + n) for n in range(5)]))
        queue.append(
            messages_batch(base, base + 4, [Sent(base + n, T0 + base, body=b"ARLB" * 30) for n in range(5)])
        )
    write_marks(tmp_path, [events, queue])
    for log, table in ((events, "routing"), (queue, "messages")):
        content = bytearray(log.path.read_bytes())
        content[len(content) // 3 + byte] ^= 1
        log.path.write_bytes(content)
        with pytest.raises(CorruptLog, match=r"offsets 5 to 9 cannot be read; option failOnDataLoss=false"):
            read_arrow(tmp_path, table=table)
        caplog.clear()
        left = read_arrow(tmp_path, table=table, columns="offset", failOnDataLoss="false")
        assert left["offset"].to_pylist() == [*range(5), *range(10, 15)]
        (warning,) = caplog.messages
        assert re.search(rf"{log.path} at byte \d+: .*; 5 offsets of .*, 5 to 9, are left out", warning)


def test_a_settled_segment_may_be_gone(tmp_path: Path) -> None:
    logs = live_directory(tmp_path)
    mail = logs[3]
    for base, count in ((10, 50), (0, 40)):
        write_checkpoint(mail, without=base)
        write_marks(tmp_path, logs)
        assert read_arrow(tmp_path, table="messages").num_rows >= count  # it is about to be removed
        (mail.directory / f"{base:020d}.log").unlink()
        assert read_arrow(tmp_path, table="messages").num_rows == count


def test_a_queue_deleted_between_the_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = live_directory(tmp_path)
    from spark_analytics import discovery

    usual = discovery.read_marks

    def deleted_meanwhile(directory: str) -> object:
        write_marks(tmp_path, logs[:3])
        return usual(directory)

    shutil.rmtree(logs[3].directory.parent)
    monkeypatch.setattr(discovery, "read_marks", deleted_meanwhile)
    assert read_arrow(tmp_path, table="messages").num_rows == 30


def test_a_mark_that_comes_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue made after the folders were listed is no part of this moment, and no error."""
    logs = live_directory(tmp_path)
    usual = snapshot.discover

    def older(node: object, table: str) -> object:
        return usual(node, table)[:-1]  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot, "discover", older)
    assert read_arrow(tmp_path, table="messages").num_rows == 30
    assert len(logs) == 4


# --- whose it is ------------------------------------------------------------------------------------------
def two_nodes(tmp_path: Path) -> str:
    for letter, count in (("a", 5), ("b", 7)):
        data = tmp_path / letter
        stamp(data)
        (log,) = routing_log(data, "/", NAMES)
        log.append(routing_batch(0, [Run(0, b"k", T0 + n) for n in range(count)]))
        write_marks(data, [log])
    return f"{tmp_path}/a,{tmp_path}/b"


def test_offsets_are_of_one_node(tmp_path: Path) -> None:
    """The routing logs of two nodes have the same id."""
    both = two_nodes(tmp_path)
    assert read_arrow(logdirs=both).num_rows == 12
    of_a = json.loads(end_offsets(tmp_path / "a"))
    assert read_arrow(logdirs=both, startingOffsets=of_a).num_rows == 7
    assert read_arrow(logdirs=both, endingOffsets=of_a).num_rows == 5
    (key,) = of_a
    with pytest.raises(OptionError, match="several nodes are read"):
        read_arrow(logdirs=both, startingOffsets={key.split("/")[1]: {"0": 3}})
    with pytest.raises(OptionError, match="several nodes are read"):
        read_arrow(logdirs=both, startingOffsets={"/": {"0": 3}})
    with pytest.raises(DataLoss, match="does not exist"):
        read_arrow(tmp_path / "b", startingOffsets=of_a)


def test_the_node_is_a_column(tmp_path: Path) -> None:
    table = read_arrow(logdirs=two_nodes(tmp_path), columns="node,offset")
    assert set(table["node"].to_pylist()) == {node_of(tmp_path / "a"), node_of(tmp_path / "b")}


def test_one_directory_under_two_names(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_arrow(logdirs=f"{tmp_path}/a,{tmp_path}/link").num_rows == 5
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(OptionError, match="copies of one data directory"):
        read_arrow(logdirs=f"{tmp_path}/a,{tmp_path}/copy")


# --- names ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"vhosts": "/x"}, "there is no virtual host '/x'; did you mean '/'"),
        ({"table": "messages", "queues": "job"}, "there is no durable queue 'job'; did you mean 'jobs'"),
        ({"queues": "al"}, "option 'queues': there is no queue 'al'; did you mean 'all'"),
        (
            {"exchanges": "fligths"},
            "option 'exchanges': there is no exchange 'fligths'; did you mean 'flights'",
        ),
        ({"queues": "all,q,nothing"}, "there is no queue 'nothing'; there are: all, jobs, mail, q "),
        ({"partitions": "2"}, "there is no partition 2; there are 0 to 1"),
        ({"table": "messages", "partitions": "1"}, "there is no partition 1; there are 0 to 0"),
    ],
)
def test_unknown_names(tmp_path: Path, options: dict[str, str], text: str) -> None:
    live_directory(tmp_path)
    with pytest.raises(OptionError, match=text):
        read_arrow(tmp_path, **options)


def test_names_that_have_no_events_or_no_declaration(tmp_path: Path) -> None:
    """The routing log knows deleted queues, and durable ones to which nothing was routed."""
    data = tmp_path / "data"
    live_directory(data)
    assert read_arrow(data, queues="all").num_rows == 36  # no queue of that name has a log
    assert read_arrow(data, queues="mail").num_rows == 0
    assert read_arrow(data, exchanges="amq.topic").num_rows == 0
    with pytest.raises(OptionError, match="no exchange 'idle'"):
        read_arrow(data, exchanges="idle")
    engine = create_engine(f"sqlite:///{data}/definitions.sqlite")
    METADATA.create_all(engine)  # as the broker makes it
    rest = {"type": "topic", "auto_delete": False, "internal": False, "arguments": b""}
    rows = [{"vhost": "/", "name": "idle", **rest}, {"vhost": "other", "name": "theirs", **rest}]
    with engine.begin() as connection:
        connection.execute(insert(EXCHANGES), rows)
    engine.dispose()
    assert read_arrow(data, exchanges="idle").num_rows == 0
    with pytest.raises(OptionError, match="no exchange 'theirs'"):
        read_arrow(data, exchanges="theirs", vhosts="/")


def test_names_with_commas_and_blanks(tmp_path: Path) -> None:
    stamp(tmp_path)
    names = ["a,b", " c ", "[d", 'e"f']
    logs = []
    for number, queue in enumerate(names):
        log = queue_log(tmp_path, "/", queue, f"{number:032x}")
        log.append(messages_batch(0, 0, [Sent(0, T0)]))
        logs.append(log)
    write_marks(tmp_path, logs)
    for queue in names:
        for value in (json.dumps([queue]), [queue]):
            found = read_arrow(tmp_path, table="messages", queues=value, columns="queue")
            assert found["queue"].to_pylist() == [queue]
    with pytest.raises(OptionError, match="written as JSON"):
        read_arrow(tmp_path, table="messages", queues="a,b")


def test_columns_match_as_in_spark(tmp_path: Path) -> None:
    live_directory(tmp_path)
    assert read_arrow(tmp_path, columns="Offset,VHOST").schema.names == ["offset", "vhost"]


def test_a_queue_that_is_being_deleted(tmp_path: Path) -> None:
    """Its mark is gone, and its folder has another name while its files are removed."""
    logs = live_directory(tmp_path / "data")
    gone = logs.pop(2)
    write_marks(tmp_path / "data", logs)
    folder = gone.directory.parent
    folder.rename(folder.with_name(f"{folder.name}.deleted"))
    rows = read_arrow(tmp_path / "data", table="messages", columns="queue").to_pylist()
    assert {row["queue"] for row in rows} == {"mail"}
    (tmp_path / "data" / "synced").unlink()
    rows = read_arrow(tmp_path / "data", table="messages", columns="queue", failOnDataLoss=False).to_pylist()
    assert {row["queue"] for row in rows} == {"mail"}
