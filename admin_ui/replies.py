"""Replies: JSON bodies, errors in RabbitMQ's words, and large lists without holding the event loop.

RabbitMQ uses two spellings, and clients look for both: ``not_authorized`` with a challenge after a failed
login, and ``not_authorised`` without one if the user lacks a right.

Source: RabbitMQ's HTTP API 3.10, measured.
"""

from __future__ import annotations

import base64
import decimal
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from admin_ui.turns import Turns

JSON = "application/json"
CHALLENGE = 'Basic realm="RabbitMQ Management"'
#: Smaller bodies are not compressed (bytes).
COMPRESS_MIN = 1024
#: Rows built between two readings of the clock.
TURN_ROWS = 16
#: Bytes of a body that are made before the socket takes them. A longer body is sent while it is made, and
#: made only as fast as the client reads it.
WRITE_BYTES = 64 << 10


class ApiError(Exception):
    """An error reply. With ``error`` None it has no body."""

    def __init__(
        self,
        status: int,
        error: str | None = None,
        reason: Any = "",
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.body = None if error is None else {"error": error, "reason": reason, **more}
        self.headers = headers or {}


@dataclass(frozen=True)
class Done:
    """A success that has nothing to tell but its status."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)


def not_found() -> ApiError:
    """404: the object in the path does not exist."""
    return ApiError(404, "Object Not Found", "Not Found")


def method_not_allowed(method: str, allow: str) -> ApiError:
    """405: the path has other methods only."""
    reason = f"{method} is not served here, nothing was changed; allowed: {allow}"
    return ApiError(405, "method_not_allowed", reason, headers={"Allow": allow})


def bad_request(reason: Any, error: str = "bad_request") -> ApiError:
    """400: the request is not valid."""
    return ApiError(400, error, reason)


def login_failed(*, challenge: bool) -> ApiError:
    """401: no user has this name and password."""
    headers = {"WWW-Authenticate": CHALLENGE} if challenge else {}
    return ApiError(401, "not_authorized", "Login failed", headers=headers)


def not_authorised(reason: str) -> ApiError:
    """401: the user is known but lacks the right."""
    return ApiError(401, "not_authorised", reason)


class Large(ABC):
    """A part of a document whose JSON takes long to make, so that it is made in steps."""

    @abstractmethod
    def go_on(self) -> bool:
        """Make some of it; True if all of it is made."""

    @abstractmethod
    def json(self) -> bytes:
        """All of it, when it is made."""


def dumps(document: Any) -> bytes:
    """``document`` as JSON, all of it at once."""
    return _dumped(document, _plain)


def dump_steps(document: Any) -> Generator[bytes, None, bytes]:
    """As ``dumps``, in steps if something is `Large`. A step yields no octets; the end returns them all."""
    found: list[Large] = []

    def found_or_plain(value: Any) -> Any:
        if not isinstance(value, Large):
            return _plain(value)
        found.append(value)
        return None

    data = _dumped(document, found_or_plain)
    if not found:
        return data
    for large in found:
        while not large.go_on():
            yield b""
        yield b""
    return _dumped(document, _plain)


async def dump_in_turns(document: Any, turns: Turns) -> bytes:
    """As ``dumps``, while others have their turn between the steps."""
    steps = dump_steps(document)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            data: bytes = end.value
            return data
        await turns.next()


def _dumped(document: Any, default: Callable[[Any], Any]) -> bytes:
    try:
        return orjson.dumps(document, default=default)
    except TypeError:  # a name that is not UTF-8, or a number beyond 64 bits
        return orjson.dumps(_presentable(document), default=default)


def _plain(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, Large):
        while not value.go_on():
            pass
        return orjson.Fragment(value.json())
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _presentable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_presentable(name): _presentable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_presentable(each) for each in value]
    if isinstance(value, str):
        try:
            return text_of(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:  # half of a pair that an earlier release has stored
            return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        return float(value)
    if isinstance(value, (bytes, decimal.Decimal)):
        return _plain(value)
    return value


def text_of(octets: bytes) -> str:
    """Octets as text, or RabbitMQ's sentence for octets that are not UTF-8."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return f"Not UTF-8, base64 is: {base64.b64encode(octets).decode()}"


def takes_gzip(request: web.Request) -> bool:
    """Whether the client accepts gzip."""
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight)
    return False


class Body:
    """The JSON body of a reply with status 200, compressed if the client accepts that.

    A short body is sent at once. A long one is sent in pieces while it is made, and only as fast as the
    client reads it. So no long list is ever completely in memory.
    """

    def __init__(self, request: web.Request, headers: dict[str, str]) -> None:
        #: Bytes that are made but not sent.
        self.size = 0
        self.compressed = False
        self._request = request
        self._headers = headers
        self._compress = takes_gzip(request)
        self._pieces: list[bytes] = []
        self._squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
        #: The response, once its head is sent.
        self.response: web.StreamResponse | None = None

    def add(self, data: bytes) -> None:
        """Append ``data``."""
        if self.compressed:
            data = self._squeeze.compress(data)
        self._pieces.append(data)
        self.size += len(data)
        if self._compress and not self.compressed and self.size >= COMPRESS_MIN and self.response is None:
            so_far = b"".join(self._pieces)
            self._pieces.clear()
            self.size = 0
            self.compressed = True
            self.add(so_far)

    async def add_rows(self, rows: Iterable[Any], turns: Turns) -> None:
        """Append a list. ``rows`` may build each document when it is needed."""
        before = b"["
        some: list[Any] = []
        for row in rows:
            some.append(row)
            if len(some) == TURN_ROWS or turns.is_over():
                await self.add_in_turns(before + (await dump_in_turns(some, turns))[1:-1], turns)
                before = b","
                some.clear()
                await self.pass_on(turns)
        if some:
            await self.add_in_turns(before + (await dump_in_turns(some, turns))[1:], turns)
        else:
            self.add(b"]" if before == b"," else b"[]")

    async def add_in_turns(self, data: bytes, turns: Turns) -> None:
        """Append ``data``, which may be long: to compress 800 KiB takes some 10 ms."""
        if len(data) <= WRITE_BYTES:
            self.add(data)
            return
        for start in range(0, len(data), WRITE_BYTES):
            self.add(data[start : start + WRITE_BYTES])
            await self.pass_on(turns)

    async def pass_on(self, turns: Turns) -> None:
        """Send what is made if it is much, and give others their turn."""
        if self.size >= WRITE_BYTES:
            await self._send()
        await turns.next()

    async def finish(self) -> web.StreamResponse:
        """End the body: send the rest."""
        if self.compressed:
            self._pieces.append(self._squeeze.flush())
        if self.response is None:
            return web.Response(body=self._take(), headers=self._head())
        await self._send()
        await self.response.write_eof()
        return self.response

    async def _send(self) -> None:
        if self.response is None:
            self.response = web.StreamResponse(headers=self._head())
            await self.response.prepare(self._request)
        data = self._take()
        if self._request.method != "HEAD":
            await self.response.write(data)

    def _take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return data

    def _head(self) -> dict[str, str]:
        headers = {"Content-Type": JSON, "Cache-Control": "no-cache", **self._headers}
        if self.compressed:
            headers["Content-Encoding"] = "gzip"
        return headers
