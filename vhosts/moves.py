"""Moving the ready messages of one queue to another queue, or to an exchange.

Each message is taken as ``basic.get`` takes it, goes through the publish service like any other, and leaves
its source once every durable queue that it reached has it on disk. So a crash loses none. Those that were on
their way then (``WINDOW`` at most, and those whose settles the source had not written yet, some 200 ms) may
be in both queues afterwards.

A move takes as many messages as were ready when it began, or fewer: what is published meanwhile does not make
it longer, and consumers of the source go on and may get some of them.

What arrives is a new message, as if a client had consumed the old one and published it again: all properties
and headers are kept, nothing is added to them, and its time to live begins anew. It is not marked as
redelivered and its returns are not counted. Order is kept. If it goes to a queue, it goes to that one alone,
whatever its header CC says, and its routing key is the name of the queue. If it goes to an exchange, it is
routed as any publish, with the key that is given or with its own.

A move ends early if it cannot go on: when the source or the target is gone or cannot be used, when the target
is full, when no queue would take the message, when a message cannot be read, or when the user may no longer
publish there. What it had taken and did not deliver goes back to its place as it was. A target that is full
is asked for nothing: none drops its oldest message for a move, or refuses one to its dead letter exchange.

Nothing of a move survives a restart but what it has moved.

Source: RabbitMQ, "Shovel", and the form "Move messages" of its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from amqp_router.protocol import flags
from amqp_router.protocol.errors import AMQPError, FieldError
from amqp_router.protocol.message import Message
from amqp_router.protocol.tick import Tick
from persistence.errors import PersistenceError
from persistence.memory import MemoryBudget
from vhosts.exchanges.route import Route
from vhosts.move_target import Ending, Search, Target, named, why
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Listener, Run
from vhosts.publishing.publisher import Publisher
from vhosts.queues.destination import Asker
from vhosts.queues.handle import QueueHandle

#: Messages moved by one slice, some 30 µs each; fewer if they are large or go to many queues.
SLICE = 32
SLICE_UNITS = 2048
SLICE_BYTES = 256 << 10
#: Messages that are taken and not safe yet, and octets of their bodies.
WINDOW = 512
WINDOW_BYTES = 8 << 20
#: Messages given back in one turn of the event loop.
RETURN_SLICE = 100
#: What the node's account has for a message on its way, beside its content.
MESSAGE_BYTES = 512
NOT_STORED = "a queue could not store a message"
_NOT_TAKEN = Outcome.REFUSED | Outcome.FAILED

# States of a move. The last three are ends.
RUNNING = "running"
#: It waits because the node has an alarm, and goes on by itself.
BLOCKED = "blocked"
#: It takes no more messages and waits for those on their way.
ENDING = "ending"
DONE = "done"
STOPPED = "stopped"
FAILED = "failed"
ENDS = (DONE, STOPPED, FAILED)


@dataclass(frozen=True)
class Surroundings:
    """What a move needs of its node."""

    #: Calls a step once in each later turn of the event loop until it returns True.
    in_slices: Callable[[Callable[[], bool]], None]
    account: MemoryBudget
    tick: Tick
    #: The time of day in µs.
    wall_us: Callable[[], int]
    #: Whether the node has an alarm, under which nobody publishes.
    is_blocked: Callable[[], bool]


class Question(Asker):
    """The question for the next message, which a queue of another node answers later."""

    __slots__ = ("_move", "is_answered", "message", "waits")

    def __init__(self, move: Move) -> None:
        self._move = move
        #: Whether the answer is outstanding and the move waits for it.
        self.waits = True
        self.is_answered = False
        self.message: Message | None = None

    def got(self, message: Message | None, left: int) -> bool:
        """See ``Asker``."""
        if not self.waits:
            return False
        self.waits, self.is_answered = False, True
        self.message = message
        self._move.answered()
        return True

    def refused(self, error: AMQPError) -> None:
        """See ``Asker``."""
        if self.waits:
            self.waits = False
            self._move.fail(error.text)


class Move(Listener):
    """One move of at most ``limit`` messages; ``on_end`` is called once, when all is settled.

    ``state`` is one of the states above, ``reason`` says why it failed or waits.
    """

    def __init__(
        self,
        source: QueueHandle,
        target: Target,
        limit: int,
        node: Surroundings,
        on_end: Callable[[Move], None],
    ) -> None:
        self.source = source
        self.target = target
        self.limit = limit
        self.state = RUNNING
        self.reason = ""
        #: Messages that are safe in the target and settled in the source.
        self.moved = 0
        self._taken = 0
        self._node = node
        self._on_end: Callable[[Move], None] | None = on_end
        #: How it will end, once what is on its way has come home.
        self._end = ""
        self._publisher = Publisher(target.table, target.cache, node.account, self)
        #: Messages on their way by the number of their publish, and octets of their bodies.
        self._unsafe: dict[int, Message] = {}
        self._unsafe_bytes = 0
        #: Messages to give back.
        self._returned: list[Message] = []
        self._question: Question | None = None
        self._search: Search | None = None
        #: Whether a publish goes to so many queues that it takes several turns: what follows waits for it.
        self._is_spreading = False
        #: The durable queues that the last message went to.
        self._durable: list[QueueHandle] = []
        #: Whether there is a next turn, and whether it is wanted.
        self._is_scheduled = False
        self._wants_turn = False

    # -- for whoever began it -------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and everything is where it belongs."""
        return self.state in ENDS

    @property
    def waits_for_answer(self) -> bool:
        """Whether the source has not answered yet: it is the caller who knows for how long."""
        return self._question is not None and self._question.waits

    def go_on(self) -> None:
        """Begin, or go on after an alarm."""
        self._wants_turn = True
        if not self._is_scheduled and not self.is_over:
            self._is_scheduled = True
            self._node.in_slices(self._slice)

    def stop(self) -> None:
        """Take no more messages."""
        self._finish(STOPPED, "")

    def fail(self, reason: str) -> None:
        """End it for this reason."""
        self._finish(FAILED, reason)

    def answered(self) -> None:
        """The source has answered, perhaps later than in the call that asked."""
        self.go_on()

    # -- taking ---------------------------------------------------------------------------------------

    def _slice(self) -> bool:
        """Move some messages; True if the move waits for something, or is over."""
        self._wants_turn = False
        self._node.tick.now_us = self._node.wall_us()
        try:
            self._move_some()
        except Ending as end:
            self.fail(str(end))
        except AMQPError as error:
            self.fail(error.text)
        finally:
            self._publisher.close_run()
            self._publisher.open_runs.clear()
        if self._end:
            self._give_back()
        self._is_scheduled = self._wants_turn and not self.is_over
        return not self._is_scheduled

    def _move_some(self) -> None:
        units = octets = 0
        if self.source.has_due():
            # Consumers get what is theirs first, and what is over expires, as before a basic.get.
            units = self.source.deliver_due(SLICE_UNITS)
        for _ in range(SLICE):
            if not self._may_take():
                return
            if units >= SLICE_UNITS or octets >= SLICE_BYTES:
                break
            search = self._search or self._next()
            if search is None:
                return
            self._search = None
            octets += search.message.body_size
            units += self._send(search)
        self.go_on()

    def _may_take(self) -> bool:
        """Whether the next message may be taken, or its route be looked for, now."""
        if self._end or self._is_spreading or len(self._unsafe) >= WINDOW:
            return False
        if self._unsafe_bytes >= WINDOW_BYTES:
            return False
        source, queue = self.source, self.target.queue
        if source.deleted:
            raise Ending(f"{named(source)} was deleted")
        if queue is not None and queue.deleted:
            raise Ending(f"{named(queue)} was deleted")
        if self._node.is_blocked():
            self.state = BLOCKED
            return False
        self.state = RUNNING
        return True

    def _next(self) -> Search | None:
        """Take the next message; None if there is none, or not yet."""
        question = self._question
        if question is None:
            if self._taken >= self.limit:
                self._finish(DONE, "")
                return None
            question = self._question = Question(self)
            self.source.get(False, question)
        if not question.is_answered:
            return None
        self._question = None
        message = question.message
        if message is None:
            if self.source.message_count() > 0:
                raise Ending(f"the messages of {named(self.source)} cannot be read for now")
            self._finish(DONE, "")
            return None
        self._taken += 1
        self._node.account.held += MESSAGE_BYTES
        try:
            return self.target.search(message)
        except (FieldError, PersistenceError, OSError) as error:
            self._returned.append(message)
            raise Ending(f"a message cannot be read: {error}") from None

    # -- publishing -----------------------------------------------------------------------------------

    def _send(self, search: Search) -> int:
        """Publish a message; returns the cost in enqueues.

        Raises:
            Ending, AMQPError: it cannot be published, and is to be given back.
        """
        try:
            route = self.target.route_of(search)
            if route is None:
                self._search = search
                return max(1, self.target.cache.units)
            self.target.check(search, route, self.source)
        except (Ending, AMQPError):
            self._returned.append(search.message)
            raise
        self._publish(search, route)
        return self.target.cache.units + self._publisher.units

    def _publish(self, search: Search, route: Route) -> None:
        message = search.message
        number = self._taken  # each that is taken is published, or the move ends
        self._unsafe[number] = message
        self._unsafe_bytes += message.body_size
        if message.flags & flags.LOGGED:
            message.content = None
        else:
            self.source.put_aside(message)
        self._durable = route.durable_queues
        publisher = self._publisher
        publisher.refusers = []
        outcome = publisher.publish(route, search.made, number, 0)
        if outcome & Outcome.LATER:
            self._is_spreading = True
        else:
            self.published(number, outcome, search.made)

    # -- for the publisher ----------------------------------------------------------------------------

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``Listener``."""
        if self._is_spreading:
            self._is_spreading = False
            self.go_on()
        if outcome & Outcome.WAITS:
            return
        refusers = self._publisher.refusers
        if outcome & _NOT_TAKEN:
            self._failed(number, why(refusers[0]) if refusers else NOT_STORED)
        else:
            self._settle(number)

    def run_done(self, run: Run) -> None:
        """See ``Listener``."""
        for number in range(run.first, run.last + 1):
            if number not in self._unsafe:
                continue
            if run.failed:
                self._failed(number, self._failure())
            else:
                self._settle(number)
        self.go_on()

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``Listener``."""
        self._node.in_slices(step)

    # -- what becomes of a message --------------------------------------------------------------------

    def _settle(self, number: int) -> None:
        """The target has the message: it leaves the source."""
        self.moved += 1
        self._node.account.held -= MESSAGE_BYTES
        self.source.settle(self._home(number), flags.ACK)

    def _failed(self, number: int, reason: str) -> None:
        self._returned.append(self._home(number))
        self.fail(reason)

    def _home(self, number: int) -> Message:
        message = self._unsafe.pop(number)
        self._unsafe_bytes -= message.body_size
        return message

    def _failure(self) -> str:
        """Why publishes that were taken are not safe."""
        failed = next((queue for queue in self._durable if not queue.takes_messages()), None)
        return why(failed) if failed is not None else NOT_STORED

    # -- the end --------------------------------------------------------------------------------------

    def _finish(self, end: str, reason: str) -> None:
        """Take no more messages, and end when those on their way have come home; the first reason counts."""
        if self._end:
            return
        self._end, self.reason, self.state = end, reason, ENDING
        if self._question is not None:
            self._question.waits = False
            if self._question.is_answered and self._question.message is not None:
                self._node.account.held += MESSAGE_BYTES
                self._returned.append(self._question.message)
            self._question = None
        if self._search is not None:
            self._returned.append(self._search.message)
            self._search = None
        self.go_on()

    def _give_back(self) -> None:
        """Once nothing is on its way, return what was taken for nothing, and end."""
        if self._unsafe or self._is_spreading or self._on_end is None:
            return
        returned, self._returned = self._returned, []
        if not returned:
            self._over()
            return
        returned.sort(key=lambda message: message.offset)
        self.source.begin_return()
        on_end, self._on_end = self._on_end, None
        self._node.in_slices(partial(self._return_some, returned, on_end))

    def _return_some(self, returned: list[Message], on_end: Callable[[Move], None]) -> bool:
        for _ in range(min(RETURN_SLICE, len(returned))):
            self._node.account.held -= MESSAGE_BYTES
            self.source.return_unsent(returned.pop())
        if returned:
            return False
        self.source.end_return()
        self._on_end = on_end
        self._over()
        return True

    def _over(self) -> None:
        on_end, self._on_end = self._on_end, None
        self.state = self._end
        self._publisher.listener = None  # it refers to the move
        if on_end is not None:
            on_end(self)
