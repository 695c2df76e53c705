"""The dead letters of one virtual host: messages that its queues give up, on their way to an exchange.

A letter goes through the publish service like any other message. Its queue settles it only when every queue
that it reached has it safe, so a crash between the two never loses one. The next start sends it again, and
a target whose log has it already is left out: its record says which message (epoch and offset) of which log
it was. A letter that a target refuses is sent again later (``waiting_letters``), if the log of its queue has
the message; others are dropped, as in RabbitMQ.

Letters are sent in slices from the agenda, never from within the queue that gives them up. A chain of
queues that dead-letter into each other therefore needs no stack, and a million messages that expire together
hold nobody up: their queue goes on when there is room for more letters.

Compiled: see ``dead_letters.pxd``.

Source: RabbitMQ, "Dead Letter Exchanges" and "At-Least-Once Dead Lettering".
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol import flags
from amqp_router.protocol.errors import AMQPError, FieldError
from amqp_router.protocol.message import Extras, Message
from persistence.log.sync.marks import log_id
from persistence.memory import MemoryBudget
from vhosts.counters import ExchangeCounters
from vhosts.exchanges.route import Route, lasting
from vhosts.exchanges.router import RouteCache, RoutingTable, may_select, publish_args
from vhosts.letter import NO_QUEUES, Address, Letter, Sender, Sift, letter_of
from vhosts.long_lists import unwatched
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Run
from vhosts.publishing.publisher import Publisher
from vhosts.queues.death import Death
from vhosts.queues.delayed import released, routing_key_of
from vhosts.queues.destination import Destination
from vhosts.queues.handle import QueueHandle
from vhosts.queues.mortal import MortalQueue
from vhosts.spread_map import SpreadMap
from vhosts.waiting_letters import WaitingRoom

#: Letters sent by one slice, some 30 µs each; fewer if they go to very many queues.
SLICE = 32
SLICE_UNITS = 2048
#: Octets of properties, to the power of 2, that cost as much as one unit when all of the headers are read,
#: and when fields are put between them.
READ_SHIFT = 4
COPY_SHIFT = 7
#: Letters on their way before queues wait with further ones.
ROOM = 512
#: Queues that get their turn together when there is room: some 0.2 µs each, and then some µs.
WAKE_SLICE = 256
#: Targets of one letter that are remembered as having it; with more, a refused one waits for the next start.
TARGETS_MAX = 256
#: What the node's account has for a letter on its way, beside its content: the objects that it is made of.
LETTER_BYTES = 512
#: The largest content of a logged message that is kept in memory while its letter waits, in octets.
KEPT_BYTES_MAX = 1 << 14

# C integers where compiled (see dead_letters.pxd).
_NOT_TAKEN = int(Outcome.REFUSED | Outcome.FAILED)
_WAITS = int(Outcome.WAITS)
_WAKE_SLICE = WAKE_SLICE
_UNFINISHED = int(Outcome.WAITS | Outcome.LATER)


class DeadLetters(Sender):
    """Those of the virtual host of ``table``."""

    def __init__(self, table: RoutingTable, account: MemoryBudget) -> None:
        self._table = table
        self._account = account
        self._cache = RouteCache(table, None, account)
        self._publisher = Publisher(table, self._cache, account, self)
        #: Those that wait for a slice; ``_spent`` of them are sent, and None.
        self._letters: list[Letter | None] = []
        self._spent = 0
        #: Letters whose targets are not safe yet, by the number of their publish.
        self._unsafe: dict[int, Letter] = {}
        self._next_number = 1
        self._uncounted = ExchangeCounters()
        self._is_sending = False
        #: The cost of the properties of the letters that were made since it was looked at.
        self._units = 0
        #: What the last letter says of its death: the next one mostly says the same.
        self._death: Death | None = None
        #: Where that letter goes.
        self._address = Address()
        #: The queue (incarnation) of the last logged message, and the id of its log.
        self._source_of = ""
        self._source = b""
        #: Queues that have more letters than there is room for.
        self._queues: SpreadMap[QueueHandle, None] = SpreadMap()
        #: Those that have waited for longer and get their turn before, the last one first.
        self._next: list[QueueHandle] = []
        self._is_waking = False
        #: Letters that a target has refused.
        self.waiting = WaitingRoom(account, self)
        #: Refused letters of messages that no log has: they are gone.
        self.dropped_total = 0

    # -- for queues -----------------------------------------------------------------------------------

    def is_full(self) -> bool:
        """Whether a queue must wait with further letters, see ``wait``."""
        return self.count() >= ROOM

    def count(self) -> int:
        """Letters on their way."""
        return len(self._letters) - self._spent + len(self._unsafe)

    def wait(self, queue: Destination) -> None:
        assert isinstance(queue, QueueHandle)
        self._queues[queue] = None

    def add(self, queue: Destination, message: Message, reason: str) -> None:
        """See ``Burials``; ``queue.buried`` hears of the end."""
        assert isinstance(queue, MortalQueue)
        if message.flags & flags.LOGGED and message.size() > KEPT_BYTES_MAX:
            message.content = None  # it is read again
        letter = letter_of(queue, message, reason)
        waits = message.flags & flags.LOGGED and (self.waiting.must_be_put_off(queue) or self.is_full())
        if not (waits and self.waiting.put_off(letter)):
            self.send(letter)

    def send(self, letter: Letter) -> None:
        self._account.held += LETTER_BYTES
        self._letters.append(letter)
        if not self._is_sending and len(self._unsafe) < ROOM:
            self._is_sending = True
            self.in_slices(self._send_some)

    # -- sending --------------------------------------------------------------------------------------

    def _send_some(self) -> bool:
        """Send a slice; True if no letter is left."""
        letters = self._letters
        units = 0
        for _ in range(min(SLICE, len(letters) - self._spent)):
            if units >= SLICE_UNITS or len(self._unsafe) >= ROOM:
                break
            letter = letters[self._spent]
            assert letter is not None
            route = self._route(letter)
            units += self._units
            self._units = 0
            if letter.walk is not None or letter.sift is not None:
                break  # its route takes more than one turn to find
            letters[self._spent] = None
            self._spent += 1
            if route is None:
                self._settle(letter, letter.stays)
            elif letter.taken and not route.queues:
                self._await(letter, route.durable_queues)
            else:
                self._publish(letter, route)
                units += self._publisher.units
        self._publisher.close_run()
        self._publisher.open_runs.clear()
        if self._spent * 2 >= len(letters):
            del letters[: self._spent]
            self._spent = 0
        self._make_room()
        # With too many letters on their way, those that come home let it go on.
        self._is_sending = len(letters) > self._spent and len(self._unsafe) < ROOM
        return not self._is_sending

    def _route(self, letter: Letter) -> Route | None:
        """The route of a letter; None if it goes nowhere, or is not known yet (``walk`` and ``sift``)."""
        if letter.sift is not None:
            return self._sifted(letter, letter.sift)
        walk = letter.walk
        letter.walk = None
        if letter.made is None and not self._prepare(letter):
            return None
        try:
            route = None
            if not _has_further_keys(letter):
                route = self._cache.find(letter.args)
            if route is None:
                route = self._cache.resolve(letter.args, letter.properties, walk)
                letter.walk = self._cache.take_unfinished()
        except AMQPError:
            return None  # there is no such exchange
        if route is None:
            return None
        if _is_free(letter, route):
            return route
        return self._sifted(letter, Sift(route))

    def _sifted(self, letter: Letter, sift: Sift) -> Route | None:
        """The route with the queues that may have the letter; None if looking takes another turn."""
        if not sift.go_on(letter):
            letter.sift = sift
            return None
        letter.sift = None
        route = sift.result()
        if route is not sift.route:
            self._table.stale.release(route.queues, route.durable_queues)
        return route

    def _prepare(self, letter: Letter) -> bool:
        """Make what is published; False if that is not possible."""
        queue, message = letter.queue, letter.message
        exchange = queue.letter_exchange
        if not queue.buries or exchange not in self._table.exchanges:
            return False
        if not queue.recall(message):
            letter.stays = True
            return False
        try:
            if queue.is_delayed:
                self._units += len(message.properties()) >> COPY_SHIFT
                letter.made = released(message)
                letter.args = publish_args(exchange, routing_key_of(message))
                return self._note_source(letter)
            death = letter.death = self._death_of(letter)
            letter.made = death.message(message)
        except FieldError:
            return False  # from before properties were checked
        letter.args = self._address.args
        letter.made.route = self._address.route
        return self._note_source(letter)

    def _death_of(self, letter: Letter) -> Death:
        """What the letter says of its death; ``_address`` is where it goes.

        Raises:
            FieldError: its properties are malformed.
        """
        queue, message, death = letter.queue, letter.message, self._death
        exchange, key = queue.letter_exchange, queue.letter_key
        time_s = queue.tick.now_us // 1_000_000
        is_known = death is not None and death.is_of(message, queue.name, letter.reason, time_s, key is None)
        if is_known and death is not None and not death.has_properties_of(message):
            death = death.again(message)
            self._units += len(message.properties()) >> COPY_SHIFT
        if is_known and death is not None and self._address.exchange == exchange and self._address.key == key:
            self._death = death
            return death
        if not is_known or death is None:
            death = Death()
            death.note(message, queue.name, letter.reason, time_s, key is None)
            self._units += len(message.properties()) >> READ_SHIFT
        self._death = death
        self._address = _address(exchange, key, death)
        return death

    def _note_source(self, letter: Letter) -> bool:
        """Let the letter say which message of which log it was. Returns True."""
        queue, message = letter.queue, letter.message
        assert letter.made is not None
        if message.flags & flags.LOGGED and queue.log is not None:
            extras = letter.made.extras = Extras()
            if self._source_of != queue.incarnation:
                self._source_of, self._source = queue.incarnation, log_id(queue.incarnation)
            extras.source = self._source
            extras.source_partition = queue.log.number
            log, epochs = queue.log, queue.log.batches.epochs
            extras.source_epoch = epochs.at(message.offset)
            extras.source_offset = message.offset
            letter.is_old = message.offset < max(log.redelivered_floor, epochs.continued_at)
        letter.properties = letter.death.encoded() if letter.death is not None else letter.made.properties()
        return True

    def _publish(self, letter: Letter, route: Route) -> None:
        made, number = letter.made, self._next_number
        assert made is not None
        single = route.single
        if (
            single is not None
            and letter.message.flags & flags.LOGGED
            and self.waiting.must_wait(letter, single)
        ):
            self._refused(letter, single)  # behind those that were refused before
            return
        letter.made = None
        letter.targets, letter.durable = route.queues, route.durable_queues
        refusers: list[QueueHandle] = []
        self._publisher.refusers = letter.refusers = refusers
        if letter.message.flags & flags.LOGGED:
            letter.message.content = None
        if letter.death is None:  # it was counted when it was published
            route = lasting(route)
            route.counters = self._uncounted
        outcome = self._publisher.publish(route, made, number, 0)
        if outcome & _UNFINISHED:
            self._next_number = number + 1
            self._unsafe[number] = letter
        else:
            self._done(letter, outcome)

    def _await(self, letter: Letter, durable: list[QueueHandle]) -> None:
        """All targets of the letter have it since an earlier attempt: wait for their logs."""
        run = Run()
        run.listener = self
        run.first = run.last = self._next_number
        run.remaining = 1
        self._next_number += 1
        self._unsafe[run.first] = letter
        letter.made = None
        letter.targets, letter.durable = NO_QUEUES, durable
        for queue in durable:
            queue.await_durable(run)
        run.settled(False)

    def _done(self, letter: Letter, outcome: int) -> None:
        if outcome & _NOT_TAKEN:
            self._refused(letter, letter.refusers[0])
        else:
            self._settle(letter, False)

    def _refused(self, letter: Letter, refuser: QueueHandle) -> None:
        """``refuser`` has not taken the letter, or its log has failed since."""
        if not letter.message.flags & flags.LOGGED:
            self.dropped_total += 1
            self._settle(letter, False)
            return
        targets, taken = letter.targets, letter.taken
        if len(targets) > 1 or not letter.refusers:
            taken = taken.union([each.incarnation for each in targets if each not in letter.refusers])
        if len(taken) <= TARGETS_MAX and self.waiting.put(letter, refuser, taken):
            self._account.held -= LETTER_BYTES
            self.waiting.done(letter, False)
        else:
            self._settle(letter, True)

    def _settle(self, letter: Letter, stays: bool) -> None:
        self._account.held -= LETTER_BYTES
        letter.queue.buried(letter.message, letter.reason, stays)
        self.waiting.done(letter, not stays)

    def _make_room(self) -> None:
        if len(self._letters) > self._spent and not self._is_sending and len(self._unsafe) < ROOM:
            self._is_sending = True
            self.in_slices(self._send_some)
        if self.is_full():
            return
        self.waiting.send_put_off(ROOM - self.count())
        waits = len(self._next) > 0 or len(self._queues) > 0
        if waits and not self._is_waking and not self._wake_some():
            self._is_waking = True
            self.in_slices(self._wake_some)

    def _wake_some(self) -> bool:
        """Let some of the queues that wait have their turn; True if none is left, or no room for letters."""
        for _ in range(_WAKE_SLICE):
            if self.is_full():
                break
            if not self._next:
                if len(self._queues) == 0:
                    break
                self._next = unwatched(list(self._queues))
                self._next.reverse()
                self._queues = SpreadMap()
            self._next.pop().touch()
        else:
            return False
        self._is_waking = False
        return True

    # -- for the publisher ----------------------------------------------------------------------------

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        if not outcome & _WAITS:
            self._done(self._unsafe.pop(number), outcome)
            self._make_room()

    def run_done(self, run: Run) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        for number in range(run.first, run.last + 1):
            letter = self._unsafe.pop(number, None)
            if letter is None:
                continue
            if run.failed:
                self._refused(letter, _failed(letter.durable))
            else:
                self._settle(letter, False)
        self._make_room()

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        in_slices = self._table.stale.in_slices
        assert in_slices is not None
        in_slices(step)


def _address(exchange: str, key: str | None, death: Death) -> Address:
    address = Address()
    address.exchange, address.key = exchange, key
    if key is None:
        key = death.routing_key.decode("utf-8", "surrogateescape")
    address.args = publish_args(exchange, key)
    address.route = address.args[2 : len(address.args) - 1]
    return address


def _is_free(letter: Letter, route: Route) -> bool:
    """Whether the letter may go to the one queue of ``route``; False says that a ``Sift`` must look."""
    single, death = route.single, letter.death
    return (
        single is not None
        and death is not None
        and not letter.is_old
        and not letter.taken
        and not death.comes_round(single.name)
    )


def _has_further_keys(letter: Letter) -> bool:
    """Whether it may have CC or BCC."""
    if letter.death is not None:
        return letter.death.has_further_keys()
    return may_select(letter.properties)


def _failed(queues: list[QueueHandle]) -> QueueHandle:
    """The one of ``queues`` whose log has failed."""
    return next((queue for queue in queues if not queue.takes_messages()), queues[0])
