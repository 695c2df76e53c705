"""Reads a large JSON object piece by piece, so that others have their turn meanwhile.

The decoder of the standard library reads a file of definitions of 50 MB in one go, half a second in which the
event loop does nothing else. Here each value of the object, and each element of a value that is an array, is
decoded by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def read_object(text: str) -> Generator[None, None, dict[str, Any]]:
    """The object in ``text``. Yields now and then, at least after each element of an array in it.

    Raises:
        ValueError: ``text`` is not a JSON object.
        RecursionError: it is nested too deep.
    """
    found: dict[str, Any] = {}
    position = _expect(text, _skip(text, 0), "{")
    if text[position : position + 1] == "}":
        position += 1
    else:
        while True:
            name, position = _DECODER.raw_decode(text, position)
            if not isinstance(name, str):
                raise ValueError("a name is not a string")
            position = _expect(text, _skip(text, position), ":")
            if text[position : position + 1] == "[":
                found[name], position = yield from _read_array(text, position)
            else:
                found[name], position = _DECODER.raw_decode(text, position)
                yield
            position = _skip(text, position)
            if text[position : position + 1] == "}":
                position += 1
                break
            position = _expect(text, position, ",")
    if _skip(text, position) != len(text):
        raise ValueError("something follows the object")
    return found


def _read_array(text: str, position: int) -> Generator[None, None, tuple[list[Any], int]]:
    """The array at ``position``, and where it ends."""
    elements: list[Any] = []
    position = _expect(text, position, "[")
    if text[position : position + 1] == "]":
        return elements, position + 1
    while True:
        element, position = _DECODER.raw_decode(text, position)
        elements.append(element)
        yield
        position = _skip(text, position)
        if text[position : position + 1] == "]":
            return elements, position + 1
        position = _expect(text, position, ",")


def _skip(text: str, position: int) -> int:
    """The position after white space."""
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _expect(text: str, position: int, mark: str) -> int:
    """The position after ``mark`` and white space."""
    if text[position : position + 1] != mark:
        raise ValueError(f"{mark} is missing at {position}")
    return _skip(text, position + 1)
