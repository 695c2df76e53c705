"""JSON as clients send it: UTF-8, and no text or number that an answer could not repeat.

Python's decoder takes more: half of a surrogate pair (``"\\ud800"``), ``NaN``, ``Infinity``, and ``1e999`` as
the latter. Stored, each of them would spoil every list that has it.
"""

from __future__ import annotations

import json
import math
from typing import Any


class HalfOfAPairError(ValueError):
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


DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def loads(data: bytes) -> Any:
    """The value that ``data`` has.

    Raises:
        ValueError: it is not JSON in UTF-8; HalfOfAPairError if that is so because of a string in it.
        RecursionError: it is nested too deep.
    """
    text = data.decode("utf-8-sig")
    return checked(text, DECODER.decode(text))


def checked(text: str, found: Any) -> Any:
    """``found``, which ``text`` was decoded to.

    Raises:
        HalfOfAPairError: a string in it has half of a surrogate pair.
    """
    # UTF-8 has no surrogates, so that only escapes make them.
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise HalfOfAPairError from None
    return found
