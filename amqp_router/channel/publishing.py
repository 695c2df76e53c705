"""The channel's publishing side: AMQP's part of a publish, before and after the publish service.

Here are the properties that a client may not set, sequence numbers, returns and confirms, and the flow
control of the connection. ``vhosts.publishing.publisher`` does the rest. A publish that needs no log is
confirmed at the end of the tick.

Source: AMQP 0-9-1, basic.publish (60.40) and basic.return (60.50).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_router.channel.confirms import Confirms
from amqp_router.channel.listener import ChannelListener
from amqp_router.protocol import constants
from amqp_router.protocol import flags as bits
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.frames import NO_EXPIRY, ODD_MODE, ContentScan
from amqp_router.protocol.message import Message, with_properties
from amqp_router.protocol.output import ANSWER_SHIFT, Output
from amqp_router.protocol.properties import decode_properties, reply_to_range
from amqp_router.protocol.shown import shown
from persistence.log.routing import events
from vhosts.exchanges.route import Route, lasting
from vhosts.exchanges.router import RouteCache
from vhosts.exchanges.walk import Walk
from vhosts.publishing.checks import DIRECT_REPLY, check_delivery_mode, check_properties, expiration_ms
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Flow, Listener, Run
from vhosts.publishing.publisher import Publisher
from vhosts.queues.handle import QueueHandle

# C integers where compiled (see publishing.pxd).
_MANDATORY_BIT = 1
_UNROUTABLE = int(Outcome.UNROUTABLE)
_NOT_TAKEN = int(Outcome.REFUSED | Outcome.FAILED)
_WAITS = int(Outcome.WAITS)
_LATER = int(Outcome.LATER)
_ANSWER_SHIFT = ANSWER_SHIFT
_ODD_MODE = ODD_MODE
_NO_EXPIRY = NO_EXPIRY
_SPECIAL = ODD_MODE | bits.HAS_HEADERS | bits.HAS_REPLY_TO | bits.HAS_EXPIRATION | bits.HAS_USER_ID
#: Cost of a message whose properties are read one by one, beside its queues.
INSPECT_UNITS = 16
_NO_PROPERTIES = b"\x00\x00"
_DIRECT_REPLY_FIELD = b"%c%b" % (len(DIRECT_REPLY), DIRECT_REPLY.encode())


class Inflow(Flow):
    """Body bytes of one connection that are published and not yet synced.

    Above ``limit`` the connection is not read; ``resume()`` is called when it is down to half.
    """

    __slots__ = ("over", "resume", "unsynced")

    def __init__(self) -> None:
        super().__init__()
        self.unsynced = 0
        self.over = False
        self.resume: Callable[[], None] | None = None

    def add(self, size: int) -> None:
        self.unsynced += size
        if self.unsynced > self.limit:
            self.over = True

    def remove(self, size: int) -> None:
        self.unsynced -= size
        if self.over and self.unsynced <= self.limit // 2:
            self.over = False
            if self.resume is not None:
                self.resume()


class TransactionPort:
    """Where the messages of a transactional channel wait (``channel.transactions``)."""

    __slots__ = ()

    def publish(self, route: Route, message: Message, flags: int) -> int:
        """Let ``message`` wait for the commit; returns the cost in enqueues."""
        raise AssertionError("a transaction must keep its messages")


class Publishing(Listener):
    """Publishes of one channel. It is the listener of its ``publisher``."""

    __slots__ = (
        "cache",
        "confirming",
        "confirms",
        "drop_total",
        "inflow",
        "last_args",
        "last_route",
        "listener",
        "next_sequence",
        "number",
        "out",
        "publish_total",
        "publisher",
        "reply_to",
        "return_total",
        "transaction",
        "user",
        "walk",
    )

    def __init__(self) -> None:
        self.number = 0
        self.cache: RouteCache
        self.publisher: Publisher
        #: Name of the authenticated user, which a message's user_id must equal.
        self.user = ""
        self.out: Output
        self.inflow: Inflow
        #: None unless ``confirming``.
        self.confirms: Confirms | None = None
        self.confirming = False
        #: The channel; gets what is too much for one turn.
        self.listener: ChannelListener | None = None
        self.next_sequence = 1
        self.last_args = b""
        self.last_route: Route | None = None
        #: The unfinished walk of a message whose route was too much for one turn; the message comes again.
        self.walk: Walk | None = None
        #: Keeps messages until tx.commit; None unless the channel is transactional.
        self.transaction: TransactionPort | None = None
        #: Where replies to this channel are published, for direct reply-to; empty if it does not consume any.
        self.reply_to = b""
        self.publish_total = 0
        self.return_total = 0
        #: Unroutable messages that were not returned, because the publisher did not set ``mandatory``.
        self.drop_total = 0

    # The content is bytes, or frames of any kind of sequence.
    def publish(self, args: bytes, content: Any, scan: ContentScan, frame_count: int) -> int:
        """Publish one message; returns its cost in enqueues: one a queue, one for 16 exchanges between.

        0 if its route is too much for one turn of the event loop: the caller passes it again in the next
        turn.
        ``args`` are the method's argument octets, ``content`` its frames, ``scan`` what was read from the
        content header.

        Raises:
            NotFound, AccessRefused, PreconditionFailed: the channel closes.
            NotImplementedByServer: ``immediate`` was asked for (540).
        """
        publisher = self.publisher
        route = self.last_route
        units = 0
        if scan.flags & _SPECIAL and self._inspect(args, _properties(content, scan.header_size), scan):
            route = self.cache.resolve(args, _properties(content, scan.header_size), self.walk)
            units = self.cache.units
            self.walk = self.cache.take_unfinished()
        elif route is None or args != self.last_args or route.generation != publisher.table.generation:
            route = self.cache.find(args)
            if route is None:
                route = self.cache.resolve(args, _properties(content, scan.header_size), self.walk)
                units = self.cache.units
                self.walk = self.cache.take_unfinished()
                self.last_route = None
            else:
                self.last_args = args
                self.last_route = route
        if route is None:
            return 0
        message = Message()
        message.content = content
        message.route = route.route
        message.header_size = scan.header_size
        message.body_size = scan.body_size
        message.frame_payload = scan.frame_payload
        message.frame_count = frame_count
        message.channel = self.number
        message.priority = scan.priority
        message.expire_ms = scan.expire_ms
        if scan.persistent:
            message.flags = bits.PERSISTENT
        if scan.flags & bits.HAS_REPLY_TO and len(self.reply_to) > 0:
            _address(message, self.reply_to)
        size = message.body_size
        flags = events.MANDATORY if args[len(args) - 1] & _MANDATORY_BIT else 0
        if len(publisher.table.taps) > 0:
            units += self._tell_taps(route, message)
        if self.transaction is not None:
            if route.has_replies:
                return units + self._reply_at_once(route, message, flags)
            return units + self.transaction.publish(route, message, flags)
        self.publish_total += 1
        sequence = 0
        if self.confirming:
            sequence = self.next_sequence
            self.next_sequence += 1
        outcome = publisher.publish(route, message, sequence, flags)
        units += publisher.units
        if outcome & _UNROUTABLE:
            units += self.unroutable(route, message, flags)
        elif flags and route.is_reply:
            # RabbitMQ sends back a mandatory reply also if it has found the requester (until 4.1).
            units += self.unroutable(route, message, flags)
        if not outcome & _LATER:
            self._answer(sequence, outcome, size)
        return units

    def _reply_at_once(self, route: Route, message: Message, flags: int) -> int:
        """Publish a direct reply in a transaction; returns the cost in enqueues.

        As in RabbitMQ its requester has it before the commit, and whatever becomes of the transaction. That a
        mandatory one comes back waits for the commit, and so do the other queues that CC or BCC names.
        """
        assert self.transaction is not None
        publisher = self.publisher
        if not route.is_reply:
            if route.has_bcc:
                message.flags |= bits.BLIND
            rest = lasting(route)
            rest.has_replies = False
            rest.lead_to(_others(route.queues, message), route.durable_queues)
            units = len(route.queues) - len(rest.queues)
            return units + self.transaction.publish(rest, message, flags)
        publisher.publish(route, message, 0, 0)
        units = publisher.units
        if flags:
            nowhere = lasting(route)
            nowhere.lead_to([], [])
            return units + self.transaction.publish(nowhere, message, flags)
        self.publish_total += 1
        return units

    def _answer(self, sequence: int, outcome: int, size: int) -> int:
        """The publish is over, but for what it waits for."""
        if outcome & _WAITS:
            self.inflow.add(size)
        elif sequence > 0 and self.confirms is not None:
            self.confirms.settle(sequence, sequence, outcome & _NOT_TAKEN != 0)
        return 0

    def unroutable(self, route: Route, message: Message, flags: int) -> int:
        """Return the message, if its publisher wants that; returns the cost."""
        if not flags & events.MANDATORY:
            self.drop_total += 1
            return 0
        self._return(route, message)
        return message.size() >> _ANSWER_SHIFT

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        self._answer(number, outcome, message.body_size)

    def run_done(self, run: Run) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        self.inflow.remove(run.bytes)
        if run.first > 0 and self.confirms is not None:
            self.confirms.settle(run.first, run.last, run.failed)

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``vhosts.publishing.ports.Listener``. The client's later frames wait."""
        assert self.listener is not None
        self.listener.in_slices(step)

    def _tell_taps(self, route: Route, message: Message) -> int:
        """Let those hear who hear of every publish; returns the cost."""
        publisher, listener = self.publisher, self.listener
        assert listener is not None
        for tap in list(publisher.table.taps):
            tap.on_publish(route, message, listener.actor())
        return publisher.account.take_work()

    def _inspect(self, args: bytes, properties: bytes, scan: ContentScan) -> bool:
        """Check the properties that the broker uses; True if the message has CC or BCC."""
        # A plain number of ms was read with the header.
        is_odd = scan.flags & bits.HAS_EXPIRATION and scan.expire_ms >= _NO_EXPIRY - 1
        may_be_direct = scan.flags & bits.HAS_REPLY_TO and _DIRECT_REPLY_FIELD in properties
        if is_odd or scan.flags & bits.HAS_USER_ID or may_be_direct:
            try:
                self.publisher.account.work += INSPECT_UNITS
                decoded = decode_properties(properties, True)
                check_properties(decoded, self.user, has_replies=len(self.reply_to) > 0)
                if is_odd:
                    scan.expire_ms = expiration_ms(decoded["expiration"])
            except PreconditionFailed:
                # As in RabbitMQ, errors about the exchange come before those about properties.
                self.cache.resolve(args, _NO_PROPERTIES)
                raise
        if scan.flags & _ODD_MODE:
            self.cache.resolve(args, properties)  # here errors about CC and BCC come first as well
            check_delivery_mode(decode_properties(properties, True))
        if not scan.flags & bits.HAS_HEADERS:
            return False
        return b"\x02CC" in properties or b"\x03BCC" in properties

    def _return(self, route: Route, message: Message) -> None:
        self.return_total += 1
        out = self.out
        text = b"NO_ROUTE"
        size = 4 + 2 + 1 + len(text) + len(route.route)
        buf = out.buf
        buf.u8(constants.FRAME_METHOD)
        buf.u16(self.number)
        buf.u32(size)
        buf.u16(60)
        buf.u16(50)
        buf.u16(312)
        buf.u8(len(text))
        buf.put(text)
        buf.put(route.route)
        buf.u8(constants.FRAME_END)
        # The publisher gets its own frames back, so none is larger than it accepts.
        out.answer(shown(message, False), self.number, 1 << 31)
        out.touch()


def _others(queues: list[QueueHandle], message: Message) -> list[QueueHandle]:
    """Give ``message`` to those of ``queues`` that are for direct replies; returns the others."""
    others: list[QueueHandle] = []
    for index in range(len(queues)):
        queue = queues[index]
        if queue.name.startswith(DIRECT_REPLY):
            queue.publish(message.copy())
        else:
            others.append(queue)
    return others


def _address(message: Message, reply_to: bytes) -> int:
    """Let the answer to ``message`` go to ``reply_to``, if its publisher asks for direct reply-to."""
    properties = message.properties()
    if _DIRECT_REPLY_FIELD not in properties:
        return 0
    start, end = reply_to_range(properties)
    if properties[start:end] != _DIRECT_REPLY_FIELD:
        return 0
    properties = b"%b%c%b%b" % (properties[:start], len(reply_to), reply_to, properties[end:])
    content: Any = message.content  # bytes, or frames of any kind of sequence
    old = content if isinstance(content, bytes) else content[0]
    header = with_properties(old, properties)
    if isinstance(content, bytes):
        message.content = header + content[message.header_size :]
    else:
        message.content = (header, *[content[index] for index in range(1, len(content))])
    message.header_size = len(header)
    return 0


def _properties(content: Any, header_size: int) -> bytes:  # the same
    header: bytes = content[0] if isinstance(content, tuple) else content
    return header[19 : header_size - 1]
