"""The admin server as a listener: its address, its limit, its end; and input that is not HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aio_pika
import pytest
from aiohttp import web

from admin_ui import body, connections
from admin_ui.app import Admin, AdminOptions
from admin_ui.replies import WRITE_BYTES, Body
from amqp_router.exit_codes import ListenError
from tests.admin_ui.world import LOGGER, World, basic, world
from tests.descriptors import none_left
from tests.ports import free_port

AUTHORIZATION = basic("guest", "guest")
REQUEST = f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: {AUTHORIZATION}\r\n\r\n".encode()


def another(node: World, port: int, most: int = 512) -> Admin:
    options = AdminOptions("127.0.0.1", port, node.amqp, 1000, most)
    return Admin(options, node.broker, node.metrics, LOGGER)


async def test_port_taken_between_bind_and_listen(node: World) -> None:
    """With SO_REUSEADDR two may bind; only one may listen."""
    first = another(node, free_port())
    second = another(node, first.address[1])
    await first.start()
    with pytest.raises(
        ListenError, match=rf"^port {first.address[1]} on 127.0.0.1 is in use .* --admin-port"
    ):
        await second.start()
    await first.stop()
    third = another(node, first.address[1])
    await third.start()
    await third.stop()


async def test_no_descriptor_for_a_client_is_a_pause(
    node: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so, without a traceback, and the client is served once there is one."""
    monkeypatch.setattr("amqp_router.sockets.accepting.PAUSE_S", 0.05)
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        with none_left(client):
            await loop.sock_connect(client, node.admin.address)
            await asyncio.sleep(0.3)  # several attempts
        assert caplog.text.count("no connections accepted for now") == 1
        await loop.sock_sendall(client, REQUEST)
        assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.1 200")
    assert "Traceback" not in caplog.text


async def test_nobody_is_served_after_the_stop(node: World) -> None:
    admin = another(node, free_port())
    host, port = admin.address
    await admin.start()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(REQUEST)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    await admin.stop()
    await reader.read()
    assert reader.at_eof()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    writer.close()


async def test_connections_above_the_cap_are_closed(node: World, caplog: pytest.LogCaptureFixture) -> None:
    admin = another(node, 0, most=2)
    await admin.start()
    held = [await asyncio.open_connection(*admin.address) for _ in range(2)]
    for reader, writer in held:
        writer.write(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*admin.address)
        writer.write(REQUEST)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(5)
    assert caplog.text.count("admin connection refused") == 1, "told once a minute"
    held[0][1].close()
    await until(lambda: len(serving(admin)) == 1)
    reader, writer = await asyncio.open_connection(*admin.address)
    writer.write(REQUEST)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    held[1][1].close()
    await admin.stop()


@pytest.mark.parametrize(
    "octets",
    [
        b"AMQP\x00\x00\x09\x01",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET /" + b"x" * 70_000,
        b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nExpect: \xff\xfe",
    ],
)
async def test_what_is_no_http(node: World, octets: bytes) -> None:
    reader, writer = await asyncio.open_connection(*node.admin.address)
    writer.write(octets + b"\r\n\r\n")
    answer = await reader.read(2000)
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"aiohttp" not in answer.lower()
    assert b"python" not in answer.lower()
    writer.close()
    assert await node.get("/whoami")


@pytest.mark.parametrize("sent", [b"", b"GET /ui", b"GET /ui/ HTTP/1.1\r\nHost: localhost\r\n", REQUEST])
async def test_idle_connections_are_closed(node: World, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Else a few hundred that send nothing would keep everybody out."""
    monkeypatch.setattr(connections, "IDLE_S", 0.2)
    reader, writer = await asyncio.open_connection(*node.admin.address)
    writer.write(sent)
    await asyncio.wait_for(reader.read(), 20)
    writer.close()


@pytest.mark.parametrize("path", ["/admin/v1/session", "/admin/v1/sparklines"])
async def test_a_body_that_does_not_come(node: World, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(body, "BODY_S", 0.1)
    head = REQUEST.replace(b"GET /api/whoami", b"POST " + path.encode())[:-2]
    reader, writer = await asyncio.open_connection(*node.admin.address)
    writer.write(head + b"Content-Type: application/json\r\nContent-Length: 30\r\n\r\n{")
    answer = await asyncio.wait_for(reader.read(5000), 20)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not come in time" in answer
    writer.close()


async def test_compressed_bodies_are_not_unpacked(node: World, caplog: pytest.LogCaptureFixture) -> None:
    for content in ("no gzip at all", "{}"):
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        reply = await node.call("POST", "/admin/v1/session", None, body=content, **headers)
        assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert caplog.text == ""


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the broker has closed a connection on which it says nothing."""
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


async def test_who_is_logged_in_is_not_kept_out_by_who_is_not(
    node: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "WEIGHT_MAX", 3)
    known_reader, known = await asyncio.open_connection(*node.admin.address)
    known.write(REQUEST)
    await known_reader.readuntil(b"}")
    strangers = [await asyncio.open_connection(*node.admin.address) for _ in range(7)]
    for _, writer in strangers:
        writer.write(b"GET /api/auth HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for reader, _ in strangers[-3:]:
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
    for reader, _ in strangers[:4]:
        assert await closed(reader)
    assert caplog.text.count("admin connection closed") == 1, "told once a minute"
    known.write(REQUEST)
    assert (await known_reader.readline()).startswith(b"HTTP/1.1 200")
    for writer in (known, *(writer for _, writer in strangers)):
        writer.close()


async def test_room_is_made_for_who_logs_in_when_all_connections_are_taken(node: World) -> None:
    admin = another(node, 0, most=3)
    await admin.start()
    strangers = [await asyncio.open_connection(*admin.address) for _ in range(3)]
    reader, writer = await asyncio.open_connection(*admin.address)
    writer.write(REQUEST)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert await closed(strangers[0][0])
    for _, each in strangers:
        each.close()
    writer.close()
    await admin.stop()


def small_buffers(node: World) -> socket.socket:
    """A client that takes little before it reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(node.admin.address)
    client.setblocking(False)
    return client


def serving(admin: Admin) -> list[connections.Connection]:
    server = admin._runner.server
    assert server is not None
    return [each for each in server.connections if isinstance(each, connections.Connection)]


async def until(check: Callable[[], object]) -> None:
    for _ in range(2000):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come to that")


async def test_who_does_not_read_is_closed(
    node: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    for number in range(4000):
        node.broker.vhosts["/"].declare_queue(f"q{number}")
    with small_buffers(node) as client:
        client.sendall(REQUEST.replace(b"whoami", b"queues"))
        await until(lambda: serving(node.admin))
        await until(lambda: not serving(node.admin))
    assert caplog.text.count("admin connection closed") == 1
    assert "Traceback" not in caplog.text
    assert (await node.call("GET", "/api/whoami")).status == 200


async def test_who_reads_slowly_is_served(node: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes more only after a megabyte was read: what it holds counts as well."""
    looks: list[int] = []
    looked = connections.Connection._looked

    def counted(self: connections.Connection) -> None:
        looked(self)
        looks.append(self._looks)

    monkeypatch.setattr(connections, "LOOK_S", 0.2)
    monkeypatch.setattr(connections.Connection, "_looked", counted)
    for number in range(4000):
        node.broker.vhosts["/"].declare_queue(f"q{number}")
    loop = asyncio.get_running_loop()
    with small_buffers(node) as client:
        client.sendall(REQUEST.replace(b"whoami", b"queues"))
        while len(looks) < 2 * connections.LOOKS_MAX:
            assert await asyncio.wait_for(loop.sock_recv(client, 2000), 20), "closed"
            await asyncio.sleep(0.005)
    assert max(looks) < connections.LOOKS_MAX, "a window of TCP may take a look or two to open"


async def test_unread_lists_take_no_memory(node: World) -> None:
    """40 of them, of 10,000 queues, took half a gibibyte: each was made whole before it was sent."""
    for number in range(4000):
        node.broker.vhosts["/"].declare_queue(f"q{number}")
    clients = [small_buffers(node) for _ in range(5)]
    for client in clients:
        client.sendall(REQUEST.replace(b"whoami", b"queues"))
    await until(lambda: sum(each.writing_paused for each in serving(node.admin)) == len(clients))
    await asyncio.sleep(0.2)
    gc.collect()  # bodies of earlier tests, in cycles of aiohttp's
    bodies = [found for found in gc.get_objects() if isinstance(found, Body)]
    assert len(bodies) == len(clients)
    assert all(found.size <= WRITE_BYTES for found in bodies)
    for each in serving(node.admin):
        assert each.transport is not None
        assert each.transport.get_write_buffer_size() <= 3 * WRITE_BYTES
    for client in clients:
        client.close()


def left(*kinds: type) -> Counter[str]:
    """How many objects of these kinds there are."""
    return Counter(type(found).__name__ for found in gc.get_objects() if isinstance(found, kinds))


@pytest.mark.parametrize(
    "closes", ["orderly", "with a reset", "in the middle of an answer", "without a request"]
)
async def test_a_closed_connection_leaves_nothing_to_collect(node: World, closes: str) -> None:
    """A full collection of garbage comes seldom while the broker is busy, once an hour."""
    kinds = (connections.Connection, asyncio.Transport, web.Request, Body)
    for number in range(4000 if closes == "in the middle of an answer" else 0):
        node.broker.vhosts["/"].declare_queue(f"q{number}")
    await node.call("GET", "/api/whoami", Connection="close")
    await until(lambda: not serving(node.admin))
    gc.collect()
    before = left(*kinds)
    gc.disable()
    try:
        for _ in range(5):
            client = small_buffers(node)
            await until(lambda: serving(node.admin))
            if closes == "in the middle of an answer":
                client.sendall(REQUEST.replace(b"whoami", b"queues"))
                await until(lambda: any(each.writing_paused for each in serving(node.admin)))
            elif closes != "without a request":
                client.sendall(REQUEST)
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 2000), 60)
            if closes == "with a reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            await until(lambda: not serving(node.admin))
        # What a connection has begun ends some turns of the loop later.
        await until(lambda: left(*kinds) == before)
    finally:
        gc.enable()


async def test_what_is_no_http_is_told_seldom_and_shortly(
    node: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        reader, writer = await asyncio.open_connection(*node.admin.address)
        writer.write(b"GET / HTTP/9.9\x01" + b"x" * 5000 + b"\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    assert caplog.text.count("admin request refused") == 1
    assert len(caplog.text) < 1000


@pytest.fixture
async def quiet(tmp_path: Path) -> AsyncIterator[World]:
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    async with world(tmp_path) as found:
        yield found
    logging.getLogger("aiormq").setLevel(logging.NOTSET)


async def test_lists_while_everything_comes_and_goes(quiet: World) -> None:
    """A list is made over many turns; what it shows may be gone by then."""
    node, stop = quiet, asyncio.Event()
    vhost = node.broker.vhosts["/"]
    for number in range(800):
        vhost.declare_queue(f"q{number}")

    async def churn(name: str) -> None:
        while not stop.is_set():
            connection = await node.connect()
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(name, auto_delete=True)
            await queue.bind("amq.topic", name)
            await queue.consume(asyncio.Queue().put, no_ack=True)
            for _ in range(20):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), name)
            await (await connection.channel()).close()
            await connection.close()

    async def delete() -> None:
        number = 0
        while not stop.is_set():
            vhost.delete_queue(f"q{number % 800}")
            vhost.declare_queue(f"q{number % 800}", durable=number % 2 == 0)
            number += 1
            if number % 10 == 0:
                node.sample()
                await asyncio.sleep(0)

    tasks = [asyncio.create_task(churn(f"c{number}")) for number in range(3)] + [
        asyncio.create_task(delete())
    ]
    paths = [
        "/queues",
        "/connections",
        "/channels",
        "/consumers",
        "/bindings",
        "/overview",
        "/vhosts",
        "/definitions",
    ]
    paths += [
        "/queues?sort=backing_queue_status.len",
        "/queues?page=1&page_size=500&lengths_age=60&lengths_incr=5",
    ]
    for _ in range(4):
        for path in paths:
            assert await node.get(path) is not None
    stop.set()
    await asyncio.gather(*tasks)
