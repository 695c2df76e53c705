"""A raw-socket AMQP 0-9-1 client that sends what it is told, right or wrong, and shows all that comes back.

Written on its own, without the broker's codec, so that a mistake in that codec cannot hide itself.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: name -> class id, method id, fields.
#: o, h, l, L: unsigned 1, 2, 4, 8 bytes; s, S: short and long string; b: bit; F: table.
METHODS: dict[str, tuple[int, int, str]] = {
    "connection.start": (10, 10, "major:o minor:o properties:F mechanisms:S locales:S"),
    "connection.start-ok": (10, 11, "properties:F mechanism:s response:S locale:s"),
    "connection.secure": (10, 20, "challenge:S"),
    "connection.secure-ok": (10, 21, "response:S"),
    "connection.tune": (10, 30, "channel_max:h frame_max:l heartbeat:h"),
    "connection.tune-ok": (10, 31, "channel_max:h frame_max:l heartbeat:h"),
    "connection.open": (10, 40, "vhost:s reserved1:s reserved2:b"),
    "connection.open-ok": (10, 41, "reserved1:s"),
    "connection.close": (10, 50, "code:h text:s class_id:h method_id:h"),
    "connection.close-ok": (10, 51, ""),
    "connection.blocked": (10, 60, "reason:s"),
    "connection.unblocked": (10, 61, ""),
    "connection.update-secret": (10, 70, "secret:S reason:s"),
    "connection.update-secret-ok": (10, 71, ""),
    "channel.open": (20, 10, "reserved1:s"),
    "channel.open-ok": (20, 11, "reserved1:S"),
    "channel.flow": (20, 20, "active:b"),
    "channel.flow-ok": (20, 21, "active:b"),
    "channel.close": (20, 40, "code:h text:s class_id:h method_id:h"),
    "channel.close-ok": (20, 41, ""),
    "access.request": (30, 10, "realm:s exclusive:b passive:b active:b write:b read:b"),
    "access.request-ok": (30, 11, "ticket:h"),
    "exchange.declare": (
        40,
        10,
        "ticket:h exchange:s type:s passive:b durable:b auto_delete:b internal:b nowait:b arguments:F",
    ),
    "exchange.declare-ok": (40, 11, ""),
    "exchange.delete": (40, 20, "ticket:h exchange:s if_unused:b nowait:b"),
    "exchange.delete-ok": (40, 21, ""),
    "exchange.bind": (40, 30, "ticket:h destination:s source:s routing_key:s nowait:b arguments:F"),
    "exchange.bind-ok": (40, 31, ""),
    "exchange.unbind": (40, 40, "ticket:h destination:s source:s routing_key:s nowait:b arguments:F"),
    "exchange.unbind-ok": (40, 51, ""),
    "queue.declare": (
        50,
        10,
        "ticket:h queue:s passive:b durable:b exclusive:b auto_delete:b nowait:b arguments:F",
    ),
    "queue.declare-ok": (50, 11, "queue:s messages:l consumers:l"),
    "queue.bind": (50, 20, "ticket:h queue:s exchange:s routing_key:s nowait:b arguments:F"),
    "queue.bind-ok": (50, 21, ""),
    "queue.purge": (50, 30, "ticket:h queue:s nowait:b"),
    "queue.purge-ok": (50, 31, "messages:l"),
    "queue.delete": (50, 40, "ticket:h queue:s if_unused:b if_empty:b nowait:b"),
    "queue.delete-ok": (50, 41, "messages:l"),
    "queue.unbind": (50, 50, "ticket:h queue:s exchange:s routing_key:s arguments:F"),
    "queue.unbind-ok": (50, 51, ""),
    "basic.qos": (60, 10, "size:l count:h is_global:b"),
    "basic.qos-ok": (60, 11, ""),
    "basic.consume": (60, 20, "ticket:h queue:s tag:s no_local:b no_ack:b exclusive:b nowait:b arguments:F"),
    "basic.consume-ok": (60, 21, "tag:s"),
    "basic.cancel": (60, 30, "tag:s nowait:b"),
    "basic.cancel-ok": (60, 31, "tag:s"),
    "basic.publish": (60, 40, "ticket:h exchange:s routing_key:s mandatory:b immediate:b"),
    "basic.return": (60, 50, "code:h text:s exchange:s routing_key:s"),
    "basic.deliver": (60, 60, "tag:s delivery_tag:L redelivered:b exchange:s routing_key:s"),
    "basic.get": (60, 70, "ticket:h queue:s no_ack:b"),
    "basic.get-ok": (60, 71, "delivery_tag:L redelivered:b exchange:s routing_key:s messages:l"),
    "basic.get-empty": (60, 72, "reserved1:s"),
    "basic.ack": (60, 80, "delivery_tag:L multiple:b"),
    "basic.reject": (60, 90, "delivery_tag:L requeue:b"),
    "basic.recover-async": (60, 100, "requeue:b"),
    "basic.recover": (60, 110, "requeue:b"),
    "basic.recover-ok": (60, 111, ""),
    "basic.nack": (60, 120, "delivery_tag:L multiple:b requeue:b"),
    "confirm.select": (85, 10, "nowait:b"),
    "confirm.select-ok": (85, 11, ""),
    "tx.select": (90, 10, ""),
    "tx.select-ok": (90, 11, ""),
    "tx.commit": (90, 20, ""),
    "tx.commit-ok": (90, 21, ""),
    "tx.rollback": (90, 30, ""),
    "tx.rollback-ok": (90, 31, ""),
}
FIELDS = {
    name: [tuple(field.split(":")) for field in fields.split()] for name, (_, _, fields) in METHODS.items()
}
NAMES = {(class_id, method_id): name for name, (class_id, method_id, _) in METHODS.items()}
PROPERTIES = [
    ("content_type", "s"),
    ("content_encoding", "s"),
    ("headers", "F"),
    ("delivery_mode", "o"),
    ("priority", "o"),
    ("correlation_id", "s"),
    ("reply_to", "s"),
    ("expiration", "s"),
    ("message_id", "s"),
    ("timestamp", "L"),
    ("type", "s"),
    ("user_id", "s"),
    ("app_id", "s"),
    ("cluster_id", "s"),
]
INTEGERS = {"o": ">B", "h": ">H", "l": ">I", "L": ">Q"}
#: field type letter -> struct format
NUMBERS = dict(zip("bBsuIilfdTL", (f">{form}" for form in "bBhHiIqfdQq"), strict=True))
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
WITH_CONTENT = ("basic.deliver", "basic.get-ok", "basic.return")
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Typed(NamedTuple):
    """A field value with an explicit type letter and its bytes."""

    tag: str
    data: bytes


class Received(NamedTuple):
    """A method with its content; or ``heartbeat``, ``header`` (AMQP....), ``eof``, ``reset``, ``frame-N``."""

    channel: int
    name: str
    fields: dict[str, Any]
    properties: dict[str, Any] = {}  # noqa: RUF012 - an empty default that nobody changes
    body: bytes = b""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise AttributeError(f"{name} in {self.name} {self.fields}") from None


def long_int(value: int) -> Typed:
    return Typed("l", struct.pack(">q", value))


def encode_short(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">B", len(data)) + data


def encode_long(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">I", len(data)) + data


def encode_value(value: Any) -> bytes:
    if isinstance(value, Typed):
        return value.tag.encode() + value.data
    if isinstance(value, bool):
        return b"t" + struct.pack(">B", value)
    if isinstance(value, int):
        return (
            b"I" + struct.pack(">i", value) if -(2**31) <= value < 2**31 else b"l" + struct.pack(">q", value)
        )
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + encode_long(value)
    if isinstance(value, bytes):
        return b"x" + encode_long(value)
    if value is None:
        return b"V"
    if isinstance(value, Mapping):
        return b"F" + encode_table(value)
    if isinstance(value, list):
        items = b"".join(encode_value(item) for item in value)
        return b"A" + struct.pack(">I", len(items)) + items
    raise TypeError(f"no field type for {value!r}")


def encode_table(table: Mapping[str, Any]) -> bytes:
    pairs = b"".join(encode_short(key) + encode_value(value) for key, value in table.items())
    return struct.pack(">I", len(pairs)) + pairs


def encode_method(name: str, **values: Any) -> bytes:
    """The payload of a method frame; fields left out are 0, empty or false."""
    class_id, method_id, _ = METHODS[name]
    unknown = set(values) - {field for field, _ in FIELDS[name]}
    if unknown:
        raise TypeError(f"{name} has no {', '.join(sorted(unknown))}")
    out = bytearray(struct.pack(">HH", class_id, method_id))
    bits: list[bool] = []
    for field, kind in [*FIELDS[name], ("", "")]:
        if kind == "b":
            bits.append(bool(values.get(field)))
            continue
        if bits:
            out.append(sum(1 << index for index, bit in enumerate(bits) if bit))
            bits = []
        if kind in INTEGERS:
            out += struct.pack(INTEGERS[kind], values.get(field, 0))
        elif kind == "s":
            out += encode_short(values.get(field, ""))
        elif kind == "S":
            out += encode_long(values.get(field, ""))
        elif kind == "F":
            table = values.get(field, {})
            out += table if isinstance(table, bytes) else encode_table(table)
    return bytes(out)


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    unknown = set(properties) - {name for name, _ in PROPERTIES}
    if unknown:
        raise TypeError(f"no property {', '.join(sorted(unknown))}")
    flags, out = 0, b""
    for index, (name, kind) in enumerate(PROPERTIES):
        value = properties.get(name)
        if value is None:
            continue
        flags |= 1 << (15 - index)
        if kind == "s":
            out += encode_short(value)
        elif kind == "F":
            out += value if isinstance(value, bytes) else encode_table(value)
        else:
            out += struct.pack(INTEGERS[kind], value)
    return struct.pack(">H", flags) + out


def encode_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def encode_publish(
    channel: int,
    exchange: str,
    routing_key: str,
    body: bytes,
    frame_max: int = 131072,
    mandatory: bool = False,
    immediate: bool = False,
    **properties: Any,
) -> bytes:
    """All the frames of one publish."""
    method = encode_method(
        "basic.publish", exchange=exchange, routing_key=routing_key, mandatory=mandatory, immediate=immediate
    )
    header = struct.pack(">HHQ", 60, 0, len(body)) + encode_properties(properties)
    out = [encode_frame(FRAME_METHOD, channel, method), encode_frame(FRAME_HEADER, channel, header)]
    step = frame_max - 8
    out += [encode_frame(FRAME_BODY, channel, body[at : at + step]) for at in range(0, len(body), step)]
    return b"".join(out)


class Reader:
    """Takes a payload apart; numbers of every width become int, strings str, byte arrays bytes."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.position)
        self.position += struct.calcsize(form)
        return value

    def take(self, size: int) -> bytes:
        value = self.data[self.position : self.position + size]
        self.position += size
        return value

    def short(self) -> str:
        return self.take(self.number(">B")).decode("utf-8", "surrogateescape")

    def long(self) -> bytes:
        return self.take(self.number(">I"))

    def table(self) -> dict[str, Any]:
        end = self.number(">I") + self.position
        result = {}
        while self.position < end:
            key = self.short()
            result[key] = self.value()
        return result

    def value(self) -> Any:
        tag = chr(self.number(">B"))
        if tag == "t":
            return bool(self.number(">B"))
        if tag == "S":
            return self.long().decode("utf-8", "surrogateescape")
        if tag == "x":
            return self.long()
        if tag == "F":
            return self.table()
        if tag == "V":
            return None
        if tag == "D":
            return (self.number(">B"), self.number(">i"))
        if tag == "A":
            end = self.number(">I") + self.position
            items = []
            while self.position < end:
                items.append(self.value())
            return items
        return self.number(NUMBERS[tag])

    def field(self, kind: str) -> Any:
        if kind == "s":
            return self.short()
        if kind == "S":
            return self.long().decode("utf-8", "surrogateescape")
        if kind == "F":
            return self.table()
        return self.number(INTEGERS[kind])


def decode_method(payload: bytes) -> tuple[str, dict[str, Any]]:
    reader = Reader(payload)
    key = (reader.number(">H"), reader.number(">H"))
    name = NAMES.get(key, "")
    if not name:
        return f"unknown-{key[0]}.{key[1]}", {}
    fields: dict[str, Any] = {}
    bit = 8
    octet = 0
    for field, kind in FIELDS[name]:
        if kind == "b":
            if bit > 7:
                bit, octet = 0, reader.number(">B")
            fields[field] = bool(octet >> bit & 1)
            bit += 1
        else:
            bit = 8
            fields[field] = reader.field(kind)
    return name, fields


def decode_properties(payload: bytes) -> dict[str, Any]:
    """The properties in a content header frame's payload."""
    reader = Reader(payload, 12)
    flags = reader.number(">H")
    return {
        name: reader.field(kind) for index, (name, kind) in enumerate(PROPERTIES) if flags >> (15 - index) & 1
    }


#: Seconds that an answer may take. It says "never": other programs may have the processors.
PATIENCE_S = 30.0


class Wire:
    """One connection. ``until`` says how far the handshake goes: connect, start, tune, open (the default).

    ``before`` is sent first, from the address ``source``.
    """

    def __init__(
        self,
        port: int,
        *,
        host: str = "127.0.0.1",
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        channel_max: int = 2047,
        frame_max: int = 131072,
        heartbeat: int = 0,
        capabilities: Mapping[str, bool] | None = CAPABILITIES,
        until: str = "open",
        receive_buffer: int = 0,
        tls: ssl.SSLContext | None = None,
        source: str = "",
        before: Sequence[bytes] = (),
    ) -> None:
        self.frame_max = frame_max
        self.buffer = bytearray()
        self.socket = socket.socket(socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in before:
            self.socket.sendall(piece)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        if until == "connect":
            return
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.start = self.receive()
        if until == "start":
            return
        properties: dict[str, Any] = {"product": "wire"}
        if capabilities is not None:
            properties["capabilities"] = dict(capabilities)
        self.send(
            0,
            "connection.start-ok",
            properties=properties,
            mechanism="PLAIN",
            response=f"\0{user}\0{password}",
            locale="en_US",
        )
        self.tune = self.receive()
        if self.tune.name != "connection.tune":
            return
        self.send(0, "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        if until == "tune":
            return
        self.opened = self.call(0, "connection.open", vhost=vhost)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # sending

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.send_bytes(encode_frame(kind, channel, payload))

    def send(self, channel: int, name: str, **fields: Any) -> None:
        self.frame(FRAME_METHOD, channel, encode_method(name, **fields))

    def publish(
        self, channel: int, exchange: str, routing_key: str, body: bytes | str = b"", **options: Any
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_bytes(encode_publish(channel, exchange, routing_key, data, self.frame_max, **options))

    def header(self, channel: int, body_size: int, class_id: int = 60) -> None:
        """A content header without properties."""
        self.frame(FRAME_HEADER, channel, struct.pack(">HHQH", class_id, 0, body_size, 0))

    # receiving

    def receive_frame(self, timeout: float = PATIENCE_S) -> tuple[int, int, bytes] | Received | None:
        """A frame as (type, channel, payload), or None when nothing came in time.

        Received stands for the end of the connection and for a protocol header.
        """
        end = time.monotonic() + timeout
        while True:
            if self.buffer[:4] == b"AMQP" and len(self.buffer) >= 8:
                header = bytes(self.buffer[:8])
                del self.buffer[:8]
                return Received(0, "header", {"data": header})
            if len(self.buffer) >= 7 and self.buffer[:4] != b"AMQP":
                kind, channel, size = struct.unpack_from(">BHI", self.buffer)
                if len(self.buffer) >= size + 8:
                    payload = bytes(self.buffer[7 : 7 + size])
                    assert self.buffer[7 + size] == 0xCE, "frame end is missing"
                    del self.buffer[: size + 8]
                    return kind, channel, payload
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self.socket.recv(262144)
            except TimeoutError:
                return None
            except OSError as error:
                return Received(0, "reset", {"error": str(error)})
            if not data:
                return Received(0, "eof", {})
            self.buffer += data

    def receive_within(self, timeout: float) -> Received | None:
        """The next thing that arrives, or None if nothing does within ``timeout`` seconds."""
        frame = self.receive_frame(timeout)
        if frame is None or isinstance(frame, Received):
            return frame
        kind, channel, payload = frame
        if kind == FRAME_HEARTBEAT:
            return Received(channel, "heartbeat", {})
        if kind != FRAME_METHOD:
            return Received(channel, f"frame-{kind}", {"payload": payload})
        name, fields = decode_method(payload)
        if name not in WITH_CONTENT:
            return Received(channel, name, fields)
        header = self.content_frame(FRAME_HEADER, channel)
        (size,) = struct.unpack_from(">Q", header, 4)
        body = bytearray()
        while len(body) < size:
            body += self.content_frame(FRAME_BODY, channel)
        return Received(channel, name, fields, decode_properties(header), bytes(body))

    def content_frame(self, kind: int, channel: int) -> bytes:
        frame = self.receive_frame()
        assert frame is not None, "the rest of the content did not come"
        if isinstance(frame, Received):
            raise ConnectionResetError(f"the connection ended within a content: {frame}")
        assert frame[:2] == (kind, channel), f"expected frame type {kind} on channel {channel}, got {frame}"
        return frame[2]

    def receive(self, timeout: float = PATIENCE_S) -> Received:
        """The next thing that arrives; fails when nothing does."""
        received = self.receive_within(timeout)
        assert received is not None, f"nothing came within {timeout} s"
        return received

    def call(self, channel: int, name: str, timeout: float = PATIENCE_S, **fields: Any) -> Received:
        """Send a method and return whatever comes next."""
        self.send(channel, name, **fields)
        return self.receive(timeout)

    def ok(self, channel: int, name: str, **fields: Any) -> Received:
        """Send a method and insist on its own -ok (or, for basic.get, on get-ok or get-empty)."""
        reply = self.call(channel, name, **fields)
        is_stop = reply.name == "connection.close" and reply.fields["code"] == 320  # the broker shuts down
        if is_stop or reply.name in ("eof", "reset"):
            raise ConnectionResetError(f"{name} was answered by {reply}")
        good = ("basic.get-ok", "basic.get-empty") if name == "basic.get" else (f"{name}-ok",)
        assert reply.name in good, f"{name} was answered by {reply}"
        return reply

    def until_quiet(self, quiet: float = 0.15, *, expected: int = 0) -> list[Received]:
        """Everything that arrives until nothing comes for ``quiet`` seconds.

        ``expected`` things are waited for as long as ``receive`` waits: on a machine with much to do the
        broker may be quiet for longer before it answers.
        """
        result = [self.receive() for _ in range(expected)]
        while (received := self.receive_within(quiet)) is not None:
            result.append(received)
            if received.name in ("eof", "reset"):
                break
        return result

    def confirmed(self, count: int) -> None:
        """Wait until the first ``count`` messages of a channel are confirmed; nothing else may come."""
        waiting = set(range(1, count + 1))
        while waiting:
            reply = self.receive()
            assert reply.name == "basic.ack", reply
            last = reply.delivery_tag
            waiting -= {tag for tag in waiting if tag == last or (reply.multiple and tag < last)}

    def receive_named(self, name: str, count: int) -> list[Received]:
        """``count`` methods of this name, and nothing else in between."""
        result = []
        for _ in range(count):
            received = self.receive()
            assert received.name == name, f"expected {name}, got {received}"
            result.append(received)
        return result

    # everyday

    def open_channel(self, channel: int = 1, *, confirm: bool = False) -> int:
        self.ok(channel, "channel.open")
        if confirm:
            self.ok(channel, "confirm.select")
        return channel

    def get(self, queue: str, channel: int = 1, no_ack: bool = True) -> Received | None:
        """The next message of a queue, or None."""
        reply = self.ok(channel, "basic.get", queue=queue, no_ack=no_ack)
        return reply if reply.name == "basic.get-ok" else None

    def get_all(self, queue: str, channel: int = 1) -> list[Received]:
        result = []
        while (message := self.get(queue, channel)) is not None:
            result.append(message)
        return result

    def ready(self, queue: str, channel: int = 1) -> int:
        """Ready messages, by a passive declare."""
        return int(self.ok(channel, "queue.declare", queue=queue, passive=True).messages)

    def close(self) -> None:
        """Close politely where possible; no matter what state the connection is in."""
        try:
            self.send(0, "connection.close", code=200, text="bye")
            while self.receive(2).name not in ("connection.close-ok", "connection.close", "eof", "reset"):
                pass
        except (OSError, AssertionError):
            pass
        self.socket.close()

    def drop(self) -> None:
        """Vanish without a word, with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
