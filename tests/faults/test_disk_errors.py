"""Disk errors on one queue's log: nothing that was not written is confirmed, and all other queues go on.

strace makes the system calls on that one file fail; the broker is the real one.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.brokers import RouterProcess, logged
from tests.faults import syscalls
from tests.interop.wire import Received, Wire

pytestmark = pytest.mark.skipif(bool(syscalls.why_not()), reason=syscalls.why_not() or "-")

SICK, WELL = "sick", "well"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RouterProcess]:
    broker = RouterProcess(tmp_path)
    broker.start()
    yield broker
    broker.stop()


def log_files(broker: RouterProcess, queue: str) -> list[Path]:
    """The segments of a queue's log."""
    for path in broker.data_dir.glob("queues/*/log.json"):
        if json.loads(path.read_text())["name"] == queue:
            return sorted(path.parent.rglob("*.log"))
    raise AssertionError(f"no log of {queue} in {list(broker.data_dir.rglob('*'))}")


@contextmanager
def failing(broker: RouterProcess, path: Path, calls: str, error: str) -> Iterator[None]:
    """Let ``calls`` on this file fail with ``error``."""
    command = ["strace", "-f", "-q", "-o", str(broker.directory / "strace"), "-p", str(broker.pid)]
    command += ["-P", str(path), "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as tracer:
        wait(lambda: all(tracer_of(task) for task in Path(f"/proc/{broker.pid}/task").iterdir()))
        try:
            yield
        finally:
            tracer.terminate()


def tracer_of(task: Path) -> int:
    try:
        status = (task / "status").read_text()
    except OSError:
        return -1  # the thread has ended meanwhile
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("TracerPid:")))


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "did not happen within a minute"
        time.sleep(0.01)


def opened(broker: RouterProcess) -> Wire:
    wire = Wire(broker.port)
    wire.open_channel(1, confirm=True)
    for queue in (SICK, WELL):
        wire.ok(1, "queue.declare", queue=queue, durable=True)
        wire.ok(1, "queue.bind", queue=queue, exchange="amq.fanout")
    return wire


def publish(wire: Wire, exchange: str, key: str, body: bytes) -> Received:
    """Publish persistently and return the answer."""
    wire.publish(1, exchange, key, body, delivery_mode=2)
    return wire.receive()


@pytest.mark.parametrize(
    ("calls", "error"),
    [("fdatasync,fsync", "EIO"), ("write,writev,pwrite64,pwritev,pwritev2", "ENOSPC")],
    ids=["sync-EIO", "write-ENOSPC"],
)
def test_one_log_fails(broker: RouterProcess, calls: str, error: str) -> None:
    wire = opened(broker)
    for queue in (SICK, WELL):
        assert publish(wire, "", queue, b"before").name == "basic.ack"
    with failing(broker, log_files(broker, SICK)[-1], calls, error):
        assert publish(wire, "", SICK, b"refused").name == "basic.nack"
        assert publish(wire, "", WELL, b"meanwhile").name == "basic.ack"
        assert publish(wire, "amq.fanout", "", b"half").name == "basic.nack"
        assert publish(wire, "", WELL, b"after").name == "basic.ack"
    logged(broker, SICK)  # the broker's log names the queue
    # the others keep their copies
    assert [message.body for message in wire.get_all(WELL)] == [b"before", b"meanwhile", b"half", b"after"]
    assert "Traceback" not in broker.log()
    wire.close()
    broker.kill9()
    broker.start()
    with opened(broker) as wire:
        bodies = [message.body for message in wire.get_all(SICK)]
        # what was refused may be there or not, what was confirmed must
        assert bodies[0] == b"before"
        assert set(bodies) <= {b"before", b"refused", b"half"}
        assert publish(wire, "", SICK, b"healed").name == "basic.ack"


@pytest.mark.parametrize("error", ["ENOSPC", "EMFILE"])
def test_log_goes_on_once_the_disk_takes_it_again(broker: RouterProcess, error: str) -> None:
    """Without a restart; consumers stay, and what they acknowledged meanwhile stays acknowledged."""
    wire = opened(broker)
    assert publish(wire, "", SICK, b"before").name == "basic.ack"
    consumer = Wire(broker.port)
    consumer.open_channel(1)
    consumer.ok(1, "basic.consume", queue=SICK, tag="t")
    before = consumer.receive()
    assert before.body == b"before"
    with failing(broker, log_files(broker, SICK)[-1], "write,writev,pwrite64,pwritev,pwritev2", error):
        assert publish(wire, "", SICK, b"refused").name == "basic.nack"
        consumer.send(1, "basic.ack", delivery_tag=before.delivery_tag)
        time.sleep(0.6)  # the next attempt fails as well
        assert publish(wire, "", SICK, b"refused too").name == "basic.nack"
    wait(lambda: publish(wire, "", SICK, b"healed").name == "basic.ack")
    received = [consumer.receive()]
    while received[-1].body != b"healed":
        received.append(consumer.receive())
    assert {message.name for message in received} == {"basic.deliver"}
    assert {message.body for message in received} <= {b"refused", b"healed"}
    assert "Traceback" not in broker.log()
    logged(broker, "takes messages again")
    consumer.close()
    wire.close()
    broker.kill9()
    broker.start()
    with opened(broker) as wire:
        bodies = [message.body for message in wire.get_all(SICK)]
        assert b"healed" in bodies
        assert b"before" not in bodies


def test_consumers_of_a_failed_log_are_told(broker: RouterProcess) -> None:
    """They are cancelled, or their channel is closed with an error that names the queue."""
    wire = opened(broker)
    assert publish(wire, "", SICK, b"before").name == "basic.ack"
    consumer = Wire(broker.port)
    consumer.open_channel(1)
    consumer.ok(1, "basic.consume", queue=SICK, tag="t")
    assert consumer.receive().body == b"before"
    with failing(broker, log_files(broker, SICK)[-1], "fdatasync,fsync", "EIO"):
        assert publish(wire, "", SICK, b"refused").name == "basic.nack"
        told = consumer.receive()
        while told.name == "basic.deliver":
            told = consumer.receive()
        assert told.name in ("basic.cancel", "channel.close"), told
    consumer.close()
    wire.close()
