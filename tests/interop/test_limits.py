"""What one client may take: time to log in, connections, message size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Broker, logged
from tests.interop.conftest import make_broker
from tests.interop.wire import Wire

pytestmark = pytest.mark.ours_only


#: What a client has for its handshake here; also one that is in no hurry, if others have the processors.
HANDSHAKE_S = 5


def broker_with(directory: Path, *options: str) -> Iterator[Broker]:
    broker = make_broker(directory, options=list(options))
    broker.start()
    yield broker
    broker.stop()
    assert "Traceback" not in broker.log()


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from broker_with(
        tmp_path_factory.mktemp("strict"), "--connections-max", "3", "--message-bytes-max", "1000"
    )


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Broker]:
    yield from broker_with(tmp_path, "--handshake-timeout-s", str(HANDSHAKE_S))


def test_handshake_takes_too_long(impatient: Broker) -> None:
    """Whatever it waits for, and however it is kept busy."""
    begun = [(time.monotonic(), Wire(impatient.port, until=until)) for until in ("connect", "start", "tune")]
    begun[0][1].send_bytes(b"AMQP")
    for started, connection in begun:
        assert connection.receive().name in ("eof", "reset")
        assert time.monotonic() - started > 0.5, "the broker has not waited for it"
        connection.socket.close()


def test_too_many_connections(strict: Broker) -> None:
    """The one too many is refused, the others live, and a place that comes free is given away."""
    held = [Wire(strict.port) for _ in range(3)]
    extra = Wire(strict.port, until="connect")
    extra.send_bytes(b"AMQP\x00\x00\x09\x01")
    reply = extra.receive()
    assert reply.name in ("eof", "reset", "connection.close"), reply
    extra.socket.close()
    for wire in held:
        wire.open_channel(1)
    held.pop().close()
    for _ in range(500):
        again = Wire(strict.port, until="start")
        if again.start.name == "connection.start":
            break
        time.sleep(0.02)
    assert again.start.name == "connection.start"
    again.socket.close()
    for wire in held:
        wire.close()
    logged(strict, "refused")


def test_message_above_the_limit(strict: Broker, name: str) -> None:
    with Wire(strict.port) as wire:
        wire.open_channel(1)
        wire.ok(1, "queue.declare", queue=name, exclusive=True)
        wire.publish(1, "", name, b"x" * 1000)
        wire.ok(1, "basic.qos")
        wire.publish(1, "", name, b"x" * 1001)
        reply = wire.receive()
        assert (reply.name, reply.code) == ("channel.close", 406)
        wire.send(1, "channel.close-ok")
        wire.open_channel(1)
        assert wire.ready(name) == 1


@pytest.mark.parametrize("frame", [b"\x01\x00\x00\x00\x10\x00\x00", b"\x01\x00\x00\xff\xff\xff\xff"])
def test_large_frame_before_login(strict: Broker, frame: bytes) -> None:
    """Refused by its announced size; nothing is stored until it has come."""
    connection = Wire(strict.port, until="start")
    connection.send_bytes(frame)
    assert connection.receive().name in ("eof", "reset", "connection.close")
    connection.socket.close()
