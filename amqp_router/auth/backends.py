"""Who a client is, and what it may do: asked of one backend after the other.

The first backend that knows the user and accepts the proof decides, and its answers hold for the permissions
too. The broker's own directory is the backend ``internal``; ``register_backend`` adds others.

Source: RabbitMQ, "Access Control". The texts are those of RabbitMQ 3.10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from amqp_router.auth.mechanisms import MECHANISMS, Credentials
from amqp_router.auth.permissions import Permissions
from amqp_router.auth.users import DEFAULT_USER, Users
from amqp_router.protocol.errors import LoginRefused, NotAllowed


@dataclass(frozen=True, slots=True)
class AuthOptions:
    """Options of this package."""

    #: Backends by name, in the order in which they are asked.
    backends: tuple[str, ...] = ("internal",)
    #: Users who may log in only from this machine.
    loopback_users: frozenset[str] = frozenset({DEFAULT_USER})


class Backend(Protocol):
    """A source of users and permissions."""

    def login(self, credentials: Credentials) -> tuple[str, ...] | str:
        """The user's tags; or, as a text for the log, why it is refused."""

    def known(self, name: str) -> tuple[str, ...] | str:
        """As ``login`` for a user whom a certificate has proved already."""

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """What a user may do in a virtual host; None if it may not enter."""


@dataclass(frozen=True, slots=True)
class User:
    """A user who has logged in."""

    name: str
    tags: tuple[str, ...]
    backend: Backend

    def enter(self, vhost: str) -> Permissions:
        """What the user may do in ``vhost``, an existing virtual host.

        Raises:
            NotAllowed: it may not enter.
        """
        permissions = self.backend.permissions(self.name, vhost)
        if permissions is None:
            raise NotAllowed(f"access to vhost '{vhost}' refused for user '{self.name}'")
        return permissions


class LoginFailed(LoginRefused):
    """The login was refused. The peer is not told why; ``reason`` is for the broker's log.

    ``delay_s`` is how long the answer waits, ``is_news`` whether the log tells it: thousands a second would
    fill a disk.
    """

    def __init__(self, mechanism: str, reason: str, user: str = "") -> None:
        super().__init__(
            f"Login was refused using authentication mechanism {mechanism}. "
            "For details see the broker logfile."
        )
        self.reason = reason
        #: Who wanted to log in.
        self.user = user
        self.delay_s = 0.0
        self.is_news = True


class LoopbackOnly(LoginFailed):
    """Name and password are right, but the user may come only from this machine."""


class Authenticator:
    """Turns the response of connection.start-ok into a user."""

    def __init__(self, users: Users, options: AuthOptions) -> None:
        """Make the backends that ``options`` names.

        Raises:
            KeyError: there is no backend of that name.
        """
        self._backends = [BACKENDS[name](users) for name in options.backends]
        self._loopback_users = options.loopback_users

    def login(self, mechanism: str, response: bytes, *, is_loopback: bool) -> User:
        """Find out who sent ``response``; ``is_loopback`` says that the peer is on this machine.

        Raises:
            LoginFailed: no backend accepts the user; or, as LoopbackOnly, it may not come from there.
            SyntaxInvalid: the response is not one of the mechanism.
            KeyError: the mechanism is not among those offered.
        """
        credentials = MECHANISMS[mechanism](response)
        return self._ask(mechanism, credentials.username, lambda each: each.login(credentials), is_loopback)

    def login_external(self, name: str, *, is_loopback: bool) -> User:
        """The user ``name``, whom the client's certificate names; empty is a client without a certificate.

        Raises:
            LoginFailed: no backend knows the user; or, as LoopbackOnly, it may not come from there.
        """
        if not name:
            raise LoginFailed("EXTERNAL", "the client showed no certificate that names a user")
        return self._ask("EXTERNAL", name, lambda each: each.known(name), is_loopback)

    def _ask(
        self, mechanism: str, name: str, ask: Callable[[Backend], tuple[str, ...] | str], is_loopback: bool
    ) -> User:
        reasons = []
        for backend in self._backends:
            answer = ask(backend)
            if isinstance(answer, tuple):
                if name in self._loopback_users and not is_loopback:
                    raise LoopbackOnly(mechanism, f"user '{name}' can only connect via localhost", name)
                return User(name, answer, backend)
            reasons.append(answer)
        raise LoginFailed(mechanism, "; ".join(reasons), name)


class InternalBackend:
    """The broker's own directory."""

    def __init__(self, users: Users) -> None:
        self._users = users

    def login(self, credentials: Credentials) -> tuple[str, ...] | str:
        """Compare with the user's hash; a blank password is never right."""
        name = credentials.username
        if name not in self._users.users:
            return f"user '{name}' - invalid credentials: no such user"
        if not credentials.password:
            return f"user '{name}' attempted to log in with a blank password, which is prohibited"
        if not self._users.verify(name, credentials.password):
            return f"user '{name}' - invalid credentials"
        return self._users.users[name].tags

    def known(self, name: str) -> tuple[str, ...] | str:
        """The user's tags; it needs no password."""
        row = self._users.users.get(name)
        return row.tags if row is not None else f"user '{name}' - invalid credentials: no such user"

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """The user's row for the virtual host."""
        return self._users.permissions_of(user, vhost)


#: Makes a backend; it is given the broker's own directory, which it may ignore.
BackendFactory: TypeAlias = Callable[[Users], Backend]

#: The backends that options may name.
BACKENDS: dict[str, BackendFactory] = {"internal": InternalBackend}


def register_backend(name: str, factory: BackendFactory) -> None:
    """Let options name a further backend.

    Raises:
        ValueError: the name is taken.
    """
    if name in BACKENDS:
        raise ValueError(f"backend {name} is registered already")
    BACKENDS[name] = factory
