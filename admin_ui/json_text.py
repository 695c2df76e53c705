"""JSON as clients send it: UTF-8, and no text, number or nesting that an answer could not repeat.

Python's decoder takes more: half of a surrogate pair (``"\\ud800"``), ``NaN``, ``Infinity``, ``1e999`` as the
latter, integers of any size, and values nested deeper than answers are written. Stored, each of them would
spoil every list that has it.
"""

from __future__ import annotations

import json
import math
from typing import Any

#: Objects and arrays within each other. Answers are written with up to 254, some of them around such a value.
NESTED_MAX = 200
#: Characters of the longest integer of 64 bits, and of those that an error shows.
DIGITS_MAX, SHOWN_MAX = 20, 40


class UnrepeatableError(ValueError):
    """It is JSON, but no answer could repeat it; the text says why."""


class HalfOfAPairError(UnrepeatableError):
    """A string has half of a surrogate pair, so it has no form in UTF-8."""

    def __init__(self) -> None:
        super().__init__("a string has half of a surrogate pair")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is too large")
    return found


def _of_64_bits(text: str) -> int:
    found = int(text) if len(text) <= DIGITS_MAX else 1 << 64
    if not -(1 << 63) <= found < 1 << 64:
        shown = text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
        raise UnrepeatableError(f"{shown} does not fit into 64 bits")
    return found


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, parse_int=_of_64_bits)


def loads(data: bytes) -> Any:
    """The value that ``data`` has.

    Raises:
        ValueError: it is not JSON in UTF-8; UnrepeatableError if it is, and no answer could repeat it.
        RecursionError: it is nested too deep to be read.
    """
    text = data.decode("utf-8-sig")
    return checked(text, DECODER.decode(text))


def checked(text: str, found: Any, nested_max: int = NESTED_MAX) -> Any:
    """``found``, which ``text`` was decoded to.

    Raises:
        UnrepeatableError: a string in it has half of a surrogate pair, or it is nested too deep.
    """
    if text.count("[") + text.count("{") > nested_max and _is_deep(found, nested_max):
        raise UnrepeatableError(f"values nested more than {NESTED_MAX} deep")
    # UTF-8 has no surrogates, so that only escapes make them.
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise HalfOfAPairError from None
    return found


def _is_deep(found: Any, nested_max: int) -> bool:
    """Whether more than ``nested_max`` objects and arrays are within each other."""
    level = [found] if isinstance(found, (dict, list)) else []
    for _ in range(nested_max):
        level = [
            each
            for outer in level
            for each in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(each, (dict, list))
        ]
        if not level:
            return False
    return True
