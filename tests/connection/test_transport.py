"""The socket's side of a connection, with a socket that only notes what is done to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.transport import Transport
from amqp_router.protocol.errors import ConnectionForced
from amqp_router.protocol.output import LargeContent
from tests.nodes import SimNode


class Socket(asyncio.Transport):
    """Takes all that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Unreadable:
    """A large message whose file is gone."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int, /) -> bytes:
        raise OSError("cannot be read")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("end", ["close", "resume_writing", "_end"])
def test_message_that_cannot_be_read_ends_its_connection_only(
    loop: asyncio.AbstractEventLoop, end: str
) -> None:
    """Whoever closes the connections of a node, one after the other, must come to the last of them."""
    node = SimNode()
    transport = Transport(node, ConnectionRegistry(), loop)
    sock = Socket()
    transport.connection_made(sock)
    transport.machine.output.pieces.append(LargeContent(Unreadable(), 1, 4088))
    if end == "close":
        transport.close(lambda machine: machine.close(ConnectionForced("shutdown")))
    else:
        getattr(transport, end)()
    assert sock.aborted
    assert [str(fault) for fault in node.faults] == ["cannot be read"]
