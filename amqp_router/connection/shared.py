"""The connection as its channels see it: what they share, and where they write.

It is also the owner of the connection's exclusive queues. It knows neither the machine nor the channels, so
no reference cycle is left when a connection ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_router.channel.intake import Intake
from amqp_router.channel.ports import CancelledChannel
from amqp_router.channel.publishing import Inflow
from amqp_router.connection.parking import Parking
from amqp_router.connection.ports import Services
from amqp_router.connection.session import Session
from amqp_router.connection.slices import Slices
from amqp_router.connection.unstored import Unstored
from amqp_router.protocol import amqp_0_8, methods
from amqp_router.protocol.errors import AMQPError, ChannelException
from amqp_router.protocol.input import Input
from amqp_router.protocol.methods import Method
from amqp_router.protocol.output import Output
from vhosts.publishing.publisher import Publisher
from vhosts.queues.handle import QueueHandle

#: Exclusive queues removed per turn of the loop when their connection ends.
EXCLUSIVE_SLICE = 20


class Shared:
    """What the channels of one connection share; see ``channel.ports.Connection``."""

    __slots__ = (
        "cache",
        "channel_closer",
        "commits",
        "detached",
        "frames",
        "held_cancels",
        "inflow",
        "intake",
        "name",
        "open_runs",
        "output",
        "parking",
        "permissions",
        "session",
        "stopped",
        "tick",
        "unstored_changes",
        "user",
        "vhost",
        "work",
    )

    def __init__(self, node: Services, session: Session, frames: Input, work: Slices) -> None:
        #: Set by whoever has the socket.
        self.name = ""
        self.session = session
        self.frames = frames
        self.work = work
        self.tick = node.tick
        self.commits = node.commits
        self.output = Output()
        self.output.tick = node.tick
        self.inflow = Inflow()
        self.inflow.limit = node.options.unsynced_bytes_max
        self.intake = Intake(node.budget)
        #: The authenticated user; None before.
        self.user: Any = None
        #: These three are None until connection.open.
        self.vhost: Any = None
        self.permissions: Any = None
        self.cache: Any = None
        #: Whether the connection has ended, or is about to.
        self.stopped = False
        self.held_cancels: dict[QueueHandle, list[tuple[CancelledChannel, str]]] = {}
        #: Frames of channels that wait for the answer of a queue.
        self.parking = Parking()
        #: Set by whoever can close a channel, until the connection stops.
        self.channel_closer: Callable[[Any, ChannelException], None] | None = None
        #: Channels whose output waits for a commit.
        self.detached: set[Any] = set()
        #: Channels with an open run; closed when the chunk is done.
        self.open_runs: list[Publisher] = []
        #: Definitions that the client changed and that are not stored; None if it never changed any.
        self.unstored_changes: Unstored | None = None

    @property
    def frame_max(self) -> int:
        return self.session.frame_max

    @property
    def consumer_cancel_notify(self) -> bool:
        return "consumer_cancel_notify" in self.session.capabilities

    def send(self, number: int, method: Method) -> None:
        """Write ``method`` now."""
        frame = amqp_0_8.frame if self.session.is_0_8 else methods.frame
        self.output.buf.put(frame(number, method))
        self.output.touch()

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``channel.ports.Connection``."""
        self.work.add(step)

    def close_channel(self, channel: Any, error: ChannelException) -> None:
        """See ``channel.ports.Connection``."""
        if self.channel_closer is not None:
            self.channel_closer(channel, error)

    def waits(self, number: int) -> None:
        """See ``channel.ports.Connection``."""
        self.parking.begin(number)

    def answered(self, number: int, error: AMQPError | None) -> None:
        """See ``channel.ports.Connection``."""
        self.parking.answer(number, error)

    def charge(self, units: int) -> None:
        """See ``channel.ports.Connection``."""
        self.work.units += units

    def unstored(self, rev: int) -> None:
        """See ``channel.ports.Connection``."""
        if self.unstored_changes is None:
            self.unstored_changes = Unstored(self.inflow, self.commits)
        self.unstored_changes.add(rev, self.frames.size)

    def remove_exclusive_queues(self) -> bool:
        """Remove a slice of the connection's exclusive queues; True if none is left."""
        return not self.vhost.remove_exclusive_queues(self, EXCLUSIVE_SLICE)

    def detached_outputs(self) -> list[Output]:
        """What channels have written that waits for a commit."""
        return [output for channel in self.detached for output in channel.pending.outputs()]
