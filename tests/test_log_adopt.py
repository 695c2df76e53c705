"""``amqp-router log adopt``, and what a start says of definitions that do not fit the logs."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pytest

from amqp_router.log_adopt import _arguments
from amqp_router.main import main
from amqp_router.protocol.fields import Table, decode_table
from persistence.definitions import QueueRow, read_queues
from persistence.files import RealDisk
from tests.brokers import BrokerDied, RouterProcess
from tests.persistence.log.support import Node, fill

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "typed": {
        "when": datetime.datetime(2026, 1, 2, 3, 4, 5),
        "price": Decimal("1.25"),
        "big": 1 << 40,
        "negative": -3,
        "yes": True,
        "nothing": None,
        "list": [1, "two", {"three": 3}],
    },
    # Kept as octets, and not shown in log.json.
    "large": {f"name {number}": "x" * 30 for number in range(40)},
}


def adopted(directory: Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> list[str]:
    assert main(["log", "adopt", "--data-dir", str(directory)]) == code
    return capsys.readouterr().out.splitlines()


def connect(broker: RouterProcess) -> Any:
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def publish(channel: Any, queue: str, count: int) -> None:
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))


def rows_of(broker: RouterProcess) -> list[QueueRow]:
    rows = read_queues(broker.data_dir / "definitions.sqlite")
    assert rows is not None
    return rows


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RouterProcess]:
    """A broker with three durable queues of five messages each, and one that never had any."""
    process = RouterProcess(tmp_path, options=["--admin", "false", "--routing-log", "false"])
    process.start()
    channel = connect(process)
    for name, arguments in ARGUMENTS.items():
        channel.queue_declare(name, durable=True, auto_delete=name == "typed", arguments=arguments)
        publish(channel, name, 5)
    channel.queue_declare("empty", durable=True)
    channel.connection.close()
    yield process
    process.kill9()


def refused(broker: RouterProcess) -> str:
    with pytest.raises(BrokerDied):
        broker.start()
    return broker.log().splitlines()[-1]


def test_definitions_that_are_lost_are_made_of_the_logs(
    broker: RouterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "adopt", "--data-dir", str(broker.data_dir)]) == 3  # it runs
    assert "log adopt" not in capsys.readouterr().out
    broker.stop()
    before = {row.name: row for row in rows_of(broker)}
    for path in broker.data_dir.glob("definitions.sqlite*"):
        path.unlink()
    assert f"log adopt --data-dir {broker.data_dir}" in refused(broker)
    lines = adopted(broker.data_dir, capsys)
    assert len(lines) == 5
    assert all(line.startswith("adopted: queues/") and "not restored" not in line for line in lines[:3])
    assert lines[3] == "3 logs adopted, 0 queues were defined already"
    assert "exchanges, bindings, users" in lines[4]
    # Octet by octet as they were declared, with their logs.
    assert {row.name: row for row in rows_of(broker)} == {name: before[name] for name in ARGUMENTS}
    assert adopted(broker.data_dir, capsys) == ["0 logs adopted, 3 queues were defined already"]
    broker.start()
    channel = connect(broker)
    for name, arguments in ARGUMENTS.items():
        found = channel.queue_declare(name, durable=True, auto_delete=name == "typed", arguments=arguments)
        assert found.method.message_count == 5
    channel.connection.close()


def test_a_flipped_bit_in_the_id_of_a_log(broker: RouterProcess, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever in the definitions it is: the queue has its messages, or the start says what is wrong."""
    broker.stop()
    row = {row.name: row for row in rows_of(broker)}["large"]
    path = broker.data_dir / "definitions.sqlite"
    whole = path.read_bytes()
    verdicts = []
    position = whole.find(row.incarnation.encode())
    while position >= 0:
        data = bytearray(whole)
        data[position + 4] ^= 1
        path.write_bytes(data)
        wrong = data[position : position + 32].decode()
        try:
            broker.start()
            verdicts.append("starts")
        except BrokerDied:
            reason = broker.log().splitlines()[-1]
            assert (
                f"queue 'large' in virtual host '/' has its log in queues/{wrong}, which is missing" in reason
            )
            assert f"while queues/{row.incarnation} says that it is the log of this queue" in reason
            assert f"log adopt --data-dir {broker.data_dir}" in reason
            assert not (broker.data_dir / "quarantine").exists()
            (line, counts) = adopted(broker.data_dir, capsys)
            assert line.startswith(f"adopted: queues/{row.incarnation} (queue 'large' in virtual host '/')")
            assert counts == "1 logs adopted, 4 queues were defined already"
            assert row in rows_of(broker)
            verdicts.append("refuses")
            broker.start()
        channel = connect(broker)
        assert channel.queue_declare("large", passive=True).method.message_count == 5
        channel.connection.close()
        broker.stop()
        position = whole.find(row.incarnation.encode(), position + 1)
    assert "refuses" in verdicts


def test_what_a_deleted_queue_left_behind_is_no_misplaced_log(
    broker: RouterProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed between storing that it is deleted and declared anew, and the removal of its log."""
    row = {row.name: row for row in rows_of(broker)}["plain"]
    folder = broker.data_dir / "queues" / row.incarnation
    shutil.copytree(folder, tmp_path / "copy")
    channel = connect(broker)
    channel.queue_delete("plain")
    channel.queue_declare("plain", durable=True)
    broker.kill9()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tmp_path / "copy", folder)
    lines = adopted(broker.data_dir, capsys, code=1)
    assert lines[0].startswith(
        f"left: queues/{row.incarnation} (queue 'plain' in virtual host '/'): the queue"
    )
    broker.start()
    channel = connect(broker)
    assert channel.queue_declare("plain", passive=True).method.message_count == 0
    channel.connection.close()
    assert (broker.data_dir / "quarantine" / row.incarnation).is_dir()


def test_logs_that_cannot_be_adopted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "adopt", "--data-dir", str(tmp_path)]) == 2
    assert "has no folder queues" in capsys.readouterr().err
    data = tmp_path / "data"
    node = Node(RealDisk(), data_dir=str(data))
    for incarnation, name in (("a", "twice"), ("b", "twice"), ("c", "\x1b[2J"), ("d", "unreadable")):
        fill(node.catalog.create(incarnation, "tenant", name, {}), 3)
    node.settle()
    node.catalog.stop()
    (data / "amqp-router.json").write_text(json.dumps({"layout": 1, "store_id": "x", "made_by": "test"}))
    (data / "queues" / "d" / "log.json").write_text("{")
    lines = adopted(data, capsys, code=1)
    two = "another log is of the same queue: move one of them into quarantine/"
    assert lines == [
        f"left: queues/a (queue 'twice' in virtual host 'tenant'): {two}",
        f"left: queues/b (queue 'twice' in virtual host 'tenant'): {two}",
        "virtual host 'tenant' made",
        r"adopted: queues/c (queue '\x1b[2J' in virtual host 'tenant')",
        "left: queues/d (unknown queue): its log.json cannot be read",
        "1 logs adopted, 0 queues were defined already",
        lines[-1],
    ]
    rows = read_queues(data / "definitions.sqlite")
    assert rows is not None
    assert [(row.vhost, row.name, row.incarnation) for row in rows] == [("tenant", "\x1b[2J", "c")]


def test_what_an_older_description_tells_of_arguments() -> None:
    """It shows them as JSON: what that says exactly is taken, and what is lost is named."""
    about = {
        "arguments": {
            "text": ["S", "ü\udcff"],
            "int": ["I", 5],
            "flag": ["t", True],
            "price": ["D", [2, 125]],
            "list": ["A", [["I", 1]]],
            "odd": 7,
        }
    }
    octets, lost = _arguments(about)
    table: Table = decode_table(octets, 0)[0]
    assert table == {"text": ("S", b"\xc3\xbc\xff"), "int": ("I", 5), "flag": ("t", True)}
    assert lost == ["argument 'price'", "argument 'list'", "argument 'odd'"]
    assert _arguments({"arguments": {}}) == (b"\0\0\0\0", ["arguments, if they were large"])
    assert _arguments({"arguments_table": "AAAAAA==", "arguments": {}}) == (b"\0\0\0\0", [])
    assert _arguments({"arguments_table": "AAAAAQ=="})[1]
