"""Turns functions into paths of the API.

A handler gets a `Call` and returns the content of the reply's JSON: a document, or `Rows` for a list that can
be filtered, sorted, paged and reduced to columns. A handler that changes something may return `Done`.
Handlers may be coroutines. This module does the rest. It checks in RabbitMQ's order: the method (405), the
login (401), the accepted content types (406), then the object (404).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeAlias

from aiohttp import web

from admin_ui import query
from admin_ui.actors import acting
from admin_ui.auth import (
    ADMINISTRATOR,
    MANAGEMENT,
    NOBODY,
    POLICYMAKER,
    REFUSALS,
    Identity,
    authenticate,
    check_origin,
)
from admin_ui.places import Place
from admin_ui.replies import (
    ApiError,
    Body,
    Done,
    dump_in_turns,
    dumps,
    method_not_allowed,
    not_authorised,
    not_found,
)
from admin_ui.state import STATE, State
from admin_ui.turns import Turns
from vhosts.vhost import VirtualHost

#: Rows that a filter compares between two readings of the clock.
FILTER_ROWS = 128
#: The base paths of RabbitMQ's API, and of the API of our pages.
API, PAGES = "/api", "/admin/v1"
#: Names that our pages write with a ~ in front: browsers resolve the parts . and .. of a path, even if they
#: are encoded. Names that already look like that get a further ~.
DOTS = re.compile(r"~+\.\.?")
NO_VHOST = "User not authorised to access virtual host"


@dataclass(frozen=True)
class Call:
    """A request to the API with a known caller."""

    request: web.Request
    identity: Identity
    state: State
    query: query.Query
    #: Headers to add to the reply.
    headers: dict[str, str] = field(default_factory=dict)
    turns: Turns = field(default_factory=Turns)
    #: The reason of a 401 for a virtual host that the caller may not see.
    refusal: str = NO_VHOST

    def new_body(self) -> Body:
        """The reply's body, still empty."""
        return Body(self.request, self.headers)

    def part(self, name: str) -> str:
        """A part of the path, decoded."""
        part = self.request.match_info[name]
        dots = DOTS.fullmatch(part) and self.request.path.startswith(PAGES)
        return part[1:] if dots else part

    def vhost(self, name: str = "vhost") -> VirtualHost:
        """The virtual host that the path names; ``/`` if it is empty.

        Raises:
            ApiError: there is none (404), or the caller may not see it (401).
        """
        wanted = self.part(name) or "/"
        vhost = self.state.broker.vhosts.get(wanted)
        if vhost is None:
            raise not_found()
        self.check_vhost(name)
        return vhost

    def check_vhost(self, name: str = "vhost") -> None:
        """See that the caller may see the virtual host of the path, if there is one.

        Raises:
            ApiError: it may not (401).
        """
        wanted = self.part(name) or "/"
        if wanted in self.state.broker.vhosts and not self.identity.lists(wanted):
            raise not_authorised(self.refusal)

    def vhosts(self) -> list[VirtualHost]:
        """The virtual hosts whose objects the caller's lists show, by name. The header X-Vhost selects
        one.
        """
        only = self.request.headers.get("X-Vhost")
        names = sorted(self.state.broker.vhosts)
        return [
            self.state.broker.vhosts[name]
            for name in names
            if (not only or name == only) and self.identity.lists(name)
        ]


def _name(thing: Any) -> str:
    return str(thing.name)


@dataclass(frozen=True)
class Rows:
    """A list of objects that are not documents yet.

    Filter and page are applied to the objects, so documents are made only for those that are sent.
    """

    things: list[Any]
    document: Callable[[Any], Any]
    #: The name of an object, which the filter compares.
    name: Callable[[Any], str] = _name
    #: Functions by dotted column that give a sort value without making the document.
    quick: dict[str, Callable[[Any], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class WithRows:
    """A document of which one field is a list that may be long. Its rows are made while they are sent."""

    document: dict[str, Any]
    field: str
    rows: Iterable[dict[str, Any]]


Handler: TypeAlias = Callable[[Call], Any]


@dataclass(frozen=True)
class Endpoint:
    """A path of the API, with a handler for each method that it takes; HEAD goes to that of GET.

    The caller needs one of ``tags``; with None no login is needed.
    """

    path: str
    get: Handler | None = None
    tags: frozenset[str] | None = MANAGEMENT
    put: Handler | None = None
    post: Handler | None = None
    delete: Handler | None = None
    #: For PUT, POST and DELETE the caller needs one of these tags; with None no login.
    write_tags: frozenset[str] | None = MANAGEMENT

    @property
    def handlers(self) -> dict[str, Handler]:
        """The handlers by method, in RabbitMQ's order."""
        all_of_them = {
            "HEAD": self.get,
            "GET": self.get,
            "POST": self.post,
            "PUT": self.put,
            "DELETE": self.delete,
        }
        return {method: handler for method, handler in all_of_them.items() if handler is not None}

    @property
    def allow(self) -> str:
        """The allowed methods."""
        return ", ".join([*self.handlers, "OPTIONS"])


def administered(path: str, get: Handler | None = None, **writes: Handler) -> Endpoint:
    """An endpoint that only administrators may use."""
    return Endpoint(path, get, ADMINISTRATOR, write_tags=ADMINISTRATOR, **writes)


def add_routes(app: web.Application, endpoints: Iterable[Endpoint], base: str = API) -> None:
    """Register ``endpoints`` under ``base``, each with and without a slash at its end."""
    for endpoint in endpoints:
        app.router.register_resource(Place(base + endpoint.path, _answerer(endpoint)))


def _answerer(endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    handlers, allow = endpoint.handlers, endpoint.allow

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "OPTIONS":
            return web.Response(headers={"Allow": allow})
        handler = handlers.get(request.method)
        if handler is None:
            raise method_not_allowed(request.method, allow)
        reads = request.method in ("GET", "HEAD")
        if not reads:
            check_origin(request)
        tags = endpoint.tags if reads else endpoint.write_tags
        identity = NOBODY
        if tags is not None:
            identity = await authenticate(request)
            identity.require(MANAGEMENT)
            identity.require(tags)
        _check_accept(request.headers.get("Accept"))
        call = Call(request, identity, request.app[STATE], query.parse(request.query), refusal=refusal(tags))
        result = acting(call.state.broker.feed, identity.name, handler, call)
        return await reply(call, await result if inspect.isawaitable(result) else result)

    return answer


def refusal(tags: frozenset[str] | None) -> str:
    """RabbitMQ's reason for a 401 for a virtual host. Where one needs a tag for policies, it is the tag's."""
    return REFUSALS[POLICYMAKER] if tags == POLICYMAKER else NO_VHOST


def _check_accept(accept: str | None) -> None:
    if not accept:
        return
    for part in accept.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in ("application/json", "application/*", "*/*", "*"):
            return
    raise ApiError(406, "not_acceptable", "only application/json is served here")


async def reply(call: Call, result: Any) -> web.StreamResponse:
    """Make what a handler returned into a response."""
    if isinstance(result, Body):
        return await result.finish()
    if isinstance(result, Done):
        return web.Response(status=result.status, headers=result.headers)
    body = call.new_body()
    if isinstance(result, Rows):
        await _list(call, result, body)
    elif isinstance(result, WithRows):
        await _with_rows(call, result, body)
    else:
        data = await dump_in_turns(_columns(result, call.query.columns), call.turns)
        await body.add_in_turns(data, call.turns)
    return await body.finish()


def _columns(result: Any, columns: query.Columns | None) -> Any:
    if columns is None or isinstance(result, query.Entire):
        return result
    if isinstance(result, dict):
        return query.pick(result, columns)
    if isinstance(result, list):
        return [query.pick(each, columns) if isinstance(each, dict) else each for each in result]
    return result


async def _with_rows(call: Call, result: WithRows, body: Body) -> None:
    rows: Iterable[Any] = result.rows
    document, name, columns = _columns(result.document, call.query.columns), result.field, call.query.columns
    if columns is not None and not isinstance(document, query.Entire):
        if name not in columns:
            body.add(await dump_in_turns(document, call.turns))
            return
        inner = columns[name]
        rows = rows if inner is None else (query.part(row, inner) for row in rows)
    head = await dump_in_turns(document or {}, call.turns)
    await body.add_in_turns(head[:-1] + (b"," if document else b"") + dumps(name) + b":", call.turns)
    await body.add_rows(rows, call.turns)
    body.add(b"}")


async def _list(call: Call, rows: Rows, body: Body) -> None:
    wanted, turns, document = call.query, call.turns, rows.document
    page = wanted.page
    async with call.state.sorting:
        things = await _sorted(wanted, rows, await _filtered(page, rows, turns), turns)
    if page is None:
        await body.add_rows(_documents(things, document, wanted.columns), turns)
        return
    filtered = len(things)
    things = query.cut(page, things)
    body.add(dumps(query.envelope(page, len(rows.things), filtered, len(things)))[:-1] + b',"items":')
    await body.add_rows(_documents(things, document, wanted.columns), turns)
    body.add(b"}")


async def _filtered(page: query.Page | None, rows: Rows, turns: Turns) -> list[Any]:
    if page is None or not page.name:
        return rows.things
    admitted: list[Any] = []
    for start in range(0, len(rows.things), FILTER_ROWS):
        some = rows.things[start : start + FILTER_ROWS]
        admitted += compress(some, page.admits([rows.name(thing) for thing in some]))
        await turns.next()
    return admitted


async def _sorted(wanted: query.Query, rows: Rows, things: list[Any], turns: Turns) -> list[Any]:
    if wanted.sort is None:
        return things[::-1] if wanted.sort_reverse else things
    quick = rows.quick.get(".".join(wanted.sort))
    keyed: list[tuple[Any, Any]] = []
    for count, thing in enumerate(things):
        if quick is not None:
            keyed.append((query.order(quick(thing)), thing))
        else:
            # The document is not kept, because freeing thousands of them takes long.
            keyed.append((query.sort_key(rows.document(thing), wanted.sort), thing))
        if count % 16 == 15:
            await turns.next()
    keyed.sort(key=_key, reverse=wanted.sort_reverse)
    await turns.next()
    return [thing for _, thing in keyed]


def _documents(
    things: Iterable[Any], document: Callable[[Any], Any], columns: query.Columns | None
) -> Iterator[Any]:
    for thing in things:
        made = document(thing)
        if made is not None:  # else it has ended meanwhile
            yield made if columns is None else query.pick(made, columns)


def _key(keyed: tuple[Any, Any]) -> Any:
    return keyed[0]
