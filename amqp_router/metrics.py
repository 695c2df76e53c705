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
import os
import resource
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from amqp_router.broker import Broker
from amqp_router.channel.states import ChannelState
from amqp_router.machine_memory import memory_total
from amqp_router.process import LoopLag
from vhosts.vhost import VirtualHost

INTERVAL_S = 5
#: Seconds between samples, and how far back they reach.
Policy: TypeAlias = tuple[tuple[int, int], ...]
GLOBAL: Policy = ((5, 600), (60, 3600), (600, 28800), (1800, 86400))
BASIC: Policy = ((5, 600), (60, 3600))
#: Memory for the histories of queues, exchanges, channels and connections, all together.
HISTORY_BYTES_MAX = 32 << 20
#: Time one slice of a tick may hold the event loop.
SLICE_S = 0.002
#: Objects read between two looks at the clock.
SLICE_OBJECTS = 64
#: A node with so many queues and channels is not counted anew for each question: the last tick answers.
COUNTED_ANEW_MAX = 1000

Row: TypeAlias = tuple[int, ...]


class Kind:
    """What is sampled of one sort of object: columns, and fields that are sums of columns."""

    def __init__(self, read: Callable[[Any], Row], columns: Sequence[str], **sums: Sequence[str]) -> None:
        self.read = read
        self.width = len(columns)
        #: Positions of the columns that a field adds up.
        self.fields: dict[str, tuple[int, ...]] = {name: (i,) for i, name in enumerate(columns)}
        for name, parts in sums.items():
            self.fields[name] = tuple(columns.index(part) for part in parts)


class History:
    """What was sampled of one object.

    Ticks count ``INTERVAL_S`` since 1970. A ring has a row of ``width`` integers per slot; the row of a tick
    stands in slot ``tick // step % slots``.
    """

    __slots__ = ("changed", "first", "last", "previous", "rings", "seen")

    def __init__(self, tick: int, row: Row) -> None:
        #: The tick this object was first seen at; there is nothing before.
        self.first = tick
        #: The newest tick.
        self.seen = tick
        #: The newest tick at which something had changed.
        self.changed = tick
        self.last = row
        #: The row of the tick before.
        self.previous = row
        self.rings: list[array[int]] | None = None

    def record(self, tick: int, row: Row, policy: Policy) -> None:
        """Take the row of ``tick``, which is newer than all before; skipped ticks repeat the row before."""
        rings = self.rings
        if rings is not None:
            width = len(row)
            seen = self.seen
            for (interval, reach), ring in zip(policy, rings, strict=True):
                step, slots = interval // INTERVAL_S, reach // interval + 1
                now, last = tick // step, self.last
                for missed in range(max(seen // step + 1, now - slots + 1), now):
                    at = missed % slots * width
                    ring[at : at + width] = array("q", last)
                if tick % step == 0:
                    at = now % slots * width
                    ring[at : at + width] = array("q", row)
                elif seen // step != now:  # the tick that this slot belongs to was skipped
                    at = now % slots * width
                    ring[at : at + width] = array("q", last)
        self.previous = self.last
        if row != self.last:
            self.changed = tick
            self.last = row
        self.seen = tick

    def keep(self, policy: Policy) -> int:
        """Begin to keep rows; returns the bytes that takes. All slots hold what was true until now."""
        self.rings = [array("q", self.last) * (reach // interval + 1) for interval, reach in policy]
        return sum(ring.itemsize * len(ring) for ring in self.rings)

    def bytes_kept(self) -> int:
        """Memory of the rings."""
        return sum(ring.itemsize * len(ring) for ring in self.rings) if self.rings is not None else 0

    def value(self, columns: tuple[int, ...]) -> int:
        """A field at the newest tick."""
        return sum([self.last[column] for column in columns])

    def change(self, columns: tuple[int, ...]) -> int:
        """How much a field grew since the tick before."""
        last, previous = self.last, self.previous
        if last is previous:
            return 0
        return sum([last[column] - previous[column] for column in columns])

    def at(self, tick: int, columns: tuple[int, ...], policy: Policy) -> int | None:
        """A field at ``tick``, from the finest ring that reaches there; None before there was anything."""
        if tick < self.first or tick > self.seen:
            return None
        if tick == self.seen or self.rings is None:
            return self.value(columns)
        width = len(self.last)
        for (interval, reach), ring in zip(policy, self.rings, strict=True):
            if (self.seen - tick) * INTERVAL_S <= reach:
                slots = reach // interval + 1
                at = tick // (interval // INTERVAL_S) % slots * width
                return sum([ring[at + column] for column in columns])
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """Which samples are wanted: how far back, and how far apart, in seconds."""

    age_s: int
    step_s: int


MESSAGES = ("messages_ready", "messages_unacknowledged")
PUBLISHED = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERED = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack")
DELIVER_GET = ("deliver", "deliver_no_ack", "get", "get_no_ack")
OCTETS = ("recv_oct", "send_oct")
CHURN = ("queue_declared", "queue_created", "queue_deleted", "channel_created", "channel_closed")
CONNECTION_CHURN = ("connection_created", "connection_closed")
NODE_COLUMNS = (
    "mem_used",
    "fd_used",
    "sockets_used",
    "disk_free",
    "context_switches",
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "cpu_us",
    "loop_lag_us",
)

_queue_columns = attrgetter(
    "unacked_count",
    "publish_total",
    "deliver_total",
    "deliver_no_ack_total",
    "get_total",
    "get_no_ack_total",
    "get_empty_total",
    "redeliver_total",
    "ack_total",
)
_delivered = attrgetter(
    "deliver_total",
    "deliver_no_ack_total",
    "get_total",
    "get_no_ack_total",
    "get_empty_total",
    "redeliver_total",
    "ack_total",
)
_totals = attrgetter(*PUBLISHED, *DELIVERED)
EXCHANGE_COLUMNS = ("publish_in", "publish_out", "unroutable", "inner_in", "inner_out")
_exchange_columns = attrgetter(*EXCHANGE_COLUMNS)
_octets = attrgetter(*OCTETS)
_churn = attrgetter(*CHURN)


def _read_queue(queue: Any) -> Row:
    return (queue.message_count(), *_queue_columns(queue))


def _read_exchange(exchange: Any) -> Row:
    row: Row = _exchange_columns(exchange.counters)
    return row


def _read_channel(channel: Any) -> Row:
    publishing, confirms = channel.publishing, channel.confirms
    return (
        publishing.publish_total,
        confirms.confirm_total if confirms is not None else 0,
        publishing.return_total,
        publishing.drop_total,
        *_delivered(channel.delivery),
    )


def _read_connection(transport: Any) -> Row:
    row: Row = _octets(transport)
    return row


def _read_nothing(thing: Any) -> Row:
    raise AssertionError("put together from others, not read")


QUEUE = Kind(_read_queue, (*MESSAGES, "publish", *DELIVERED), messages=MESSAGES, deliver_get=DELIVER_GET)
EXCHANGE = Kind(_read_exchange, EXCHANGE_COLUMNS)
CHANNEL = Kind(_read_channel, (*PUBLISHED, *DELIVERED), deliver_get=DELIVER_GET)
CONNECTION = Kind(_read_connection, OCTETS)
_SUMMED = (*MESSAGES, *PUBLISHED, *DELIVERED, *CHURN, *OCTETS)
VHOST = Kind(_read_nothing, _SUMMED, messages=MESSAGES, deliver_get=DELIVER_GET)
OVERVIEW = Kind(_read_nothing, (*_SUMMED, *CONNECTION_CHURN), messages=MESSAGES, deliver_get=DELIVER_GET)
NODE = Kind(_read_nothing, NODE_COLUMNS)


class Usage:
    """What this process takes of the machine, read from ``/proc`` and the file system of the data."""

    def __init__(self, data_dir: str) -> None:
        self._data_dir = data_dir
        self._page = resource.getpagesize()
        #: Descriptors that may be open.
        self.fd_total = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        #: Threads that this user may have.
        self.threads_total = _threads_limit()
        #: Memory of the machine, or what the control group leaves of it.
        self.mem_total = memory_total()

    def read(self, sockets: int, lag_s: float) -> Row:
        """A row of `NODE`; a few system calls."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        io = self._io()
        return (
            self._resident(),
            _open_files(),
            sockets,
            self.disk_free(),
            used.ru_nvcsw + used.ru_nivcsw,
            io.get("syscr", 0),
            io.get("rchar", 0),
            io.get("syscw", 0),
            io.get("wchar", 0),
            int((used.ru_utime + used.ru_stime) * 1e6),
            int(lag_s * 1e6),
        )

    def disk_free(self) -> int:
        """Bytes that may still be written where the data is."""
        try:
            found = os.statvfs(self._data_dir)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    def _resident(self) -> int:
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * self._page
        except (OSError, IndexError, ValueError):
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @staticmethod
    def _io() -> dict[str, int]:
        try:
            with open("/proc/self/io") as file:
                return {name: int(value) for name, value in (line.split(": ") for line in file)}
        except (OSError, ValueError):
            return {}


def _open_files() -> int:
    try:
        # Linux 6.2 and later say it as the size; counting tens of thousands of names would hold the loop.
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _threads_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit != resource.RLIM_INFINITY:
        return limit
    try:
        with open("/proc/sys/kernel/threads-max") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 1 << 22  # the kernel's own limit


class _Sums:
    """What one tick adds up for one virtual host."""

    def __init__(self) -> None:
        self.messages = [0, 0]
        self.channels = [0] * CHANNEL.width
        self.octets = [0, 0]
        self.rows: list[tuple[Any, Row]] = []

    def add_messages(self, row: Row) -> None:
        self.messages[0] += row[0]
        self.messages[1] += row[1]

    def add_octets(self, row: Row) -> None:
        self.octets[0] += row[0]
        self.octets[1] += row[1]

    def add_channel(self, channel: Any, row: Row) -> None:
        self.rows.append((channel, row))
        self.channels = [one + other for one, other in zip(self.channels, row, strict=True)]


def _added(rows: Sequence[Row]) -> Row:
    return tuple(map(sum, zip(*rows, strict=True)))


class Metrics:
    """The samples of one node. ``start`` and ``stop`` are called on the loop."""

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop, lag: LoopLag) -> None:
        self._broker = broker
        self._loop = loop
        self.lag = lag
        self.usage = Usage(str(broker.settings.data_dir))
        self._histories: dict[Any, History] = {}
        #: Of the whole node: `OVERVIEW` and `NODE`, kept for a day.
        self.overview = History(0, (0,) * OVERVIEW.width)
        self.node = History(0, (0,) * NODE.width)
        self._timer: asyncio.TimerHandle | None = None
        self._work: Iterator[None] | None = None
        #: The newest tick that is through.
        self.tick = 0
        #: Seconds between the newest tick and the one before.
        self.elapsed_s = float(INTERVAL_S)
        self._sampled_at = 0.0
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
                found.add_messages(_read_queue(queue))
        for transport in transports:
            if transport.machine.vhost in sums:
                found = sums[transport.machine.vhost]
                found.add_octets(_read_connection(transport))
                for channel in transport.machine.channels.values():
                    found.add_channel(channel, _read_channel(channel))
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
        self._sampled_at = now

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
                    self._loop.call_soon(self._slice)
                    return
        except Exception as error:  # ours: this tick is lost, the next may do better
            self._broker.unexpected("sampling", error)
        self._work = None

    def _sample(self, tick: int) -> Iterator[None]:
        broker = self._broker
        transports = list(broker.registry)
        self._record_node(
            tick, self.node, self.usage.read(len(transports), self.lag.last_s), first=not self.tick
        )
        sums = {vhost: _Sums() for vhost in broker.vhosts.values()}
        for vhost, found in sums.items():
            yield from self._sample_all(tick, EXCHANGE, list(vhost.exchanges.values()), None)
            yield from self._sample_all(tick, QUEUE, list(vhost.queues.values()), found)
        yield from self._sample_connections(tick, transports, sums)
        yield from self._forget(tick)
        total = [0] * VHOST.width
        for vhost, found in sums.items():
            row = self._vhost_row(vhost, found)
            total = [one + other for one, other in zip(total, row, strict=True)]
            self._record(vhost, tick, row)
        registry = broker.registry
        overview = (*total, registry.opened_total, registry.closed_total)
        self._record_node(tick, self.overview, overview, first=not self.tick)
        self.tick = tick

    def _record_node(self, tick: int, history: History, row: Row, *, first: bool) -> None:
        if first:
            history.first = history.seen = history.changed = tick
            history.last = history.previous = row
            history.keep(GLOBAL)
        else:
            history.record(tick, row, GLOBAL)

    def _sample_all(self, tick: int, kind: Kind, things: Iterable[Any], sums: _Sums | None) -> Iterator[None]:
        read, record = kind.read, self._record
        for count, thing in enumerate(things):
            row = read(thing)
            record(thing, tick, row)
            if sums is not None:
                sums.add_messages(row)
            if count % SLICE_OBJECTS == SLICE_OBJECTS - 1:
                yield

    def _sample_connections(
        self, tick: int, transports: Iterable[Any], sums: dict[Any, _Sums]
    ) -> Iterator[None]:
        done = 0
        for transport in transports:
            machine = transport.machine
            found = sums.get(machine.vhost)
            if found is None:
                continue  # in its handshake, or of a virtual host made meanwhile
            row = _read_connection(transport)
            self._record(transport, tick, row)
            found.add_octets(row)
            for channel in list(machine.channels.values()):
                row = _read_channel(channel)
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
            if channel.state is not ChannelState.OPEN:
                # It closed since it was read, and counts among the closed ones now.
                channels = [one - other for one, other in zip(channels, row, strict=True)]
        closed = _totals(counters.closed)
        octets = self._broker.registry.closed_octets.get(vhost.name, (0, 0))
        return (
            *found.messages,
            *[one + other for one, other in zip(channels, closed, strict=True)],
            *_churn(counters),
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
        """Drop what is gone."""
        gone = []
        vhosts = self._broker.vhosts
        for count, (thing, history) in enumerate(list(self._histories.items())):
            if history.seen != tick and not (isinstance(thing, VirtualHost) and thing.name in vhosts):
                gone.append(thing)
            if count % 1024 == 1023:
                yield
        for thing in gone:
            self.history_bytes -= self._histories.pop(thing).bytes_kept()
