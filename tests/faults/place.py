"""What the loads of `hungry` and `costly` share: where the broker is, sending to one that may not read."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.faults.loads import Outcome
from tests.interop.wire import Wire, encode_frame, encode_method

KIB, MIB = 1 << 10, 1 << 20


class Place(NamedTuple):
    """A broker to load. ``scale`` below 1 makes a load smaller, for a test of seconds."""

    port: int
    admin_port: int = 0
    data_dir: str = ""
    scale: float = 1.0

    def of(self, count: int) -> int:
        """So many of what the full load has ``count`` of."""
        return max(1, int(count * self.scale))


CaseLoad: TypeAlias = Callable[[Place, float], Outcome]


def connect(place: Place, *, receive_buffer: int = 0, confirm: bool = False) -> Wire:
    wire = Wire(place.port, receive_buffer=receive_buffer)
    wire.open_channel(1, confirm=confirm)
    return wire


def patiently(place: Place, seconds: float) -> Wire | None:
    """As `connect`, but a broker that is frozen may take that long; None if it takes longer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return connect(place)
        except (OSError, AssertionError):
            continue
    return None


def on_disk(place: Place, pattern: str) -> str:
    """What files of the data directory take, as a note."""
    files = Path(place.data_dir).glob(pattern) if place.data_dir else []
    size = sum(file.stat().st_blocks * 512 for file in files if file.is_file())
    return f"{pattern.partition('*')[0]} {size / MIB:.0f} MiB on disk"


def method(name: str, channel: int = 1, **fields: object) -> bytes:
    return encode_frame(1, channel, encode_method(name, **fields))


def push(wire: Wire, data: bytes, end: float) -> int:
    """Send, as far as the broker takes it until ``end``, without reading; the octets sent."""
    view, sent = memoryview(data), 0
    while sent < len(view) and (left := end - time.monotonic()) > 0:
        wire.socket.settimeout(left)
        try:
            sent += wire.socket.send(view[sent : sent + 262_144])
        except OSError:
            break
    return sent


def swallow(wire: Wire, seconds: float) -> int:
    """Read and forget what comes within that time; the octets."""
    got = 0
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        wire.socket.settimeout(left)
        try:
            data = wire.socket.recv(1 << 20)
        except TimeoutError:
            break
        except OSError:
            break
        if not data:
            break
        got += len(data)
    return got


def answers(wire: Wire, limit: float = 60.0) -> bool:
    """Whether all that was sent on channel 1 is done, as the reply to one more method shows."""
    wire.socket.settimeout(limit)
    wire.send(1, "basic.qos", count=0)
    end = time.monotonic() + limit
    while (left := end - time.monotonic()) > 0:
        got = wire.receive_within(left)
        if got is None or got.name in ("eof", "reset", "connection.close"):
            return False
        if got.name == "channel.close":
            return False
        if got.name == "basic.qos-ok":
            return True
    return False


def hold(begun: float, seconds: float) -> None:
    """Stay as it is until ``seconds`` after ``begun``."""
    time.sleep(max(0.0, begun + seconds - time.monotonic()))


def drop(*wires: Wire) -> None:
    """Be gone without a word."""
    for wire in wires:
        try:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            continue
        wire.socket.close()


def time_of(act: Callable[[], object]) -> float:
    """Seconds it takes."""
    began = time.monotonic()
    act()
    return time.monotonic() - began
