"""Makes guessing passwords over AMQP slow.

It counts failures in two ways. The count of a user from an address refuses that user's further attempts from
there for a while, without checking the password. The count of an address with any user only delays the
answers to wrong passwords. A right one is answered at once, whatever others behind the same address (of a
proxy, of a translation of addresses) try.

A name and password that were right from that address within the last day are always looked at:
a returning client does not wait because others try the same name. The same wrong password again is no new
guess and does not count, so a program with an old one locks nobody out.

This differs from RabbitMQ, which lets clients guess as fast as it can answer.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Callable

from amqp_router.auth.attempts import AMQP, HTTP, Attempts
from amqp_router.auth.backends import Authenticator, LoginFailed, User
from amqp_router.auth.mechanisms import MECHANISMS, Credentials
from amqp_router.auth.throttle import Throttle, TooManyFailures

#: Seconds after its last success for which a name and password are always looked at, and how many are
#: remembered.
TRUST_S = 86_400.0
TRUST_MAX = 10_000


class Guard:
    """Checks logins, and slows down those who guess."""

    def __init__(self, authenticator: Authenticator, clock: Callable[[], float] = time.monotonic) -> None:
        self.authenticator = authenticator
        self._clock = clock
        self._secret = os.urandom(32)
        self._throttle = Throttle(clock)
        #: Counts the logins of all protocols.
        self.attempts = Attempts(AMQP, HTTP)
        #: When a name and password were last right, by a digest of them and the address; the newest is last.
        self._right: dict[bytes, float] = {}

    def login(self, mechanism: str, response: bytes, peer_host: str, *, is_loopback: bool) -> User:
        """As ``Authenticator.login``; a failure says how long its answer waits and whether the log tells it.

        Raises:
            LoginFailed: the user is not let in, or was not looked at.
            SyntaxInvalid: the response is not one of the mechanism.
            KeyError: the mechanism is not among those offered.
        """
        try:
            user = self._login(mechanism, response, peer_host, is_loopback=is_loopback)
        except LoginFailed:
            self.attempts.note(AMQP, peer_host, success=False)
            raise
        self.attempts.note(AMQP, peer_host, success=True)
        return user

    def _login(self, mechanism: str, response: bytes, peer_host: str, *, is_loopback: bool) -> User:
        credentials = MECHANISMS[mechanism](response)
        name = credentials.username.encode(errors="surrogateescape")
        proof = self._digest(credentials, peer_host)
        if self._clock() - self._right.pop(proof, float("-inf")) > TRUST_S:
            self._check(mechanism, peer_host, name)
        try:
            user = self.authenticator.login(mechanism, response, is_loopback=is_loopback)
        except LoginFailed as error:
            error.is_news = self._throttle.failed(peer_host, name, proof)
            error.delay_s = self._throttle.delay_s(peer_host)
            raise
        self._throttle.succeeded(peer_host, name)
        if len(self._right) >= TRUST_MAX:
            del self._right[next(iter(self._right))]
        self._right[proof] = self._clock()
        return user

    def login_external(self, name: str, peer_host: str, *, is_loopback: bool) -> User:
        """As ``Authenticator.login_external``. There is nothing to guess; failures only fill no log.

        Raises:
            LoginFailed: the user is not let in.
        """
        try:
            return self.authenticator.login_external(name, is_loopback=is_loopback)
        except LoginFailed as error:
            text = name.encode(errors="surrogateescape")
            error.is_news = self._throttle.failed(
                peer_host, text, self._digest(Credentials(name, b""), peer_host)
            )
            raise

    def _check(self, mechanism: str, peer_host: str, name: bytes) -> None:
        try:
            self._throttle.check_user(peer_host, name)
        except TooManyFailures as error:
            text = name.decode(errors="backslashreplace")
            reason = f"user '{text}' failed too often from this address; {error}"
            failure = LoginFailed(mechanism, reason, text)
            failure.is_news = self._throttle.is_news(peer_host, name)
            failure.delay_s = self._throttle.delay_s(peer_host)
            raise failure from None

    def _digest(self, credentials: Credentials, peer_host: str) -> bytes:
        name = credentials.username.encode(errors="surrogateescape")
        text = b"%d:%b%b\x00%b" % (len(name), name, credentials.password, peer_host.encode())
        return hmac.digest(self._secret, text, hashlib.sha256)
