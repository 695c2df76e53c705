"""The login of whoever owns the data directory: a token in the file ``ctl.json``, for ``amqp-router ctl``.

The file has the admin server's address and a random token of this run. Only its owner can read it (mode
0600). A call with ``Authorization: Bearer <token>`` may do everything, as its owner could by changing the
files of the broker. So a first password can be set wherever the broker listens, and a lost one replaced.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import secrets
from pathlib import Path

from aiohttp import web

from admin_ui.state import State
from amqp_router.auth import Credentials, Permissions, User
from persistence.definitions import PermissionRow

FILE = "ctl.json"
#: No user can have this name: routes are remembered by name, and nobody may get the owner's.
NAME = ""
EVERYTHING = ".*"
#: The address to connect to if the server listens on all of them.
LOCAL = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class OwnerBackend:
    """Lets the owner of the data directory do everything, and nobody log in with a password."""

    def login(self, credentials: Credentials) -> tuple[str, ...] | str:
        """See ``Backend``."""
        return "not a user"

    def known(self, name: str) -> tuple[str, ...] | str:
        """See ``Backend``."""
        return "not a user"

    def permissions(self, user: str, vhost: str) -> Permissions:
        """See ``Backend``."""
        row = PermissionRow(user, vhost, EVERYTHING, EVERYTHING, EVERYTHING)
        return Permissions(user, vhost, find=lambda: row, generation=lambda: 0)


class LocalLogin:
    """The token of this run, and its file."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._path = Path(state.broker.settings.data_dir) / FILE
        self._token = secrets.token_urlsafe(32)
        self._user = User(NAME, ("administrator",), OwnerBackend())

    def find(self, token: str) -> User | None:
        """The owner, if the token is right."""
        given = token.encode(errors="surrogateescape")
        return self._user if hmac.compare_digest(given, self._token.encode()) else None

    def write(self, scheme: str = "http") -> None:
        """Write the file; an error is only logged, as all else works without it."""
        assert self._state.address is not None
        host, port = self._state.address
        shown = LOCAL.get(host, f"[{host}]" if ":" in host else host)
        content = json.dumps({"url": f"{scheme}://{shown}:{port}", "token": self._token, "pid": os.getpid()})
        fresh = self._path.with_suffix(".tmp")
        try:
            fresh.unlink(missing_ok=True)  # one with another mode would keep it
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(content + "\n")
            fresh.replace(self._path)
        except OSError as error:
            self._state.broker.event(
                logging.WARNING, "local login not possible", file=self._path, reason=error
            )

    def remove(self) -> None:
        """The token is of no use any more."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


LOCAL_LOGIN: web.AppKey[LocalLogin] = web.AppKey("local login", LocalLogin)
