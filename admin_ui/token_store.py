"""API tokens: what programs send instead of a user's password (``Authorization: Bearer``).

A token belongs to a user and may do at most what that user may. Its tags can be fewer, it can be for reading
alone, and it has an end. It ends earlier when it is revoked, when its user is deleted, and when the user's
password changes.

A token is ``amqpr_<id>_<secret>``. The id is public: lists and the log show it. Of the secret (256 random
bits) only a hash is kept, in ``admin-tokens.json`` in the data directory. The file is synced before an
answer says that a token was made or revoked. A plain SHA-256 is enough, because nobody can guess 256 random
bits.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from admin_ui.state import State

FILE = "admin-tokens.json"
PREFIX = "amqpr"
#: The tags that open the API, and those that each one includes.
ROLES: dict[str, frozenset[str]] = {
    "management": frozenset({"management"}),
    "policymaker": frozenset({"policymaker", "management"}),
    "monitoring": frozenset({"monitoring", "management"}),
    "administrator": frozenset({"administrator", "monitoring", "policymaker", "management"}),
}
TOKENS_MAX = 1000
#: Tokens of one user.
TOKENS_OF_USER_MAX = 50
_FORM = re.compile(PREFIX + r"_([0-9a-f]{12})_([\w-]{43})", re.ASCII)


@dataclass
class Token:
    """One token. Times are milliseconds since 1970."""

    id: str
    name: str
    user: str
    tags: list[str]
    read_only: bool
    created: int
    #: When it ends by itself; None for never.
    expires: int | None
    #: SHA-256 of the secret.
    hash: str
    #: Of the user's password hash, which must not change; empty for users of other directories.
    proof: str
    #: When it was last used in this run of the broker.
    used: int | None = field(default=None, compare=False)


class TooManyTokens(Exception):
    """The user or the node has as many tokens as it may have."""


class Tokens:
    """All tokens of this node. ``clock`` gives seconds since 1970."""

    def __init__(self, state: State, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock
        self._path = Path(state.broker.settings.data_dir) / FILE
        self._tokens: dict[str, Token] = {}
        self._writing = asyncio.Lock()

    def find(self, given: str) -> Token | None:
        """The valid token that somebody has sent; it is marked as used now."""
        form = _FORM.fullmatch(given)
        token = self._tokens.get(form[1]) if form is not None else None
        if form is None or token is None or not hmac.compare_digest(_hash(form[2]), token.hash):
            return None
        if not self.is_valid(token):
            return None
        token.used = self._now()
        return token

    def get(self, number: str) -> Token | None:
        """A token by its id."""
        token = self._tokens.get(number)
        return token if token is not None and self._has_user(token) else None

    def every(self) -> list[Token]:
        """All tokens whose users are still there, also those that have ended; the newest first."""
        kept = [each for each in self._tokens.values() if self._has_user(each)]
        return sorted(kept, key=lambda each: (-each.created, each.id))

    def is_valid(self, token: Token) -> bool:
        """Whether it has not ended."""
        return self._has_user(token) and (token.expires is None or self._now() < token.expires)

    async def make(
        self, user: str, name: str, tags: Iterable[str], *, read_only: bool, valid_s: float | None
    ) -> tuple[str, Token]:
        """Make a token that lasts ``valid_s`` seconds; returns what its holder has to send.

        Raises:
            TooManyTokens: there are too many already.
            OSError: it cannot be stored, and does not exist.
        """
        for each in [each for each in self._tokens.values() if not self._has_user(each)]:
            del self._tokens[each.id]
        if len(self._tokens) >= TOKENS_MAX:
            raise TooManyTokens(f"there are {TOKENS_MAX} tokens, the most that may be")
        if sum(each.user == user for each in self._tokens.values()) >= TOKENS_OF_USER_MAX:
            raise TooManyTokens(f"user '{user}' has {TOKENS_OF_USER_MAX} tokens, the most that may be")
        number, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        now = self._now()
        expires = None if valid_s is None else now + int(valid_s * 1000)
        token = Token(
            number, name, user, list(tags), read_only, now, expires, _hash(secret), self._proof(user)
        )
        self._tokens[number] = token
        try:
            await self._store()
        except OSError:
            self._tokens.pop(number, None)
            raise
        return f"{PREFIX}_{number}_{secret}", token

    async def revoke(self, number: str) -> None:
        """End a token.

        Raises:
            OSError: that cannot be stored; it has ended, but a restart would bring it back.
        """
        self._tokens.pop(number, None)
        await self._store()

    async def load(self, app: web.Application) -> None:
        """Load what the last run has stored. A file that cannot be read is put aside, and the log says so."""
        try:
            kept = json.loads(self._path.read_bytes())
            loaded = [Token(**each) for each in kept["tokens"]]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            aside = self._path.with_suffix(".damaged")
            self._state.broker.event(
                logging.ERROR, "API tokens cannot be read, all are refused", file=self._path, reason=error
            )
            if not isinstance(error, OSError):
                self._path.replace(aside)
            return
        self._tokens = {each.id: each for each in loaded}

    async def _store(self) -> None:
        async with self._writing:
            kept = [_kept(each) for each in self._tokens.values()]
            await asyncio.to_thread(_write, self._path, json.dumps({"tokens": kept}).encode())

    def _has_user(self, token: Token) -> bool:
        return token.proof == self._proof(token.user)

    def _proof(self, name: str) -> str:
        row = self._state.broker.users.users.get(name)
        return "" if row is None else _hash(row.password_hash)

    def _now(self) -> int:
        return int(self._clock() * 1000)


def shared_tags(tags: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Those of ``wanted`` that a user with ``tags`` has too, by themselves or within a larger role."""
    have: set[str] = set(tags)
    for tag in tags:
        have |= ROLES.get(tag, frozenset())
    return tuple(tag for tag in wanted if tag in have)


def _kept(token: Token) -> dict[str, Any]:
    found = asdict(token)
    del found["used"]
    return found


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Replace the file as a whole; it is on disk then."""
    fresh = path.with_suffix(".tmp")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


TOKENS: web.AppKey[Tokens] = web.AppKey("tokens", Tokens)
