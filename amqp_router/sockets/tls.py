"""The encrypted socket: to the kernel's socket a protocol, to a client's protocol a transport.

asyncio has one of its own, which this replaces for what a broker must know: what is decrypted is handed on in
the same call, so that a paused connection has nothing decrypted in store; what the kernel does not take
counts as written output, encrypted; the memory of each connection has a bound and is counted; and a handshake
neither holds the loop nor lasts (``handshakes``). Nor do very many small records: the rest of a chunk that
takes long to decrypt waits for a later turn, beside the handshakes, and nothing is read meanwhile.

All connections read into one buffer and decrypt into another. OpenSSL's own buffers never hold more than a
part of a chunk (``records.FEED_BYTES``) on the way in and one record on the way out.

Source: RFC 8446 (TLS 1.3), sections 4 and 5.1; RFC 5246 (TLS 1.2).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amqp_router.connection.ports import Origin
from amqp_router.connection.turn import gate
from amqp_router.cycles import break_cycle
from amqp_router.sockets.certificates import Certificates
from amqp_router.sockets.handshakes import Handshakes
from amqp_router.sockets.records import Records
from amqp_router.sockets.x509 import common_names, distinguished_name, validity

#: Octets read from the kernel at a time, as asyncio's own sockets do; while the handshake lasts, fewer.
READ_BYTES = 256 << 10
HANDSHAKE_READ_BYTES = 16 << 10
#: Octets that a client may send before its handshake is finished. OpenSSL takes 100 KiB of certificates.
HANDSHAKE_BYTES_MAX = 160 << 10
#: Seconds after which the rest of a chunk is decrypted in a later turn.
SLICE_S = 0.002
#: The most that one record carries.
RECORD_BYTES = 16 << 10
#: What counts for the state and buffers of OpenSSL. Measured: 20 KiB of an idle connection, 80 KiB of one
#: that has sent and received much at once.
HELD_BYTES = 64 << 10
#: A client that makes us answer (keys to be changed, TLS 1.3) and does not read is cut off with so much
#: unread.
UNREAD_MAX = 1 << 20

_incoming = memoryview(bytearray(READ_BYTES))
_decrypted = memoryview(bytearray(READ_BYTES))


@dataclass(frozen=True, slots=True)
class TlsFacts:
    """What a handshake agreed on. The names and times are None if the client showed no certificate."""

    protocol: str
    cipher: str
    subject: str | None = None
    issuer: str | None = None
    validity: str | None = None
    #: The user's name that the certificate gives (EXTERNAL); empty if there is none.
    user: str = ""
    #: Whether this listener takes certificates for logins.
    takes_external: bool = False


class TlsSocket(asyncio.Transport, asyncio.BufferedProtocol):
    """One encrypted connection.

    ``origin`` is what a proxy said of it. ``make_protocol()`` is called when the handshake is finished.
    ``account(change)`` counts memory held, in bytes."""

    def __init__(
        self,
        certificates: Certificates,
        handshakes: Handshakes,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        account: Callable[[int], None],
        now: Callable[[], float],
        origin: Origin | None = None,
    ) -> None:
        super().__init__()
        self._options = certificates.options
        self._handshakes = handshakes
        self._make_protocol: Callable[[], asyncio.BaseProtocol] | None = make_protocol
        self._account = account
        self._now = now
        self._socket: asyncio.Transport
        self._protocol: asyncio.Protocol | None = None
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = certificates.context.wrap_bio(self._into, self._out, server_side=True)
        self._early_bytes = 0
        self._records = Records()
        #: Octets that have arrived and are not decrypted yet; the kernel's socket is not read until they are.
        self._rest = memoryview(b"")
        #: Whether the protocol wants to read.
        self._is_wanted = True
        self._is_ending = False
        #: Whether the client has said that it sends no more.
        self._is_over = False
        self._error: Exception | None = None
        #: What protocols ask for, besides what the kernel's socket says.
        self._facts: dict[str, Any] = {}
        self._origin = origin
        self.host = "?"

    # -- the protocol of the kernel's socket ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self._facts["carrier"] = transport
        peer = transport.get_extra_info("peername") if self._origin is None else self._origin.peer
        self.host = str((peer or ("?",))[0])
        self._facts["accepted_at"] = self._now()
        gate(self._handshakes.turns, transport)
        self._account(HELD_BYTES)
        self._handshakes.came(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the kernel's octets go: every chunk is used up before the next is read."""
        return _incoming if self._protocol is not None else _incoming[:HANDSHAKE_READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Octets have arrived."""
        if self._protocol is not None:
            self._receive(_incoming[:nbytes])
            return
        self._early_bytes += nbytes
        if self._early_bytes > HANDSHAKE_BYTES_MAX:
            self.refuse(f"{self._early_bytes} octets before the end of the TLS handshake")
            return
        self._rest = memoryview(bytes(_incoming[:nbytes]))
        self._socket.pause_reading()
        self._handshakes.ask(self)

    def eof_received(self) -> bool:
        """The client has stopped sending: close."""
        if self._protocol is not None:
            self._protocol.eof_received()
        return False

    def pause_writing(self) -> None:
        """The kernel takes no more."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """The kernel takes more."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The kernel's socket is closed."""
        self._is_ending = True
        self._account(-HELD_BYTES - len(self._rest) * (self._protocol is not None))
        self._rest = memoryview(b"")
        self._handshakes.gone(self)
        protocol, self._protocol, self._make_protocol = self._protocol, None, None
        if protocol is not None:
            protocol.connection_lost(exc or self._error)
        elif self._error is None:
            self._handshakes.failed(
                self.host, str(exc or "the client closed the connection in its TLS handshake")
            )
        break_cycle(self._socket)

    # -- the handshake, and what is decrypted later -----------------------------------------------------

    def step(self) -> None:
        """See ``Handshakes``. After the handshake it goes on with the rest of a chunk."""
        if self._socket.is_closing():
            return
        if self._protocol is None and not self._shake_hands():
            return
        if self._is_wanted:
            rest, self._rest = self._rest, memoryview(b"")
            self._account(-len(rest))
            self._receive(rest)
            if self._is_wanted and not self._rest:
                self._socket.resume_reading()

    def _shake_hands(self) -> bool:
        """Go on with the handshake; whether it is finished, and the client has its protocol."""
        data, at = self._rest, 0
        while True:
            end = self._records.piece(data, at)
            self._into.write(data[at:end])
            at = end
            try:
                self._ssl.do_handshake()
                break
            except ssl.SSLWantReadError:
                if at < len(data):
                    continue
                self._rest = memoryview(b"")
                self._send()
                self._socket.resume_reading()
                return False
            except (ssl.SSLError, ValueError) as error:
                self._send()  # the alert
                self.refuse(_reason(error))
                return False
        self._rest = data[at:]
        self._account(len(self._rest))
        self._handshakes.gone(self)
        self._send()
        self._facts["tls"] = _facts(self._ssl, self._options.login_from)
        self._facts["sslcontext"] = self._ssl.context
        assert self._make_protocol is not None
        protocol = self._make_protocol()
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol, self._make_protocol = protocol, None
        protocol.connection_made(self)
        return True

    def refuse(self, reason: str) -> None:
        """End a handshake that failed, or that takes too long."""
        if self._error is None:
            self._error = ConnectionAbortedError(reason)
            self._handshakes.gone(self)
            self._handshakes.failed(self.host, reason)
            if self._socket.get_write_buffer_size():
                self._socket.abort()  # it does not read
            else:
                self._socket.close()

    # -- octets -----------------------------------------------------------------------------------------

    def _receive(self, data: memoryview) -> None:
        """Decrypt what has arrived, as far as a slice goes, and hand it on as one chunk."""
        began, at, filled, size = time.perf_counter(), 0, 0, len(data)
        try:
            if self._into.pending:  # it came together with the end of the handshake
                filled = self._decrypt(filled)
            while at < size and not self._is_over:
                if at and time.perf_counter() - began > SLICE_S:
                    break
                end = self._records.piece(data, at)
                self._into.write(data if end - at == size else data[at:end])
                filled = self._decrypt(filled)
                at = end
        except (ssl.SSLError, ValueError) as error:
            self._send()
            self._fail(_reason(error))
            return
        if self._out.pending:
            self._send()
            if self._socket.get_write_buffer_size() > UNREAD_MAX:
                self._fail("answers of TLS are not read")
                return
        if at < size and not self._is_over and not self._is_ending:
            self._rest = memoryview(bytes(data[at:]))
            self._account(size - at)
            self._socket.pause_reading()
            self._handshakes.ask(self)
        if filled:
            self._hand_on(filled)
        if self._is_over and self._protocol is not None:
            self._protocol.eof_received()
            self.close()

    def _decrypt(self, filled: int) -> int:
        """Decrypt whole records behind the ``filled`` octets of the buffer; returns how many it has then."""
        try:
            while self._into.pending and not self._is_over:
                if filled + RECORD_BYTES > READ_BYTES:
                    self._hand_on(filled)
                    filled = 0
                count = int(self._ssl.read(RECORD_BYTES, _decrypted[filled:]))
                self._is_over = count == 0
                filled += count
        except ssl.SSLWantReadError:
            pass  # the rest of a record is to come
        return filled

    def _hand_on(self, filled: int) -> None:
        if self._protocol is not None:
            self._protocol.data_received(bytes(_decrypted[:filled]))

    def _send(self) -> None:
        """Send what OpenSSL has to say."""
        if self._out.pending:
            self._socket.write(self._out.read())

    def _fail(self, reason: str) -> None:
        self._error = ConnectionAbortedError(reason)
        self.abort()

    # -- the transport of the client's protocol ---------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        if self._is_ending:
            return
        encrypt, out = self._ssl.write, self._out
        try:
            if len(data) <= RECORD_BYTES:
                encrypt(data)
                self._socket.write(out.read())
                return
            view, records = memoryview(data), []
            for start in range(0, len(data), RECORD_BYTES):
                encrypt(view[start : start + RECORD_BYTES])
                records.append(out.read())
        except ssl.SSLError as error:
            self._fail(_reason(error))
            return
        self._socket.write(b"".join(records))

    def get_write_buffer_size(self) -> int:
        """Encrypted octets that the kernel has not taken."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See ``asyncio.WriteTransport``."""
        self._socket.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read nothing more."""
        self._is_wanted = False
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again, first what is left of the last chunk."""
        self._is_wanted = True
        if self._rest:
            self._handshakes.ask(self)
        else:
            self._socket.resume_reading()

    def is_reading(self) -> bool:
        """See ``asyncio.ReadTransport``."""
        return self._is_wanted if self._rest else self._socket.is_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Also ``tls`` (``TlsFacts``), ``sslcontext``, and ``accepted_at`` on the event loop's clock."""
        if name in self._facts:
            return self._facts[name]
        return self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return self._is_ending or self._socket.is_closing()

    def close(self) -> None:
        """Say so, and close when everything is sent."""
        if self._is_ending:
            return
        self._is_ending = True
        with contextlib.suppress(ssl.SSLError):  # the client has not said so yet; nobody waits for it
            self._ssl.unwrap()
        self._send()
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_ending = True
        self._socket.abort()


def _facts(connection: ssl.SSLObject, login_from: str) -> TlsFacts:
    protocol, cipher = connection.version() or "", (connection.cipher() or ("",))[0]
    takes_external = login_from != "none"
    certificate = connection.getpeercert()
    if not certificate:
        return TlsFacts(protocol, cipher, takes_external=takes_external)
    subject = distinguished_name(certificate["subject"])
    user = subject if login_from == "distinguished_name" else ""
    if login_from == "common_name":
        user = ",".join(common_names(certificate["subject"]))
    issuer = distinguished_name(certificate["issuer"])
    return TlsFacts(protocol, cipher, subject, issuer, validity(certificate), user, takes_external)


def _reason(error: Exception) -> str:
    """OpenSSL's words without numbers and lines of its source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    text = getattr(error, "reason", None) or str(error)
    return str(text).replace("_", " ").lower()
