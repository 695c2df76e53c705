r"""Regular expressions given by users: permissions, and the filters of the HTTP API.

The syntax is that of PCRE. Patterns match octets, as in RabbitMQ: ``\w`` and case mean those of ASCII. RE2
takes nearly all of them and needs linear time for any text. Patterns that RE2 refuses (look-around,
back-references) go to the engine of the package ``regex``, which backtracks and therefore gets a time limit.
Both engines expand repeats when they compile, and the second one recurses for each group. Therefore patterns
are measured before they are compiled.

One difference remains: ``$`` matches at the end only, not before a newline there.

Source: RabbitMQ's access control guide; pcrepattern(3); https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from typing import Protocol

#: Time limit (s) of a search in one name or a few. A thousand ordinary searches take less.
LIMIT_S = 0.01
#: Limits of a pattern: its octets; its parts (characters, classes) once repeats are expanded; and the memory
#: (bytes) of RE2, which bounds the time: with the worst patterns a search takes up to 0.2 ms per KiB of it.
PATTERN_BYTES_MAX = 16 << 10
SIZE_MAX = 16 << 10
MEMORY_BYTES = 256 << 10
#: Limits of a pattern that RE2 does not take: octets, parts, and depth of groups.
BACKTRACKING_BYTES_MAX = 1000
BACKTRACKING_SIZE_MAX = 1000
BACKTRACKING_DEPTH_MAX = 50


class TooSlow(Exception):
    """The search was stopped at its time limit."""


class Compiled(Protocol):
    """A pattern as compiled by one of the engines."""

    def search(self, text: bytes, /, **limits: float) -> object:
        """The first match, or None."""


class _Anything:
    """Matches every name: the permission and filter ``.*``, for which no engine is needed."""

    def search(self, text: bytes, /, **limits: float) -> object:
        """A match."""
        return True


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
    """Compile a pattern; ``memory_bytes`` limits RE2's memory for it and thereby its time.

    Raises:
        ValueError: it is not a regular expression, or it is too large; the text says why.
    """
    if text == ".*":
        return Pattern(_Anything(), is_linear=True)
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
    import re2  # noqa: PLC0415  2 MiB that a broker whose users may do everything never needs

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
    import regex  # noqa: PLC0415  a slow import that few need

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


# -- the parts of a pattern -----------------------------------------------------------------------

#: Characters for which RE2 may fold case beyond ASCII, and the options that make a pattern ignore case.
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
    """Split a pattern into its parts; character classes are read as PCRE does.

    Raises:
        ValueError: a class does not end, or a POSIX class is unknown or not inside of a class.
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
    """Refuse a pattern that would take too long, or too much memory, to compile.

    Raises:
        ValueError: it would.
    """
    #: For each open group its size so far, and the size of its last part, which a repeat multiplies.
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
    """Refuse groups that not both PCRE and the backtracking engine know, and groups that call themselves.

    Raises:
        ValueError: there is one.
    """
    for token, following in zip(tokens, [*tokens[1:], b""], strict=True):
        if token == b"(" and following in (b"?", b"*"):
            raise ValueError(f"a group that begins with ({following.decode()} is not supported")


def _translated(token: bytes) -> bytes:
    """A part in the syntax of the backtracking engine."""
    if token.startswith(rb"\Q"):
        return re.escape(token[2:].removesuffix(rb"\E"))
    return _TRANSLATIONS.get(token, token)


_TRANSLATIONS = {
    rb"\z": rb"\Z",
    rb"\Z": rb"(?=\n?\Z)",
    # In PCRE a brace that begins no repeat is an ordinary character; in this engine it may begin an
    # approximate match.
    b"{": rb"\{",
}
