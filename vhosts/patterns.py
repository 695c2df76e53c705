r"""Regular expressions that users give: permissions, the API's filters.

They are those of PCRE, matched against octets as RabbitMQ does: ``\w`` and case are those of ASCII. RE2 takes
nearly all of them and needs linear time for any text. What it refuses (look-around, back-references) goes to
the engine of the package ``regex``, which backtracks and therefore gets a limit of time. Both write out
repeats when they compile, and the second calls itself for each group: patterns are measured first.

One difference remains: ``$`` matches at the end only, not before a newline there.

Source: RabbitMQ's access control guide; pcrepattern(3); https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

import re2

#: Time (s) that looking at one name, or a few, may take; a thousand ordinary searches take less.
LIMIT_S = 0.01
#: Of a pattern: octets; parts (characters, classes) once repeats are written out; and the memory (bytes) that
#: RE2 may take, which bounds the time: a search takes up to 0.2 ms per KiB of it with the worst patterns.
PATTERN_BYTES_MAX = 16 << 10
SIZE_MAX = 16 << 10
MEMORY_BYTES = 256 << 10
#: Of a pattern that RE2 does not take: octets, parts, and depth of groups.
BACKTRACKING_BYTES_MAX = 1000
BACKTRACKING_SIZE_MAX = 1000
BACKTRACKING_DEPTH_MAX = 50


class TooSlow(Exception):
    """The search was ended."""


class Compiled(Protocol):
    """What both engines make of a pattern."""

    def search(self, text: bytes, /, **limits: Any) -> Any:
        """The first match, or None."""


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled", "_is_linear")

    def __init__(self, compiled: Compiled, *, is_linear: bool) -> None:
        self._compiled = compiled
        self._is_linear = is_linear

    def matches(self, name: str, limit_s: float = LIMIT_S) -> bool:
        """Whether ``name`` matches anywhere.

        Raises:
            TooSlow: that took longer than ``limit_s``.
        """
        octets = name.encode(errors="surrogateescape")
        if self._is_linear:
            return self._compiled.search(octets) is not None
        try:
            return self._compiled.search(octets, timeout=limit_s) is not None
        except (TimeoutError, MemoryError, RecursionError):
            raise TooSlow from None


def compile_pattern(text: str, *, ignore_case: bool = False, memory_bytes: int = MEMORY_BYTES) -> Pattern:
    """Compile a pattern; ``memory_bytes`` bounds what RE2 makes of it, and by that its time.

    Raises:
        ValueError: it is no regular expression, or too large; the text says why.
    """
    octets = text.encode(errors="surrogateescape")
    if len(octets) > PATTERN_BYTES_MAX:
        raise ValueError(
            f"a regular expression of {len(octets)} octets; at most {PATTERN_BYTES_MAX} are taken"
        )
    try:
        tokens = _tokens(octets)
        _measure(tokens, SIZE_MAX, PATTERN_BYTES_MAX)
        if not (_FOLDS_MORE.search(octets) and (ignore_case or _FOLDS.search(octets))):
            linear = _linear(octets, ignore_case, memory_bytes)
            if linear is not None:
                return Pattern(linear, is_linear=True)
        return Pattern(_backtracking(octets, tokens, ignore_case), is_linear=False)
    except ValueError as error:
        raise ValueError(f"{text[:200]!r} is not a regular expression: {error}") from None


def _linear(octets: bytes, ignore_case: bool, memory_bytes: int) -> Compiled | None:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = memory_bytes
    try:
        compiled: Compiled = re2.compile(octets, options)
    except re2.error as error:
        if b"too large" in error.args[0]:
            raise ValueError("it is too large") from None
        return None
    return compiled


def _backtracking(octets: bytes, tokens: list[bytes], ignore_case: bool) -> Compiled:
    import regex  # noqa: PLC0415  only who needs it waits for it

    if len(octets) > BACKTRACKING_BYTES_MAX:
        raise ValueError(f"with look-around or back-references it may have {BACKTRACKING_BYTES_MAX} octets")
    _check_groups(tokens)
    _measure(tokens, BACKTRACKING_SIZE_MAX, BACKTRACKING_DEPTH_MAX)
    try:
        compiled: Compiled = regex.compile(
            b"".join(map(_translated, tokens)), regex.IGNORECASE if ignore_case else 0, cache_pattern=False
        )
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    return compiled


# -- what a pattern consists of -----------------------------------------------------------------------

#: Characters whose other case is not ASCII's alone for RE2; and what makes a pattern ignore case.
_FOLDS_MORE = re.compile(rb"[^\x00-\x7f]|\\[xpP0-7]")
_FOLDS = re.compile(rb"\(\?[a-zA-Z]*i")

_TOKEN = re.compile(
    rb"""
      \\Q .*? (?: \\E | \Z )                                      # taken literally
    | \\[pP] \{ [^}]* \} | \\ .                                   # an escape
    | \[: \^? [a-z]* :\]                                          # a POSIX class that stands alone
    | \[ \^? \]? (?: \[: \^? [a-z]* :\] | \\ . | [^\]\\] )*+ \]   # a class
    | \(\?\# [^)]* \)                                             # a comment
    | \(\? (?: [:=!>] | <[=!] | P?<\w+> | P=\w+\) | [ims-]+[:)] ) # a group, a back-reference, flags
    | \{ \d+ (?: ,\d* )? \}                                       # a repeat
    | .
    """,
    re.DOTALL | re.VERBOSE,
)
_POSIX = re.compile(rb"\[:\^?([a-z]*):\]")
_POSIX_NAMES = frozenset(
    b"alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()
)


def _tokens(octets: bytes) -> list[bytes]:
    """The parts of a pattern, with classes as PCRE reads them.

    Raises:
        ValueError: a class does not end, or has a POSIX class that does not exist or stands outside of it.
    """
    tokens = _TOKEN.findall(octets)
    for token in tokens:
        if token == b"[":
            raise ValueError("missing terminating ] for a character class")
        if token.startswith(b"[:") and token.endswith(b":]"):
            raise ValueError(
                "POSIX named classes are supported only within a class: write [[:alpha:]], not [:alpha:]"
            )
        if token.startswith(b"["):
            for name in _POSIX.findall(token, 1):
                if name not in _POSIX_NAMES:
                    raise ValueError(f"unknown POSIX class name {name.decode()!r}")
    return tokens


def _measure(tokens: list[bytes], size_max: int, depth_max: int) -> None:
    """Refuse what would take too long, or too much memory, to compile.

    Raises:
        ValueError: it would.
    """
    #: Of each open group: its size so far, and that of its last part, which a repeat multiplies.
    groups = [[0, 0]]
    for token in tokens:
        group = groups[-1]
        if token == b")":
            if len(groups) == 1:
                raise ValueError("unmatched closing parenthesis")
            size = groups.pop()[0]
            groups[-1][0] += size
            groups[-1][1] = size
        elif token.startswith(b"(") and not token.endswith(b")"):
            groups.append([1, 1])
            if len(groups) > depth_max:
                raise ValueError(f"groups are nested more than {depth_max} deep")
        elif token[0] == ord("{") and len(token) > 1:
            factor = max(int(count or b"1") for count in token[1:-1].split(b","))
            group[0] += group[1] * (factor - 1)
            group[1] *= factor
        elif not token.startswith(b"(?#"):
            group[0] += len(token) if token.startswith(rb"\Q") else 1
            group[1] = 1
        if groups[-1][0] > size_max:
            raise ValueError(f"it has more than {size_max} parts once repeats are written out")
    if len(groups) > 1:
        raise ValueError("missing closing parenthesis")


def _check_groups(tokens: list[bytes]) -> None:
    """Refuse groups that only one of PCRE and the backtracking engine knows, or that call themselves.

    Raises:
        ValueError: there is one.
    """
    for token, following in zip(tokens, [*tokens[1:], b""], strict=True):
        if token == b"(" and following in (b"?", b"*"):
            raise ValueError(f"a group that begins with ({following.decode()} is not supported")


def _translated(token: bytes) -> bytes:
    """A part in the words of the backtracking engine."""
    if token.startswith(rb"\Q"):
        return re.escape(token[2:].removesuffix(rb"\E"))
    return _TRANSLATIONS.get(token, token)


_TRANSLATIONS = {
    rb"\z": rb"\Z",
    rb"\Z": rb"(?=\n?\Z)",
    # A brace that is no repeat stands for itself; for the engine it could begin an approximate match.
    b"{": rb"\{",
}
