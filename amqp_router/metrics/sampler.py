"""Rates and short histories, sampled from plain integer counters.

Whoever counts only adds to an integer; every ``INTERVAL_S`` one timer reads all of them. An object that does
not change costs one read and one comparison; its history is made when it first changes and dropped when it
has been quiet for as long as the history reaches, so that memory goes with what is busy, not with all there
is. Beyond ``HISTORY_BYTES_MAX`` objects have rates but no history.

A tick with many objects is done in slices of ``SLICE_S``: the event loop serves clients in between.

Source: RabbitMQ's sample retention policies (design of the HTTP API: 600 s in steps of 5 s, and so on).
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from amqp_router.broker import Broker
from amqp_router.channel.states import ChannelState
from amqp_router.metrics.columns import (
    CHANNEL,
    EXCHANGE,
    NODE,
    OVERVIEW,
    QUEUE,
    VHOST,
    Kind,
    read_channel,
    read_churn,
    read_connection,
    read_queue,
    read_totals,
)
from amqp_router.metrics.history import BASIC, GLOBAL, INTERVAL_S, History, Policy, Row, Span
from amqp_router.metrics.recovered import RecoveredBytes
from amqp_router.metrics.usage import Usage
from amqp_router.process import LoopLag
from vhosts.long_lists import look_at_new_objects, unwatched
from vhosts.spread_map import SpreadMap
from vhosts.vhost import VirtualHost

#: Memory for the histories of queues, exchanges, channels and connections, all together.
HISTORY_BYTES_MAX = 32 << 20
#: Time one slice of a tick may hold the event loop.
SLICE_S = 0.001
#: Objects read between two looks at the clock.
SLICE_OBJECTS = 64
#: A node with so many queues and channels is not counted anew for each question: the last tick answers.
COUNTED_ANEW_MAX = 1000


class _Sums:
    """What one tick adds up for one virtual host."""

    def __init__(self) -> None:
        self.messages = [0, 0]
        self.channels = [0] * CHANNEL.width
        self.octets = [0, 0]
        self.rows: list[tuple[Any, Row]] = unwatched([])

    def add_messages(self, row: Row) -> None:
        self.messages[0] += row[0]
        self.messages[1] += row[1]

    def add_octets(self, row: Row) -> None:
        self.octets[0] += row[0]
        self.octets[1] += row[1]

    def add_channel(self, channel: Any, row: Row) -> None:
        self.rows.append((channel, row))
        self.channels = [one + other for one, other in zip(self.channels, row, strict=True)]

    def subtract_closed(self) -> Iterator[None]:
        """Leave out channels that closed since they were read; they count among the closed ones now."""
        rows, self.rows = self.rows, unwatched([])
        rows.reverse()
        while rows:  # one by one, because a channel's own memory may go with its row
            channel, row = rows.pop()
            if channel.state is ChannelState.OPEN:
                self.rows.append((channel, row))
            else:
                self.channels = [one - other for one, other in zip(self.channels, row, strict=True)]
            if len(rows) % SLICE_OBJECTS == 0:
                yield


def _added(rows: Sequence[Row]) -> Row:
    return tuple(map(sum, zip(*rows, strict=True)))


class Metrics:
    """The samples of one node. ``start`` and ``stop`` are called on the loop."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, lag: LoopLag) -> None:
        self._broker = broker
        self._loop = loop
        self.lag = lag
        self.usage = Usage(str(broker.settings.data_dir))
        #: A dict of 100,000 would hold the loop for 5 ms when it grows.
        self._histories: SpreadMap[Any, History] = SpreadMap()
        self._recovered = RecoveredBytes()
        #: Of the whole node: `OVERVIEW` and `NODE`, kept for a day.
        self.overview = History(0, (0,) * OVERVIEW.width)
        self.node = History(0, (0,) * NODE.width)
        #: The objects of the tick in progress, as objects may come and go meanwhile. One list for all ticks:
        #: the garbage collector would soon look at each object in a new one, which takes some 5 ms for
        #: 100,000 queues.
        self._listed: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None
        self._work: Iterator[None] | None = None
        #: The newest tick that is through.
        self.tick = 0
        #: Seconds between the newest tick and the one before.
        self.elapsed_s = float(INTERVAL_S)
        self._sampled_at = 0.0
        self._is_reset = False
        #: Bytes of the histories of single objects.
        self.history_bytes = 0
        #: Wall clock at the start, less the loop's: ticks do not go back when the system's clock is set.
        self._offset_s = 0.0

    # -- asking -------------------------------------------------------------------------------------

    def history(self, thing: Any) -> History | None:
        """What was sampled of an object; None if it is newer than the last tick."""
        return self._histories.get(thing)

    def rate(self, history: History | None, columns: tuple[int, ...]) -> float:
        """How much a field grows per second, over the last interval."""
        if history is None:
            return 0.0
        return round(history.change(columns) / self.elapsed_s, 1) + 0.0  # never -0.0

    def samples(
        self, history: History | None, columns: tuple[int, ...], span: Span, policy: Policy
    ) -> list[tuple[int, int]]:
        """(value, milliseconds since 1970) of a field, newest first, as far as there are any."""
        if history is None:
            return []
        step = max(1, span.step_s // INTERVAL_S)
        newest = history.seen // step * step
        found = []
        for tick in range(newest, newest - span.age_s // INTERVAL_S - 1, -step):
            value = history.at(tick, columns, policy)
            if value is None:
                break
            found.append((value, tick * INTERVAL_S * 1000))
        return found

    def now(self) -> dict[VirtualHost, Row]:
        """The columns of `VHOST` of each virtual host; on a large node as of the last tick."""
        vhosts = list(self._broker.vhosts.values())
        if self.answers_from_tick():
            zero = (0,) * VHOST.width
            return {vhost: known.last if (known := self.history(vhost)) else zero for vhost in vhosts}
        transports = list(self._broker.registry)
        sums = {vhost: _Sums() for vhost in vhosts}
        for vhost, found in sums.items():
            for queue in vhost.queues.values():
                found.add_messages(read_queue(queue))
        for transport in transports:
            if transport.machine.vhost in sums:
                found = sums[transport.machine.vhost]
                found.add_octets(read_connection(transport))
                for channel in transport.machine.channels.values():
                    found.add_channel(channel, read_channel(channel))
        return {vhost: self._vhost_row(vhost, found) for vhost, found in sums.items()}

    def answers_from_tick(self) -> bool:
        """Whether there is so much to count that ``now`` tells what the last tick counted."""
        broker = self._broker
        queues = sum([len(vhost.queues) for vhost in broker.vhosts.values()])
        if queues + len(broker.registry) > COUNTED_ANEW_MAX:
            return True
        return sum([len(each.machine.channels) for each in broker.registry]) > COUNTED_ANEW_MAX

    def combined(self, vhosts: Sequence[VirtualHost]) -> History:
        """The samples of several virtual hosts added up."""
        histories = [known for vhost in vhosts if (known := self.history(vhost)) is not None]
        added = History(self.tick, (0,) * VHOST.width)
        added.first = min([each.first for each in histories], default=self.tick)
        added.last = _added([each.last for each in histories]) or added.last
        added.previous = _added([each.previous for each in histories]) or added.previous
        if any(each.rings is not None for each in histories):
            rings = []
            for i, (interval, reach) in enumerate(BASIC):
                slots = reach // interval + 1
                flat = [each.rings[i] if each.rings else array("q", each.last) * slots for each in histories]
                rings.append(array("q", map(sum, zip(*flat, strict=True))))
            added.rings = rings
        return added

    # -- sampling -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Take the first sample and go on."""
        self._offset_s = time.time() - self._loop.time()
        now = self._loop.time()
        for _ in self._sample(self._next_tick(now)):
            pass  # whole at once: nobody is served yet
        for vhost in self._broker.vhosts.values():
            self._recovered.find(vhost.queues.values())
        self._sampled_at = now

    def reset(self) -> None:
        """Forget all samples; histories begin anew with the next one. Counters stay."""
        self._is_reset = True

    def stop(self) -> None:
        """Sample no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._work = None

    def _next_tick(self, now: float) -> int:
        """The number of the tick that is due; sets the timer for the one after it."""
        tick = int((now + self._offset_s) // INTERVAL_S)
        self._timer = self._loop.call_at((tick + 1) * INTERVAL_S - self._offset_s + 0.001, self._begin)
        return tick

    def _begin(self) -> None:
        now = self._loop.time()
        tick = self._next_tick(now)
        if self._work is not None or tick <= self.tick:
            return  # the last tick is not through yet: this one is skipped
        # The first interval may be short, and a rate made of milliseconds says nothing.
        self.elapsed_s = max(1.0, now - self._sampled_at)
        self._sampled_at = now
        self._work = self._sample(tick)
        self._slice()

    def _slice(self) -> None:
        work = self._work
        if work is None:
            return
        end = time.perf_counter() + SLICE_S
        try:
            for _ in work:
                if time.perf_counter() > end:
                    look_at_new_objects()
                    self._loop.call_soon(self._slice)
                    return
        except Exception as error:  # ours: this tick is lost, the next may do better
            self._broker.unexpected("sampling", error)
        self._work = None

    def _sample(self, tick: int) -> Iterator[None]:
        broker = self._broker
        if self._is_reset:
            self._is_reset = False
            yield from self._forget_samples()
        transports = list(broker.registry)
        budget = broker.budget
        row = (
            *self.usage.read(len(transports), self.lag.last_s),
            budget.used,
            budget.held,
            budget.kept,
        )
        self._record_node(tick, self.node, row, first=not self.tick)
        sums = {vhost: _Sums() for vhost in broker.vhosts.values()}
        for vhost, found in sums.items():
            yield from self._sample_all(tick, EXCHANGE, vhost.exchanges, None)
            yield from self._sample_all(tick, QUEUE, vhost.queues, found)
        yield from self._sample_connections(tick, transports, sums)
        yield from self._forget(tick)
        for found in sums.values():
            yield from found.subtract_closed()
        total = [0] * VHOST.width
        for vhost, found in sums.items():
            summed = self._vhost_row(vhost, found)
            total = [one + other for one, other in zip(total, summed, strict=True)]
            self._record(vhost, tick, summed)
        registry = broker.registry
        overview = (*total, registry.opened_total, registry.closed_total)
        self._record_node(tick, self.overview, overview, first=not self.tick)
        self.tick = tick
        yield from self._recovered.count()

    def _forget_samples(self) -> Iterator[None]:
        for history in (self.overview, self.node):
            history.begin_anew()
            history.keep(GLOBAL)
        histories = unwatched(list(self._histories.values()))
        for count, history in enumerate(histories):
            self.history_bytes -= history.bytes_kept()
            history.begin_anew()
            if count % SLICE_OBJECTS == SLICE_OBJECTS - 1:
                yield

    def _record_node(self, tick: int, history: History, row: Row, *, first: bool) -> None:
        if first:
            history.first = history.seen = history.changed = tick
            history.last = history.previous = row
            history.keep(GLOBAL)
        else:
            history.record(tick, row, GLOBAL)

    def _sample_all(
        self, tick: int, kind: Kind, things: Mapping[str, Any], sums: _Sums | None
    ) -> Iterator[None]:
        read, record = kind.read, self._record
        listed = self._listed
        listed.clear()
        listed.extend(things.values())
        for count, thing in enumerate(listed):
            row = read(thing)
            record(thing, tick, row)
            if sums is not None:
                sums.add_messages(row)
            listed[count] = None  # 100,000 queues deleted meanwhile would all be freed by the clear below
            if count % SLICE_OBJECTS == SLICE_OBJECTS - 1:
                yield
        listed.clear()

    def _sample_connections(
        self, tick: int, transports: Iterable[Any], sums: dict[Any, _Sums]
    ) -> Iterator[None]:
        done = 0
        for transport in transports:
            machine = transport.machine
            found = sums.get(machine.vhost)
            if found is None:
                continue  # in its handshake, or of a virtual host made meanwhile
            row = read_connection(transport)
            self._record(transport, tick, row)
            found.add_octets(row)
            for channel in list(machine.channels.values()):
                row = read_channel(channel)
                self._record(channel, tick, row)
                found.add_channel(channel, row)
                done += 1
                if done % SLICE_OBJECTS == 0:
                    yield
            done += 1
            if done % SLICE_OBJECTS == 0:
                yield

    def _vhost_row(self, vhost: Any, found: _Sums) -> Row:
        counters = vhost.counters
        channels = found.channels
        for channel, row in found.rows:
            if channel.state is not ChannelState.OPEN:  # it closed within the last slices
                channels = [one - other for one, other in zip(channels, row, strict=True)]
        closed = read_totals(counters.closed)
        octets = self._broker.registry.closed_octets.get(vhost.name, (0, 0))
        return (
            *found.messages,
            *[one + other for one, other in zip(channels, closed, strict=True)],
            *read_churn(counters),
            found.octets[0] + octets[0],
            found.octets[1] + octets[1],
        )

    def _record(self, thing: Any, tick: int, row: Row) -> None:
        history = self._histories.get(thing)
        if history is None:
            history = self._histories[thing] = History(tick, row)
            if self.tick:
                history.previous = (0,) * len(row)  # made since the last tick, when it was nothing
            return
        if history.rings is None:
            if row != history.last and self.history_bytes < HISTORY_BYTES_MAX:
                self.history_bytes += history.keep(BASIC)
        elif (tick - history.changed) * INTERVAL_S > BASIC[-1][1]:
            self.history_bytes -= history.bytes_kept()
            history.rings = None
        history.record(tick, row, BASIC)

    def _forget(self, tick: int) -> Iterator[None]:
        """Drop what is gone. Nobody else changes ``_histories`` meanwhile, so no copy of it is needed."""
        gone: list[Any] = unwatched([])
        vhosts = self._broker.vhosts
        for count, (thing, history) in enumerate(self._histories.items()):
            if history.seen != tick and not (isinstance(thing, VirtualHost) and thing.name in vhosts):
                gone.append(thing)
            if count % 1024 == 1023:
                yield
        while gone:  # one by one, because a queue's own memory may go with its history
            last = self._histories.pop(gone.pop(), None)
            assert last is not None
            self.history_bytes -= last.bytes_kept()
            if len(gone) % SLICE_OBJECTS == 0:
                yield
