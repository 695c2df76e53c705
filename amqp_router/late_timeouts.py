"""Timeouts that come after a delivery: a policy gives one to a queue, or a shorter one.

A queue tells its consumers, whose channels then watch their deliveries. It knows nobody else who took
messages of it: `basic.get`, or a consumer that is cancelled. So the outstanding deliveries of the channels
that have such are looked at once, some in each turn of the event loop. A look at all serves however many
queues got a timeout before it began.

Source: RabbitMQ, "Consumers", delivery acknowledgement timeout; that it holds for basic.get and for cancelled
consumers as measured with 3.10.8.
"""

from __future__ import annotations

from collections.abc import Iterator

from amqp_router.channel.ack_watch import owners_between, timeout_of
from amqp_router.channel.channel import Channel
from amqp_router.channel.consumer import ChannelConsumer
from amqp_router.channel.states import ChannelState
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.transport import Transport
from vhosts.ports import InSlices

#: Units of one turn, some 2 ms: a connection or channel is 64, a tag that is looked at one.
SLICE = 4096
PLACE_UNITS = 64


class LateTimeouts:
    """Lets channels watch what they hold of queues that have a timeout now."""

    def __init__(self, registry: ConnectionRegistry[Transport], in_slices: InSlices) -> None:
        self._registry = registry
        self._in_slices = in_slices
        #: The look that is under way: it yields the units that it uses.
        self._look: Iterator[int] | None = None
        #: A queue got a timeout after it had begun.
        self._again = False

    def timeout_set(self) -> None:
        """A queue whose messages somebody holds has a timeout from now on, or another one."""
        if self._look is not None:
            self._again = True
            return
        self._look = self._look_at_all()
        self._in_slices(self._next_slice)

    def _next_slice(self) -> bool:
        assert self._look is not None
        spent = 0
        while spent < SLICE:
            used = next(self._look, 0)
            if not used:
                self._look = self._look_at_all() if self._again else None
                self._again = False
                return self._look is None
            spent += used
        return False

    def _look_at_all(self) -> Iterator[int]:
        for transport in self._registry:
            yield PLACE_UNITS
            for channel in list(transport.machine.channels.values()):
                yield PLACE_UNITS
                if _may_hold(channel):
                    yield from _look_at(channel)


def _may_hold(channel: Channel) -> bool:
    """Whether there are deliveries that no consumer of the channel has taken."""
    if channel.state is not ChannelState.OPEN:
        return False
    return channel.delivery.outstanding > sum([each.unacked for each in channel.consumers.values()])


def _look_at(channel: Channel) -> Iterator[int]:
    delivery = channel.delivery
    known: set[ChannelConsumer] = set()
    tag, end = 0, delivery.next_tag
    while tag < end and channel.state is ChannelState.OPEN:
        owners, reached = owners_between(delivery, tag, end)
        for owner in {owner for _, owner in owners} - known:
            known.add(owner)
            if timeout_of(owner):
                channel.watch(owner)
        yield max(len(owners), 1)
        tag = reached
