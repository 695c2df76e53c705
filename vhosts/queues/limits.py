"""How long a queue may become, and what happens beyond that.

Only ready messages count, and of those only bodies. Under "drop-head" the oldest messages leave as soon as
nobody can take them. Under "reject-publish" a message for which there is no room is refused, and its
publisher hears of it.

Source: RabbitMQ, "Queue Length Limit"; what counts as measured with 3.10.8.
"""

from __future__ import annotations

from amqp_router.protocol.message import Message
from vhosts.queues.ready.order import ReadyOrder
from vhosts.queues.settings import QueueSettings

#: ``Limits.overflow``.
DROP_HEAD = "drop-head"
REJECT_PUBLISH = "reject-publish"
REJECT_PUBLISH_DLX = "reject-publish-dlx"

_NONE = 1 << 62


class Limits:
    """The limits of one queue."""

    __slots__ = ("is_set", "length", "octets", "overflow", "rejects")

    def __init__(self) -> None:
        self.is_set = False
        self.length = _NONE
        #: Sum of the bodies' octets.
        self.octets = _NONE
        self.overflow = DROP_HEAD
        #: Whether new messages are refused, and not old ones dropped.
        self.rejects = False

    def apply(self, settings: QueueSettings) -> None:
        """Obey ``settings``."""
        length, octets = settings.max_length, settings.max_length_bytes
        self.is_set = length is not None or octets is not None
        self.length = _NONE if length is None else length
        self.octets = _NONE if octets is None else octets
        self.overflow = settings.overflow
        self.rejects = self.overflow != DROP_HEAD

    def has_room(self, ready: ReadyOrder, message: Message) -> bool:
        """Whether ``message`` fits in beside what is ready."""
        return ready.count < self.length and ready.body_bytes + message.body_size <= self.octets

    def is_exceeded(self, ready: ReadyOrder) -> bool:
        """Whether the oldest message has to leave."""
        return not self.rejects and (ready.count > self.length or ready.body_bytes > self.octets)

    def is_exceeded_without(self, ready: ReadyOrder, newest: int) -> bool:
        """As ``is_exceeded``, if the ``newest`` messages do not count in the length. Their octets do: nobody
        knows how many those are.
        """
        return not self.rejects and (ready.count - newest > self.length or ready.body_bytes > self.octets)
