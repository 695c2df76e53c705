"""The publish service: one message from its publisher to the queues of its route.

A publish has five duties, a function each: the queues get the message (``_give``), counters count it
(``_count``), the routing log notes it (``_note``), its run waits for the logs (``_wait``), and the publisher
is charged for the work (``_charge``). The outcome is returned; a receipt for what waits comes through the
listener.

Consecutive publishes with the same route that wait for logs form one ``Run``: it begins with the first,
counts the others, and goes to the queues when another run begins or ``close_run`` is called.

Nothing here awaits or keeps state across a call into a queue, so a queue may publish during its own turn,
also to itself. The work is charged to whoever called.

Compiled: see ``publisher.pxd``.
"""

from __future__ import annotations

from amqp_router.protocol import flags as bits
from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.message import Message
from persistence.log.routing import events
from persistence.memory import MemoryBudget
from vhosts.counters import ExchangeCounters
from vhosts.exchanges.exchange import Exchange
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import RouteCache, RoutingTable, publish_args
from vhosts.exchanges.walk import Walk
from vhosts.publishing.keeping import Keeping
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Flow, Listener, Run
from vhosts.publishing.spread import SPREAD_DURABLE, SPREAD_SLICE, SPREAD_WORK, Spread, Spreader, refusal
from vhosts.queues.handle import QueueHandle

# C integers where compiled (see publisher.pxd).
_TAKEN = int(Outcome.TAKEN)
_UNROUTABLE = int(Outcome.UNROUTABLE)
_REFUSED = int(Outcome.REFUSED)
_FAILED = int(Outcome.FAILED)
_NOT_TAKEN = _REFUSED | _FAILED
_WAITS = int(Outcome.WAITS)
_LATER = int(Outcome.LATER)
_SPREAD_SLICE = SPREAD_SLICE
_SPREAD_DURABLE = SPREAD_DURABLE
_SPREAD_WORK = SPREAD_WORK
#: The logs of more queues than this are not in the processor's cache: each costs as much as four enqueues.
_COLD = 64
#: The cost of a queue's entry in the routing log, which the first message to it by its name makes.
_ENTRY_UNITS = 32
#: And of a message that reaches no queue, which is remembered.
_NOWHERE_UNITS = 2
#: Bit of the first octet of properties: they have headers.
_HAS_HEADERS = bits.HAS_HEADERS >> 8


class Publisher(Spreader):
    """Publishes into one virtual host, for a channel, a request or a queue.

    ``cache`` finds the routes and checks the permissions. ``account`` has the work on disk that a publish
    causes. ``flow`` pauses the publisher while the routing log is far behind.
    """

    __slots__ = (
        "_result",
        "_run_next",
        "account",
        "cache",
        "flow",
        "listener",
        "open_runs",
        "refusers",
        "run",
        "run_queues",
        "run_route",
        "table",
        "units",
    )

    def __init__(
        self,
        table: RoutingTable,
        cache: RouteCache,
        account: MemoryBudget,
        listener: Listener | None,
        flow: Flow | None = None,
        open_runs: list[Publisher] | None = None,
    ) -> None:
        self.table = table
        self.cache = cache
        self.account = account
        self.listener = listener
        self.flow = flow
        #: Publishers with an open run, which somebody will close.
        self.open_runs: list[Publisher] = [] if open_runs is None else open_runs
        #: Gets the queues that refuse a message; None if nobody wants to know which they are.
        self.refusers: list[QueueHandle] | None = None
        #: The cost of the last publish, in enqueues: at least 1.
        self.units = 0
        #: Whether the queues that had their turn have taken the message: TAKEN, REFUSED or FAILED.
        self._result = _TAKEN
        self.run: Run | None = None
        self.run_route: Route | None = None
        #: The durable queues of that route, which may let go of them.
        self.run_queues: list[QueueHandle] = []
        #: The number that the next publish of the run must have.
        self._run_next = 0

    def send(
        self, exchange: str, routing_key: str, message: Message, number: int = 0, flags: int = 0
    ) -> Outcome:
        """Find the route and publish; for whoever does not keep routes. See ``publish``.

        Names have at most 255 octets.

        Raises:
            AccessRefused: the publisher may not publish to the exchange (403).
            NotFound: there is no such exchange (404).
            PreconditionFailed: the header CC or BCC is no array (406).
        """
        args = publish_args(exchange, routing_key)
        message.route = args[2 : len(args) - 1]
        properties = message.properties()
        route = None
        if not properties[0] & _HAS_HEADERS:
            route = self.cache.find(args)
        if route is None:
            route = self.cache.resolve(args, properties)
            if route is None:
                search = Search(self, args, properties, message, number, flags)
                search.walk = self.cache.take_unfinished()
                assert self.listener is not None
                self.units = self.cache.units
                self.listener.in_slices(search.go_on)
                return Outcome.LATER
        return Outcome(self.publish(route, message, number, flags))

    def publish(self, route: Route, message: Message, number: int, flags: int) -> int:
        """Give ``message`` to the queues of ``route``; returns an ``Outcome``, and ``units`` is the cost.

        The receipt has the publish's ``number``, which is 1 more than the last one's; 0 if there is to be no
        receipt. ``flags`` is ``events.MANDATORY`` or 0.
        """
        if route.has_bcc:
            message.flags |= bits.BLIND
        if route.keepers is not None:
            self._keep(route.keepers, message)
        # The route may let go of them while queues have their turn.
        queues = route.queues
        durable_queues = route.durable_queues
        count = len(queues)
        size = message.body_size
        waits = False
        if message.flags & bits.PERSISTENT:
            flags |= events.PERSISTENT
            waits = len(durable_queues) > 0 or (route.waits_for > 0 and number > 0)
        elif route.logs_all:
            waits = True
        given = 0
        if count <= (_SPREAD_DURABLE if waits else _SPREAD_SLICE):
            given = self._give(route.single, queues, message)
        else:
            self._result = _TAKEN
        if given < count:
            self._spread(route, message, number, flags, given, waits)
            return _LATER
        outcome = self._result
        if count == 0:
            outcome = _UNROUTABLE
            self.account.work += _NOWHERE_UNITS
            self.table.unroutable.note(route.exchange, route.routing_key)
        self._count(route, count)
        self._note(route, size, number, flags, outcome)
        if waits and not outcome & _NOT_TAKEN:
            self._wait(route, durable_queues, size, number)
            outcome |= _WAITS
        self._charge(route, count)
        if waits and count > _COLD:
            self.units += 3 * len(durable_queues)
        return outcome

    # -- the duties of a publish ----------------------------------------------------------------------

    def _give(self, single: QueueHandle | None, queues: list[QueueHandle], message: Message) -> int:
        """Give the message to the queues; returns how many have had their turn, which may not be all.

        ``_result`` says whether all of these have taken it.
        """
        if single is not None:
            self._result = _TAKEN if single.publish(message) else self._refused(single)
            return 1
        count = len(queues)
        result = _TAKEN
        given = 0
        for index in range(count):
            queue = queues[index]
            given += 1
            if not queue.publish(message if given == count else message.copy()):
                result |= self._refused(queue)
            if self.account.work >= _SPREAD_WORK:
                break
        self._result = result if not result & _FAILED else _FAILED
        return given

    def _refused(self, queue: QueueHandle) -> int:
        """``queue`` has not taken the message; returns why."""
        if self.refusers is not None:
            self.refusers.append(queue)
        return refusal(queue)

    def _count(self, route: Route, count: int) -> None:
        """Count a message that went to ``count`` queues."""
        counters = route.counters
        counters.publish_in += 1
        counters.publish_out += count
        if count == 0:
            counters.unroutable += 1
        if len(route.inner) > 0:
            _count_inner(route)

    def _note(self, route: Route, size: int, number: int, flags: int, outcome: int) -> int:
        """Note the publish in the routing log."""
        entry = route.entry
        if entry is None:
            entry = self.table.default_entry(route)
            if entry is None:
                return 0
            self.account.work += _ENTRY_UNITS
        if number > 0:
            flags |= events.CONFIRMED
        if outcome & _NOT_TAKEN:
            flags |= events.REFUSED
        elif outcome == _UNROUTABLE:
            flags |= events.UNROUTABLE
            if flags & events.MANDATORY:
                flags |= events.RETURNED
        if entry.recorder.note(entry, size, flags) and self.flow is not None:
            entry.recorder.backlog.hold(self.flow)
        return 0

    def _wait(self, route: Route, durable_queues: list[QueueHandle], size: int, number: int) -> None:
        """Make the publish part of the open run, or of a new one."""
        run = self.run
        if run is None or self.run_route is not route or self._run_next != number:
            if run is not None:
                self.close_run()
            run = Run()
            run.listener = self.listener
            run.first = number
            self.run = run
            self.run_route = route
            self.run_queues = durable_queues
            self.open_runs.append(self)
        run.last = number
        run.bytes += size
        self._run_next = number + 1 if number > 0 else 0

    def _charge(self, route: Route, count: int) -> None:
        """Set the cost: one for each queue, one for 16 exchanges between, and the work on disk."""
        units = count + (len(route.inner) >> 4)
        if self.account.work > 0:
            units += self.account.take_work()
        self.units = units if units > 0 else 1

    # -- what takes longer ----------------------------------------------------------------------------

    def _keep(self, keepers: list[Exchange], message: Message) -> int:
        """Give the message to the exchanges that keep some."""
        listener = self.listener
        Keeping(keepers, message, self.account).begin(None if listener is None else listener.in_slices)
        return 0

    def close_run(self) -> None:
        """Hand the open run, if there is one, to its queues."""
        run = self.run
        if run is None:
            return
        queues = self.run_queues
        route = self.run_route
        self.run = None
        self.run_route = None
        self.run_queues = []
        run.remaining = 1
        self._hold(run, route)  # type: ignore[arg-type]
        for index in range(len(queues)):
            queue = queues[index]
            queue.await_durable(run)
        run.settled(False)

    def _hold(self, run: Run, route: Route) -> None:
        """Let ``run`` wait for the removals that its route depends on, if anyone is to hear of it."""
        if route.waits_for > 0 and run.first > 0 and not self.table.unstored.hold(run, route.waits_for):
            route.waits_for = 0

    def _spread(
        self, route: Route, message: Message, number: int, flags: int, given: int, waits: bool
    ) -> None:
        """Give the message in slices to the queues from ``given`` on; ``_result`` is about those before."""
        self.close_run()
        self.account.work = 0
        spread = Spread()
        spread.account = self.account
        spread.unstored = self.table.unstored
        spread.route = route
        spread.queues = route.queues
        spread.message = message
        spread.number = number
        spread.flags = flags
        spread.position = given
        spread.result = self._result
        spread.refusers = self.refusers
        assert self.listener is not None
        spread.listener = self.listener
        spread.publisher = self
        if waits:
            run = Run()
            run.listener = self.listener
            run.first = run.last = number
            run.bytes = message.body_size
            run.remaining = 1
            self._hold(run, route)
            spread.run = run
            for index in range(given):
                queue = spread.queues[index]
                if queue.durable:
                    queue.await_durable(run)
        self.units = _SPREAD_SLICE
        spread.listener.in_slices(spread.go_on)

    def spread_done(self, spread: Spread) -> None:
        """All queues have the message of ``spread``, or have refused it."""
        message = spread.message
        count = len(spread.queues)
        run = spread.run
        outcome = spread.result if not spread.result & _FAILED else _FAILED
        self._count(spread.route, count)
        self._note(spread.route, message.body_size, spread.number, spread.flags, outcome)
        if run is not None and not outcome & _NOT_TAKEN:
            outcome |= _WAITS
        spread.listener.published(spread.number, outcome, message)
        if outcome & _WAITS:
            run.settled(False)  # type: ignore[union-attr]
        self.table.stale.look_later()


class Search:
    """A message whose route takes several turns of the event loop to find."""

    __slots__ = ("args", "flags", "message", "number", "properties", "publisher", "walk")

    def __init__(
        self, publisher: Publisher, args: bytes, properties: bytes, message: Message, number: int, flags: int
    ) -> None:
        self.publisher = publisher
        self.args = args
        self.properties = properties
        self.message = message
        self.number = number
        self.flags = flags
        self.walk: Walk | None = None

    def go_on(self) -> bool:
        """A step of ``Listener.in_slices``: search on, then publish; True at the end."""
        publisher = self.publisher
        listener = publisher.listener
        try:
            route = publisher.cache.resolve(self.args, self.properties, self.walk)
        except AMQPError:  # the exchange is gone, or permissions have changed
            if listener is not None:
                listener.published(self.number, Outcome.FAILED, self.message)
            return True
        self.walk = publisher.cache.take_unfinished()
        if route is None:
            return False
        outcome = publisher.publish(route, self.message, self.number, self.flags)
        if listener is not None and not outcome & _LATER:
            listener.published(self.number, outcome, self.message)
        publisher.close_run()
        return True


def _count_inner(route: Route) -> None:
    """Count the message in the exchanges between the first one and the queues."""
    inner = route.inner
    for index in range(len(inner)):
        pair = inner[index]
        counters: ExchangeCounters = pair[0]
        counters.inner_in += 1
        counters.inner_out += pair[1]
