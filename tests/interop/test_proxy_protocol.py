"""A proxy in front of the broker: at 127.0.0.2, which is listed; 127.0.0.1 is not."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import RouterProcess, logged
from tests.interop.test_tls import TlsBroker, until
from tests.interop.wire import Wire
from tests.sockets.authority import Authority, server_authority
from tests.sockets.test_proxy_protocol import v2

pytestmark = pytest.mark.ours_only
V1 = b"PROXY TCP4 %b 198.51.100.1 40000 5672\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return server_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    files = authority.directory
    process = TlsBroker(
        tmp_path_factory.mktemp("broker"),
        options=[
            *("--proxy-protocol-from", "192.0.2.0/24, 127.0.0.2", "--amqps-port", "0"),
            *("--amqps-certificate", str(files / "server.pem"), "--amqps-key", str(files / "server.key")),
        ],
    )
    process.start()
    put(process, "users/remote", {"password": "pw", "tags": ""})
    put(process, "permissions/%2F/remote", {"configure": ".*", "write": ".*", "read": ".*"})
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log(), process.log()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    """A broker that waits a second for the proxy's header; nobody gets further with it."""
    options = ["--proxy-protocol-from", "127.0.0.2", "--handshake-timeout-s", "1"]
    process = RouterProcess(tmp_path_factory.mktemp("impatient"), options=options)
    process.start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log(), process.log()


def put(broker: RouterProcess, path: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"http://{broker.host}:{broker.admin_port}/api/{path}", json.dumps(body).encode(), method="PUT"
    )
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request).close()


def relayed(port: int, header: bytes, *, slowly: bool = False, **given: Any) -> Wire:
    """A connection of the proxy that begins with ``header``."""
    return Wire(
        port, source="127.0.0.2", before=[header] if not slowly else [bytes([o]) for o in header], **given
    )


REMOTE = {"user": "remote", "password": "pw"}


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize(
    ("header", "peer"),
    [
        (V1 % b"203.0.113.9", "203.0.113.9"),
        (v2("2001:db8::9", "2001:db8::1", (40000, 5672), more=b"\x04\x00\x03abc"), "2001:db8::9"),
    ],
)
def test_client_behind_the_proxy(broker: TlsBroker, header: bytes, peer: str, slowly: bool) -> None:
    with relayed(broker.port, header, slowly=slowly, **REMOTE) as connection:
        connection.open_channel(1)
        (shown,) = until(lambda: broker.api("connections"))
        assert (shown["peer_host"], shown["peer_port"], shown["port"]) == (peer, 40000, 5672)
    until(lambda: not broker.api("connections"))
    until(lambda: f"{peer}]:40000" in broker.log() or f"{peer}:40000" in broker.log())


def test_over_tls(broker: TlsBroker, authority: Authority) -> None:
    header = V1 % b"203.0.113.9"
    with relayed(broker.tls_port, header, tls=authority.client(), **REMOTE) as connection:
        connection.open_channel(1)
        (shown,) = until(lambda: broker.api("connections"))
        assert (shown["peer_host"], shown["ssl"]) == ("203.0.113.9", True)
    until(lambda: not broker.api("connections"))


@pytest.mark.parametrize(
    "header", [V1 % b"127.0.0.1", b"PROXY UNKNOWN\r\n", v2("127.0.0.1", "127.0.0.1", (1, 1), command=0x20)]
)
def test_a_proxy_never_makes_a_client_local(broker: TlsBroker, header: bytes) -> None:
    """Guest may come from this machine alone, and a header must not say that it does."""
    refused = relayed(broker.port, header)
    assert (refused.tune.name, refused.tune.code) == ("connection.close", 403)
    with relayed(broker.port, header, **REMOTE) as connection:
        connection.open_channel(1)


def test_others_may_not_send_a_header(broker: TlsBroker) -> None:
    connection = Wire(broker.port, before=[V1 % b"203.0.113.9"], until="connect")
    assert connection.receive().name == "header"
    assert connection.receive().name in ("eof", "reset")
    with Wire(broker.port) as direct:
        direct.open_channel(1)


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"PROXY TCP4 no\r\n", b"", b"PROXY "])
def test_the_proxy_must_send_one(impatient: RouterProcess, header: bytes) -> None:
    with socket.create_connection((impatient.host, impatient.port), source_address=("127.0.0.2", 0)) as raw:
        raw.settimeout(60)
        raw.sendall(header)
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(100) == b""
    # The same address is told of once a minute, by whichever of these came first.
    assert logged(impatient, "PROXY header failed").count("PROXY header failed") == 1


def test_networks_are_checked_at_the_start(tmp_path: Path) -> None:
    process = RouterProcess(tmp_path, options=["--proxy-protocol-from", "10.0.0.0/99"])
    process.launch()
    assert process.process is not None
    assert process.process.wait(60) == 2
    assert "--proxy-protocol-from: '10.0.0.0/99' is not valid" in process.log()
