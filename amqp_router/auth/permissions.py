"""What a user may do in a virtual host: three regular expressions over the names of exchanges and queues.

``configure`` covers declaring and deleting, ``write`` publishing and being bound, ``read`` consuming and
being bound from. Which operation needs what on which object is a table of semantics 2.13; the channel asks.

A pattern is searched in the bytes of a name, unanchored; the empty one matches only the empty name. Patterns
are those of Perl, as far as Python knows them: POSIX classes, ``\\z`` and ``\\Z`` are translated.

Source: RabbitMQ's access control guide; semantics 2.13 (texts).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

from amqp_router.protocol.errors import AccessRefused
from persistence.definitions import PermissionRow

Action: TypeAlias = Literal["configure", "write", "read"]
Kind: TypeAlias = Literal["exchange", "queue"]

#: The default exchange has no name; this one stands for it in patterns and in texts.
DEFAULT_EXCHANGE = "amq.default"

#: Granted names remembered by one ``Permissions``.
GRANTED_MAX = 1000


class Permissions:
    """The permissions of one user in one virtual host, as they are at each moment.

    Args:
        user: Name of the user, for the texts.
        vhost: Name of the virtual host, for the texts.
        find: Gives the row that holds now, or None if the user has no permission at all.
        generation: Gives a number that changes whenever ``find`` may answer differently.
    """

    def __init__(
        self,
        user: str,
        vhost: str,
        *,
        find: Callable[[], PermissionRow | None],
        generation: Callable[[], int],
    ) -> None:
        self.user = user
        self.vhost = vhost
        self._find = find
        self._current = generation
        self._generation = -1
        self._row: PermissionRow | None = None
        self._granted: set[tuple[str, str]] = set()

    def check(self, action: Action, kind: Kind, name: str) -> None:
        """Let the call pass if the user may do ``action`` on the exchange or queue ``name``.

        Raises:
            AccessRefused: it may not.
        """
        if kind == "exchange" and not name:
            name = DEFAULT_EXCHANGE
        if self._generation != (generation := self._current()):
            self._generation = generation
            self._row = self._find()
            self._granted.clear()
        if (action, name) in self._granted:
            return
        if self._row is None or not _matches(getattr(self._row, action), name):
            raise AccessRefused(
                f"access to {kind} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )
        if len(self._granted) >= GRANTED_MAX:
            self._granted.clear()
        self._granted.add((action, name))


@lru_cache(maxsize=1000)
def compile_pattern(pattern: str) -> re.Pattern[bytes]:
    """Compile a permission's pattern.

    Raises:
        ValueError: it is no regular expression; the text says why and where.
    """
    if not pattern:
        return re.compile(rb"^\Z")
    data = pattern.encode(errors="surrogateescape")
    try:
        return re.compile(_PERL_ONLY.sub(_translated, data))
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def _matches(pattern: str, name: str) -> bool:
    return compile_pattern(pattern).search(name.encode(errors="surrogateescape")) is not None


def _translated(found: re.Match[bytes]) -> bytes:
    return _TRANSLATIONS.get(found[0], found[0])


_TRANSLATIONS = {
    rb"\z": rb"\Z",
    rb"\Z": rb"(?=\n?\Z)",
    b"[:alnum:]": b"a-zA-Z0-9",
    b"[:alpha:]": b"a-zA-Z",
    b"[:blank:]": rb" \t",
    b"[:cntrl:]": rb"\x00-\x1f\x7f",
    b"[:digit:]": b"0-9",
    b"[:graph:]": rb"\x21-\x7e",
    b"[:lower:]": b"a-z",
    b"[:print:]": rb"\x20-\x7e",
    b"[:punct:]": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"[:space:]": rb" \t\n\r\f\v",
    b"[:upper:]": b"A-Z",
    b"[:word:]": rb"\w",
    b"[:xdigit:]": b"0-9a-fA-F",
}

#: Any escape, so that a backslash before ours is not taken for its beginning; or a POSIX class.
_PERL_ONLY = re.compile(rb"\\.|\[:[a-z]+:\]", re.DOTALL)
