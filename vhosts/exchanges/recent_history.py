"""Recent-history exchange, type ``x-recent-history``: a fanout that also keeps the last messages.

A queue or exchange that is bound to it gets what is kept, oldest first, and further messages from then on.
The argument ``x-recent-history-length`` says how many are kept, by default 20. A message whose header
``x-recent-history-no-store`` is true is not kept.

The history is in memory only, as RabbitMQ's is, and counts as memory that clients keep. It never holds more
than ``HISTORY_BYTES_MAX``, and less when the node's memory is short: the oldest messages go first.

Source: RabbitMQ's plugin rabbitmq_recent_history_exchange; measured on 3.10.8.
"""

from __future__ import annotations

from collections import deque
from typing import Unpack

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import Field
from amqp_router.protocol.message import Message
from amqp_router.protocol.properties import headers_named
from vhosts.errors import erlang
from vhosts.exchanges.exchange import NOT_REPEATABLE, Binding, ExchangeOptions, Surroundings
from vhosts.exchanges.fanout import FanoutExchange

LENGTH = "x-recent-history-length"
NO_STORE = "x-recent-history-no-store"
LENGTH_DEFAULT = 20
#: Octets of the messages that one exchange keeps.
HISTORY_BYTES_MAX = 16 << 20
#: Memory of a kept message apart from its content.
MESSAGE_BYTES = 200

_TRUE = ("t", True)
_INTEGER_TAGS = frozenset("bBsuIilL")


class RecentHistoryExchange(FanoutExchange):
    """Keeps the messages in ``history``."""

    decided_by = NOT_REPEATABLE
    keeps = True

    def __init__(self, name: str, type_name: str, **options: Unpack[ExchangeOptions]) -> None:
        super().__init__(name, type_name, **options)
        #: How many messages are kept.
        self.length = _length(self.arguments.get(LENGTH, ("I", LENGTH_DEFAULT)))
        self.history: deque[Message] = deque()
        #: The memory that they take, in octets.
        self._bytes = 0
        self._surroundings: Surroundings | None = None

    def memory_bytes(self) -> int:
        """See ``Exchange``."""
        return super().memory_bytes() + self._bytes

    def enter(self, surroundings: Surroundings) -> None:
        """See ``Exchange``."""
        self._surroundings = surroundings

    def keep(self, message: Message) -> None:
        """See ``Exchange``."""
        headers = headers_named(message.properties(), NO_STORE)
        if self._surroundings is None or self.deleted or headers.get(NO_STORE) == _TRUE:
            return
        size = MESSAGE_BYTES + message.size()
        account = self._surroundings.account
        history = self.history
        while history and (
            len(history) >= self.length
            or self._bytes + size > HISTORY_BYTES_MAX
            or not account.has_room_to_keep(size)
        ):
            self._count(-MESSAGE_BYTES - history.popleft().size())
        if size <= HISTORY_BYTES_MAX and account.has_room_to_keep(size):
            history.append(message.copy())
            self._count(size)

    def _count(self, size: int) -> None:
        assert self._surroundings is not None
        self._surroundings.account.kept += size
        self._bytes += size

    def bound(self, binding: Binding) -> None:
        """See ``Exchange``."""
        if self.history and self._surroundings is not None:
            self._surroundings.pass_on(binding.destination, list(self.history))


def _length(field: Field) -> int:
    """The value of ``LENGTH``.

    Raises:
        PreconditionFailed: it is not positive (406).
    """
    tag, value = field
    if tag not in _INTEGER_TAGS or value <= 0:
        raise PreconditionFailed(f"Invalid argument {erlang(value)}, '{LENGTH}' must be a positive integer")
    return int(value)
