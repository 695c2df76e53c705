"""Where the messages of a move go: the route of each, whether it may go there, and what it is there.

Used by ``vhosts.moves``, which says what a move is.
"""

from __future__ import annotations

from dataclasses import dataclass

from amqp_router.protocol import flags
from amqp_router.protocol.errors import FieldError, PreconditionFailed
from amqp_router.protocol.frames import COMPLETE, NO_EXPIRY, ContentScan
from amqp_router.protocol.message import Message
from amqp_router.protocol.properties import decode_properties
from amqp_router.protocol.shown import shown
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import RouteCache, RoutingTable, may_select, publish_args
from vhosts.exchanges.walk import Walk
from vhosts.publishing.checks import expiration_ms
from vhosts.queues.delayed import routing_key_of
from vhosts.queues.handle import QueueHandle

#: Queues of a route that are asked whether they have room.
LIMITS_LOOKED_AT = 64
#: What a full queue may deliver first, in units of ``QueueHandle.deliver_due``.
DELIVERED_UNITS = 2048

NO_PROPERTIES = b"\x00\x00"
_SCAN = ContentScan()


class Search:
    """A message that was taken and whose route takes more than one turn to find."""

    def __init__(self, message: Message, made: Message, args: bytes) -> None:
        self.message = message
        self.made = made
        self.args = args
        self.walk: Walk | None = None


class Ending(Exception):
    """The move cannot go on; the text says why."""


@dataclass(frozen=True)
class Target:
    """Where the messages go: ``queue``, or the exchange of that name.

    ``cache`` finds the routes and checks the user's permissions; ``routing_key`` None is each message's own.
    """

    table: RoutingTable
    cache: RouteCache
    queue: QueueHandle | None = None
    exchange: str = ""
    routing_key: str | None = None

    def search(self, message: Message) -> Search:
        """``message``, which was taken, as it is to be published.

        Raises:
            FieldError: its properties are malformed.
            PersistenceError, OSError: its content cannot be read.
        """
        made = _made(message)
        key = self.routing_key
        args = publish_args(self.exchange, routing_key_of(message) if key is None else key)
        made.route = args[2 : len(args) - 1]
        return Search(message, made, args)

    def route_of(self, search: Search) -> Route | None:
        """Where a message goes; None if that takes another turn to find.

        Raises:
            AMQPError: there is no such exchange, or the user may not publish there.
        """
        cache = self.cache
        cache.units = 0
        # One for a queue goes there alone.
        properties = NO_PROPERTIES if self.queue is not None else search.made.properties()
        walk, search.walk = search.walk, None
        route = cache.find(search.args) if walk is None and not may_select(properties) else None
        if route is None:
            route = cache.resolve(search.args, properties, walk)
            search.walk = cache.take_unfinished()
        return route

    def check(self, search: Search, route: Route, source: QueueHandle) -> None:
        """See that the message may go where ``route`` leads.

        Raises:
            Ending: it may not.
        """
        queues = route.queues
        if not queues:
            key = routing_key_of(search.made)
            raise Ending(f"no queue takes messages of {self._said()} with the routing key '{key}'")
        if source in queues:
            key = routing_key_of(search.made)
            raise Ending(f"{self._said()} routes the key '{key}' back to {named(source)}")
        for index in range(min(len(queues), LIMITS_LOOKED_AT)):
            if _is_full(queues[index], search.made):
                raise Ending(f"{named(queues[index])} is full")

    def _said(self) -> str:
        return f"exchange '{self.exchange}'" if self.exchange else "the default exchange"


def _made(message: Message) -> Message:
    """The message that is published.

    Raises:
        FieldError: its properties are malformed.
        PersistenceError, OSError: its content cannot be read.
    """
    seen = shown(message, False)  # no client sees BCC, so none could publish it again
    content = seen.content
    assert content is not None
    made = seen.copy()
    if not isinstance(content, (bytes, tuple)):
        # The frames of a large message are read from the source, which will not keep it.
        made.content = tuple([content[index] for index in range(len(content))])
    scan = _SCAN
    if scan.header(content if isinstance(content, bytes) else content[0], 0) != COMPLETE:
        raise FieldError("malformed properties")
    made.flags = flags.PERSISTENT if scan.persistent else 0
    made.priority = scan.priority
    made.expire_ms = scan.expire_ms
    made.deadline_us = 0
    made.extras = None
    if scan.flags & flags.HAS_EXPIRATION and scan.expire_ms >= NO_EXPIRY - 1:
        made.expire_ms = _odd_expiration(made)
    return made


def named(queue: QueueHandle) -> str:
    """``queue`` as texts name it."""
    return f"queue '{queue.name}' in vhost '{queue.vhost.name}'"


def why(queue: QueueHandle) -> str:
    """Why ``queue`` has not taken a message."""
    if queue.deleted:
        return f"{named(queue)} was deleted"
    if queue.takes_messages():
        return f"{named(queue)} is full and refuses messages"
    return f"{named(queue)} takes no messages: {queue.reason}"


def _is_full(queue: QueueHandle, message: Message) -> bool:
    """Whether ``queue`` has no room for the message: it would refuse it, or drop its oldest for it."""
    view = queue.view()
    settings = view.settings()
    length, octets = settings.max_length, settings.max_length_bytes
    if length is None and octets is None:
        return False
    for _ in range(2):
        is_short = length is not None and queue.message_count() >= length
        if not is_short and (octets is None or (view.body_bytes() or 0) + message.body_size <= octets):
            return False
        if not queue.has_due():
            break
        queue.deliver_due(DELIVERED_UNITS)  # a ready consumer, or time, may have made room already
    return True


def _odd_expiration(message: Message) -> int:
    """The time to live of a message that writes it in another way than with digits alone."""
    try:
        expiration = str(decode_properties(message.properties()).get("expiration", ""))
        return expiration_ms(expiration)
    except PreconditionFailed as error:
        raise FieldError(error.text) from None
