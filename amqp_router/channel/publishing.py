"""The channel's publishing side: one message from its frames to the queues of its route.

Consecutive publishes with the same route that wait for logs form one ``Run``. It begins with the first
publish, counts the others, and goes to the queues when the route changes or the chunk ends. A publish that
needs no log is confirmed at the end of the tick.

Source: AMQP 0-9-1, basic.publish (60.40) and basic.return (60.50).
"""

from __future__ import annotations

import re
from typing import Any

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.flags import PERSISTENT
from amqp_router.protocol.frames import ODD_MODE, ContentScan
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.output import ANSWER_SHIFT, Output
from amqp_router.protocol.properties import decode_properties
from persistence.memory import MemoryBudget
from vhosts.counters import ExchangeCounters
from vhosts.exchanges.router import Route, RouteCache, RoutingTable
from vhosts.exchanges.sender_selected import without_bcc
from vhosts.exchanges.walk import Walk
from vhosts.queues.handle import QueueHandle, Run

#: Queues that get a message in one turn of the event loop; some two milliseconds if they are durable.
SPREAD_SLICE = 2048
#: Work on disk for one message, in enqueues, after which the other queues get it in a later turn.
SPREAD_WORK = 1024

# C integers where compiled (see publishing.pxd).
_PERSISTENT = PERSISTENT
_MANDATORY = 1
_SPREAD_SLICE = SPREAD_SLICE
_SPREAD_WORK = SPREAD_WORK
_ANSWER_SHIFT = ANSWER_SHIFT
# Flags of a record in the routing log (persistence/log/FORMAT.md).
_NOTED_PERSISTENT = 1
_NOTED_MANDATORY = 2
_NOTED_UNROUTABLE = 4
_NOTED_RETURNED = 8
_NOTED_CONFIRMED = 16
_NOTED_REFUSED = 32
_HEADERS = 1 << 13
_REPLY_TO = 1 << 9
_ODD_MODE = ODD_MODE
_CHECKED = (1 << 8) | (1 << 4)  # expiration, user id
_SPECIAL = ODD_MODE | (1 << 13) | (1 << 9) | (1 << 8) | (1 << 4)  # all of these
_INTEGER = re.compile("[+-]?[0-9]+")
_NO_PROPERTIES = b"\x00\x00"

DIRECT_REPLY = "amq.rabbitmq.reply-to"
_DIRECT_REPLY_FIELD = b"\x15amq.rabbitmq.reply-to"


class Inflow:
    """Body bytes of one connection that are published and not yet synced.

    Above ``limit`` the connection is not read; ``resume()`` is called when it is down to half.
    """

    __slots__ = ("limit", "over", "resume", "unsynced")

    def __init__(self) -> None:
        self.unsynced = 0
        self.limit = 0
        self.over = False
        self.resume: Any = None

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


class Spread:
    """A message on its way to very many queues, or to many that write it to disk, some in each turn.

    Its publisher's later frames wait meanwhile. Others may publish to the same queues between two slices, or
    delete queues.
    """

    __slots__ = ("flags", "message", "position", "publishing", "queues", "route", "run", "taken")

    def __init__(self) -> None:
        self.publishing: Publishing
        self.route: Route
        #: Those of the route, which may let go of them.
        self.queues: list[QueueHandle]
        self.message: Message
        #: Those of the publish in the routing log.
        self.flags = 0
        #: How many of the route's queues have had their turn.
        self.position = 0
        #: Whether none has refused the message.
        self.taken = True
        #: Waits for the logs; None if the message waits for none.
        self.run: Run | None = None

    def go_on(self) -> bool:
        """A step of ``listener.in_slices``: the next slice; True at the end."""
        queues = self.queues
        end = min(self.position + _SPREAD_SLICE, len(queues))
        run = self.run
        account = self.publishing.account
        unstored = self.publishing.table.unstored
        account.work = 0
        index = self.position
        while index < end and account.work < _SPREAD_WORK:
            queue = queues[index]
            index += 1
            if queue.deleted:
                # Until its removal is stored, a crash brings it back, without the message.
                if run is not None and queue.durable and unstored.rev:
                    unstored.hold(run, unstored.rev)
                continue
            if not queue.publish(self.message.copy()):
                self.taken = False
            elif run is not None and queue.durable:
                queue.await_durable(run)
        account.work = 0  # a slice is what the publisher is charged with
        self.position = index
        if index < len(queues):
            return False
        self.publishing.spread_done(self)
        return True


class Publishing:
    """Publishes of one channel."""

    __slots__ = (
        "account",
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
        "on_return",
        "open_runs",
        "out",
        "publish_total",
        "return_total",
        "run",
        "run_queues",
        "run_route",
        "table",
        "user",
        "walk",
    )

    def __init__(self) -> None:
        self.number = 0
        self.cache: RouteCache
        #: The virtual host's table on which cached routes depend.
        self.table: RoutingTable
        #: Name of the authenticated user, which a message's user_id must equal.
        self.user = ""
        self.out: Output
        self.inflow: Inflow
        #: None unless ``confirming``.
        self.confirms: Any = None
        self.confirming = False
        #: The node's account, which has the work on disk that a publish causes.
        self.account: MemoryBudget
        #: The channel; gets what is too much for one turn.
        self.listener: Any = None
        self.next_sequence = 1
        self.last_args = b""
        self.last_route: Route | None = None
        #: The unfinished walk of a message whose route was too much for one turn; the message comes again.
        self.walk: Walk | None = None
        self.run: Run | None = None
        self.run_route: Any = None
        #: The durable queues of that route, which may let go of them.
        self.run_queues: list[QueueHandle] = []
        #: The connection's list of channels with an open run; closed when its chunk is done.
        self.open_runs: list[Publishing] = []
        self.publish_total = 0
        self.return_total = 0
        #: Unroutable messages that were not returned, because the publisher did not set ``mandatory``.
        self.drop_total = 0

    def publish(self, args: bytes, content: Any, scan: ContentScan, frame_count: int) -> int:
        """Route one message; returns its cost in enqueues: one a queue, one for 16 exchanges between.

        0 if its route is too much for one turn of the event loop: the caller passes it again in the next
        turn.
        ``args`` are the method's argument octets, ``content`` its frames, ``scan`` what was read from the
        content header.

        Raises:
            NotFound, AccessRefused, PreconditionFailed: the channel closes.
            NotImplementedByServer: ``immediate`` was asked for (540).
        """
        route = self.last_route
        units = 0
        if scan.flags & _SPECIAL and self._inspect(args, content, scan):
            route = self.cache.resolve(args, _properties(content, scan.header_size), self.walk)
            units = self.cache.units
            self.walk = self.cache.take_unfinished()
        elif route is None or args != self.last_args or route.generation != self.table.generation:
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
        flags = _NOTED_MANDATORY if args[len(args) - 1] & _MANDATORY else 0
        if route.has_bcc:
            return units + self._publish_without_bcc(route, content, scan, flags)
        message = Message()
        message.content = content
        message.route = route.route
        message.header_size = scan.header_size
        message.body_size = scan.body_size
        message.frame_payload = scan.frame_payload
        message.frame_count = frame_count
        message.channel = self.number
        if scan.persistent:
            message.flags = _PERSISTENT
        return units + self._distribute(route, message, flags)

    def _distribute(self, route: Route, message: Message, flags: int) -> int:
        """Give the message to its queues; returns the cost: one for each queue, 1 without any, more if it is
        returned.

        ``flags`` are those of the publish in the routing log.
        """
        self.publish_total += 1
        persistent = message.flags & _PERSISTENT != 0
        size = message.body_size
        taken = True
        units = 0
        queue = route.single
        if queue is not None:
            count = 1
            taken = queue.publish(message)
        else:
            queues = route.queues
            count = len(queues)
            if count > _SPREAD_SLICE:
                return self._spread(route, message, flags, 0, True)
            for index in range(count):
                queue = queues[index]
                if not queue.publish(message if index == count - 1 else message.copy()):
                    taken = False
                if self.account.work >= _SPREAD_WORK and index + 1 < count:
                    return self._spread(route, message, flags, index + 1, taken)
            if count == 0:
                flags |= _NOTED_UNROUTABLE
                route.counters.unroutable += 1
                self.table.unroutable.note(route.exchange, route.routing_key)
                if route.mandatory:
                    flags |= _NOTED_RETURNED
                    self._return(route, message)
                    units = message.size() >> _ANSWER_SHIFT
                else:
                    self.drop_total += 1
        if persistent:
            flags |= _NOTED_PERSISTENT
        if not taken:
            flags |= _NOTED_REFUSED
        self._note(route, size, count, flags)
        if (
            persistent
            and taken
            and (len(route.durable_queues) > 0 or (route.waits_for > 0 and self.confirming))
        ):
            self._wait(route, size)
        elif self.confirming:
            if self.run is not None:
                self.close_run()
            self.confirms.settle(self.next_sequence, self.next_sequence, not taken)
            self.next_sequence += 1
        count += (len(route.inner) >> 4) + units
        if self.account.work > 0:
            count += self.account.take_work()
        return count if count > 0 else 1

    def _note(self, route: Route, size: int, count: int, flags: int) -> int:
        """Count a message that went to ``count`` queues, and write it into the routing log."""
        route.counters.publish_in += 1
        route.counters.publish_out += count
        if len(route.inner) > 0:
            _count_inner(route)
        entry = route.entry
        if entry is None:
            entry = self.table.default_entry(route)
        if entry is not None:
            if self.confirming:
                flags |= _NOTED_CONFIRMED
            if entry.recorder.note(entry, size, flags):
                entry.recorder.backlog.hold(self.inflow)
        return 0

    def _spread(self, route: Route, message: Message, flags: int, position: int, taken: bool) -> int:
        """Give the message in slices to the queues from ``position`` on; returns the cost of the first.

        The queues before that have it, and ``taken`` says whether none refused it.
        """
        self.close_run()
        spread = Spread()
        spread.publishing = self
        spread.route = route
        spread.queues = route.queues
        spread.message = message
        spread.flags = flags
        spread.position = position
        spread.taken = taken
        if message.flags & _PERSISTENT and (
            len(route.durable_queues) > 0 or (route.waits_for > 0 and self.confirming)
        ):
            run = Run()
            run.listener = self
            run.first = self.next_sequence if self.confirming else 0
            run.last = self.next_sequence
            run.bytes = message.body_size
            run.remaining = 1
            if route.waits_for > 0 and run.first > 0 and not self.table.unstored.hold(run, route.waits_for):
                route.waits_for = 0
            self.inflow.add(message.body_size)
            spread.run = run
            for index in range(position):
                queue = spread.queues[index]
                if queue.durable:
                    queue.await_durable(run)
        self.listener.in_slices(spread.go_on)
        return _SPREAD_SLICE

    def spread_done(self, spread: Spread) -> None:
        """All queues have the message of ``spread``, or have refused it."""
        message = spread.message
        flags = spread.flags
        if message.flags & _PERSISTENT:
            flags |= _NOTED_PERSISTENT
        if not spread.taken:
            flags |= _NOTED_REFUSED
        self._note(spread.route, message.body_size, len(spread.queues), flags)
        run = spread.run
        if run is not None:
            run.settled(not spread.taken)
        elif self.confirming:
            self.confirms.settle(self.next_sequence, self.next_sequence, not spread.taken)
        if self.confirming:
            self.next_sequence += 1

    def _publish_without_bcc(self, route: Route, content: Any, scan: ContentScan, flags: int) -> int:
        """The header BCC must not be delivered: build the message's frames without it."""
        original = Message()
        original.content = content
        original.header_size = scan.header_size
        properties = without_bcc(original.properties())
        message = build_message(route.route, properties, original.body(), max(int(scan.frame_payload), 4088))
        if scan.persistent:
            message.flags = _PERSISTENT
        return self._distribute(route, message, flags)

    def _wait(self, route: Route, size: int) -> None:
        run = self.run
        if run is None or self.run_route is not route:
            if run is not None:
                self.close_run()
            run = Run()
            run.listener = self
            # Without confirm mode the run gets no numbers. Otherwise it could confirm a later publish after
            # confirm.select.
            run.first = self.next_sequence if self.confirming else 0
            run.last = self.next_sequence
            self.run = run
            self.run_route = route
            self.run_queues = route.durable_queues
            self.open_runs.append(self)
        else:
            run.last = self.next_sequence
        run.bytes += size
        self.inflow.add(size)
        if self.confirming:
            self.next_sequence += 1

    def close_run(self) -> None:
        """Hand the open run, if there is one, to its queues."""
        run = self.run
        if run is None:
            return
        self.run = None
        route = self.run_route
        self.run_route = None
        queues = self.run_queues
        self.run_queues = []
        run.remaining = 1
        if route.waits_for > 0 and run.first > 0 and not self.table.unstored.hold(run, route.waits_for):
            route.waits_for = 0
        for index in range(len(queues)):
            queue: QueueHandle = queues[index]
            queue.await_durable(run)
        run.settled(False)

    def run_done(self, run: Run) -> None:
        """All logs have the run on disk, or one has failed."""
        self.inflow.remove(run.bytes)
        if self.confirming and run.first > 0 and self.confirms is not None:
            self.confirms.settle(run.first, run.last, run.failed)

    def _inspect(self, args: bytes, content: Any, scan: ContentScan) -> bool:
        """Check the properties that the broker uses; True if the message has CC or BCC."""
        properties = _properties(content, scan.header_size)
        if scan.flags & _CHECKED or (scan.flags & _REPLY_TO and _DIRECT_REPLY_FIELD in properties):
            try:
                self._check(decode_properties(properties))
            except PreconditionFailed:
                # As in RabbitMQ, errors about the exchange come before those about properties.
                self.cache.resolve(args, _NO_PROPERTIES)
                raise
        if scan.flags & _ODD_MODE:
            self.cache.resolve(args, properties)  # here errors about CC and BCC come first as well
            mode = decode_properties(properties)["delivery_mode"]
            raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{mode}}}")
        if not scan.flags & _HEADERS:
            return False
        return b"\x02CC" in properties or b"\x03BCC" in properties

    def _check(self, properties: dict[str, Any]) -> None:
        user_id = properties.get("user_id")
        if user_id is not None and user_id != self.user:
            raise PreconditionFailed(
                f"user_id property set to '{user_id}' but authenticated user was '{self.user}'"
            )
        if properties.get("reply_to") == DIRECT_REPLY:
            # The pseudo-queue cannot have a consumer, because direct reply-to is not supported yet.
            raise PreconditionFailed("fast reply consumer does not exist")
        expiration = properties.get("expiration")
        if expiration is not None:
            _check_expiration(expiration)

    def _return(self, route: Route, message: Message) -> None:
        self.return_total += 1
        out = self.out
        text = b"NO_ROUTE"
        size = 4 + 2 + 1 + len(text) + len(route.route)
        buf = out.buf
        buf.u8(1)
        buf.u16(self.number)
        buf.u32(size)
        buf.u16(60)
        buf.u16(50)
        buf.u16(312)
        buf.u8(len(text))
        buf.put(text)
        buf.put(route.route)
        buf.u8(0xCE)
        # The publisher gets its own frames back, so none is larger than it accepts.
        out.answer(message, self.number, 1 << 31)
        out.touch()


def _count_inner(route: Route) -> None:
    """Count the message in the exchanges between the first one and the queues."""
    inner = route.inner
    for index in range(len(inner)):
        pair = inner[index]
        counters: ExchangeCounters = pair[0]
        counters.inner_in += 1
        counters.inner_out += pair[1]


def _check_expiration(expiration: str) -> None:
    number = _INTEGER.match(expiration)
    if number is None:
        raise PreconditionFailed(f"invalid expiration '{expiration}': no_integer")
    rest = expiration[number.end() :]
    if rest:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{leftover_string,\"{rest}\"}}")
    if int(number[0]) < 0:
        raise PreconditionFailed(f"invalid expiration '{expiration}': {{value_negative,{int(number[0])}}}")
    raise PreconditionFailed("per-message TTL (property 'expiration') is not supported yet")


def _properties(content: Any, header_size: int) -> bytes:
    header: bytes = content[0] if isinstance(content, tuple) else content
    return header[19 : header_size - 1]
