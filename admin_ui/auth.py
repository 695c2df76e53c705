"""Authenticates callers, and decides what they may see.

Every call has HTTP Basic credentials, an API token, or the session cookie of our own pages. A user's tags
decide which parts of the API are open; a permission entry decides about a virtual host.

A successful verification is cached for a minute under an HMAC with a secret of this process, because agents
send their password with each call. The cache is invalid as soon as any user or permission changes. All
supported password algorithms take a microsecond, so no thread is needed.

After too many failures an address must wait (``throttle``). This does not apply to a name and password that
were right from that address within the last quarter of an hour, so a program with the right password is not
held up by failures of others on the same machine.

Source: RabbitMQ, "Access Control", and RabbitMQ's HTTP API 3.10, measured.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from aiohttp import hdrs, web

from admin_ui.connections import Connection
from admin_ui.local_login import LOCAL_LOGIN
from admin_ui.replies import CHALLENGE, ApiError, bad_request, login_failed, not_authorised
from admin_ui.state import STATE, State
from admin_ui.token_store import TOKENS, Tokens, shared_tags
from amqp_router.auth import (
    DEFAULT_USER,
    HTTP,
    Credentials,
    LoginFailed,
    LoopbackOnly,
    Permissions,
    Throttle,
    TooManyFailures,
    User,
)
from amqp_router.broker import LOOPBACK

#: Methods that change nothing.
READING = frozenset({"GET", "HEAD"})
#: In the place of a user's name where wrong tokens are counted: no user can have it.
NO_USER = b"\x00bearer"
#: Seconds for which a verified password is cached, and the number of cached ones.
REMEMBER_S = 60.0
REMEMBER_MAX = 1000
#: Seconds after its last success for which a password is checked although its address must wait.
TRUST_S = 900.0

#: Tags that open a part of the API. As in RabbitMQ, each part is also open to the tags of the parts below.
MANAGEMENT = frozenset({"management", "policymaker", "monitoring", "administrator"})
POLICYMAKER = frozenset({"policymaker", "administrator"})
MONITORING = frozenset({"monitoring", "administrator"})
ADMINISTRATOR = frozenset({"administrator"})

#: RabbitMQ's text for callers without such a tag.
REFUSALS = {
    MANAGEMENT: "Not management user",
    POLICYMAKER: "User not authorised to access object",
    MONITORING: "Not monitor user",
    ADMINISTRATOR: "Not administrator user",
}
LOOPBACK_ONLY = "User can only log in via localhost"


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller who has logged in."""

    user: User
    #: The id of the API token that it was done with; empty without one.
    token: str = ""
    #: Whether it may only read.
    read_only: bool = False

    @property
    def name(self) -> str:
        """The user's name."""
        return self.user.name

    @property
    def tags(self) -> tuple[str, ...]:
        """The user's tags."""
        return self.user.tags

    def has(self, tags: frozenset[str]) -> bool:
        """Whether the caller has one of ``tags``."""
        return not tags.isdisjoint(self.user.tags)

    def require(self, tags: frozenset[str]) -> None:
        """Check that the caller has one of ``tags``.

        Raises:
            ApiError: the caller has none of them (401).
        """
        if not self.has(tags):
            raise not_authorised(REFUSALS[tags])

    def enters(self, vhost: str) -> bool:
        """Whether the caller has a permission entry in ``vhost``."""
        return self.user.backend.permissions(self.user.name, vhost) is not None

    def lists(self, vhost: str) -> bool:
        """Whether the caller may see the objects of ``vhost``. Administrators see all."""
        return self.has(ADMINISTRATOR) or self.enters(vhost)

    def sees(self, vhost: str) -> bool:
        """Whether the list of virtual hosts has ``vhost``: by a permission there, or for who watches the
        node.
        """
        return self.has(MONITORING) or self.enters(vhost)


class _NoBackend:
    """A backend that refuses all logins."""

    def login(self, credentials: Credentials) -> tuple[str, ...] | str:
        """See ``Backend``."""
        return "nobody"

    def known(self, name: str) -> tuple[str, ...] | str:
        """See ``Backend``."""
        return "nobody"

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """See ``Backend``."""
        return None


#: The caller for paths that need no login.
NOBODY = Identity(User("", (), _NoBackend()))
#: The time of verification of a password that was never verified.
_UNKNOWN = (float("-inf"), -1, NOBODY.user)


class Verifier:
    """Verifies names and passwords, and caches successes."""

    def __init__(self, state: State, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._secret = os.urandom(32)
        #: (time of verification, generation of the users, user) by HMAC; the newest is last.
        self._known: dict[bytes, tuple[float, int, User]] = {}
        self._throttle = Throttle(clock)

    def verify(self, name: bytes, password: bytes, peer_host: str) -> User:
        """The user with this name and password, who calls from ``peer_host``.

        Raises:
            LoginFailed: the login is wrong, or not allowed from there.
            TooManyFailures: too many logins failed before.
        """
        attempts = self._state.broker.logins.attempts
        try:
            user = self._verify(name, password, peer_host)
        except (LoginFailed, TooManyFailures):
            attempts.note(HTTP, peer_host, success=False)
            raise
        attempts.note(HTTP, peer_host, success=True)
        return user

    def verify_token(self, given: str, tokens: Tokens | None, peer_host: str) -> Identity:
        """Whose API token this is.

        Raises:
            LoginFailed: it is wrong or has ended, or its user may not come from there.
            TooManyFailures: too many logins failed before.
        """
        broker = self._state.broker
        token = tokens.find(given) if tokens is not None else None
        try:
            if token is None:
                raise self._wrong_token(given, peer_host)
            is_loopback = peer_host.startswith(LOOPBACK)
            user = broker.logins.authenticator.login_external(token.user, is_loopback=is_loopback)
        except (LoginFailed, TooManyFailures):
            broker.logins.attempts.note(HTTP, peer_host, success=False)
            raise
        broker.logins.attempts.note(HTTP, peer_host, success=True)
        user = replace(user, tags=shared_tags(user.tags, token.tags))
        return Identity(user, token.id, token.read_only)

    def _wrong_token(self, given: str, peer_host: str) -> LoginFailed:
        """Count a wrong token.

        Raises:
            TooManyFailures: too many logins failed before.
        """
        self._throttle.check(peer_host, NO_USER)
        text = b"%b\x00%b" % (given.encode(errors="surrogateescape"), peer_host.encode())
        failure = LoginFailed("Bearer", "no such API token, or it has ended")
        if self._throttle.failed(peer_host, NO_USER, hmac.digest(self._secret, text, hashlib.sha256)):
            self._state.broker.event(
                logging.WARNING, "admin login refused", peer=peer_host, reason=failure.reason
            )
        return failure

    def _verify(self, name: bytes, password: bytes, peer_host: str) -> User:
        generation = self._state.broker.users.generation
        text = b"%d:%b%b\x00%b" % (len(name), name, password, peer_host.encode())
        proof = hmac.digest(self._secret, text, hashlib.sha256)
        verified, known_generation, user = self._known.get(proof, _UNKNOWN)
        now = self._clock()
        if now - verified < REMEMBER_S and known_generation == generation:
            return user
        if now - verified > TRUST_S:
            self._throttle.check(peer_host, name)
        self._known.pop(proof, None)
        try:
            user = self._login(name, password, peer_host)
        except LoginFailed as error:
            if self._throttle.failed(peer_host, name, proof):
                self._state.broker.event(
                    logging.WARNING, "admin login refused", peer=peer_host, reason=error.reason
                )
            raise
        self._throttle.succeeded(peer_host, name)
        if len(self._known) >= REMEMBER_MAX:
            del self._known[next(iter(self._known))]
        self._known[proof] = now, generation, user
        return user

    def _login(self, name: bytes, password: bytes, peer_host: str) -> User:
        if b"\x00" in name or b"\x00" in password:
            raise LoginFailed("PLAIN", "a name or password with a zero octet")
        user: User = self._state.broker.authenticate("PLAIN", b"\x00%b\x00%b" % (name, password), peer_host)
        return user


VERIFIER: web.AppKey[Verifier] = web.AppKey("verifier", Verifier)
#: Set by ``admin_ui.sessions``: finds the user of the request's session cookie, or None.
SESSION: web.AppKey[Callable[[web.Request], Awaitable[Identity | None]]] = web.AppKey("session")


async def authenticate(request: web.Request) -> Identity:
    """Identify the caller.

    Raises:
        ApiError: no or wrong credentials (401), too many wrong ones before (429), or a bad header (400).
    """
    identity = await _identity(request)
    if isinstance(request.protocol, Connection):
        request.protocol.logged_in()
    if identity.read_only and request.method not in READING:
        raise not_authorised("this token may only read")
    return identity


async def _identity(request: web.Request) -> Identity:
    header = request.headers.get(hdrs.AUTHORIZATION)
    if header is None:
        session = request.app.get(SESSION)
        identity = await session(request) if session is not None else None
        if identity is not None:
            return identity
        headers = {"WWW-Authenticate": CHALLENGE} if challenges(request) else {}
        raise ApiError(401, "not_authorized", "Login required", headers=headers)
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        local = request.app.get(LOCAL_LOGIN)
        owner = local.find(value.strip()) if local is not None else None
        return Identity(owner) if owner is not None else _with_token(request, value.strip())
    if scheme.lower() != "basic":
        raise login_failed(challenge=challenges(request))
    try:
        credentials = base64.b64decode(value.strip(), validate=True)
    except binascii.Error:
        raise bad_request("malformed Authorization header") from None
    except ValueError:  # not even ASCII
        raise login_failed(challenge=challenges(request)) from None
    name, colon, password = credentials.partition(b":")
    if not colon:
        raise bad_request("malformed Authorization header")
    return login(request, name, password)


def _with_token(request: web.Request, given: str) -> Identity:
    with _refusals(request):
        tokens = request.app.get(TOKENS)
        return request.app[VERIFIER].verify_token(given, tokens, client_host(request))


@contextmanager
def _refusals(request: web.Request) -> Iterator[None]:
    """Make a refused login into its answer.

    Raises:
        ApiError: 401 or 429.
    """
    try:
        yield
    except TooManyFailures as error:
        headers = {"Retry-After": str(math.ceil(error.wait_s))}
        raise ApiError(429, "too_many_requests", "too many failed logins", headers=headers) from None
    except LoopbackOnly:
        raise not_authorised(LOOPBACK_ONLY) from None
    except LoginFailed:
        raise login_failed(challenge=challenges(request)) from None


def login(request: web.Request, name: bytes, password: bytes) -> Identity:
    """Verify the name and password of ``request``.

    Raises:
        ApiError: they are wrong, or the user may not call from there (401); too many were wrong before (429).
    """
    broker = request.app[STATE].broker
    with _refusals(request):
        user = request.app[VERIFIER].verify(name, password, client_host(request))
    # A user that may only log in locally must also use a name of this machine. Otherwise a page of another
    # site whose name was made to resolve to this machine (DNS rebinding) could log in as guest, and so could
    # everybody behind a local proxy.
    loopback_only = broker.settings.guest_loopback_only and user.name == DEFAULT_USER
    if loopback_only and not is_local_name(request.host):
        raise not_authorised(LOOPBACK_ONLY)
    return Identity(user)


def client_host(request: web.Request) -> str:
    """The client's address; behind a trusted proxy, the one that the proxy names."""
    proxies = request.app[STATE].proxies
    return proxies.client(request.remote or "", request.headers.getall("X-Forwarded-For", []))


def is_local_name(host: str) -> bool:
    """Whether a Host header is ``localhost`` or an address, and so not the name of another site."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def challenges(request: web.Request) -> bool:
    """Whether a 401 may ask for a password. Not for calls of our pages, because the browser would keep the
    password.
    """
    return request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"


def check_origin(request: web.Request) -> None:
    """Refuse what a page of another site sent.

    Raises:
        ApiError: it did (403).
    """
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get(hdrs.ORIGIN)
    foreign = origin is not None and origin.partition("://")[2] != request.host
    if site not in ("same-origin", "none") or foreign:
        raise ApiError(403, "forbidden", "the request comes from a page of another site")
