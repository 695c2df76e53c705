"""The admin port over TLS."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import RouterProcess, logged
from tests.interop.test_tls import until
from tests.sockets.authority import Authority, server_authority

pytestmark = pytest.mark.ours_only
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return server_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    files = authority.directory
    options = ["--admin-certificate", str(files / "server.pem"), "--admin-key", str(files / "server.key")]
    process = RouterProcess(tmp_path_factory.mktemp("broker"), options=options)
    process.start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log(), process.log()


def call(
    broker: RouterProcess,
    authority: Authority,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPSConnection("localhost", broker.admin_port, context=authority.client())
    with contextlib.closing(connection):
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, LOGIN if headers is None else headers)
        response = connection.getresponse()
        return response, response.read()


def test_api_over_https(broker: RouterProcess, authority: Authority) -> None:
    response, body = call(broker, authority, "GET", "/api/overview")
    overview = json.loads(body)
    assert response.getheader("Strict-Transport-Security") == "max-age=31536000"
    assert [each["protocol"] for each in overview["listeners"]] == ["amqp", "https"]
    assert overview["contexts"][0]["ssl_opts"]["certfile"].endswith("server.pem")
    logged(broker, f"admin=127.0.0.1:{broker.admin_port}")


def test_cookie_of_a_session_is_for_this_host_over_tls(broker: RouterProcess, authority: Authority) -> None:
    login = {"username": "guest", "password": "guest"}
    headers = {"Content-Type": "application/json"}
    response, body = call(broker, authority, "POST", "/admin/v1/session", login, headers)
    assert response.status == 200, body
    cookie = response.getheader("Set-Cookie") or ""
    name = f"__Host-amqp-router-{broker.admin_port}"
    assert cookie.startswith(name + "=")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    sent = {"Cookie": cookie.partition(";")[0]}
    assert json.loads(call(broker, authority, "GET", "/admin/v1/session", headers=sent)[1])["name"] == "guest"


def test_large_request_and_answer(broker: RouterProcess, authority: Authority) -> None:
    """400 KiB to the broker and back, in records of TLS."""
    call(broker, authority, "PUT", "/api/queues/%2F/large", {})
    payload = base64.b64encode(os.urandom(300_000)).decode()
    message = {"properties": {}, "routing_key": "large", "payload": payload, "payload_encoding": "string"}
    assert json.loads(
        call(broker, authority, "POST", "/api/exchanges/%2F/amq.default/publish", message)[1]
    ) == {"routed": True}
    wanted = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (found,) = json.loads(call(broker, authority, "POST", "/api/queues/%2F/large/get", wanted)[1])
    assert found["payload"] == payload


def test_http_on_this_port_is_closed(broker: RouterProcess) -> None:
    with socket.create_connection((broker.host, broker.admin_port)) as raw:
        raw.settimeout(60)
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert not raw.recv(4096).startswith(b"HTTP")


def test_certificate_is_read_again(broker: RouterProcess, authority: Authority) -> None:
    def served() -> bytes | None:
        with (
            socket.create_connection((broker.host, broker.admin_port)) as raw,
            authority.client().wrap_socket(raw, server_hostname="localhost") as tls,
        ):
            return tls.getpeercert(True)

    before = served()
    authority.make("server", "/CN=localhost")
    os.kill(broker.pid, signal.SIGHUP)
    until(lambda: served() != before)


def test_plain_answers_have_no_hsts(tmp_path: Path) -> None:
    process = RouterProcess(tmp_path)
    process.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", process.admin_port)
        with contextlib.closing(connection):
            connection.request("GET", "/api/whoami", headers=LOGIN)
            assert connection.getresponse().getheader("Strict-Transport-Security") is None
    finally:
        process.stop()
