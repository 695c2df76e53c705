"""Reads a large JSON object piece by piece, so that others have their turn meanwhile.

The decoder of the standard library reads a file of definitions of 50 MB in one go, half a second in which the
event loop does nothing else. Here no step looks at more than a few times ``WINDOW`` characters, whatever
the text is: an object or array that ends within the window is decoded as a whole, another one member by
member, at any depth, and a longer string in parts.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Collection, Generator, Iterable
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from admin_ui.json_text import DECODER, NESTED_MAX, HalfOfAPairError, UnrepeatableError, checked

_SPACE = re.compile(r"[ \t\n\r]*")
#: A number before so many characters, as in ``1e+``, may go on after them.
_NUMBER_REST = 2
#: Characters of the longest escape in a string.
_ESCAPE = 6
#: Characters of the longest number whose end is looked for.
NUMBER_MAX = 64 << 10
#: Characters that are looked at together.
WINDOW = 32 << 10
#: Characters of the longest string; those whose pieces are wanted may be longer.
STRING_MAX = 1 << 20
_TOO_LARGE = object()


class Pieces(list[bytes]):
    """A long string in UTF-8, in pieces that never were one."""


def read_object(
    pieces: Iterable[bytes],
    found: dict[str, Any],
    *,
    nested_max: int = NESTED_MAX,
    values_max: int | None = None,
    in_pieces: Collection[str] = (),
) -> Generator[None]:
    """Add the members of the object in ``pieces``, which is encoded as UTF-8, to ``found``.

    Yields at least after each window and each value that it decoded by itself. After an error ``found`` has
    what came before. Members with names ``in_pieces`` whose text is longer than a window are `Pieces`.

    Raises:
        ValueError: the octets are not a JSON object; UnrepeatableError if they are one that is nested deeper
            than ``nested_max``, has more values than ``values_max``, or could not be repeated.
        RecursionError: it is nested too deep.
    """
    text = _Text(pieces)
    yield from text.expect("{")
    open_ones: list[Any] = [found]
    left = values_max
    is_empty = True
    while open_ones:
        inner = open_ones[-1]
        is_object = isinstance(inner, dict)
        mark = text.seen() or (yield from text.next())
        if mark == ("}" if is_object else "]"):
            yield from text.expect(mark)
            open_ones.pop()
            is_empty = False
            continue
        if not is_empty:
            yield from text.expect(",")
        name = ""
        if is_object:
            name = yield from text.string()
            yield from text.expect(":")
        mark = text.seen() or (yield from text.next())
        value: Any
        if mark in ("{", "["):
            value = text.whole(nested_max - len(open_ones))
        elif mark == '"':
            value = yield from text.string(is_object and len(open_ones) == 1 and name in in_pieces)
        else:
            value = yield from text.other()
        is_begun = value is _TOO_LARGE
        if is_begun:
            yield from text.expect(mark)
            value = {} if mark == "{" else []
        if left is not None:
            left -= 1 if is_begun else _count(value)
            if left < 0:
                raise UnrepeatableError(f"more than {values_max} values")
        if is_object:
            inner[name] = value
        else:
            inner.append(value)
        if is_begun:
            if len(open_ones) >= nested_max:
                raise UnrepeatableError(f"values nested more than {NESTED_MAX} deep")
            open_ones.append(value)
        is_empty = is_begun
        yield
    if (yield from text.next()):
        raise ValueError("something follows the object")


def _count(value: Any) -> int:
    """The value and those in it."""
    count, left = 1, [value]
    while left:
        outer = left.pop()
        if isinstance(outer, (dict, list)) and not isinstance(outer, Pieces):
            count += len(outer)
            inner = outer.values() if isinstance(outer, dict) else outer
            left += [each for each in inner if isinstance(each, (dict, list))]
    return count


class _Text:
    """A part of the text, and where the next token may begin in it."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: deque[bytes | memoryview] = deque(pieces)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._part = ""
        self._position = 0
        #: Whether nothing comes after the part.
        self._is_last = False
        #: What begins before it is decoded member by member: a value around it was too large, and to try each
        #: value in that once more would look at the same text as often as it is nested.
        self._tried_to = 0

    def next(self) -> Generator[None, None, str]:
        """The next character that is not white space; nothing at the end of the text."""
        while True:
            match = _SPACE.match(self._part, self._position)
            assert match is not None
            self._position = match.end()
            found = self._part[self._position : self._position + 1]
            if found or self._is_last:
                return found
            self._fill(1)
            yield

    def seen(self) -> str:
        """As ``next``, if that character is there and no white space before it; else nothing."""
        found = self._part[self._position : self._position + 1]
        return "" if found in " \t\n\r" else found

    def expect(self, mark: str) -> Generator[None]:
        """Pass ``mark`` and white space before it.

        Raises:
            ValueError: something else comes next.
        """
        if (self.seen() or (yield from self.next())) != mark:
            raise ValueError(f"{mark} is missing before {self._part[self._position :][:20]!r}")
        self._position += 1

    def whole(self, nested_max: int) -> Any:
        """The object or array that comes next, if it is not too large to be decoded at once.

        Raises:
            UnrepeatableError: no answer could repeat it.
        """
        self._fill(WINDOW)
        start = self._position
        if start < self._tried_to:
            return _TOO_LARGE
        try:
            found, end = DECODER.raw_decode(self._part, start)
        except ValueError:  # what is wrong, if it is not the size, is found when its members are decoded
            self._tried_to = start + (len(self._part) - start) // 2 + 1
            return _TOO_LARGE
        self._position = end
        return checked(self._part[start:end], found, nested_max)

    def other(self) -> Generator[None, None, Any]:
        """The number or constant that comes next.

        Raises:
            ValueError: none does, or it is too long.
        """
        wanted = WINDOW
        while True:
            self._fill(wanted)
            left = len(self._part) - self._position
            is_all = self._is_last or left > NUMBER_MAX
            try:
                found, end = DECODER.raw_decode(self._part, self._position)
            except ValueError:
                if is_all:
                    raise
            else:
                if end + _NUMBER_REST < len(self._part) or self._is_last:
                    self._position = end
                    return found
                if is_all:
                    raise ValueError("a number is too long")
            wanted = 2 * left + 1
            yield

    def string(self, in_pieces: bool = False) -> Generator[None, None, Any]:
        """The string that comes next, as one or in `Pieces` if it is long.

        Raises:
            ValueError: none does, or it is too long.
        """
        yield from self.expect('"')
        pieces, carry, size = Pieces(), "", 0
        while True:
            self._fill(WINDOW)
            start = self._position
            try:
                piece, end = scanstring(self._part, start, True)
                is_ended = True
            except ValueError:
                if self._is_last:
                    raise
                end = _cut(self._part, start)
                piece, is_ended = _inner(self._part[start:end]), False
            self._position = end
            piece = _paired(carry, piece)
            carry = "" if is_ended else _half(piece)
            octets = _encoded(piece[: len(piece) - len(carry)])
            if is_ended and not pieces:
                return piece
            pieces.append(octets)
            size += len(piece)
            if size > STRING_MAX and not in_pieces:
                raise UnrepeatableError(f"a string of more than {STRING_MAX} characters")
            if is_ended:
                return pieces if in_pieces else b"".join(pieces).decode()
            if end == start:  # an escape is cut in two
                self._fill(len(self._part) - start + WINDOW)
            yield

    def _fill(self, wanted: int) -> None:
        """See that ``wanted`` characters are there, if so many come; drop what is read."""
        left = len(self._part) - self._position
        if left >= wanted or self._is_last:
            return
        self._tried_to -= self._position
        texts = [self._part[self._position :]]
        wanted = max(wanted - left, WINDOW)
        while self._pieces and wanted > 0:
            piece = self._pieces.popleft()
            if len(piece) > WINDOW:
                self._pieces.appendleft(memoryview(piece)[WINDOW:])
                piece = piece[:WINDOW]
            texts.append(self._decoder.decode(bytes(piece)))
            wanted -= len(texts[-1])
        if not self._pieces:
            texts.append(self._decoder.decode(b"", final=True))
            self._is_last = True
        self._part, self._position = "".join(texts), 0


def _cut(text: str, start: int) -> int:
    """Where ``text``, which from ``start`` on is the inside of a string, can be cut: not within an escape."""
    escape = text.rfind("\\", start)
    if escape < start or escape < len(text) - _ESCAPE:
        return len(text)
    end = escape + 1
    backslashes = end - start - len(text[start:end].rstrip("\\"))
    return escape if backslashes % 2 else end


def _inner(text: str) -> str:
    """What a part of the inside of a string stands for.

    Raises:
        ValueError: it cannot be in a string.
    """
    found: str
    found, end = scanstring(text + '"', 0, True)
    if end <= len(text):
        raise ValueError("a string ends too early")
    return found


def _half(text: str) -> str:
    """The first half of a surrogate pair at the end of ``text``, if there is one."""
    return text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""


def _paired(half: str, text: str) -> str:
    """``text`` behind the first half of a surrogate pair, whose other half it may begin with."""
    if half and "\udc00" <= text[:1] <= "\udfff":
        pair = (half + text[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        return pair + text[1:]
    return half + text


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise HalfOfAPairError from None
