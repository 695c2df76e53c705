"""Sessions of the pages: ``/admin/v1/session``.

A login gives the browser a random number in a cookie, which scripts cannot read and pages of other sites
cannot send. The session is kept here: the user, a second random number that every changing call must repeat
in a header (``X-CSRF-Token``), and its end. A session ends after 30 minutes without a call (an open stream
of events counts as calls), after 8 hours in any case, and at once when the user's password or tags change,
unless the session has changed them itself.

The sessions of the broker's own users are also kept in ``admin-sessions.json`` in the data directory, so that
pages stay logged in over a restart of the broker. The file has only hashes, so nobody who reads it can use a
session.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from admin_ui import body
from admin_ui.auth import MANAGEMENT, SESSION, Identity, check_origin, login
from admin_ui.replies import ApiError, bad_request, dumps
from admin_ui.state import STATE, State
from amqp_router import compiled
from amqp_router.auth import BACKENDS, User
from amqp_router.version import VERSION

IDLE_S = 30 * 60.0
LIFETIME_S = 8 * 3600.0
#: Sessions at a time. Beyond it, the session that was idle for longest ends.
SESSIONS_MAX = 1000
BODY_BYTES_MAX = 4096
FILE = "admin-sessions.json"
CSRF_HEADER = "X-CSRF-Token"
#: Tags of those who do more than watch.
ACTING = frozenset({"management", "policymaker", "administrator"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Login(BaseModel):
    """Body of ``POST /admin/v1/session``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    username: str = Field(min_length=1, max_length=255)
    password: str = Field(max_length=1024)


@dataclass
class Session:
    """One login. Times are seconds since 1970."""

    user: User
    csrf_token: str
    created: float
    seen: float
    #: A hash of the user's password and tags, which must not change; empty for users of other directories.
    proof: str


class Sessions:
    """All sessions of this node, by the hash of the cookie."""

    def __init__(self, state: State, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock
        self._path = Path(state.broker.settings.data_dir) / FILE
        self._sessions: dict[str, Session] = {}

    def open(self, user: User) -> tuple[str, Session]:
        """Begin a session; returns the value of the cookie."""
        self._drop_ended()
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].seen)]
        number = secrets.token_urlsafe(32)
        now = self._clock()
        session = Session(user, secrets.token_urlsafe(32), now, now, self._proof(user.name))
        self._sessions[_hash(number)] = session
        self._store()
        return number, session

    def find(self, number: str) -> Session | None:
        """The session of a cookie, which is marked as used now; None if there is none."""
        key = _hash(number)
        session = self._sessions.get(key)
        if session is None:
            return None
        if self._ended(session):
            del self._sessions[key]
            self._store()
            return None
        session.seen = self._clock()
        return session

    def follow(self, number: str, name: str) -> None:
        """The session has itself changed the password or tags of its user ``name``: it goes on with them.

        All other sessions of that user end.
        """
        session, user = self._sessions.get(_hash(number)), self._own_user(name)
        if session is not None and user is not None and session.user.name == name:
            session.user, session.proof = user, self._proof(name)
            self._store()

    def close(self, number: str) -> None:
        """End a session."""
        if self._sessions.pop(_hash(number), None) is not None:
            self._store()

    async def load(self, app: web.Application) -> None:
        """Load the sessions of the broker's last run. A file that cannot be read is ignored."""
        try:
            kept = json.loads(self._path.read_bytes())
            for each in kept["sessions"]:
                user = self._own_user(each["user"])
                if user is not None:
                    session = Session(user, each["csrf_token"], each["created"], self._clock(), each["proof"])
                    self._sessions[each["hash"]] = session
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._sessions.clear()
            self._state.broker.event(
                logging.WARNING, "admin sessions not taken over", file=self._path, reason=error
            )
        self._drop_ended()

    def _store(self) -> None:
        """Write the file. If it is lost, users must log in again, so it is not synced, and an error is only
        logged.
        """
        kept = [
            {
                "hash": key,
                "user": each.user.name,
                "csrf_token": each.csrf_token,
                "created": each.created,
                "proof": each.proof,
            }
            for key, each in self._sessions.items()
            if each.proof
        ]
        fresh = self._path.with_suffix(".tmp")
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump({"sessions": kept}, file)
            fresh.replace(self._path)
        except OSError as error:
            self._state.broker.event(
                logging.WARNING, "admin sessions not stored", file=self._path, reason=error
            )

    def _ended(self, session: Session) -> bool:
        now = self._clock()
        if now - session.seen > IDLE_S or now - session.created > LIFETIME_S:
            return True
        return session.proof != self._proof(session.user.name)

    def _drop_ended(self) -> None:
        for key in [key for key, each in self._sessions.items() if self._ended(each)]:
            del self._sessions[key]

    def _own_user(self, name: str) -> User | None:
        users = self._state.broker.users
        row = users.users.get(name)
        return None if row is None else User(name, row.tags, BACKENDS["internal"](users))

    def _proof(self, name: str) -> str:
        row = self._state.broker.users.users.get(name)
        return "" if row is None else _hash(f"{row.password_hash}\0{' '.join(row.tags)}")


SESSIONS: web.AppKey[Sessions] = web.AppKey("sessions", Sessions)


def add_routes(app: web.Application) -> None:
    """Register the endpoints, and cookies as a way to authenticate."""
    sessions = app[SESSIONS] = Sessions(app[STATE])
    app.on_startup.append(sessions.load)
    app[SESSION] = identity
    app.router.add_get("/admin/v1/session", _show)
    app.router.add_post("/admin/v1/session", _login)
    app.router.add_delete("/admin/v1/session", _logout)


async def identity(request: web.Request) -> Identity | None:
    """The user of this request's session; None if it has none.

    Raises:
        ApiError: the request changes something, but does not prove that one of our pages sent it (403).
    """
    session = current(request)
    if session is None:
        return None
    if request.method not in SAFE_METHODS:
        check_origin(request)
        if not hmac.compare_digest(request.headers.get(CSRF_HEADER, ""), session.csrf_token):
            raise ApiError(403, "forbidden", f"the header {CSRF_HEADER} is missing or wrong")
    return Identity(session.user)


def current(request: web.Request) -> Session | None:
    """The session of the request's cookie."""
    number = request.cookies.get(cookie_name(request))
    return request.app[SESSIONS].find(number) if number else None


def follow(request: web.Request, name: str) -> None:
    """``request`` has given user ``name`` another password or other tags: the user's own session goes on.

    Call this before the event loop goes on, or another request may end the session meanwhile.
    """
    number = request.cookies.get(cookie_name(request))
    if number and hdrs.AUTHORIZATION not in request.headers:
        request.app[SESSIONS].follow(number, name)


def cookie_name(request: web.Request) -> str:
    """The cookie's name has the port, because cookies of two brokers on one machine would replace each
    other.

    Over TLS browsers then take it from this host alone, over TLS (RFC 6265bis, ``__Host-``).
    """
    address = request.app[STATE].address
    assert address is not None  # it serves this request
    prefix = "__Host-" if request.secure else ""
    return f"{prefix}amqp-router-{address[1]}"


async def _show(request: web.Request) -> web.Response:
    """The user who is logged in. If nobody is, that is an answer here, not an error."""
    session = current(request)
    return _answer({"name": None} if session is None else _document(request, session))


async def _login(request: web.Request) -> web.Response:
    check_origin(request)
    wanted = await _read_login(request)
    session, cookie = begin(request, wanted.username, wanted.password)
    response = _answer(_document(request, session))
    response.headers["Set-Cookie"] = cookie
    return response


def begin(request: web.Request, username: str, password: str) -> tuple[Session, str]:
    """Open a session for the user with this name and password; returns it and the header Set-Cookie.

    Raises:
        ApiError: they are wrong or may not (401), or too many were wrong before (429).
    """
    found = login(request, username.encode(), password.encode())
    found.require(MANAGEMENT)
    number, session = request.app[SESSIONS].open(found.user)
    cookie = SimpleCookie({cookie_name(request): number})[cookie_name(request)]
    cookie["path"], cookie["samesite"] = "/", "Strict"
    cookie["httponly"], cookie["secure"] = True, request.secure
    return session, cookie.OutputString()


async def _logout(request: web.Request) -> web.Response:
    await identity(request)
    request.app[SESSIONS].close(request.cookies.get(cookie_name(request), ""))
    response = web.Response(status=204)
    response.del_cookie(
        cookie_name(request), path="/", httponly=True, samesite="Strict", secure=request.secure
    )
    return response


async def _read_login(request: web.Request) -> Login:
    if request.content_type != "application/json":
        raise ApiError(415, "bad_request", "the body must be application/json")
    data = await body.read(request, BODY_BYTES_MAX)
    try:
        return Login.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise bad_request(f"{place}: {first['msg']}" if place else "not_json") from None
    except UnicodeEncodeError:
        raise bad_request("not_json") from None


def _document(request: web.Request, session: Session) -> dict[str, Any]:
    """The data that the pages need before they show anything."""
    state = request.app[STATE]
    found = Identity(session.user)
    address = state.options.amqp_address or state.options.amqps_address
    assert address is not None  # one of the two is always there
    host, port = address
    return {
        "name": found.name,
        "tags": list(found.tags),
        "csrf_token": session.csrf_token,
        "vhosts": sorted(name for name in state.broker.vhosts if found.lists(name)),
        "acts": sorted(name for name in state.broker.vhosts if _acts(found, name)),
        "node": state.node,
        "version": VERSION,
        "compiled": compiled.build.whole,
        "amqp_host": host,
        "amqp_port": port,
        "amqp_tls": state.options.amqp_address is None,
    }


def _acts(found: Identity, vhost: str) -> bool:
    """Whether the pages offer this user to change objects of ``vhost``. A user who is there to watch
    (``monitoring`` and no other tag) is offered nothing.
    """
    return found.has(ACTING) and found.enters(vhost)


def _answer(document: dict[str, Any]) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    return web.Response(body=dumps(document), content_type="application/json", headers=headers)


def _hash(number: str) -> str:
    return hashlib.sha256(number.encode("utf-8", "surrogateescape")).hexdigest()
