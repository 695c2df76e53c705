"""Transactions (class tx): publishes and acknowledgements that wait for tx.commit.

A publish finds its route at once, so a missing exchange closes the channel then and not at the commit. The
message waits here. An acknowledgement is checked at once; the delivery stays outstanding, and uses up its
consumer's prefetch, until the commit. ``tx.rollback`` forgets both: the same deliveries may be acknowledged
again.

``tx.commit`` publishes and settles in slices, while the client's later frames wait. commit-ok comes behind
what is returned as unroutable and before what settling delivers. It leaves when every log has the persistent
messages, and later output of the channel waits behind it. If a queue refuses a message or a log fails, the
channel is closed instead (406).

What waits here counts as contents under way in the node's account of memory, which bounds it.

Source: AMQP 0-9-1, class tx; RabbitMQ, "Broker Semantics". Measured on RabbitMQ 3.10.8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias

from amqp_router.channel.committing import Committing, Gathering, Waiting
from amqp_router.channel.delivery import REJECT_UNITS, RETURN_SLICE, RETURN_UNITS, SETTLE_SLICE, Delivery
from amqp_router.channel.intake import Intake
from amqp_router.channel.ports import Connection
from amqp_router.channel.publishing import Publishing
from amqp_router.channel.replies import HeldReply
from amqp_router.channel.returns import BY_CONSUMER, GATHERED, return_gathered
from amqp_router.channel.states import ChannelState
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.flags import ACK, RETURN
from amqp_router.protocol.message import Message
from amqp_router.protocol.methods import Method, TxCommit, TxCommitOk
from vhosts.publishing.ports import Run
from vhosts.spread_map import SpreadMap

#: Publishes and settles of a commit per turn of the event loop, in enqueues.
COMMIT_SLICE = 1024
#: Messages and acknowledgements of a transaction that is over, freed per turn; so many octets of them, to the
#: power of 2, take as long as one more.
DROP_SLICE = 3000
DROP_SHIFT = 13
#: Deliveries looked at per turn by a basic.recover inside of a transaction.
LOOK_SLICE = 4096
#: Memory of a waiting acknowledgement.
SETTLE_BYTES = 200


class TransactedChannel(Protocol):
    """The part of a channel that its transactions use."""

    state: ChannelState
    delivery: Delivery
    publishing: Publishing

    @property
    def connection(self) -> Connection:
        """What the channels of the connection share."""

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` once revision ``rev`` of the definitions is stored."""

    def hold(self, method: Method) -> HeldReply:
        """Send ``method`` when its ``waits`` is False and ``release_replies`` is called."""

    def release_replies(self) -> None:
        """Send the replies that wait for nothing any more."""


#: An acknowledgement that waits: a tag, whether it is of all that are outstanding up to it, and its kind.
Settle: TypeAlias = tuple[int, bool, int]


class Transaction(Gathering):
    """The open transaction of one channel; after a commit or rollback the next one."""

    __slots__ = ("_channel", "_tags", "_up_to", "settles")

    def __init__(self, channel: TransactedChannel) -> None:
        super().__init__(channel.connection.intake)
        self._channel = channel
        self.settles: deque[Settle] = deque()
        #: Tags that are settled: those up to ``_up_to``, and these. A set of a million would hold the loop
        #: each time that it grows.
        self._up_to = 0
        self._tags: SpreadMap[int, None] = SpreadMap()

    def settle(self, tag: int, multiple: bool, kind: int) -> None:
        """Let an acknowledgement wait for the commit; ``kind`` is ACK, REJECT, or RETURN for a requeue.

        Raises:
            PreconditionFailed: the tag is not outstanding, or is acknowledged in this transaction (406).
        """
        delivery = self._channel.delivery
        delivery.check(tag, multiple)
        if tag and self.is_settled(tag):
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        last = delivery.next_tag - 1 if tag == 0 else tag
        if last <= self._up_to:
            return  # tag 0, and nothing new
        self.admit(SETTLE_BYTES)
        self.settles.append((last, multiple, kind))
        if multiple:
            self._up_to = last
        else:
            self._tags[tag] = None

    def is_settled(self, tag: int) -> bool:
        """Whether ``tag`` is acknowledged in this transaction."""
        return tag <= self._up_to or tag in self._tags

    def recover(self, last: int) -> Callable[[], bool]:
        """A step of ``in_slices`` that requeues what is outstanding up to ``last`` and not settled here."""
        return partial(self._recover_some, [self._up_to + 1], last)

    def _recover_some(self, position: list[int], last: int) -> bool:
        delivery = self._channel.delivery
        tag = position[0]
        position[0] = end = min(tag + LOOK_SLICE, last + 1)
        while tag < end:
            if delivery.holds(tag) and tag not in self._tags:
                delivery.requeue(tag, BY_CONSUMER)  # ``requeue_slice`` ends it
            tag += 1
        return end > last and delivery.requeue_slice(0)

    def commit(self) -> None:
        """Do what waits, and answer tx.commit."""
        channel = self._channel
        commit = Commit(channel, self.publishes, self.settles)
        tags = self._begin()
        channel.connection.in_slices(commit.go_on)
        if len(tags) > DROP_SLICE:
            channel.connection.in_slices(partial(_drop_some, Waiting(), deque(), tags))

    def drop(self) -> None:
        """Forget what waits."""
        publishes, settles = self.publishes, self.settles
        self.intake.release(self.size)
        tags = self._begin()
        self._channel.connection.in_slices(partial(_drop_some, publishes, settles, tags))

    def free(self, left: int) -> int:
        """Free ``left`` messages and acknowledgements, or all, of a transaction that is over for good.

        Returns what is left of ``left``: above 0 if all are free.
        """
        self.intake.release(self.size)
        self.size = 0
        return _free(self.publishes, self.settles, self._tags, left)

    def _begin(self) -> SpreadMap[int, None]:
        """Be empty; returns the tags that were settled, which the caller drops in slices."""
        tags = self._tags
        self.gather_anew()
        self.settles = deque()
        self._up_to = 0
        self._tags = SpreadMap()
        return tags


def free_some(over: list[Transaction]) -> bool:
    """A step of ``in_slices``: free a slice of what these hold, which are over; True at the end.

    One whose contents are free leaves the list.
    """
    left = DROP_SLICE
    while over and left > 0:
        left = over[-1].free(left) - 1
        if left >= 0:
            over.pop()
    return not over


class Commit(Committing):
    """A commit under way."""

    __slots__ = (
        "_channel",
        "_intake",
        "_is_answered",
        "_is_given",
        "_is_settled",
        "_publishes",
        "_reply",
        "_returned",
        "_settles",
    )

    def __init__(self, channel: TransactedChannel, publishes: Waiting, settles: deque[Settle]) -> None:
        super().__init__(channel.publishing, channel.connection.inflow)
        self._channel = channel
        self._publishes = publishes
        self._settles = settles
        self._intake: Intake = channel.connection.intake
        #: Whether all is published, and settled.
        self._is_given = self._is_settled = False
        #: Single tags that return with others.
        self._returned: list[int] = []
        #: Whether tx.commit is answered, or will not be.
        self._is_answered = False
        self._reply: HeldReply | None = None

    def go_on(self) -> bool:
        """A step of ``in_slices``: publish and settle some; True at the end."""
        publishes, settles = self._publishes, self._settles
        spent = self.publish_some(publishes, COMMIT_SLICE, self._intake, self._channel.connection.stopped)
        if spent < 0:
            self._channel.connection.in_slices(self.go_on)
            return True
        self.publisher.close_run()
        self.publisher.open_runs.clear()
        if not publishes and not self._is_given:
            self._is_given = True
            if self.waits > 0:
                self._reply = self._channel.hold(TxCommitOk())
            self._end_if_done()
        while settles and spent < COMMIT_SLICE:
            done, cost = self._settle(settles[0])
            spent += cost
            if done:
                settles.popleft()
                self._intake.release(SETTLE_BYTES)
        self._return_gathered()
        self._channel.connection.charge(spent)
        if publishes or settles:
            return False
        self._is_settled = True
        self._end_if_done()
        return True

    def _settle(self, settle: Settle) -> tuple[bool, int]:
        """Settle some; returns whether all is done, and the cost."""
        delivery = self._channel.delivery
        tag, up_to, kind = settle
        in_slices = up_to and (len(delivery.returning) > 0 or delivery.outstanding > RETURN_SLICE)
        if kind == RETURN and not in_slices:
            # As in RabbitMQ, what acknowledgements beside each other return comes back together.
            if up_to:
                return True, RETURN_UNITS * delivery.requeue_up_to(tag, 2 * RETURN_SLICE, GATHERED)
            self._returned.append(tag)
            return True, RETURN_UNITS
        self._return_gathered()
        if kind == RETURN:
            return delivery.requeue_slice(tag), RETURN_UNITS * COMMIT_SLICE
        if up_to:
            return delivery.settle_some(tag, kind), SETTLE_SLICE
        if kind == ACK:
            return True, delivery.ack(tag, False)
        return True, REJECT_UNITS * delivery.reject(tag, False)

    def _return_gathered(self) -> None:
        """Return what was gathered, and the single tags, in the order of the tags."""
        delivery = self._channel.delivery
        for tag in sorted(self._returned):
            if delivery.holds(tag):  # else it was among others
                delivery.requeue(tag, GATHERED)
        self._returned.clear()
        return_gathered(delivery)

    # -- what the publisher tells ---------------------------------------------------------------------

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        self.waits -= 1
        self.note(outcome, message.body_size)
        self._end_if_done()

    def run_done(self, run: Run) -> None:
        """See ``vhosts.publishing.ports.Listener``."""
        self.inflow.remove(run.bytes)
        if run.failed:
            self.has_failed = True
        self.waits -= run.last - run.first + 1
        self._end_if_done()

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``vhosts.publishing.ports.Listener``. The client's later frames wait."""
        self._channel.connection.in_slices(step)

    # -- the end --------------------------------------------------------------------------------------

    def _end_if_done(self) -> None:
        if not self._is_given or self.waits > 0:
            return
        if not self._is_answered:
            self._is_answered = True
            self._answer()
        if self._is_settled:
            self._end()

    def _answer(self) -> None:
        """All messages are safe, or some never will be. What settling delivers comes behind the answer."""
        channel, reply = self._channel, self._reply
        if reply is None:
            if not self.has_failed and not channel.connection.stopped:
                channel.reply(TxCommitOk(), 0)
        else:
            reply.waits = False
            if self.has_failed:
                reply.data = b""
            channel.release_replies()

    def _end(self) -> None:
        """All is settled, too."""
        channel = self._channel
        self.publisher.listener = None  # breaks a reference cycle
        self.publisher.table.stale.look_later()
        if self.has_failed and channel.state is ChannelState.OPEN and not channel.connection.stopped:
            channel.connection.close_channel(
                channel,
                PreconditionFailed(
                    "partial tx completion", class_id=TxCommit.CLASS_ID, method_id=TxCommit.METHOD_ID
                ),
            )


def _drop_some(publishes: Waiting, settles: deque[Settle], tags: SpreadMap[int, None]) -> bool:
    return _free(publishes, settles, tags, DROP_SLICE) > 0


def _free(publishes: Waiting, settles: deque[Settle], tags: SpreadMap[int, None], left: int) -> int:
    while publishes and left > 0:
        left -= 1 + (publishes.take()[1].size() >> DROP_SHIFT)
    while settles and left > 0:
        settles.pop()
        left -= 1
    while len(tags) > 0 and left > 0:
        tags.popitem()
        left -= 1
    return left
