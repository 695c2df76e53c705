"""The test client itself, against a peer that sends a script."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
)
from amqp_router.protocol.properties import encode_properties
from tests.protocol.wire_client import Received, WireClient, raw_frame


@contextmanager
def scripted_peer(script: bytes) -> Iterator[tuple[WireClient, bytearray]]:
    """A client of a peer that sends ``script`` at once, then keeps what it hears until either side ends."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as peer:
                peer.sendall(script)
                peer.shutdown(socket.SHUT_WR)
                while data := peer.recv(65536):
                    heard.extend(data)

        thread = threading.Thread(target=serve)
        thread.start()
        with WireClient("127.0.0.1", server.getsockname()[1]) as client:
            yield client, heard
        thread.join()


def content_header(size: int, properties: bytes = b"\x00\x00", channel: int = 1) -> bytes:
    return raw_frame(FRAME_HEADER, channel, b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties)


def test_handshake() -> None:
    script = b"".join(
        m.frame(0, method)
        for method in (
            m.ConnectionStart(),
            m.ConnectionTune(2047, 131072, 60),
            m.ConnectionOpenOk(),
            m.ConnectionCloseOk(),
        )
    )
    with scripted_peer(script) as (client, heard):
        assert client.handshake(frame_max=8192) == m.ConnectionTune(2047, 131072, 60)
        client.close()
    assert heard.startswith(PROTOCOL_HEADER)
    tail = (m.ConnectionTuneOk(2047, 8192, 0), m.ConnectionOpen("/"), m.ConnectionClose())
    assert heard.endswith(b"".join(m.frame(0, method) for method in tail))
    assert b"\0guest\0guest" in heard


def test_content_in_pieces_and_between_other_channels() -> None:
    deliver = m.BasicDeliver("tag", 1, False, "x", "key")
    script = (
        m.frame(1, deliver)
        + HEARTBEAT_FRAME
        + m.frame(2, m.BasicQosOk())
        + content_header(5, encode_properties({"priority": 3}))
        + raw_frame(FRAME_BODY, 1, b"ab")
        + raw_frame(FRAME_BODY, 1, b"cde")
        + m.frame(1, m.BasicGetOk(2, False, "", "q", 0))
        + content_header(0)
    )
    with scripted_peer(script) as (client, _):
        client.expect(m.BasicQosOk, channel=2)
        assert client.recv() == Received(1, deliver, {"priority": 3}, b"abcde")
        assert client.recv() == Received(1, m.BasicGetOk(2, False, "", "q", 0), {}, b"")
        client.expect_eof()


def test_publish_splits_at_frame_max() -> None:
    with scripted_peer(b"") as (client, heard):
        client.frame_max = 4096
        client.publish(b"x" * 5000, "key", "ex", {"delivery_mode": 2}, mandatory=True)
    assert heard == (
        m.frame(1, m.BasicPublish("ex", "key", mandatory=True))
        + content_header(5000, b"\x10\x00\x02")
        + raw_frame(FRAME_BODY, 1, b"x" * 4088)
        + raw_frame(FRAME_BODY, 1, b"x" * 912)
    )


def test_raw_octets_and_frames() -> None:
    with scripted_peer(PROTOCOL_HEADER + raw_frame(FRAME_METHOD, 7, b"junk")) as (client, heard):
        client.send_frame(9, 5, b"abcd")
        assert client.recv_bytes(8) == PROTOCOL_HEADER
        assert client.recv_frame() == (FRAME_METHOD, 7, b"junk")
    assert heard == b"\x09\x00\x05\x00\x00\x00\x04abcd\xce"


def test_wrong_answer_fails_the_test() -> None:
    script = m.frame(1, m.BasicQosOk())
    expected = pytest.raises(AssertionError, match=r"tx\.select-ok was expected")
    with scripted_peer(script) as (client, _), expected:
        client.call(m.TxSelect(), m.TxSelectOk)


def test_silence() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        WireClient("127.0.0.1", server.getsockname()[1]) as client,
        server.accept()[0] as peer,
    ):
        peer.sendall(HEARTBEAT_FRAME)
        client.expect_silence(0.02)
        peer.sendall(m.frame(1, m.BasicQosOk()))
        with pytest.raises(AssertionError, match="silence was expected"):
            client.expect_silence()
