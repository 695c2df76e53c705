"""The connections of a node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, Protocol, TypeVar


class OpenedBy(Protocol):
    """The protocol side of a connection, as far as the registry looks at it."""

    @property
    def vhost(self) -> Any:
        """The virtual host that the client has opened; None before."""

    @property
    def user(self) -> Any:
        """The authenticated user; None before."""


class Registered(Protocol):
    """A connection as the registry knows it."""

    @property
    def recv_oct(self) -> int:
        """Octets received."""

    @property
    def send_oct(self) -> int:
        """Octets sent."""

    @property
    def machine(self) -> OpenedBy:
        """The protocol side."""


T = TypeVar("T", bound=Registered)


class ConnectionRegistry(Generic[T]):
    """All open connections, handshakes included, in order of arrival."""

    def __init__(self) -> None:
        self._transports: dict[T, None] = {}
        #: Connections accepted, and ended, since the start.
        self.opened_total = 0
        self.closed_total = 0
        #: Octets received and sent by closed connections, by virtual host.
        self.closed_octets: dict[str, tuple[int, int]] = {}
        #: Connections that have opened a virtual host, by the user's name; and their number by virtual host.
        self._by_user: dict[str, dict[T, None]] = {}
        self._in_vhost: dict[Any, int] = {}
        #: Called with each connection that opens a virtual host, and with each that ends.
        self.on_opened: Callable[[T], None] = _ignore
        self.on_removed: Callable[[T], None] = _ignore

    def add(self, transport: T) -> None:
        self._transports[transport] = None
        self.opened_total += 1

    def opened(self, transport: T) -> None:
        """The client of ``transport`` has opened a virtual host."""
        machine = transport.machine
        self._by_user.setdefault(machine.user.name, {})[transport] = None
        self._in_vhost[machine.vhost] = self.count_in(machine.vhost) + 1
        self.on_opened(transport)

    def count_in(self, vhost: Any) -> int:
        """How many connections have opened ``vhost``."""
        return self._in_vhost.get(vhost, 0)

    def of_user(self, name: str) -> Collection[T]:
        """The connections of a user that have opened a virtual host."""
        return self._by_user.get(name, ())

    def _forget(self, transport: T) -> None:
        machine = transport.machine
        theirs = self._by_user.get(machine.user.name, {}) if machine.user is not None else {}
        if transport not in theirs:
            return
        del theirs[transport]
        if not theirs:
            del self._by_user[machine.user.name]
        self._in_vhost[machine.vhost] -= 1
        if not self._in_vhost[machine.vhost]:
            del self._in_vhost[machine.vhost]

    def remove(self, transport: T) -> None:
        self._forget(transport)
        if self._transports.pop(transport, self) is not self:
            self.closed_total += 1
            vhost = transport.machine.vhost
            if vhost is not None:
                received, sent = self.closed_octets.get(vhost.name, (0, 0))
                self.closed_octets[vhost.name] = received + transport.recv_oct, sent + transport.send_oct
            self.on_removed(transport)

    def __len__(self) -> int:
        return len(self._transports)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._transports))


def _ignore(_: object) -> None:
    """Default callback."""
