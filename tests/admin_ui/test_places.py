"""Paths as aiohttp's own resources would match them, two for each: one has a slash at its end."""

from __future__ import annotations

import re

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

from admin_ui.app import ENDPOINTS, OBJECTS, OURS
from admin_ui.endpoints import API, PAGES, add_routes

PLACES = [(API, ENDPOINTS), (PAGES, [*OURS, *OBJECTS])]


async def nothing(request: web.Request) -> web.StreamResponse:
    raise NotImplementedError


def router(*, ours: bool) -> web.UrlDispatcher:
    app = web.Application()
    for base, endpoints in PLACES:
        if ours:
            add_routes(app, endpoints, base)
            continue
        for endpoint in endpoints:
            path = base + re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", endpoint.path)
            app.router.add_route("*", path, nothing)
            app.router.add_route("*", path + "/", nothing)
    return app.router


OURS_ROUTER, THEIRS_ROUTER = router(ours=True), router(ours=False)


async def resolved(where: web.UrlDispatcher, path: str) -> tuple[str, dict[str, str]] | None:
    """The path with names and what each stands for; None if there is no such path."""
    found = await where.resolve(make_mocked_request("GET", path))
    if found.http_exception is not None:
        assert isinstance(found.http_exception, web.HTTPNotFound)
        return None
    resource = found.route.resource
    assert resource is not None
    return resource.canonical.rstrip("/"), dict(found)


def check(path: str) -> None:
    def run(where: web.UrlDispatcher) -> tuple[str, dict[str, str]] | None:
        coroutine = resolved(where, path)
        try:
            coroutine.send(None)
        except StopIteration as ended:
            value: tuple[str, dict[str, str]] | None = ended.value
            return value
        raise AssertionError("it waits")

    assert run(OURS_ROUTER) == run(THEIRS_ROUTER), path


#: What may stand for a part: plain, encoded, empty, with braces, and what other paths have in its place.
WORDS = ["a", "", "%2F", "%252F", "%25", "a%20b", "{x}", "%7Bx%7D", "get", "e", "q", "%C3%A4", "~.", "*"]


PATHS = [base + re.sub(r":[^}]+", "", endpoint.path) for base, endpoints in PLACES for endpoint in endpoints]


@settings(max_examples=400)
@given(st.sampled_from(PATHS), st.data())
def test_a_path_and_what_is_near_it(path: str, data: st.DataObject) -> None:
    parts = [
        data.draw(st.sampled_from(WORDS)) if part.startswith("{") else part for part in path.split("/")[1:]
    ]
    parts += data.draw(st.lists(st.sampled_from(["", "a"]), max_size=2))
    check("/" + "/".join(parts))
    odd = data.draw(st.integers(0, len(parts) - 1))
    parts[odd] = data.draw(st.sampled_from(WORDS))
    check("/" + "/".join(parts))


@pytest.mark.parametrize("end", ["", "/", "//", "/a"])
def test_every_path(end: str) -> None:
    for path in PATHS:
        check(re.sub(r"\{\w+\}", "x", path) + end)
        check(re.sub(r"\{\w+\}", "", path) + end)
