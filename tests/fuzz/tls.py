"""TLS cases: spoiled handshakes and records, octets that are no TLS, and AMQP through all that.

The client's octets are made by OpenSSL, so they differ from run to run; what is done to them is in the case.
Steps besides those of ``sockets``:

- ``[c, "tls"]``: connect;
- ``[c, "shake", certificate, flaws]``: the handshake, with one of ``CERTIFICATES``. Later writes go through
  TLS;
- ``[c, "spoil", flaws]``: spoil the octets of the next write;
- ``[c, "bare", octets]``: write octets beneath TLS.

A flaw is ``[flight, what, where, value]``: in which flight of the handshake (0 for a write), and where as a
share of its length.
"""

from __future__ import annotations

import contextlib
import json
import select
import ssl
import time
from random import Random
from typing import Any

from tests.fuzz import amqp
from tests.fuzz.core import Case
from tests.fuzz.sockets import Peer, play
from tests.fuzz.watched import Watched
from tests.interop.wire import Wire
from tests.sockets.authority import Authority

#: Which certificate a client shows: none, a good one, one that is revoked, one of another authority.
CERTIFICATES = ("", "guest", "thief", "foreign")
WHATS = ("flip", "cut", "drop", "twice", "insert", "length", "pieces")
#: Seconds that a client waits for the broker's part of the handshake.
FLIGHT_S = 0.2
#: Octets that other protocols begin with, and records that are none.
STRANGE = (
    b"AMQP\0\0\x09\x01",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10\x01\x00\x80",
    b"\x16\x03\x01\xff\xff\x01",
    b"\x16\x03\x01\x00\x00" * 200,
    b"\x15\x03\x03\x00\x02\x01\x00",
    b"\x15\x03\x03\x00\x02\x02\x28" * 50,
    b"\x17\x03\x03\x00\x10" + bytes(16),
    b"\x14\x03\x03\x00\x01\x01" * 100,
    b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
    b"\x18\x03\x02\x00\x03\x01\x40\x00",
)


class TlsPeer(Peer):
    """A connection with a TLS client on it."""

    def __init__(self, port: int, kind: str, contexts: dict[str, ssl.SSLContext]) -> None:
        super().__init__(port, kind)
        self.contexts = contexts
        self.into, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        self.flaws: list[Any] = []

    def do(self, word: str, *rest: Any) -> None:
        if word == "shake":
            self._shake(*rest)
        elif word == "spoil":
            self.flaws = rest[0]
        elif word == "bare":
            super().write(rest[0].encode("latin-1"))
        else:
            super().do(word, *rest)

    def _shake(self, certificate: str, flaws: list[Any]) -> None:
        self.tls = self.contexts[certificate].wrap_bio(self.into, self.out, server_hostname="localhost")
        is_spoiled = False
        for flight in range(6):
            is_done = self._go_on()
            if is_done is None:
                self.tls = None
                return
            if data := self.out.read():
                here = [flaw for flaw in flaws if flaw[0] == flight]
                is_spoiled = is_spoiled or bool(here)
                self._send(data, here)
            if is_done or self.over or (not self._await_flight() and is_spoiled):
                return

    def _go_on(self) -> bool | None:
        """Whether the handshake is done; None if it failed."""
        assert self.tls is not None
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ValueError):
            return None
        return True

    def _await_flight(self) -> bool:
        """Read until the handshake can go on; False if it cannot, as the broker waits for more itself."""
        end = time.monotonic() + FLIGHT_S
        while not self.over and (left := end - time.monotonic()) > 0:
            if select.select([self.socket], [], [], left)[0]:
                self.read()
                if self._go_on() is not False or self.out.pending:
                    return True
        return False

    def _send(self, data: bytes, flaws: list[Any]) -> None:
        data, piece = spoiled(data, flaws)
        for start in range(0, len(data), piece):
            super().write(data[start : start + piece])

    def write(self, data: bytes) -> None:
        if self.tls is None:
            super().write(data)
            return
        flaws, self.flaws = self.flaws, []
        with contextlib.suppress(ssl.SSLError):
            self.tls.write(data)
        self._send(self.out.read(), flaws)

    def got(self, data: bytes) -> None:
        if self.tls is None:
            return
        self.into.write(data)
        with contextlib.suppress(ssl.SSLError, ValueError):  # it wants more, or the handshake is not done
            while plain := self.tls.read(1 << 16):
                super().got(plain)


def spoiled(data: bytes, flaws: list[Any]) -> tuple[bytes, int]:
    """``data`` with the flaws, and how many octets of it are written together."""
    made, piece = bytearray(data), 1 << 20
    for _, what, where, value in flaws:
        at = int(where * len(made))
        if what == "flip" and made:
            made[at] ^= value or 1
        elif what == "cut":
            del made[at:]
        elif what == "drop":
            del made[at : at + 1 + value % 8]
        elif what == "twice":
            made += made[at:]
        elif what == "insert":
            made[at:at] = bytes([value]) * (1 + value * 37 % 5000)
        elif what == "length" and len(made) > 5:
            made[3:5] = (value * 257).to_bytes(2, "big")
        elif what == "pieces":
            piece = max(1 + value % 64, len(made) // 40)
    return bytes(made), piece


def flaw(random: Random, flight: int) -> list[Any]:
    return [flight, random.choice(WHATS), round(random.random() * 0.999, 3), random.randrange(256)]


def connection(random: Random, number: int) -> Case:
    """One connection, from its first octet to its end."""
    steps: Case = [[number, "tls"]]
    roll = random.random()
    if roll < 0.2:
        for _ in range(random.choice((1, 1, 3))):
            octets = random.choice((*STRANGE, random.randbytes(random.choice((1, 5, 300, 20_000)))))
            steps.append([number, "bare", octets.decode("latin-1")])
            steps.append([number, "wait", random.choice((1, 5, 20))])
    elif roll < 0.55:
        flaws = [flaw(random, random.choice((0, 0, 1, 1, 2))) for _ in range(random.choice((1, 1, 2, 4)))]
        steps.append([number, "shake", random.choice(CERTIFICATES), flaws])
        steps.append([number, "wait", 5])
    else:
        pieces = [[1, "pieces", 0.0, random.randrange(256)]] if random.random() < 0.2 else []
        steps.append([number, "shake", random.choice(CERTIFICATES), pieces])
        spoils = random.choice((0.0, 0.02, 0.2))
        for step in amqp.connection(random, number)[1:]:
            if step[1] == "write" and random.random() < spoils:
                steps.append([number, "spoil", [flaw(random, 0)]])
            steps.append(step)
            if random.random() < 0.01:
                steps.append([number, "bare", random.choice(STRANGE).decode("latin-1")])
    steps.append([number, random.choice(("close", "close", "reset", "end", "wait")), 5])
    return [step[:2] if step[1] in ("close", "reset", "end") else step for step in steps]


def make(random: Random) -> Case:
    """One to four connections whose steps are mixed."""
    pending = [connection(random, number) for number in range(random.choice((1, 1, 2, 4)))]
    case: Case = []
    while pending:
        steps = random.choice(pending)
        case.append(steps.pop(0))
        pending = [steps for steps in pending if steps]
    return case


class Tls:
    """After each case an honest client comes over TLS, beside the one that is there without."""

    name = "tls"

    def __init__(self) -> None:
        self.watched = Watched()
        files = self.watched.directory / "ca"
        authority = Authority(files)
        for name in ("server", "guest", "thief"):
            authority.make(name, f"/CN={name}")
        foreign = Authority(files / "foreign")
        foreign.make("foreign", "/CN=foreign")
        self.watched.options = (
            # The honest client has that time for its handshake, also if others have the processors.
            *("--log-level", "warning", "--amqps-port", "0", "--handshake-timeout-s", "10"),
            *("--amqps-certificate", str(files / "server.pem"), "--amqps-key", str(files / "server.key")),
            *("--amqps-ca", str(files / "ca.pem"), "--amqps-verify", "peer"),
            *("--amqps-login-from", "common_name", "--amqps-crl", str(authority.revoke("thief"))),
        )
        self.contexts = {name: authority.client(name if name != "foreign" else "") for name in CERTIFICATES}
        self.contexts["foreign"].load_cert_chain(
            files / "foreign" / "foreign.pem", files / "foreign" / "foreign.key"
        )

    def make(self, random: Random) -> Case:
        return make(random)

    def run(self, case: Case) -> str:
        broker = self.watched.broker
        assert broker is not None
        port = json.loads(broker.ready_file.read_text())["amqps"]["port"]

        def connect(port: int, kind: str) -> Peer:
            return TlsPeer(port, kind, self.contexts)

        found = play(case, {"tls": port}, connect=connect)
        return self.watched.look_for(found) if found else self._honest(port) or self.watched.look()

    def _honest(self, port: int) -> str:
        try:
            with Wire(port, tls=self.contexts[""]) as wire:
                wire.open_channel(1)
        except (OSError, AssertionError) as error:
            return f"an honest client over TLS was not served: {error!r}"
        return ""

    def facts(self) -> str:
        return self.watched.facts()

    def checkpoint(self) -> str:
        return self.watched.restart()

    def fresh(self) -> None:
        self.watched.fresh()

    def close(self) -> None:
        self.watched.close()
