"""A blocking AMQP client for tests of the exact bytes: it hides nothing and corrects nothing.

It keeps no state of channels or consumers, sends whatever it is told, and hands over what arrives in the
order of arrival.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import (
    CLASS_BASIC,
    CONTENT_HEADER_SIZE,
    FRAME_BODY,
    FRAME_END_OCTET,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    FRAME_SIZE_MIN,
    PROTOCOL_HEADER,
)
from amqp_router.protocol.fields import Table, decode_table, encode_plain
from amqp_router.protocol.properties import decode_properties, encode_properties

M = TypeVar("M", bound=m.Method)

#: What the capabilities table of a current client says.
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Received(NamedTuple):
    """A method and, if it has content, that too (``properties`` is None otherwise)."""

    channel: int
    method: m.Method
    properties: dict[str, Any] | None = None
    body: bytes = b""


class WireClient:
    """One connection. ``timeout`` in seconds is for every receive that names none.

    Receiving raises TimeoutError when nothing comes, and EOFError when the broker closed the socket.
    """

    def __init__(self, host: str, port: int, *, timeout: float = 5.0) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout = timeout
        self._buffer = bytearray()
        self._partial: dict[int, tuple[m.Method, bytes, int, bytearray]] = {}
        self.frame_max = FRAME_SIZE_MIN
        self.start: m.ConnectionStart | None = None

    def __enter__(self) -> WireClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_socket()

    def close_socket(self) -> None:
        """Drop the connection without a word, as a killed client does."""
        self._socket.close()

    def handshake(
        self,
        user: str = "guest",
        password: str = "guest",
        virtual_host: str = "/",
        capabilities: Mapping[str, bool] = CAPABILITIES,
        *,
        frame_max: int | None = None,
        channel_max: int | None = None,
        heartbeat: int = 0,
    ) -> m.ConnectionTune:
        """Open the connection; limits that are not given are the broker's. Returns what it offered."""
        self.send_bytes(PROTOCOL_HEADER)
        self.start = self.expect(m.ConnectionStart, channel=0)
        response = f"\0{user}\0{password}".encode()
        self.send(m.ConnectionStartOk(table({"capabilities": capabilities}), "PLAIN", response, "en_US"))
        tune = self.expect(m.ConnectionTune, channel=0)
        self.frame_max = tune.frame_max if frame_max is None else frame_max
        channel_max = tune.channel_max if channel_max is None else channel_max
        self.send(m.ConnectionTuneOk(channel_max, self.frame_max, heartbeat))
        self.call(m.ConnectionOpen(virtual_host), m.ConnectionOpenOk, channel=0)
        return tune

    def open_channel(self, channel: int = 1) -> None:
        """Open a channel by its number."""
        self.call(m.ChannelOpen(), m.ChannelOpenOk, channel)

    def close(self) -> None:
        """Close the connection in the orderly way; other methods that arrive are thrown away."""
        self.send(m.ConnectionClose())
        while not isinstance(self.recv().method, m.ConnectionCloseOk):
            pass
        self.close_socket()

    def send(self, method: m.Method, channel: int = 0) -> None:
        """Send a method; content, if it has any, is sent by ``send_content`` or ``publish``."""
        self.send_bytes(m.frame(channel, method))

    def send_content(
        self, body: bytes, properties: Mapping[str, Any] | None = None, channel: int = 1
    ) -> None:
        """Send content header and body frames."""
        header = struct.pack(">HHQ", CLASS_BASIC, 0, len(body)) + encode_properties(properties or {})
        step = self.frame_max - FRAME_OVERHEAD
        pieces = [body[start : start + step] for start in range(0, len(body), step)]
        frames = [raw_frame(FRAME_HEADER, channel, header)]
        self.send_bytes(b"".join(frames + [raw_frame(FRAME_BODY, channel, piece) for piece in pieces]))

    def publish(
        self,
        body: bytes,
        routing_key: str = "",
        exchange: str = "",
        properties: Mapping[str, Any] | None = None,
        *,
        mandatory: bool = False,
        channel: int = 1,
    ) -> None:
        """basic.publish and its content."""
        self.send(m.BasicPublish(exchange, routing_key, mandatory=mandatory), channel)
        self.send_content(body, properties, channel)

    def send_frame(self, frame_type: int, channel: int, payload: bytes) -> None:
        """Send a frame of any kind, legal or not."""
        self.send_bytes(raw_frame(frame_type, channel, payload))

    def send_bytes(self, data: bytes) -> None:
        """Send octets as they are."""
        self._socket.sendall(data)

    def call(self, method: m.Method, answer: type[M], channel: int = 1) -> M:
        """Send a method and return its answer, which must be what arrives next."""
        self.send(method, channel)
        return self.expect(answer, channel=channel)

    def expect(self, cls: type[M], *, channel: int = 1, timeout: float | None = None) -> M:
        """The next method, which must be of this class and on this channel."""
        received = self.recv(timeout)
        assert isinstance(received.method, cls), f"{cls.NAME} was expected, this came: {received}"
        assert received.channel == channel, f"channel {channel} was expected, this came: {received}"
        return received.method

    def expect_silence(self, seconds: float = 0.2) -> None:
        """Nothing arrives for so long; heartbeats do not count."""
        try:
            received = self.recv(seconds)
        except TimeoutError:
            return
        raise AssertionError(f"silence was expected, this came: {received}")

    def expect_eof(self, timeout: float | None = None) -> None:
        """The broker closes the socket, and sends nothing more before it."""
        try:
            received = self.recv(timeout)
        except EOFError:
            return
        raise AssertionError(f"end of the connection was expected, this came: {received}")

    def recv(self, timeout: float | None = None) -> Received:
        """The next method with all of its content; heartbeats are skipped."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            frame_type, channel, payload = self._recv_frame(deadline)
            received = None
            if frame_type != FRAME_HEARTBEAT:
                received = self._collect(frame_type, channel, payload)
            if received is not None:
                return received

    def recv_frame(self, timeout: float | None = None) -> tuple[int, int, bytes]:
        """The next frame of any kind: type, channel, payload."""
        return self._recv_frame(time.monotonic() + (self._timeout if timeout is None else timeout))

    def recv_bytes(self, count: int, timeout: float | None = None) -> bytes:
        """Exactly ``count`` octets."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        self._fill(count, deadline)
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _recv_frame(self, deadline: float) -> tuple[int, int, bytes]:
        self._fill(FRAME_HEADER_SIZE, deadline)
        frame_type, channel, size = struct.unpack_from(">BHI", self._buffer)
        end = FRAME_HEADER_SIZE + size
        self._fill(end + 1, deadline)  # leaves a partial frame in place if time runs out
        frame = bytes(self._buffer[: end + 1])
        assert frame.endswith(FRAME_END_OCTET), f"frame without end octet: {frame!r}"
        del self._buffer[: end + 1]
        return frame_type, channel, frame[FRAME_HEADER_SIZE:end]

    def _fill(self, count: int, deadline: float) -> None:
        while len(self._buffer) < count:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError as error:
                raise EOFError("the broker reset the connection") from error
            finally:
                self._socket.settimeout(self._timeout)
            if not data:
                raise EOFError("the broker closed the connection")
            self._buffer += data

    def _collect(self, frame_type: int, channel: int, payload: bytes) -> Received | None:
        """Add a frame to its channel's content; returns a method once it is complete."""
        if frame_type == FRAME_METHOD:
            assert channel not in self._partial, f"method inside content on channel {channel}"
            method = m.decode_method(payload)
            if not method.HAS_CONTENT:
                return Received(channel, method)
            self._partial[channel] = (method, b"", -1, bytearray())
            return None
        method, properties, size, body = self._partial[channel]
        if frame_type == FRAME_HEADER:
            assert size < 0, f"second content header on channel {channel}"
            class_id, weight, size = struct.unpack_from(">HHQ", payload)
            assert (class_id, weight) == (CLASS_BASIC, 0)
            properties = payload[CONTENT_HEADER_SIZE:]
        else:
            assert frame_type == FRAME_BODY
            assert len(payload) <= self.frame_max - FRAME_OVERHEAD, "body frame above frame_max"
            body += payload
        assert size >= 0, f"body before its content header on channel {channel}"
        assert len(body) <= size, "content longer than announced"
        self._partial[channel] = (method, properties, size, body)
        if len(body) < size:
            return None
        del self._partial[channel]
        return Received(channel, method, decode_properties(properties), bytes(body))


def raw_frame(frame_type: int, channel: int, payload: bytes) -> bytes:
    """A frame around any payload."""
    return struct.pack(">BHI", frame_type, channel, len(payload)) + payload + FRAME_END_OCTET


def table(values: Mapping[str, Any]) -> Table:
    """A field table from ordinary Python values; ``fields.encode_plain`` says which type each gets."""
    return decode_table(encode_plain(values), 0)[0]
