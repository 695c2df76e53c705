"""A client that ends while an alarm blocks its connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.place import drop
from tests.interop.test_tls import TlsBroker
from tests.interop.wire import Wire
from tests.sockets.authority import Authority

ENDS: dict[str, Callable[[Wire], None]] = {"FIN": lambda wire: wire.socket.close(), "RST": drop}


@pytest.mark.ours_only
@pytest.mark.parametrize(("end", "encrypted"), [("FIN", False), ("RST", False), ("FIN", True)])
def test_end_of_a_blocked_client_is_noticed_and_nothing_is_lost(
    tmp_path: Path, end: str, encrypted: bool
) -> None:
    """It gives back its exclusive queue; what it sent before is published."""
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.make("server", "/CN=localhost")
    files = ["--amqps-certificate", str(certificate), "--amqps-key", str(key), "--amqps-port", "0"]
    broker = TlsBroker(tmp_path, options=["--disk-free-limit", "100000GiB", *files])
    broker.start()
    try:
        client = Wire(broker.tls_port, tls=authority.client()) if encrypted else Wire(broker.port)
        client.open_channel(1)
        client.ok(1, "queue.declare", queue="own", exclusive=True)
        client.ok(1, "queue.declare", queue="kept")
        for _ in range(8):
            client.publish(1, "", "kept", bytes(5000))
        assert client.receive().name == "connection.blocked"
        time.sleep(0.2)
        ENDS[end](client)
        give_up = time.monotonic() + 30
        reply = ""
        while reply != "queue.declare-ok" and time.monotonic() < give_up:
            time.sleep(0.05)
            with Wire(broker.port) as other:
                other.open_channel(1)
                reply = other.call(1, "queue.declare", queue="own", exclusive=True).name
        assert reply == "queue.declare-ok"
        with Wire(broker.port) as other:
            other.open_channel(1)
            assert other.ready("kept") == 8
    finally:
        broker.stop()
