"""The interfaces that a connection needs from its node, and its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from amqp_router.connection.alarms import Alarms
from amqp_router.connection.hangups import Hangups
from amqp_router.connection.session import Session
from amqp_router.connection.turn import Turn
from amqp_router.protocol.tick import Tick


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Limits of every connection; sizes in bytes, times in seconds."""

    channel_max: int = 2047
    frame_max: int = 131072
    heartbeat_s: int = 60
    handshake_timeout_s: float = 10.0
    pre_login_bytes_max: int = 4096
    message_bytes_max: int = 128 << 20
    unsynced_bytes_max: int = 2 << 20
    output_bytes_max: int = 4 << 20
    product: str = "RabbitMQ"
    version: str = "3.10.8"
    platform: str = "amqp-router"
    information: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection that a proxy passes on comes from, and the address that its client called."""

    peer: tuple[str, int]
    host: tuple[str, int]


class TlsView(Protocol):
    """What the TLS of a connection has agreed on; an encrypted socket gives it as the extra info ``tls``."""

    @property
    def user(self) -> str:
        """The user that the client's certificate names; empty if there is none."""

    @property
    def takes_external(self) -> bool:
        """Whether clients may log in with their certificate."""


class LoginFeed(Protocol):
    """Hears of logins."""

    def login(self, session: Session, connection: str, user: str, error: str = "") -> None:
        """The client of a connection has logged in as ``user``, or failed to, for the reason ``error``."""


class Admission(Protocol):
    """The limits of users and virtual hosts."""

    def connection(self, user: Any, vhost: Any) -> None:
        """See whether ``user`` may open one more connection to ``vhost``.

        Raises:
            NotAllowed: a limit is reached (530).
        """

    def channel(self, user: Any) -> None:
        """See whether ``user`` may open one more channel.

        Raises:
            NotAllowed: a limit is reached (530).
        """


class Services(Protocol):
    """The node as its connections see it."""

    tick: Tick
    alarms: Alarms
    #: Its account of memory (``persistence.memory.MemoryBudget``).
    budget: Any
    commits: Any
    hangups: Hangups
    turns: Turn
    options: ConnectionOptions
    #: Names of the mechanisms offered, as connection.start carries them.
    mechanisms: str

    @property
    def feed(self) -> LoginFeed:
        """Who is told of logins."""

    @property
    def admission(self) -> Admission:
        """The limits of users and virtual hosts."""

    @property
    def vhosts(self) -> Mapping[str, Any]:
        """The virtual hosts by name."""

    def login(self, mechanism: str, response: bytes, peer_host: str, *, is_relayed: bool = False) -> Any:
        """Authenticate ``response``; returns the user, whose ``enter(vhost)`` gives the permissions there.

        A connection that a proxy passes on (``is_relayed``) is never one of this machine.

        Raises:
            LoginRefused: the login is wrong, or not allowed from ``peer_host``.
        """

    def login_external(self, name: str, peer_host: str, *, is_relayed: bool = False) -> Any:
        """The user ``name``, whom a client's certificate names (empty: there is none).

        Raises:
            LoginRefused: there is no such user, or it may not come from ``peer_host``.
        """

    def route_cache(self, user: Any, vhost: Any, permissions: Any) -> Any:
        """The route cache of ``user`` for ``vhost``."""

    def wall_us(self) -> int:
        """The time of day in microseconds since 1970-01-01 UTC."""

    def cpu_us(self) -> int:
        """CPU time of the event loop's thread in microseconds; it stands still in a simulation."""

    def generate_name(self, prefix: str) -> str:
        """``prefix`` and 22 random characters of the base64url alphabet."""

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Run a handler of the event loop; the agenda runs at the end of the turn."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` once per tick until it returns True."""

    def server_properties(self) -> dict[str, Any]:
        """Typed table for connection.start."""

    def account(self, change: int) -> None:
        """Count ``change`` more bytes that clients make the node hold, and look at the memory alarm."""

    def event(self, level: int, event: str, **facts: object) -> None:
        """Write a line to the broker's log."""

    def unexpected(self, where: str, error: BaseException) -> None:
        """Log a bug of ours with its traceback."""
