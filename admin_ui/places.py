"""A path of the API in aiohttp's router."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn

from aiohttp import web

#: A part of a path in braces, with the pattern of one that may be empty.
_NAMED = re.compile(r"\{(\w+)(:\[\^/\]\*)?\}")


class Place(web.AbstractResource):
    """A path whose parts in braces stand for any text without a slash. One more slash may stand at its end.

    ``{name}`` is never empty, ``{name:[^/]*}`` may be. aiohttp's own resources compile a regular expression
    for each path and know no optional slash: the API took 240 of them, which were 25 ms of each start.
    """

    def __init__(self, path: str, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> None:
        super().__init__()
        self._path = _NAMED.sub(r"{\1}", path)
        parts = self._path.split("/")
        self._length = len(parts)
        #: Place in the path and the text there, or the name.
        self._fixed = [(index, part) for index, part in enumerate(parts) if part[:1] != "{"]
        self._named = [(index, part[1:-1]) for index, part in enumerate(parts) if part[:1] == "{"]
        #: The places of names that stand for a text which is not empty.
        self._filled = [
            index for (index, _), named in zip(self._named, _NAMED.findall(path), strict=True) if not named[1]
        ]
        self._route = web.ResourceRoute("*", handler, self)

    @property
    def canonical(self) -> str:
        """The path with the names in braces."""
        return self._path

    async def resolve(self, request: web.Request) -> tuple[web.UrlMappingMatchInfo | None, set[str]]:
        """The parts by name, if this is the request's path."""
        parts = request.rel_url.path_safe.split("/")
        if len(parts) == self._length + 1 and not parts[-1]:
            parts.pop()
        if len(parts) != self._length or any(parts[index] != part for index, part in self._fixed):
            return None, set()
        if not all(parts[index] for index in self._filled):
            return None, set()
        found = {name: _decoded(parts[index]) for index, name in self._named}
        return web.UrlMappingMatchInfo(found, self._route), {self._route.method}

    def raw_match(self, path: str) -> bool:
        """Whether a route that is added for this path belongs here: none does."""
        return False

    def get_info(self) -> Any:
        """What aiohttp shows of it."""
        return {"formatter": self._path}

    def url_for(self, **kwargs: str) -> NoReturn:
        """aiohttp demands it of a resource; nobody here asks for the address of one."""
        raise NotImplementedError("a place has no address to be asked for")

    def add_prefix(self, prefix: str) -> NoReturn:
        """aiohttp demands it of a resource; no application here is part of another."""
        raise NotImplementedError("a place belongs to one application")

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[web.AbstractRoute]:
        return iter((self._route,))


def _decoded(part: str) -> str:
    """yarl's `path_safe` leaves a slash within a part and the percent sign encoded, and nothing else."""
    return part.replace("%2F", "/").replace("%25", "%")
