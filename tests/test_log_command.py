"""``amqp-router log`` on what a real broker left, running and stopped, whole and damaged."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from amqp_router import log_inspect
from amqp_router.exit_codes import LogDirectoryError
from amqp_router.log_command import WAY_OUT, check
from amqp_router.log_text import size_text
from amqp_router.main import main
from persistence.errors import CorruptLog
from persistence.files import RealDisk
from persistence.log.queue.catalog import Catalog
from persistence.log.queue.queue_log import QueueLog
from tests.brokers import RouterProcess
from tests.persistence.log.support import Node, fill


def inspect(path: Path) -> tuple[list[str], bool]:
    """The lines of ``log inspect``, and whether all could be opened."""
    inspection = log_inspect.inspect(path)
    return log_inspect.table_lines(inspection, log_inspect.selected(inspection.found)), inspection.whole


def connect(broker: RouterProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RouterProcess]:
    """A broker with ten confirmed messages in queue "ten", three of them acknowledged."""
    process = RouterProcess(tmp_path, options=["--admin", "false", "--routing-log", "false"])
    process.start()
    connection = connect(process)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("ten", durable=True)
    for number in range(10):
        channel.basic_publish("", "ten", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    for _ in range(3):
        method, _, _ = channel.basic_get("ten")
        channel.basic_ack(method.delivery_tag)
    connection.close()
    yield process
    process.kill9()


def fingerprint(path: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def waiting(lines: list[str]) -> dict[str, str]:
    """Queue to waiting messages of `inspect`'s table."""
    return {fields[1]: fields[2] for fields in (line.split() for line in lines[1:])}


def segment(broker: RouterProcess) -> Path:
    [path] = broker.data_dir.glob("queues/*/0/*.log")
    return path


@pytest.mark.parametrize("end", ["stop", "kill9"])
def test_counts_are_those_of_the_next_start_and_nothing_is_changed(broker: RouterProcess, end: str) -> None:
    getattr(broker, end)()
    before = fingerprint(broker.data_dir)
    lines, whole = inspect(broker.data_dir)
    assert whole
    verified, good = check(broker.data_dir)
    assert good
    assert fingerprint(broker.data_dir) == before
    [line] = verified
    assert line.startswith("ok        / ten: 1 segments, ")
    assert " 10 messages, " in line
    broker.start()
    queue = connect(broker).channel().queue_declare("ten", passive=True)
    assert waiting(lines) == {"ten": str(queue.method.message_count)}


def test_running_broker(broker: RouterProcess) -> None:
    lines, whole = inspect(broker.data_dir)
    assert whole
    assert int(waiting(lines)["ten"]) in (7, 8, 9, 10)  # acknowledgements reach the disk a little later
    assert check(broker.data_dir)[1]


def test_torn_tail_is_told_and_left(broker: RouterProcess) -> None:
    broker.kill9()
    path = segment(broker)
    with path.open("ab") as file:
        file.write(b"ARLB torn")
    before = fingerprint(broker.data_dir)
    lines, whole = inspect(broker.data_dir)
    assert whole
    assert lines[1].endswith("9 torn bytes at the end")
    [line], good = check(broker.data_dir)
    assert good
    assert line.startswith("torn ")
    assert f"{path} at byte {path.stat().st_size - 9}, 9 bytes" in line
    assert fingerprint(broker.data_dir) == before


def test_rot_is_an_error_that_names_file_and_position(
    broker: RouterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.kill9()
    path = segment(broker)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    for command in ("inspect", "verify"):
        assert main(["log", command, str(broker.data_dir)]) == 1
        text = capsys.readouterr().out
        assert str(path) in text
        assert re.search(r"byte \d+", text)


def test_damage_of_the_last_confirmed_batch_is_told_of(
    broker: RouterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """No later batch witnesses it; the marks know."""
    broker.kill9()
    path = segment(broker)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for command in ("inspect", "verify"):
        assert main(["log", command, str(broker.data_dir)]) == 1
        text = capsys.readouterr().out
        assert re.search(f"{path}.* at byte [0-9]+.* had been made durable", text)
    for end in ("stop", "kill9"):
        broker.start()
        channel = connect(broker).channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=f"{path.name} at byte"):
            channel.queue_declare("ten", passive=True)
        getattr(broker, end)()
        assert path.read_bytes() == content
    assert main(["log", "verify", str(broker.data_dir)]) == 1


def test_logs_beside_new_definitions_are_refused(broker: RouterProcess) -> None:
    broker.stop()
    for path in broker.data_dir.glob("definitions.sqlite*"):
        path.unlink()
    before = fingerprint(broker.data_dir / "queues")
    for _ in range(2):
        command = [sys.executable, "-m", "amqp_router", "serve", "--data-dir", str(broker.data_dir)]
        command += ["--admin", "false", "--amqp-port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 3
        assert "has the logs of 1 queues; restore definitions.sqlite" in done.stderr
        assert "Traceback" not in done.stderr
        assert fingerprint(broker.data_dir / "queues") == before


def test_several_queues_are_a_table(broker: RouterProcess) -> None:
    channel = connect(broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("a much longer name", durable=True)
    channel.basic_publish("", "a much longer name", b"x", pika.BasicProperties(delivery_mode=2))
    lines, _ = inspect(broker.data_dir)
    assert len(lines) == 3
    assert len({line.index("/") for line in lines[1:]}) == 1
    assert lines[0].split("  ")[0] == "virtual host"


@pytest.fixture
def routed(tmp_path: Path) -> RouterProcess:
    """A broker that has stopped after 25 publishes to one exchange."""
    process = RouterProcess(tmp_path, options=["--admin", "false", "--routing-partitions", "1"])
    process.start()
    with connect(process) as connection:
        channel = connection.channel()
        for number in range(25):
            channel.basic_publish("amq.direct", f"{number % 5}", b"x" * number)
    process.stop()
    return process


def test_routing_logs_are_told_of(routed: RouterProcess) -> None:
    before = fingerprint(routed.data_dir)
    lines, whole = inspect(routed.data_dir)
    assert whole
    assert lines[0] == "there is no durable queue"
    assert lines[2].split() == ["virtual", "host", "routing", "log", "events", "offsets", "segments", "size"]
    assert lines[3].split()[:6] == ["/", "partition", "0", "25", "0..25", "1"]
    [line], good = check(routed.data_dir)
    assert good
    assert line.startswith(
        "ok        / routing log, partition 0: 1 segments, 1 batches, 25 events, 1 routes, "
    )
    [log] = routed.data_dir.glob("routing/*/0")
    for path in (log, log.parent, log.parent.parent):
        assert check(path) == ([line], True)
    assert fingerprint(routed.data_dir) == before


def test_damage_of_a_routing_log_is_told_of(routed: RouterProcess) -> None:
    [path] = routed.data_dir.glob("routing/*/0/*.log")
    whole = path.read_bytes()
    path.write_bytes(whole + b"ARLB torn")
    lines, good = inspect(routed.data_dir)
    assert good
    assert lines[3].endswith("9 torn bytes at the end")
    [line], good = check(routed.data_dir)
    assert good
    assert line.startswith("torn ")
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    lines, good = inspect(routed.data_dir)
    assert "will be set aside" in lines[3]
    assert good, "the next start goes on without it"
    path.write_bytes(whole)
    [names] = routed.data_dir.glob("routing/*/0/*.names")
    names.write_bytes(names.read_bytes()[:-1])
    [line, last], good = check(routed.data_dir)
    assert not good
    assert last == WAY_OUT
    assert line.startswith("DAMAGED ")
    assert "route 0 has no name" in line


def test_directory_without_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("inspect", "verify"):
        assert main(["log", command, str(tmp_path)]) == 2
        assert str(tmp_path) in capsys.readouterr().err
    with pytest.raises(LogDirectoryError):
        check(tmp_path / "none")


def test_the_data_directory_is_named_as_in_other_commands(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--data-dir``, or the first argument, or ./data."""
    (tmp_path / "data").symlink_to(stopped)
    monkeypatch.chdir(tmp_path)
    for command, *rest in (["inspect"], ["verify"], ["salvage", "queue a", "FILE"]):
        outputs = []
        for options in (["--data-dir", str(stopped)], [str(stopped)], []):
            out = tmp_path / f"{len(outputs)}.jsonl"
            more = [str(out) if argument == "FILE" else argument for argument in rest]
            assert main(["log", command, *options, *more]) == 0
            outputs.append(capsys.readouterr().out.replace(str(out), "FILE").replace(str(stopped), "data"))
            out.unlink(missing_ok=True)
        assert outputs[0]
        assert outputs == [outputs[0]] * 3
    assert main(["log", "verify", str(stopped), "--data-dir", str(stopped)]) == 2
    assert "--data-dir names the data directory" in capsys.readouterr().err
    assert main(["log", "salvage", "--data-dir", "none", "a", "b"]) == 2
    assert "none: is not a directory" in capsys.readouterr().err


def test_sizes() -> None:
    assert [size_text(size) for size in (0, 1023, 1536, 64 << 20, 5 << 50)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "64.0 MiB",
        "5120.0 TiB",
    ]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A data directory with the logs of two queues, in queues/a and queues/b, after a clean stop."""
    node = Node(RealDisk(), data_dir=str(tmp_path))
    for name in ("a", "b"):
        log = node.catalog.create(name, "/", f"queue {name}", {})
        for number in range(10):
            fill(log, 10, first=number)
            node.settle()
    node.catalog.stop()
    return tmp_path


def test_segments_that_are_not_there_are_damage(stopped: Path) -> None:
    assert check(stopped)[1]
    segments = sorted(stopped.glob("queues/a/0/*.log"))
    segments[1].unlink()
    for path in (stopped, stopped / "queues", stopped / "queues" / "a", stopped / "queues" / "a" / "0"):
        lines, good = check(path)
        assert not good
        assert lines[0].startswith("DAMAGED   / queue a: ")
        assert lines[0].endswith(f"; {segments[1]} at byte 0, 0 bytes: the segment is missing")
        assert lines[-1] == WAY_OUT
    assert check(stopped / "queues" / "b")[1]


def test_a_tail_cut_below_the_checkpoint_is_damage(stopped: Path) -> None:
    segment = max(stopped.glob("queues/a/0/*.log"))
    os.truncate(segment, segment.stat().st_size - 1)
    lines, good = check(stopped)
    assert not good
    assert "the segment ends before its recovery point" in lines[0]


def test_a_rotten_checkpoint_of_the_node_is_told_of(stopped: Path) -> None:
    (stopped / "logs.checkpoint").write_bytes(b"?" * 100)
    lines, good = check(stopped)
    assert not good
    assert lines[0].startswith(
        f"DAMAGED   checkpoint of the last stop: {stopped}/logs.checkpoint at byte 0: "
    )
    assert [line.split(":")[0] for line in lines[1:3]] == ["ok        / queue a", "ok        / queue b"]
    assert inspect(stopped)[1]


def test_what_cannot_be_read_is_named(stopped: Path) -> None:
    path = stopped / "queues" / "a" / "0" / f"{9999:020d}.log"
    path.mkdir()
    lines, good = check(stopped)
    assert not good
    assert lines[0] == f"DAMAGED   / queue a: cannot be read: [Errno 21] Is a directory: '{path}'"
    assert lines[1].startswith("ok        / queue b: ")


def test_a_log_without_its_description_is_inspected(stopped: Path) -> None:
    (stopped / "queues" / "a" / "log.json").unlink()
    (stopped / "logs.checkpoint").unlink()
    lines, whole = inspect(stopped)
    assert whole, lines
    assert ["?", "a", "100"] in [line.split()[:3] for line in lines]


def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    node = Node(RealDisk(), data_dir=str(tmp_path))
    fill(node.catalog.create("a", "/\udcff", "\x1b[31mrot\n é", {}), 1)
    node.settle()
    node.catalog.stop()
    wanted = "/\\udcff", "\\x1b[31mrot\\n é"
    lines, _ = inspect(tmp_path)
    assert lines[1].split("  ")[0] == wanted[0]
    assert wanted[1] in lines[1]
    lines, _ = check(tmp_path)
    assert lines[0].startswith(f"ok        {wanted[0]} {wanted[1]}: ")


def test_a_log_that_changes_while_it_is_opened_is_opened_again(
    stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running broker removes segments that a first look saw."""
    opened: list[str] = []

    def changing(catalog: Catalog, incarnation: str, *, partition: int = 0) -> QueueLog:
        opened.append(incarnation)
        if opened.count(incarnation) == 1:
            raise CorruptLog("00000000000000000000.log", 0, "the segment is missing")
        return open_log(catalog, incarnation, partition=partition)

    open_log = Catalog.open
    monkeypatch.setattr(Catalog, "open", changing)
    lines, whole = inspect(stopped)
    assert whole
    assert waiting([line.replace("queue ", "") for line in lines]) == {"a": "100", "b": "100"}


def test_every_durable_queue_filter_order_and_json(
    broker: RouterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("empty", durable=True)
    channel.queue_declare("Orders.eu", durable=True)
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish("", "Orders.eu", bytes(100), pika.BasicProperties(delivery_mode=2))
    connection.close()
    broker.stop()
    before = fingerprint(broker.data_dir)
    assert waiting(inspect(broker.data_dir)[0]) == {"Orders.eu": "20", "empty": "0", "ten": "7"}
    directory = str(broker.data_dir)
    assert main(["log", "inspect", directory, "--sort", "waiting", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = [(each["name"], each["waiting"], each["note"]) for each in found["logs"]]
    assert names == [("Orders.eu", 20, ""), ("ten", 7, ""), ("empty", 0, "no message yet")]
    assert found["whole"] is True
    assert main(["log", "inspect", directory, "--filter", "orders"]) == 0
    assert waiting(capsys.readouterr().out.splitlines()) == {"Orders.eu": "20"}
    assert main(["log", "inspect", directory, "--filter", "nothing like it"]) == 0
    assert capsys.readouterr().out == "there is no such queue\n"
    assert fingerprint(broker.data_dir) == before


def test_an_emptied_queue_is_inspected(broker: RouterProcess) -> None:
    channel = connect(broker).channel()
    while channel.basic_get("ten", auto_ack=True)[0] is not None:
        pass
    broker.stop()
    before = fingerprint(broker.data_dir)
    lines, whole = inspect(broker.data_dir)
    assert whole
    assert waiting(lines) == {"ten": "0"}
    assert fingerprint(broker.data_dir) == before


def test_a_log_that_no_definition_knows_is_named(broker: RouterProcess) -> None:
    broker.stop()
    with sqlite3.connect(broker.data_dir / "definitions.sqlite") as definitions:
        definitions.execute("delete from queues where name = 'ten'")
    notes = {each.name: each.note for each in log_inspect.inspect(broker.data_dir).found}
    assert notes["ten"] == "no definition: the next start sets it aside"


def test_a_copied_log_under_the_name_of_another_is_damage(broker: RouterProcess) -> None:
    broker.stop()
    [path] = (broker.data_dir / "queues").iterdir()
    shutil.copytree(path, path.with_name("0" * len(path.name)))
    lines, whole = check(broker.data_dir)
    assert not whole
    (damaged,) = [line for line in lines if line.startswith("DAMAGED")]
    assert "belongs to another log: queue 'ten' of virtual host '/'" in damaged


def test_without_readable_definitions_the_logs_are_shown_alone(broker: RouterProcess) -> None:
    broker.kill9()
    (broker.data_dir / "definitions.sqlite").write_bytes(b"no database")
    lines, whole = inspect(broker.data_dir)
    assert whole
    assert list(waiting(lines)) == ["ten"]


def test_a_journal_that_cannot_be_read_is_told_and_the_logs_are_looked_at(broker: RouterProcess) -> None:
    broker.stop()
    (broker.data_dir / "commit-00000000.journal").mkdir()
    lines, whole = check(broker.data_dir)
    assert not whole
    assert lines[0].startswith("DAMAGED   journal: [Errno 21] Is a directory: ")
    assert lines[1].startswith("ok        / ten: ")


def test_salvage_writes_what_is_readable(
    broker: RouterProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.stop()
    out = tmp_path / "ten.jsonl"
    assert main(["log", "salvage", str(broker.data_dir), "ten", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["body"] for row in rows] == [str(number) for number in range(3, 10)]
    assert {row["routing_key"] for row in rows} == {"ten"}
    assert rows[0]["properties"]["delivery_mode"] == 2
    assert capsys.readouterr().out.startswith("7 messages written to ")
    # One that is there is not written over.
    assert main(["log", "salvage", str(broker.data_dir), "ten", str(out)]) == 2
    assert main(["log", "salvage", str(broker.data_dir), "other", str(tmp_path / "x")]) == 2
    assert "no log of a queue 'other'" in capsys.readouterr().err

    path = segment(broker)
    data = bytearray(path.read_bytes())
    # The first batch begins the epoch; then comes one for each message.
    data[[found.start() for found in re.finditer(b"ARLB", data)][6] + 80] ^= 1
    path.write_bytes(data)
    before = fingerprint(broker.data_dir)
    out.unlink()
    assert main(["log", "salvage", str(broker.data_dir), path.parent.parent.name, str(out)]) == 1
    assert fingerprint(broker.data_dir) == before
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["body"] for line in out.read_text().splitlines()] == [
        "3",
        "4",
        "6",
        "7",
        "8",
        "9",
    ]
    assert re.match(rf"missing: offsets \d+ to \d+, up to 1 messages: {path} at byte \d+", lines[1])


def test_verify_names_a_promised_folder_that_is_missing(broker: RouterProcess) -> None:
    broker.kill9()
    folder = segment(broker).parent.parent
    shutil.rmtree(folder)
    lines, whole = check(broker.data_dir)
    assert not whole
    assert lines[0].startswith(f"DAMAGED   / ten: {folder}/0 is missing, but everything below offset ")
    # Where an operator has put it into quarantine, the queue begins empty: no damage.
    (broker.data_dir / "quarantine" / folder.name).mkdir(parents=True)
    assert check(broker.data_dir) == (["no durable queue has a log yet"], True)
