"""Runs a case against a broker: connections that write, read or do not, and end in every way.

Steps: the number of a connection ``c``, a word, and what that needs.

- ``[c, "amqp"]``, ``[c, "http"]``: connect;
- ``[c, "write", octets]``, as Latin-1 text; ``[c, "wait", ms]``: read what comes within that time;
- ``[c, "deaf"]``: read nothing from now on;
- ``[c, "polite"]``: from now on, open a channel again that the broker closes;
- ``[c, "settle", [method, multiple, requeue], n]``: settle the last n deliveries;
- ``[c, "end"]``: close the sending side; ``[c, "close"]``; ``[c, "reset"]``.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.fuzz.core import Case
from tests.interop.wire import encode_frame, encode_method

#: Seconds that one write may wait for a broker that does not read: it may have its reasons.
WRITE_S = 0.3
#: Octets kept of what a connection gets, for the check.
KEPT = 1 << 20


class Peer:
    """One connection of a case."""

    def __init__(self, port: int, kind: str) -> None:
        self.kind = kind
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.socket.setblocking(False)
        self.deaf = False
        self.polite = False
        self.received = bytearray()
        #: How far the frames in it are looked at.
        self.seen = 0
        #: Channel and delivery tag of what was delivered and not settled.
        self.delivered: list[tuple[int, int]] = []
        self.over = False

    def write(self, data: bytes) -> None:
        """As much as is taken in time, reading meanwhile unless it is deaf."""
        view = memoryview(data)
        end = time.monotonic() + WRITE_S
        while view and not self.over and time.monotonic() < end:
            reading = [] if self.deaf else [self.socket]
            readable, writable, _ = select.select(reading, [self.socket], [], 0.05)
            if readable:
                self.read()
            if writable and not self.over:
                try:
                    view = view[self.socket.send(view) :]
                except BlockingIOError:
                    continue
                except OSError:
                    self.over = True

    def read(self) -> None:
        if self.deaf or self.over:
            return
        try:
            while data := self.socket.recv(1 << 18):
                self.got(data)
            self.over = True
        except BlockingIOError:
            pass
        except OSError:
            self.over = True

    def got(self, data: bytes) -> None:
        """Octets that came from the socket."""
        if len(self.received) < KEPT:
            self.received += data

    def do(self, word: str, *rest: Any) -> None:
        """A step that this kind of connection has besides those above."""
        raise ValueError(f"no such step: {word}")

    def look(self) -> None:
        """Note deliveries; answer a closed channel."""
        if self.kind == "http":
            return
        data, answer = self.received, bytearray()
        while self.seen + 8 <= len(data) and data[self.seen : self.seen + 4] != b"AMQP":
            kind, channel, size = struct.unpack_from(">BHI", data, self.seen)
            start = self.seen + 7
            if start + size >= len(data):
                break
            self.seen = start + size + 1
            if kind != 1 or size < 4:
                continue
            ids = struct.unpack_from(">HH", data, start)
            if ids in ((60, 71), (60, 60)):
                at = start + 4 if ids == (60, 71) else start + 5 + data[start + 4]
                self.delivered.append((channel, *struct.unpack_from(">Q", data, at)))
            elif ids == (20, 40):
                self.delivered = [each for each in self.delivered if each[0] != channel]
                answer += encode_frame(1, channel, encode_method("channel.close-ok"))
                answer += encode_frame(1, channel, encode_method("channel.open"))
        if answer and self.polite and not self.over:
            self.write(bytes(answer))

    def settle(self, how: list[Any], count: int) -> None:
        name, multiple, requeue = how
        out = bytearray()
        for _ in range(count):
            if not self.delivered:
                break
            channel, tag = self.delivered.pop()
            values: dict[str, Any] = {"delivery_tag": tag}
            if name != "basic.reject":
                values["multiple"] = bool(multiple)
            if name != "basic.ack":
                values["requeue"] = bool(requeue)
            out += encode_frame(1, channel, encode_method(name, **values))
            if multiple:
                self.delivered = [each for each in self.delivered if each[0] != channel or each[1] > tag]
        if out:
            self.write(bytes(out))

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.over and (left := end - time.monotonic()) > 0:
            if not select.select([self.socket], [], [], left)[0]:
                return
            self.read()

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.over = True
        self.socket.close()


def play(
    case: Case,
    ports: Mapping[str, int],
    fill: Callable[[bytes], bytes] = bytes,
    connect: Callable[[int, str], Peer] = Peer,
) -> str:
    """Run the steps; what a reply shows to be wrong, or an empty text. Octets go through ``fill`` first."""
    peers: dict[int, Peer] = {}
    try:
        for number, name, *rest in case:
            if name in ports:
                if number in peers:
                    peers[number].close()
                try:
                    peers[number] = connect(ports[name], name)
                except OSError as error:
                    return f"nobody answers at the {name} port: {error}"
                continue
            peer = peers.get(number)
            if peer is None or peer.over:
                continue
            if name == "write":
                peer.write(fill(rest[0].encode("latin-1")))
                peer.read()
                peer.look()
            elif name == "deaf":
                peer.deaf = True
            elif name == "polite":
                peer.polite = True
            elif name == "settle":
                peer.settle(*rest)
            elif name == "wait":
                peer.wait(rest[0] / 1000)
                peer.look()
            elif name == "end":
                with contextlib.suppress(OSError):
                    peer.socket.shutdown(socket.SHUT_WR)
            elif name == "reset":
                peer.reset()
            elif name == "close":
                peer.close()
            else:
                peer.do(name, *rest)
        for peer in peers.values():
            peer.wait(0.002)
        return next((found for peer in peers.values() if (found := judge(peer))), "")
    finally:
        for peer in peers.values():
            peer.close()


def judge(peer: Peer) -> str:
    """What no broker may send, or an empty text."""
    return http_fault(bytes(peer.received)) if peer.kind == "http" else amqp_fault(bytes(peer.received))


def http_fault(data: bytes) -> str:
    for status in (b"HTTP/1.1 500", b"HTTP/1.0 500"):
        if (at := data.find(status)) >= 0:
            return f"answered by {data[at : at + 600].decode(errors='replace')}"
    return ""


def amqp_fault(data: bytes) -> str:
    """Frames must be whole, but for the last, and no close may have code 541."""
    position = 0
    while position + 8 <= len(data):
        if data.startswith(b"AMQP", position):
            position += 8
            continue
        kind, _, size = struct.unpack_from(">BHI", data, position)
        if kind not in (1, 2, 3, 8) or size > 131072:
            return f"frame type {kind}, size {size} came at octet {position}"
        end = position + 7 + size
        if end >= len(data):
            return ""
        if data[end] != 0xCE:
            return f"the frame at octet {position} ends with {data[end]:#x}"
        if kind == 1 and size >= 6:
            ids = struct.unpack_from(">HH", data, position + 7)
            (code,) = struct.unpack_from(">H", data, position + 11)
            if ids in ((10, 50), (20, 40)) and code == 541:
                return f"closed with 541: {data[position + 13 : end].decode(errors='replace')}"
        position = end + 1
    return ""
