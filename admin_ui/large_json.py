"""Reads a large JSON object piece by piece, so that others have their turn meanwhile.

The decoder of the standard library reads a file of definitions of 50 MB in one go, half a second in which the
event loop does nothing else. Here each value of the object, and each element of a value that is an array, is
decoded by itself, and no more of the octets at a time than that takes.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any

from admin_ui.json_text import DECODER, checked

_SPACE = re.compile(r"[ \t\n\r]*")
#: A number before so many characters, as in ``1e+``, may go on after them.
_NUMBER_REST = 2
#: Characters that are looked at together, if no value is longer.
WINDOW = 64 << 10


def read_object(pieces: Iterable[bytes], found: dict[str, Any]) -> Generator[None]:
    """Add the members of the object in ``pieces``, which is encoded as UTF-8, to ``found``.

    Yields now and then, at least after each element of an array in it. After an error ``found`` has what came
    before.

    Raises:
        ValueError: the octets are not a JSON object.
        RecursionError: it is nested too deep.
    """
    text = _Text(pieces)
    text.expect("{")
    if text.next() == "}":
        text.expect("}")
    else:
        while True:
            name = text.value()
            if not isinstance(name, str):
                raise ValueError("a name is not a string")
            text.expect(":")
            if text.next() == "[":
                elements: list[Any] = []
                found[name] = elements
                yield from _read_array(text, elements)
            else:
                found[name] = text.value()
                yield
            if text.next() == "}":
                text.expect("}")
                break
            text.expect(",")
    if text.next():
        raise ValueError("something follows the object")


def _read_array(text: _Text, elements: list[Any]) -> Generator[None]:
    """Add the elements of the array that comes next."""
    text.expect("[")
    if text.next() == "]":
        text.expect("]")
        return
    while True:
        elements.append(text.value())
        yield
        if text.next() == "]":
            text.expect("]")
            return
        text.expect(",")


class _Text:
    """A part of the text, and where the next token may begin in it."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = deque(pieces)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._part = ""
        self._position = 0
        #: Whether nothing comes after the part.
        self._is_last = False

    def next(self) -> str:
        """The next character that is not white space; nothing at the end of the text."""
        while True:
            match = _SPACE.match(self._part, self._position)
            assert match is not None
            self._position = match.end()
            found = self._part[self._position : self._position + 1]
            if found or self._is_last:
                return found
            self._read_on()

    def expect(self, mark: str) -> None:
        """Pass ``mark`` and white space before it.

        Raises:
            ValueError: something else comes next.
        """
        if self.next() != mark:
            raise ValueError(f"{mark} is missing before {self._part[self._position :][:20]!r}")
        self._position += 1

    def value(self) -> Any:
        """The value that comes next.

        Raises:
            ValueError: none does.
        """
        self.next()
        while True:
            try:
                found, end = DECODER.raw_decode(self._part, self._position)
            except ValueError:
                if self._is_last:
                    raise
            else:
                if end + _NUMBER_REST < len(self._part) or self._is_last:
                    start, self._position = self._position, end
                    return checked(self._part[start:end], found)
            self._read_on()

    def _read_on(self) -> None:
        """Drop what is read; make the part twice as long, so that a long value is not begun too often."""
        left = self._part[self._position :]
        texts, wanted = [left], max(WINDOW, len(left))
        while self._pieces and wanted > 0:
            texts.append(self._decoder.decode(self._pieces.popleft()))
            wanted -= len(texts[-1])
        if not self._pieces:
            texts.append(self._decoder.decode(b"", final=True))
            self._is_last = True
        self._part, self._position = "".join(texts), 0
