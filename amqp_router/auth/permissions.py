"""What a user may do in a virtual host: three regular expressions over the names of exchanges and queues.

``configure`` covers declaring and deleting, ``write`` publishing and being bound, ``read`` consuming and
being bound from. RabbitMQ's "Access Control" has a table of what each operation needs; the caller asks
accordingly.

A pattern is searched in the octets of a name, unanchored; the empty one matches only the empty name. One
that takes too long to match grants nothing.

Source: RabbitMQ, "Access Control". The texts are those of RabbitMQ 3.10.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

from amqp_router.protocol.errors import AccessRefused
from persistence.definitions import PermissionRow, TopicPermissionRow
from vhosts.patterns import Pattern, TooSlow, compile_pattern

Action: TypeAlias = Literal["configure", "write", "read"]
Kind: TypeAlias = Literal["exchange", "queue"]

#: The default exchange has no name; this one stands for it in patterns and in texts.
DEFAULT_EXCHANGE = "amq.default"

#: Granted names remembered by one ``Permissions``.
GRANTED_MAX = 1000
#: Compiled patterns remembered.
PATTERNS_MAX = 200


class Permissions:
    """The permissions of one user in one virtual host, as they are at each moment.

    Args:
        user: Name of the user, for the texts.
        vhost: Name of the virtual host, for the texts.
        find: Gives the row that holds now, or None if the user has no permission at all.
        find_topic: Gives the topic permission for an exchange, or None if there is none.
        generation: Gives a number that changes whenever the others may answer differently.
        may_read: Whether the user may at all bind to an exchange.
    """

    def __init__(
        self,
        user: str,
        vhost: str,
        *,
        find: Callable[[], PermissionRow | None],
        generation: Callable[[], int],
        find_topic: Callable[[str], TopicPermissionRow | None] = lambda exchange: None,
        may_read: Callable[[str], bool] = lambda exchange: True,
    ) -> None:
        self.user = user
        self.vhost = vhost
        self._find = find
        self._find_topic = find_topic
        self._may_read = may_read
        self._current = generation
        self._generation = -1
        self._row: PermissionRow | None = None
        self._granted: set[tuple[str, str]] = set()

    def check_topic(self, action: Literal["write", "read"], exchange: str, key: str) -> None:
        """Let the call pass if the user may publish to the topic exchange ``exchange`` with the routing key
        ``key`` (``write``), or bind to it with that (``read``). Without a topic permission it may.

        Raises:
            AccessRefused: it may not.
        """
        row = self._find_topic(exchange)
        if row is None:
            return
        pattern = getattr(row, action).replace("{username}", self.user).replace("{vhost}", self.vhost)
        if not _matches(pattern, key):
            raise AccessRefused(
                f"access to topic '{key}' in exchange '{exchange}' in vhost '{self.vhost}' refused for "
                f"user '{self.user}'"
            )

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
        is_kept_out = action == "read" and kind == "exchange" and not self._may_read(name)
        if (action, name) in self._granted and not is_kept_out:
            return
        if is_kept_out or self._row is None or not _matches(getattr(self._row, action), name):
            raise AccessRefused(
                f"access to {kind} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )
        if len(self._granted) >= GRANTED_MAX:
            self._granted.clear()
        self._granted.add((action, name))


@lru_cache(maxsize=PATTERNS_MAX)
def compile_permission(pattern: str) -> Pattern:
    """Compile a permission's pattern.

    Raises:
        ValueError: it is no regular expression, or too large; the text says why.
    """
    return compile_pattern(pattern or r"^\z")


def _matches(pattern: str, name: str) -> bool:
    try:
        return compile_permission(pattern).matches(name)
    except (ValueError, TooSlow):  # a row that an older version took; or years of backtracking
        return False
