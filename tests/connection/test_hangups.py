"""The end of a client whose socket nobody reads."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator

import pytest

from amqp_router.connection.hangups import Hangups

# Only Linux has epoll. Elsewhere the broker does without the watch, and there is nothing to test.
pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="the system has no epoll")


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """TCP connections: the client's end and ours, which holds octets that are not read."""
    pairs = []
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        for _ in range(3):
            client = socket.create_connection(server.getsockname())
            ours, _ = server.accept()
            client.sendall(b"unread")
            pairs.append((client, ours))
    yield pairs
    for pair in pairs:
        for each in pair:
            each.close()


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0.005)


async def test_end_is_told_once_also_behind_unread_octets(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    told: list[int] = []
    for number, (_, ours) in enumerate(pairs):
        hangups.watch(ours.fileno(), lambda number=number: told.append(number))  # type: ignore[misc]
    await turns()
    assert told == []
    pairs[1][0].close()
    pairs[2][0].shutdown(socket.SHUT_WR)
    await turns()
    assert sorted(told) == [1, 2]
    assert pairs[1][1].recv(100) == b"unread"
    hangups.close()


async def test_what_is_forgotten_is_not_told(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    told: list[int] = []
    for number, (_, ours) in enumerate(pairs):
        hangups.watch(ours.fileno(), lambda number=number: told.append(number))  # type: ignore[misc]
    hangups.forget(pairs[0][1].fileno())
    hangups.forget(pairs[0][1].fileno())
    descriptor = pairs[1][1].fileno()
    pairs[1][1].close()
    hangups.forget(descriptor)
    for client, _ in pairs:
        client.close()
    await turns()
    assert told == [2]
    hangups.close()
    hangups.close()
