"""AMQP over TLS: a broker process with certificates, pika, and sockets that keep no rule.

What the HTTP API shows of a connection was measured on RabbitMQ 3.10.8 with the same certificates.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.brokers import RouterProcess
from tests.interop.wire import CAPABILITIES, Wire, encode_frame, encode_method, encode_publish
from tests.sockets.authority import Authority

pytestmark = pytest.mark.ours_only
#: Every client of this module has that time for its handshake, also if others have the processors.
HANDSHAKE_S = 10.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("ca"))
    made.make("server", "/CN=localhost")
    made.make("guest", "/C=DE/O=Shop, Inc/OU=a\\+b/CN=guest")
    made.make("stranger", "/CN=stranger")
    return made


class TlsBroker(RouterProcess):
    """A broker that speaks TLS as well."""

    @property
    def tls_port(self) -> int:
        return int(json.loads(self.ready_file.read_text())["amqps"]["port"])

    def api(self, path: str) -> Any:
        request = urllib.request.Request(f"http://{self.host}:{self.admin_port}/api/{path}")
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request) as response:
            return json.load(response)


def options(authority: Authority, *more: str) -> list[str]:
    files = authority.directory
    return [
        *("--amqps-port", "0", "--amqps-certificate", str(files / "server.pem")),
        *("--amqps-key", str(files / "server.key"), "--amqps-ca", str(files / "ca.pem")),
        *("--amqps-verify", "peer", "--amqps-login-from", "common_name"),
        *("--handshake-timeout-s", str(HANDSHAKE_S)),
        *more,
    ]


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    process = TlsBroker(tmp_path_factory.mktemp("broker"), options=options(authority))
    process.start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log(), process.log()


Connect = Callable[..., Wire]


@pytest.fixture
def connect(broker: TlsBroker, authority: Authority) -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:

        def connect(**given: Any) -> Wire:
            given.setdefault("tls", authority.client())
            return stack.enter_context(Wire(broker.tls_port, **given))

        yield connect


def pika_connection(broker: TlsBroker, context: ssl.SSLContext, **more: Any) -> pika.BlockingConnection:
    tls = pika.SSLOptions(context, "localhost")
    return pika.BlockingConnection(
        pika.ConnectionParameters(broker.host, broker.tls_port, ssl_options=tls, **more)
    )


def until(condition: Callable[[], Any]) -> Any:
    """Ask until the answer is true."""
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_pika_and_what_the_api_shows(broker: TlsBroker, authority: Authority, version: str) -> None:
    newest = ssl.TLSVersion.TLSv1_2 if version == "TLSv1.2" else ssl.TLSVersion.TLSv1_3
    context = authority.client("guest", maximum_version=newest)
    external = pika.credentials.ExternalCredentials()
    with pika_connection(broker, context, credentials=external) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("t", durable=True)
        channel.basic_publish("", "t", b"x" * 100_000, pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("t", auto_ack=True)[2] == b"x" * 100_000
        (shown,) = until(lambda: broker.api("connections"))
    assert {key: shown[key] for key in shown if key.startswith(("ssl", "peer_cert", "auth"))} == {
        "auth_mechanism": "EXTERNAL",
        "peer_cert_issuer": "CN=Test CA",
        "peer_cert_subject": "CN=guest,OU=a\\+b,O=Shop\\, Inc,C=DE",
        "peer_cert_validity": shown["peer_cert_validity"],
        "ssl": True,
        "ssl_cipher": "aes_256_gcm",
        "ssl_hash": "aead",
        "ssl_key_exchange": "any" if version == "TLSv1.3" else "ecdhe_ecdsa",
        "ssl_protocol": version.lower(),
    }
    assert shown["user"] == "guest"
    until(lambda: not broker.api("connections"))


def test_without_a_certificate_and_without_tls(broker: TlsBroker, authority: Authority) -> None:
    with pika_connection(broker, authority.client()):
        (shown,) = until(lambda: broker.api("connections"))
    assert (shown["ssl"], shown["auth_mechanism"], shown["peer_cert_subject"]) == (True, "PLAIN", None)
    until(lambda: not broker.api("connections"))
    with Wire(broker.port) as plain:
        assert plain.start.mechanisms == "AMQPLAIN PLAIN"
        (shown,) = until(lambda: broker.api("connections"))
    assert (shown["ssl"], shown["ssl_protocol"], shown["peer_cert_subject"]) == (False, None, None)


def test_listeners_and_checks(broker: TlsBroker) -> None:
    overview = broker.api("overview")
    assert [(each["protocol"], each["port"]) for each in overview["listeners"]] == [
        ("amqp", broker.port),
        ("amqp/ssl", broker.tls_port),
        ("http", broker.admin_port),
    ]
    assert broker.api("health/checks/protocol-listener/amqps") == {"status": "ok", "protocol": "amqp/ssl"}
    assert broker.api("health/checks/certificate-expiration/1/days") == {"status": "ok"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        broker.api("health/checks/certificate-expiration/1/months")
    found = json.loads(caught.value.read())
    assert found["reason"] == "Certificates expiring"
    (expired,) = found["expired"]
    assert expired["port"] == broker.tls_port
    assert {"cacertfile", "cacertfile_expires_on", "certfile", "certfile_expires_on"} < set(expired)


@pytest.mark.parametrize(("file", "capable"), [("", True), ("stranger", True), ("", False)])
def test_external_refused(connect: Connect, authority: Authority, file: str, capable: bool) -> None:
    connection = connect(tls=authority.client(file), until="start")
    assert connection.start.mechanisms == "AMQPLAIN PLAIN EXTERNAL"
    connection.send(
        0,
        "connection.start-ok",
        properties={"capabilities": dict(CAPABILITIES) if capable else {}},
        mechanism="EXTERNAL",
        locale="en_US",
    )
    reply = connection.receive()
    if capable:
        assert (reply.name, reply.code, reply.class_id) == ("connection.close", 403, 0)
        assert reply.text == (
            "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
            "For details see the broker logfile."
        )
    else:
        assert reply.name in ("eof", "reset")


def test_external_is_not_taken_without_tls(broker: TlsBroker) -> None:
    with Wire(broker.port, until="start") as plain:
        plain.send(0, "connection.start-ok", mechanism="EXTERNAL", locale="en_US")
        assert plain.receive().name in ("eof", "reset")


@pytest.mark.parametrize("size", [1, 7, 16384, 1 << 20])
def test_pipelined_opening_in_records_of_any_size(connect: Connect, size: int) -> None:
    connection = connect(until="connect")
    data = b"AMQP\x00\x00\x09\x01"
    for channel, name, fields in (
        (0, "connection.start-ok", {"mechanism": "PLAIN", "response": "\0guest\0guest", "locale": "en_US"}),
        (0, "connection.tune-ok", {"channel_max": 2047, "frame_max": 131072}),
        (0, "connection.open", {"vhost": "/"}),
        (1, "channel.open", {}),
        (1, "queue.declare", {"queue": f"p{size}", "exclusive": True}),
    ):
        data += encode_frame(1, channel, encode_method(name, **fields))
    data += encode_publish(1, "", f"p{size}", b"hello")
    data += encode_frame(1, 1, encode_method("basic.get", queue=f"p{size}", no_ack=True))
    for start in range(0, len(data), size):
        connection.send_bytes(data[start : start + size])
    names = [connection.receive().name for _ in range(5)]
    assert names == [
        "connection.start",
        "connection.tune",
        "connection.open-ok",
        "channel.open-ok",
        "queue.declare-ok",
    ]
    found = connection.receive()
    assert (found.name, found.body) == ("basic.get-ok", b"hello")


def test_large_bodies_both_ways(connect: Connect) -> None:
    connection = connect()
    connection.open_channel(1)
    connection.call(1, "queue.declare", queue="large", exclusive=True)
    body = os.urandom(1 << 20) * 24
    connection.send_bytes(encode_publish(1, "", "large", body))
    found = connection.call(1, "basic.get", queue="large", no_ack=True)
    assert found.body == body


def test_a_client_that_does_not_read_holds_up_itself_alone(broker: TlsBroker, connect: Connect) -> None:
    """Its deliveries stop, as without TLS: the broker holds a few MiB of them, encrypted or not."""
    slow = connect(receive_buffer=4096)
    slow.open_channel(1)
    slow.call(1, "queue.declare", queue="slow", exclusive=True)
    slow.send(1, "basic.consume", queue="slow", no_ack=True)
    body, count = os.urandom(64 << 10), 800
    before = resident(broker)
    with Wire(broker.port) as honest:
        honest.open_channel(1)
        honest.call(1, "confirm.select")
        for _ in range(count):
            honest.send_bytes(encode_publish(1, "", "slow", body))
            honest.receive()
        assert resident(broker) - before < 64 << 20
        assert broker.api("queues/%2F/slow")["messages"] >= 0
    assert slow.receive().name == "basic.consume-ok"
    for _ in range(count):
        assert slow.receive().body == body


def resident(broker: RouterProcess) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def test_no_tls_and_broken_tls(broker: TlsBroker, connect: Connect) -> None:
    """Each is closed, and the log has one line for all of this address."""
    told = broker.log().count("TLS handshake failed")
    hello = b"\x16\x03\x01\x00\x2e\x01\x00\x00\x2a\x03\x03" + bytes(20)
    for data in (b"AMQP\0\0\x09\x01", b"GET / HTTP/1.0\r\n\r\n", os.urandom(300), hello[:11] + b"\xff" * 200):
        with socket.create_connection((broker.host, broker.tls_port)) as raw:
            raw.settimeout(60)
            raw.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                while raw.recv(4096):
                    pass
    connection = connect()
    raw = connection.socket
    assert isinstance(raw, ssl.SSLSocket)
    with socket.socket(fileno=os.dup(raw.fileno())) as beneath:
        beneath.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))  # a record that nobody encrypted
    with contextlib.suppress(ssl.SSLError, ConnectionResetError):
        while raw.recv(4096):
            pass
    until(lambda: "reason=decryption" in broker.log() or "bad record mac" in broker.log())
    assert broker.log().count("TLS handshake failed") - told <= 1
    connect().open_channel(1)


def test_stalled_handshakes_harm_nobody(broker: TlsBroker, connect: Connect) -> None:
    """More than the broker keeps, from one address; then their time is over."""
    before = resident(broker)
    told = broker.log().count("TLS handshake failed")
    stalled = []
    for _ in range(600):
        raw = socket.create_connection((broker.host, broker.tls_port))
        raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        stalled.append(raw)
    connect().open_channel(1)
    assert resident(broker) - before < 100 << 20
    for raw in stalled:
        raw.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert raw.recv(1) in (b"", b"\x15")
        raw.close()
    assert broker.log().count("TLS handshake failed") - told <= 1


def test_certificate_of_a_stranger_is_refused(connect: Connect, tmp_path: Path, authority: Authority) -> None:
    foreign = Authority(tmp_path)
    foreign.make("guest", "/CN=guest")
    context = authority.client()
    context.load_cert_chain(tmp_path / "guest.pem", tmp_path / "guest.key")
    assert_refused(connect, context)


def assert_refused(connect: Connect, context: ssl.SSLContext) -> None:
    """A client hears of it in its handshake, or with TLS 1.3 when it first reads."""
    try:
        found = connect(tls=context, until="start").start.name
    except (ssl.SSLError, ConnectionResetError) as error:
        found = str(error)
    assert "alert" in found or "reset" in found


def test_certificates_change_under_open_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    authority.make("server", "/CN=localhost")
    more = ["--amqps-require-certificate", "true", "--amqps-min-version", "1.3"]
    process = TlsBroker(tmp_path / "broker", options=options(authority, *more))
    authority.make("guest", "/CN=guest")
    process.start()
    try:
        client = authority.client("guest")
        with Wire(process.tls_port, tls=client) as first:
            assert isinstance(first.socket, ssl.SSLSocket)
            old = first.socket.getpeercert(True)
            authority.make("server", "/CN=localhost")
            os.kill(process.pid, signal.SIGHUP)
            until(lambda: "certificates reloaded" in process.log())
            with Wire(process.tls_port, tls=client) as second:
                assert isinstance(second.socket, ssl.SSLSocket)
                assert second.socket.getpeercert(True) != old
            first.open_channel(1)
        (authority.directory / "server.key").write_text("broken")
        os.kill(process.pid, signal.SIGHUP)
        until(lambda: "certificates not reloaded" in process.log())
        with Wire(process.tls_port, tls=client) as third:
            third.open_channel(1)
        for context in (
            authority.client(),
            authority.client("guest", maximum_version=ssl.TLSVersion.TLSv1_2),
        ):
            assert_refused(partial(Wire, process.tls_port), context)
    finally:
        assert process.stop() == 0


def test_without_the_plain_listener_and_with_a_locked_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    authority.make("server", "/CN=localhost")
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    given = [
        *("--amqp-port", "none", "--amqps-port", "0", "--amqps-key-password-file", str(password)),
        *("--amqps-certificate", str(authority.directory / "server.pem")),
        *("--amqps-key", str(authority.lock("server", "open sesame"))),
    ]
    process = TlsBroker(tmp_path / "broker", options=given)
    process.start()
    try:
        ready = json.loads(process.ready_file.read_text())
        assert "amqp" not in ready
        with Wire(process.tls_port, tls=authority.client()) as wire:
            wire.open_channel(1)
        assert {each["protocol"] for each in process.api("overview")["listeners"]} == {"amqp/ssl", "http"}
        assert "amqp=off" in process.log()
        assert listening(process.pid) == {process.tls_port, process.admin_port}
    finally:
        assert process.stop() == 0


def listening(pid: int) -> set[int]:
    """The ports on which the process listens, from Linux' proc file system."""
    mine = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            mine.add(os.readlink(each))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {
        int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine
    }


def test_start_without_any_listener_for_clients(tmp_path: Path) -> None:
    process = RouterProcess(tmp_path, options=["--amqp-port", "none"])
    process.launch()
    assert process.process is not None
    assert process.process.wait(60) == 2
    assert "amqp_port is none, but amqps_certificate is not set" in process.log()


def test_revoked_certificates_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    for file in ("server", "guest", "thief"):
        authority.make(file, f"/CN={file}")
    authority.make("named", "/CN=named", names="DNS:named.example")
    named = f"named.example={authority.directory / 'named.pem'}:{authority.directory / 'named.key'}"
    more = ["--amqps-require-certificate", "true", "--amqps-crl", str(authority.revoke("thief"))]
    process = TlsBroker(tmp_path / "broker", options=options(authority, *more, "--amqps-sni", named))
    process.start()
    try:
        connect = partial(Wire, process.tls_port)
        with connect(tls=authority.client("guest")) as wire:
            wire.open_channel(1)
            assert_refused(connect, authority.client("thief"))
            assert_named(process, authority.client("guest"), refused=False)
            assert_named(process, authority.client("thief"), refused=True)
            replaced(process, authority, "guest")
            assert_refused(connect, authority.client("guest"))
            wire.ok(1, "queue.declare", queue="q")  # a connection stays as it is
        authority.make("new", "/CN=new")
        with connect(tls=authority.client("new")):
            pass
        replaced(process, authority, ended=True)
        assert_refused(connect, authority.client("new"))
    finally:
        assert process.stop() == 0


def replaced(process: TlsBroker, authority: Authority, *files: str, ended: bool = False) -> None:
    """Let the broker read a new list."""
    lines = process.log().count("certificates reloaded")
    authority.revoke(*files, ended=ended)
    os.kill(process.pid, signal.SIGHUP)
    until(lambda: process.log().count("certificates reloaded") > lines)


def assert_named(process: TlsBroker, context: ssl.SSLContext, *, refused: bool) -> None:
    """What a client meets that asks for another server name."""
    with socket.create_connection(("127.0.0.1", process.tls_port), 20) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="named.example") as secure:
                secure.sendall(b"AMQP\x00\x00\x09\x01")
                is_answered = secure.recv(1) == b"\x01"
        except (ssl.SSLError, ConnectionResetError):
            is_answered = False
    assert is_answered is not refused


def test_start_with_a_wrong_certificate_names_it(tmp_path: Path) -> None:
    process = RouterProcess(tmp_path, options=["--amqps-certificate", str(tmp_path / "none.pem")])
    process.launch()
    assert process.process is not None
    assert process.process.wait(60) == 2
    assert f"amqps_certificate: {tmp_path / 'none.pem'} cannot be read" in process.log()
    assert "Traceback" not in process.log()
