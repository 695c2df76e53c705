"""The listeners: who may connect, how the broker comes up and how it goes down.

Up: the addresses are bound first, so that a port in use is told before any log is recovered; clients are
accepted when the broker has started. Down (SIGTERM, SIGINT): nobody new is accepted, the broker says good-bye
to its clients and flushes, then the process ends. Ctrl-C meanwhile (SIGINT) does not wait for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from amqp_router import logs
from amqp_router.connection.ports import Origin
from amqp_router.exit_codes import ListenError
from amqp_router.process import log_files
from amqp_router.sockets import Accepting, Certificates, Handshakes, Proxies, ProxyHeader, TlsSocket

#: Descriptors that connections leave to definitions, routing logs and listeners, besides those of the logs.
RESERVED_FILES = 128
#: The options that say where AMQP clients are served.
AMQP_FLAGS = ("--bind", "--amqp-port")
AMQPS_FLAGS = ("--bind", "--amqps-port")


class MakeProtocol(Protocol):
    """Makes the protocol of a connection just accepted."""

    def __call__(self, origin: Origin | None = None) -> asyncio.BaseProtocol:
        """``origin`` is what a proxy said of the connection."""


class Node(Protocol):
    """The broker as the listeners see it."""

    @property
    def connection_count(self) -> int:
        """Open connections, handshakes included."""

    async def start(self) -> None:
        """Recover what is on disk; afterwards `connection_factory` may be called."""

    async def stop(self) -> None:
        """Close every connection with 320, flush, release all files."""

    def connection_factory(self, origin: Origin | None = None) -> asyncio.BaseProtocol:
        """The protocol of a connection just accepted; ``origin`` is what a proxy said of it."""

    def account(self, change: int) -> None:
        """Count ``change`` more bytes that clients make the node hold."""


@dataclass(frozen=True)
class ServerOptions:
    """What the listeners need to know."""

    bind: str
    #: Port of the listener without TLS; None: there is none.
    amqp_port: int | None
    #: More connections are refused.
    connections_max: int
    #: Port of the listener with TLS, if there are certificates.
    amqps_port: int = 0
    #: Seconds that a TLS handshake may take.
    handshake_timeout_s: float = 10.0
    #: Proxies that begin each connection with a header of the PROXY protocol.
    proxies: tuple[str, ...] = ()


def connections_allowed(wish: int, open_files: int) -> int:
    """`wish` connections, or as many as the limit of open files leaves (0: no wish)."""
    reserved = RESERVED_FILES + 5 * log_files(open_files) // 2
    possible = max(open_files - reserved, open_files // 4)
    return min(wish, possible) if wish else possible


class Refusal(asyncio.Protocol):
    """A connection above the cap: closed before a byte is read, so that it costs nothing.

    ``refused`` is told who it was.
    """

    def __init__(self, refused: Callable[[object], None]) -> None:
        self._refused = refused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it at once."""
        assert isinstance(transport, asyncio.Transport)
        self._refused(transport.get_extra_info("peername"))
        transport.abort()


async def _nothing() -> None:
    """Nothing to prepare."""


class Server:
    """The AMQP listeners of one broker: one without TLS, one with TLS (``certificates``), or both.

    Raises:
        ListenError: an address cannot be used.
    """

    def __init__(
        self,
        options: ServerOptions,
        node: Node,
        logger: logging.Logger,
        certificates: Certificates | None = None,
    ) -> None:
        self._options = options
        self._node = node
        self._logger = logger
        self._certificates = certificates
        port = options.amqp_port
        self._sockets = [] if port is None else bind(options.bind, port)
        self._tls_sockets: list[socket.socket] = []
        if certificates is not None:
            try:
                self._tls_sockets = bind(options.bind, options.amqps_port, AMQPS_FLAGS)
            except ListenError:
                self.close()
                raise
        self._handshakes: Handshakes
        self._headers: Handshakes
        self._proxies = Proxies(options.proxies)
        self._seldom = logs.Seldom()
        self._accepting: Accepting | None = None
        self.refused_count = 0

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port of the listener without TLS; None if there is none."""
        return _address(self._sockets)

    @property
    def tls_address(self) -> tuple[str, int] | None:
        """Host and port of the listener with TLS; None if there is none."""
        return _address(self._tls_sockets)

    async def start(self, prepare: Callable[[], Awaitable[None]] = _nothing) -> None:
        """Start the broker, run ``prepare``, then accept.

        Raises:
            ListenError: the port was taken in the meantime.
        """
        loop = asyncio.get_running_loop()
        timeout_s = self._options.handshake_timeout_s
        self._handshakes = Handshakes(loop, self._event, timeout_s=timeout_s)
        self._headers = Handshakes(loop, self._event, timeout_s=timeout_s, what="PROXY header")
        await self._node.start()
        await prepare()
        self._accepting = Accepting(loop, self._event, lambda: self._node.connection_count)
        makes: list[tuple[socket.socket, tuple[str, str], MakeProtocol]]
        makes = [(sock, AMQP_FLAGS, self._protocol) for sock in self._sockets]
        makes += [(sock, AMQPS_FLAGS, self._tls_protocol) for sock in self._tls_sockets]
        for sock, flags, make in makes:
            try:
                self._accepting.add(sock, partial(self._protocol_of, make))
            except OSError as error:  # somebody else bound the port as well, and was faster to listen
                port = sock.getsockname()[1]
                raise ListenError(bind_problem(self._options.bind, port, error, flags)) from None
        if self._certificates is not None:
            self._certificates.watch(loop)

    async def stop(self) -> None:
        """Accept nobody new, then stop the broker."""
        self.close()
        await self._node.stop()

    def close(self) -> None:
        """Give the addresses back."""
        if self._accepting is not None:
            self._accepting.stop()
        if self._certificates is not None:
            self._certificates.stop()
        for sock in self._sockets + self._tls_sockets:
            sock.close()

    def _event(self, level: int, event: str, **facts: object) -> None:
        logs.event(self._logger, level, event, **facts)

    def refused(self, peer: object) -> None:
        """Count a connection above the cap; an address is told once a minute."""
        self.refused_count += 1
        if not self._seldom.due(str(peer[0]) if isinstance(peer, tuple) else str(peer)):
            return
        logs.event(
            self._logger,
            logging.WARNING,
            "connection refused",
            peer=peer_text(peer),
            reason=f"{self._options.connections_max} connections are open, which is the most allowed",
        )

    def _protocol_of(self, make: MakeProtocol, host: str) -> Callable[[], asyncio.BaseProtocol]:
        if self._options.proxies and self._proxies.trust(host):
            return partial(ProxyHeader, self._headers, make, self._node.account)
        return make

    def _is_full(self) -> bool:
        open_count = self._node.connection_count + self._handshakes.count + self._headers.count
        return open_count >= self._options.connections_max

    def _protocol(self, origin: Origin | None = None) -> asyncio.BaseProtocol:
        return Refusal(self.refused) if self._is_full() else self._node.connection_factory(origin)

    def _tls_protocol(self, origin: Origin | None = None) -> asyncio.BaseProtocol:
        if self._is_full():
            return Refusal(self.refused)
        assert self._certificates is not None
        node = self._node
        make = partial(node.connection_factory, origin)
        clock = asyncio.get_running_loop().time
        return TlsSocket(self._certificates, self._handshakes, make, node.account, clock, origin)


def _address(sockets: list[socket.socket]) -> tuple[str, int] | None:
    if not sockets:
        return None
    host, port = sockets[0].getsockname()[:2]
    return host, port


def peer_text(peer: object) -> str:
    """``127.0.0.1:50118`` or ``[::1]:50118`` of a socket's address."""
    if isinstance(peer, tuple) and len(peer) >= 2:
        return f"[{peer[0]}]:{peer[1]}" if ":" in str(peer[0]) else f"{peer[0]}:{peer[1]}"
    return str(peer)


def bind(host: str, port: int, flags: tuple[str, str] = AMQP_FLAGS) -> list[socket.socket]:
    """A socket bound to each address that `host` stands for; all to one port, also when `port` is 0.

    `flags` are the options that set host and port, for the error's text.

    They do not listen yet: until the broker has started, clients are refused as by one that is down.

    Raises:
        ListenError: no such address, port in use, or not permitted.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {host}: {error.strerror}; choose another with {flags[0]}"
        ) from None
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            port = port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)
            sock.bind((address[0], port, *address[2:]))
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise ListenError(bind_problem(host, port, error, flags)) from None
    return sockets


def bind_problem(host: str, port: int, error: OSError, flags: tuple[str, str] = AMQP_FLAGS) -> str:
    """Why an address cannot be listened on, in one line with the way out."""
    where = f"port {port} on {host}"
    bind_flag, port_flag = flags
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program; stop it or choose another with {port_flag} (0: any)"
    if error.errno == errno.EACCES:
        return f"{where} needs more rights than this user has; choose one above 1023 with {port_flag}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose another with {bind_flag}"
    return f"cannot listen on {where}: {error.strerror}; choose another with {bind_flag} or {port_flag}"


def clear_ready_file(path: Path) -> None:
    """Remove what a killed broker left: whoever waits for the file would take it for ours.

    Raises:
        OSError: the file could not be written there either.
    """
    new = _new_ready_file(path)
    new.touch()
    new.unlink()
    path.unlink(missing_ok=True)


def write_ready_file(path: Path, content: dict[str, Any]) -> None:
    """Write `content` as JSON so that a reader sees all of it or no file."""
    new = _new_ready_file(path)
    new.write_text(json.dumps(content) + "\n")
    new.replace(path)


def _new_ready_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}.new")


@contextlib.contextmanager
def signals(
    loop: asyncio.AbstractEventLoop, *, stop: Callable[[str], None], reload: Callable[[], None]
) -> Iterator[None]:
    """Call `stop` with the signal's name at SIGTERM and SIGINT, `reload` at SIGHUP, while the block runs."""
    handlers: Sequence[tuple[signal.Signals, Callable[..., None], tuple[str, ...]]] = [
        (signal.SIGTERM, stop, ("SIGTERM",)),
        (signal.SIGINT, stop, ("SIGINT",)),
        (signal.SIGHUP, reload, ()),
    ]
    for number, handler, args in handlers:
        loop.add_signal_handler(number, handler, *args)
    try:
        yield
    finally:
        for number, _, _ in handlers:
            loop.remove_signal_handler(number)
