"""A listener of the admin server: its sockets, and the doors that its clients come through.

Its constructor binds the address, so that a port in use is reported before any log is recovered. Clients are
served from ``start`` on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from admin_ui.connections import Connection, Doors
from amqp_router.broker import Broker
from amqp_router.exit_codes import ListenError
from amqp_router.server import Refusal, bind, bind_problem
from amqp_router.sockets import Accepting, Certificates, Handshakes, TlsSocket

#: Seconds that running requests have when the server stops.
STOP_S = 1.0


@dataclass(frozen=True, slots=True)
class Encryption:
    """What a listener needs to speak TLS."""

    certificates: Certificates
    #: Seconds that a handshake may take.
    timeout_s: float
    broker: Broker


class Listener:
    """One address. ``flags`` are the options that name it, ``connections_max`` limits its clients."""

    def __init__(self, host: str, port: int, flags: tuple[str, str], connections_max: int) -> None:
        """Bind the address.

        Raises:
            ListenError: it cannot be used.
        """
        self._host = host
        self._flags = flags
        self._connections_max = connections_max
        self._sockets = bind(host, port, flags)
        bound_host, bound_port = self._sockets[0].getsockname()[:2]
        #: Host and port it serves.
        self.address: tuple[str, int] = bound_host, bound_port
        self._accepting: Accepting | None = None
        self._doors: Doors
        self._encryption: Encryption | None = None
        #: There is one with TLS.
        self._handshakes: Handshakes | None = None
        #: Runs the application.
        self.runner: web.AppRunner

    def serve(self, app: web.Application, doors: Doors, encryption: Encryption | None = None) -> None:
        """Set what it serves, before ``start``."""
        self._doors = doors
        self._encryption = encryption
        self.runner = web.AppRunner(app, shutdown_timeout=STOP_S)

    async def start(self) -> None:
        """Accept requests.

        Raises:
            ListenError: the port was taken in the meantime.
        """
        loop = asyncio.get_running_loop()
        await self.runner.setup()
        encryption = self._encryption
        if encryption is not None:
            self._handshakes = Handshakes(loop, encryption.broker.event, timeout_s=encryption.timeout_s)
            encryption.certificates.watch(loop)
        server = self.runner.server
        assert server is not None
        self._accepting = Accepting(loop, self._doors.event, lambda: len(server.connections))
        for sock in self._sockets:
            try:
                self._accepting.add(sock, lambda _host: self._accept)
            except OSError as error:  # another process has bound the port too, and listened first
                await self.stop()
                raise ListenError(bind_problem(self._host, self.address[1], error, self._flags)) from None

    async def stop(self) -> None:
        """Finish the running requests and close the listener."""
        if self._accepting is not None:
            self._accepting.stop()
        if self._encryption is not None:
            self._encryption.certificates.stop()
        await self.runner.cleanup()
        self.close()

    def close(self) -> None:
        """Close the sockets."""
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> asyncio.BaseProtocol:
        server = self.runner.server
        assert server is not None
        encryption, handshakes = self._encryption, self._handshakes
        count = len(server.connections) + (0 if handshakes is None else handshakes.count)
        if count >= self._connections_max and not self._doors.make_room():
            return Refusal(self._refused)
        loop = asyncio.get_running_loop()
        make = partial(Connection, server, self._doors, loop)
        if encryption is None or handshakes is None:
            return make()
        return TlsSocket(encryption.certificates, handshakes, make, encryption.broker.account, loop.time)

    def _refused(self, peer: object) -> None:
        reason = f"{self._connections_max} connections are open, which is the most allowed"
        host = str(peer[0]) if isinstance(peer, tuple) else str(peer)
        self._doors.tell("admin connection refused", host, reason)
