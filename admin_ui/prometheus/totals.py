"""What happened on the node since its start, in counts that never fall.

RabbitMQ counts messages for the whole node. Here virtual hosts count, and what a deleted one counted must
stay in the sum: Prometheus takes a sum that falls for a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin_ui.state import State
from admin_ui.turns import Turns
from amqp_router.channel.states import ChannelState
from amqp_router.metrics import CHURN, DELIVERED, OCTETS, PUBLISHED, VHOST
from amqp_router.metrics.columns import read_churn, read_totals
from vhosts.counters import Counters

NAMES = (*PUBLISHED, *DELIVERED, *CHURN, *OCTETS)
_COLUMNS = tuple(VHOST.fields[name][0] for name in NAMES)
_CLOSED = len(PUBLISHED) + len(DELIVERED) + len(CHURN)


class Totals:
    """The counts of a node. ``read`` is called once for each scrape."""

    def __init__(self, state: State) -> None:
        self._state = state
        #: The last counts of each virtual host, by its counters.
        self._seen: dict[Counters, tuple[int, ...]] = {}
        #: The sums of deleted ones.
        self._gone = [0] * len(NAMES)
        self._gone_confirm = 0
        self._highest: dict[str, int] = {}
        #: Open channels that have published, at the last ``read``.
        self.publishers = 0

    async def read(self, turns: Turns) -> Mapping[str, int]:
        """Each of `NAMES`, and ``publish_confirm``, with its count."""
        rows = self._state.metrics.now()
        seen = {vhost.counters: tuple(row[column] for column in _COLUMNS) for vhost, row in rows.items()}
        for counters, last in self._seen.items():
            if counters not in seen:
                self._add_gone(counters, last)
        self._seen = seen
        sums = [sum(column) for column in zip(self._gone, *seen.values(), strict=True)]
        found = dict(zip(NAMES, sums, strict=True)) | {"publish_confirm": await self._walk_channels(turns)}
        for name, count in found.items():
            # A channel that closes between two looks at it may be missing once.
            self._highest[name] = max(self._highest.get(name, 0), count)
        return self._highest

    def _add_gone(self, counters: Counters, last: tuple[int, ...]) -> None:
        """A virtual host is gone: its channels are closed, or will be."""
        closed = (*read_totals(counters.closed), *read_churn(counters))
        final = [max(one, other) for one, other in zip(last, closed, strict=False)] + list(last[_CLOSED:])
        self._gone_confirm += counters.closed.publish_confirm
        self._gone = [one + other for one, other in zip(self._gone, final, strict=True)]

    async def _walk_channels(self, turns: Turns) -> int:
        """Sets ``publishers``; returns how many messages were published with confirms."""
        broker: Any = self._state.broker
        publishers = 0
        total: int = self._gone_confirm
        total += sum([vhost.counters.closed.publish_confirm for vhost in broker.vhosts.values()])
        for transport in broker.registry:
            for channel in list(transport.machine.channels.values()):
                if channel.state is ChannelState.OPEN:
                    total += channel.publishing.next_sequence - 1
                    publishers += channel.publishing.publish_total > 0
            await turns.next()
        self.publishers = publishers
        return total
