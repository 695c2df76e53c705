"""Very many objects of a virtual host in the order of their names, while others have their turn.

To sort 100,000 names at once takes 50 ms. They are sorted in parts; the parts are cut at common places, and
what lies between two of these is sorted once more, which is quick because it consists of sorted pieces.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from admin_ui.turns import Turns
from vhosts.long_lists import unwatched

#: Names that are sorted together.
PART = 2048
#: Of so many names in a part one may become a place to cut.
SAMPLE = 32


async def by_name(found: Mapping[str, Any], turns: Turns) -> list[Any]:
    """The objects in ``found``, in the order of their names. Those that go meanwhile may be left out."""
    names = await ordered(found, turns)
    objects: list[Any] = unwatched([])
    for start in range(0, len(names), PART):
        objects += [each for name in names[start : start + PART] if (each := found.get(name)) is not None]
        await turns.next()
    return objects


async def add_pairs(pairs: list[tuple[str, Any]], vhost: str, things: Iterable[Any], turns: Turns) -> None:
    """Add each of ``things`` to ``pairs``, with the name of its virtual host."""
    for count, thing in enumerate(things, 1):
        pairs.append((vhost, thing))
        if count % PART == 0:
            await turns.next()


async def ordered(names: Iterable[str], turns: Turns) -> list[str]:
    """The names, sorted."""
    result: list[str] = unwatched([])
    for some in _steps(names):
        result += some
        await turns.next()
    return result


def _steps(names: Iterable[str]) -> Iterator[list[str]]:
    """The sorted names, some at a time; no step takes long."""
    left = unwatched(list(names))
    parts: list[list[str]] = unwatched([])
    for start in range(0, len(left), PART):
        parts.append(unwatched(sorted(left[start : start + PART])))
        yield []
    places = sorted([name for part in parts for name in part[SAMPLE - 1 :: SAMPLE]])[
        PART // SAMPLE :: PART // SAMPLE
    ]
    begun = [0] * len(parts)
    for place in (*places, None):
        some: list[str] = []
        for number, part in enumerate(parts):
            start = begun[number]
            end = begun[number] = len(part) if place is None else bisect_right(part, place, start)
            some += part[start:end]
        some.sort()
        yield some
