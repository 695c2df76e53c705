"""The listeners, with a broker that only counts."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from pathlib import Path

import pytest

from amqp_router.connection.ports import Origin
from amqp_router.exit_codes import ListenError
from amqp_router.server import (
    Server,
    ServerOptions,
    bind,
    connections_allowed,
    peer_text,
    write_ready_file,
)
from tests.descriptors import none_left

LOGGER = logging.getLogger("test")


class Connection(asyncio.Protocol):
    def __init__(self, node: CountingNode) -> None:
        self.node = node

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.node.open[self] = transport
        transport.write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        del self.node.open[self]


class CountingNode:
    def __init__(self) -> None:
        self.open: dict[Connection, asyncio.Transport] = {}
        self.started = False

    @property
    def connection_count(self) -> int:
        return len(self.open)

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        for transport in self.open.values():
            transport.write(b"bye")
            transport.close()

    def connection_factory(self, origin: Origin | None = None) -> asyncio.BaseProtocol:
        return Connection(self)

    def account(self, change: int) -> None:
        pass


def server(node: CountingNode, *, host: str = "127.0.0.1", port: int = 0, most: int = 10) -> Server:
    return Server(ServerOptions(bind=host, amqp_port=port, connections_max=most), node, LOGGER)


async def test_accepts_after_start_and_drains_at_stop() -> None:
    node = CountingNode()
    listening = server(node)
    host, port = listening.address
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    await listening.start()
    assert node.started
    reader, writer = await asyncio.open_connection(host, port)
    assert await reader.readexactly(5) == b"hello"
    await listening.stop()
    assert await reader.read() == b"bye"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    writer.close()


async def test_connection_above_the_cap_is_closed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    listening = server(CountingNode(), most=1)
    await listening.start()
    reader, writer = await asyncio.open_connection(*listening.address)
    assert await reader.readexactly(5) == b"hello"
    refused, _ = await asyncio.open_connection(*listening.address)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await refused.readexactly(5)
    assert listening.refused_count == 1
    assert "connection refused" in caplog.text
    writer.close()
    await reader.read()
    await asyncio.sleep(0.05)
    again, writer = await asyncio.open_connection(*listening.address)
    assert await again.readexactly(5) == b"hello"
    writer.close()
    await listening.stop()


def test_port_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ListenError, match=rf"^port {port} on 127.0.0.1 is in use .* --amqp-port"
        ) as caught:
            server(CountingNode(), port=port)
        assert "\n" not in str(caught.value)


async def test_port_taken_between_bind_and_listen() -> None:
    """With SO_REUSEADDR two may bind; only one may listen."""
    first = server(CountingNode())
    second = server(CountingNode(), port=first.address[1])
    await first.start()
    with pytest.raises(ListenError, match="in use"):
        await second.start()
    second.close()
    await first.stop()


@pytest.mark.parametrize(
    ("host", "says"), [("192.0.2.1", "not an address of this machine"), ("no.such.host.invalid", "--bind")]
)
def test_wrong_address(host: str, says: str) -> None:
    with pytest.raises(ListenError, match=says):
        bind(host, 0)


def test_name_with_two_addresses_shares_one_port() -> None:
    sockets = bind("localhost", 0)
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    for sock in sockets:
        sock.close()


def test_connections_leave_descriptors_for_files() -> None:
    assert connections_allowed(0, 65536) == 65536 - 128 - 4096 * 5 // 2
    assert connections_allowed(100, 65536) == 100
    assert connections_allowed(0, 256) == 64
    assert connections_allowed(1_000_000, 1024) == 1024 - 128 - 128 * 5 // 2


def test_peer_text() -> None:
    assert peer_text(("127.0.0.1", 5)) == "127.0.0.1:5"
    assert peer_text(("::1", 5, 0, 0)) == "[::1]:5"


def test_ready_file_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("old and much longer than the new content" * 10)
    write_ready_file(path, {"pid": 1})
    assert json.loads(path.read_text()) == {"pid": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["ready.json"]


async def test_no_descriptor_for_a_connection_is_a_pause(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp_router.sockets.accepting.PAUSE_S", 0.05)
    listening = server(CountingNode())
    await listening.start()
    # The client's socket takes the last descriptor there is.
    with socket.socket() as client:
        client.setblocking(False)
        with none_left(client):
            await asyncio.get_running_loop().sock_connect(client, listening.address)
            await asyncio.sleep(0.3)  # several attempts
            assert caplog.text.count("no connections accepted for now") == 1
        assert await asyncio.get_running_loop().sock_recv(client, 5) == b"hello"
    assert "Traceback" not in caplog.text
    await listening.stop()


async def test_few_are_accepted_in_a_turn() -> None:
    """A thousand that came together to the admin port held the event loop for 65 ms."""
    node = CountingNode()
    listening = server(node, most=1000)
    await listening.start()
    clients = [socket.create_connection(listening.address) for _ in range(100)]
    most = before = 0
    while before < len(clients):
        await asyncio.sleep(0)
        most = max(most, node.connection_count - before)
        before = node.connection_count
    assert most <= 16
    for client in clients:
        client.close()
    await listening.stop()
