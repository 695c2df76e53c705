"""The interfaces that a channel needs from its connection, and that its parts need from the channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.declaring import DeclaringChannel
from amqp_router.channel.delivery import Delivery
from amqp_router.channel.intake import Intake
from amqp_router.channel.publishing import Inflow, Publishing
from amqp_router.channel.states import ChannelState
from amqp_router.channel.waking import Waking
from amqp_router.protocol.errors import AMQPError, ChannelException
from amqp_router.protocol.methods import Method
from amqp_router.protocol.output import Output
from amqp_router.protocol.tick import Tick
from vhosts.exchanges.router import RouteCache
from vhosts.exchanges.taps import Actor
from vhosts.ports import Permissions
from vhosts.publishing.publisher import Publisher
from vhosts.queues.destination import Asker
from vhosts.queues.handle import Consumer, Credit, QueueHandle
from vhosts.vhost import VirtualHost


class Waiter(Protocol):
    """Who waits for a revision of the definitions."""

    def committed(self, rev: int) -> None:
        """``rev`` is stored."""


class Commits(Protocol):
    """Waits for revisions of the definitions."""

    committed: int

    def wait(self, rev: int, waiter: Waiter) -> None:
        """Call ``waiter.committed(rev)`` once ``rev`` is stored."""


class User(Protocol):
    """Who has logged in."""

    @property
    def name(self) -> str:
        """The name as error texts and message properties have it."""


class CancelledChannel(Protocol):
    """A channel of which a consumer was cancelled."""

    state: ChannelState

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` once revision ``rev`` of the definitions is stored."""


class Connection(Protocol):
    """The connection of a channel: what all its channels share. It is also the owner of exclusive queues."""

    #: ``peer -> server``, as the HTTP API has it.
    name: str
    tick: Tick
    output: Output
    commits: Commits
    permissions: Permissions
    vhost: VirtualHost
    #: The authenticated user.
    user: User
    cache: RouteCache
    inflow: Inflow
    intake: Intake
    #: Publishers with an open run.
    open_runs: list[Publisher]
    #: By queue that a channel deletes: channels and tags of the consumers that this has cancelled.
    held_cancels: dict[QueueHandle, list[tuple[CancelledChannel, str]]]
    #: Whether the connection has ended, or is about to.
    stopped: bool
    #: Channels whose output waits for a commit.
    detached: set[Any]  # channel.Channel imports this module

    @property
    def frame_max(self) -> int:
        """The largest frame that the client takes, in bytes."""

    @property
    def consumer_cancel_notify(self) -> bool:
        """Whether the client understands basic.cancel from the server."""

    def unstored(self, rev: int) -> None:
        """The method that is being carried out rests on revision ``rev``, which is not stored yet."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` now or in later turns, until it returns True; for work too long for one turn.

        Steps run in the order of the calls. No further frame of the connection is handled before they are
        done, so later frames cannot overtake them.
        """

    def close_channel(self, channel: Any, error: ChannelException) -> None:  # as above
        """Close ``channel`` for ``error``, which no frame has caused just now."""

    def waits(self, number: int) -> None:
        """Let the later frames of channel ``number`` wait until ``answered``."""

    def answered(self, number: int, error: AMQPError | None) -> None:
        """Channel ``number`` has the answer for which its later frames wait, or an error."""

    def charge(self, units: int) -> None:
        """Count ``units`` (enqueues and settles) against the connection's turn."""


class OpenTransaction(Protocol):
    """A transaction as acknowledgements see it."""

    def settle(self, tag: int, multiple: bool, kind: int) -> None:
        """Let an acknowledgement wait for the commit; ``kind`` is ACK, REJECT, or RETURN for a requeue."""

    def recover(self, last: int) -> Callable[[], bool]:
        """A step of ``in_slices`` that requeues what is outstanding up to ``last`` and not settled here."""


class ConsumingChannel(DeclaringChannel, Protocol):
    """The part of a channel that consuming and acknowledging use."""

    number: int
    #: Prefetch of consumers started from now on; 0 is no limit.
    prefetch: int
    #: Deliveries that the channel as a whole may still get (basic.qos global).
    shared: Credit
    consumers: dict[str, ChannelConsumer]
    getters: dict[QueueHandle, ChannelConsumer]
    delivery: Delivery
    publishing: Publishing
    waking: Waking

    @property
    def transaction(self) -> OpenTransaction | None:
        """What waits for tx.commit; None if the channel is not transactional."""

    @property
    def connection(self) -> Connection:
        """What the channels of the connection share."""

    def actor(self) -> Actor:
        """The channel as others name it."""

    def watch(self, owner: Consumer) -> None:
        """See that what ``owner`` takes is acknowledged in time, if there is a timeout."""

    def leave(self, consumer: ChannelConsumer, asker: Asker) -> bool:
        """Remove ``consumer`` from its queue, which tells ``asker``; True if the queue went with it."""

    def reply_after_slices(self, method: Method) -> None:
        """Send ``method`` after the work in slices that is under way."""


class Pending(Protocol):
    """The replies of a channel that wait."""

    @property
    def last_rev(self) -> int:
        """The revision that the last one waits for."""


class AnsweredChannel(ConsumingChannel, Protocol):
    """The part of a channel that hears the answers of queues."""

    state: ChannelState

    @property
    def pending(self) -> Pending:
        """Replies that wait for a revision."""
