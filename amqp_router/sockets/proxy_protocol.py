"""The PROXY protocol: a proxy in front of the broker says which client a connection is of.

Its header comes before anything else, also before TLS. Anybody could send one, so it is read only from the
addresses in the option ``proxy_protocol_from``; from those it is required, as the protocol demands. From all
other addresses it is what it looks like to AMQP: a wrong protocol header.

A connection of a listed proxy never counts as one of this machine, whatever the header says.

Source: HAProxy, "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable

from amqp_router.connection.ports import Origin
from amqp_router.connection.turn import gate
from amqp_router.cycles import break_cycle
from amqp_router.sockets.handshakes import Handshakes

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
#: The longest header of version 1, with its end.
V1_BYTES_MAX = 107
#: The longest header taken. In version 2, fields that we do not need may follow the addresses.
HEADER_BYTES_MAX = 4096
#: Octets of the addresses by family in version 2: each address and port twice.
FAMILIES = {0x1: 4, 0x2: 16}
#: Version 2 with the commands LOCAL (the proxy's own connection) and PROXY.
LOCAL, PROXY = 0x20, 0x21
STREAM = 0x1

Address = tuple[str, int]


class ProxyError(Exception):
    """The header is wrong; the text says how."""


def read(data: bytes) -> tuple[int, tuple[Address, Address] | None] | None:
    """Size of the header that ``data`` begins with, and what it says: the client's address and the one it
    called.

    None for the addresses: the connection is the proxy's own. None for all: more octets are needed.

    Raises:
        ProxyError: it is no header, or one that makes no sense.
    """
    if data.startswith(SIGNATURE[: len(data)]):
        return _read_v2(data)
    if data.startswith(b"PROXY "[: len(data)]):
        return _read_v1(data)
    raise ProxyError("no PROXY header from an address in proxy_protocol_from")


def _read_v1(data: bytes) -> tuple[int, tuple[Address, Address] | None] | None:
    end = data.find(b"\r\n", 0, V1_BYTES_MAX)
    if end < 0:
        if len(data) >= V1_BYTES_MAX:
            raise ProxyError("a PROXY header of more than 107 octets")
        return None
    parts = data[:end].decode("ascii", "replace").split(" ")
    if parts[1] == "UNKNOWN":
        return end + 2, None
    if len(parts) != 6 or parts[1] not in ("TCP4", "TCP6"):
        raise ProxyError("a PROXY header with other fields than TCP4 or TCP6, two addresses and two ports")
    version = 4 if parts[1] == "TCP4" else 6
    addresses = [_address(part, version) for part in parts[2:4]]
    ports = [_port(part) for part in parts[4:6]]
    return end + 2, ((addresses[0], ports[0]), (addresses[1], ports[1]))


def _read_v2(data: bytes) -> tuple[int, tuple[Address, Address] | None] | None:
    if len(data) < 16:
        return None
    command, family, size = data[12], data[13], 16 + int.from_bytes(data[14:16], "big")
    if command not in (LOCAL, PROXY):
        raise ProxyError(f"a PROXY header with the version and command {command:#x}")
    if size > HEADER_BYTES_MAX:
        raise ProxyError(f"a PROXY header of {size} octets")
    if len(data) < size:
        return None
    length = FAMILIES.get(family >> 4, 0)
    if command == LOCAL or not length or family & 0xF != STREAM:
        return size, None
    if size < 16 + 2 * length + 4:
        raise ProxyError("a PROXY header that ends within its addresses")
    hosts = [str(ipaddress.ip_address(data[at : at + length])) for at in (16, 16 + length)]
    ports = [int.from_bytes(data[at : at + 2], "big") for at in (16 + 2 * length, 18 + 2 * length)]
    return size, ((hosts[0], ports[0]), (hosts[1], ports[1]))


def _address(text: str, version: int) -> str:
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.version != version:
        raise ProxyError(f"a PROXY header with the address {text[:45]!r}")
    return str(parsed)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise ProxyError(f"a PROXY header with the port {text[:10]!r}")
    return int(text)


class ProxyHeader(asyncio.BufferedProtocol):
    """A connection of a listed proxy until its header is read. Then ``make_protocol(origin)`` goes on with
    it. ``account(change)`` counts memory held, in bytes."""

    def __init__(
        self,
        handshakes: Handshakes,
        make_protocol: Callable[[Origin], asyncio.BaseProtocol],
        account: Callable[[int], None],
    ) -> None:
        self._handshakes = handshakes
        self._make_protocol = make_protocol
        self._account = account
        self._buffer = memoryview(bytearray(HEADER_BYTES_MAX))
        self._filled = 0
        self._is_refused = False
        self._socket: asyncio.Transport
        self.host = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the time of the header."""
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        self.host = str((transport.get_extra_info("peername") or ("?",))[0])
        gate(self._handshakes.turns, transport)
        self._account(HEADER_BYTES_MAX)
        self._handshakes.came(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The room that is left."""
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Octets have arrived."""
        self._filled += nbytes
        self.step()

    def step(self) -> None:
        """Go on if the header is whole."""
        data = bytes(self._buffer[: self._filled])
        try:
            found = read(data)
        except ProxyError as error:
            self.refuse(str(error))
            return
        if found is None:
            return
        self._handshakes.gone(self)
        self._account(-HEADER_BYTES_MAX)
        size, addresses = found
        transport = self._socket
        if addresses is None:
            peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            addresses = (str(peer[0]), peer[1]), (str(own[0]), own[1])
        protocol = self._make_protocol(Origin(*addresses))
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if size < len(data):
            _feed(protocol, data[size:])

    def refuse(self, reason: str) -> None:
        """End it without an answer."""
        self._is_refused = True
        self._handshakes.gone(self)
        self._handshakes.failed(self.host, reason)
        self._socket.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended within its header."""
        self._handshakes.gone(self)
        self._account(-HEADER_BYTES_MAX)
        if not self._is_refused:
            self._handshakes.failed(
                self.host, str(exc or "the connection was closed within the PROXY header")
            )
        break_cycle(self._socket)


def _feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Hand over what came behind the header."""
    if isinstance(protocol, asyncio.BufferedProtocol):
        room = protocol.get_buffer(len(data))
        assert isinstance(room, memoryview)
        room[: len(data)] = data
        protocol.buffer_updated(len(data))
    elif isinstance(protocol, asyncio.Protocol):
        protocol.data_received(data)
