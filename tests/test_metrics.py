"""What the timer makes of counters: rates, histories, bounded memory, no long hold on the loop."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from amqp_router.channel.states import ChannelState
from amqp_router.metrics import (
    BASIC,
    CHANNEL,
    GLOBAL,
    HISTORY_BYTES_MAX,
    INTERVAL_S,
    NODE,
    OVERVIEW,
    QUEUE,
    SLICE_OBJECTS,
    SLICE_S,
    VHOST,
    History,
    Kind,
    Metrics,
    Policy,
    Span,
    Usage,
    sampler,
)
from vhosts.counters import Counters
from vhosts.queues.handle import QueueView
from vhosts.vhost import VirtualHost

NOTHING = (0,) * QUEUE.width
READY = QUEUE.fields["messages_ready"]
PUBLISH = QUEUE.fields["publish"]


class SomeQueue:
    """A queue's counters."""

    def __init__(self, ready: int = 0) -> None:
        self.ready = ready
        self.unacked_count = 0
        self.publish_total = self.deliver_total = self.deliver_no_ack_total = self.ack_total = 0
        self.get_total = self.get_no_ack_total = self.get_empty_total = self.redeliver_total = 0
        self.consumers: list[Any] = []
        self.deleted = False

    def message_count(self) -> int:
        return self.ready

    def view(self) -> QueueView:
        return QueueView()


class Registry(list[Any]):
    opened_total = 0
    closed_total = 0

    def __init__(self) -> None:
        super().__init__()
        self.closed_octets: dict[str, tuple[int, int]] = {}


class Clock:
    """A loop that counts time only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Any]] = []
        self.soon: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any) -> Any:
        self.timers.append((when, call))
        return SimpleNamespace(cancel=self.timers.clear)

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)

    def turn(self) -> None:
        calls, self.soon = self.soon, []
        for call in calls:
            call()

    def sleep(self, seconds: float) -> None:
        """Let time pass, timers going off as they are due."""
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            self.now, call = self.timers.pop(0)
            call()
            while self.soon:
                self.turn()
        self.now = end


def make_vhost(name: str = "/") -> Any:
    vhost = VirtualHost(
        name,
        definitions=SimpleNamespace(),  # type: ignore[arg-type]
        make_queue=lambda **_: None,  # type: ignore[arg-type, return-value]
        generate_name=str,
        in_slices=lambda _: None,
    )
    vhost.queues = {}
    return vhost


class Node:
    def __init__(self, **queues: SomeQueue) -> None:
        self.clock = Clock()
        self.vhost = make_vhost()
        self.vhost.queues.update(queues)
        self.broker = SimpleNamespace(
            vhosts={"/": self.vhost},
            registry=Registry(),
            settings=SimpleNamespace(data_dir="."),
            budget=SimpleNamespace(used=300, held=20, kept=1),
        )
        lag = SimpleNamespace(last_s=0.002)
        self.metrics = Metrics(self.broker, self.clock, lag)  # type: ignore[arg-type]
        with patch.object(sampler.time, "time", return_value=1_700_000_000.0):
            self.metrics.start()
        self.clock.now += 1  # a sleep of five seconds crosses one tick

    def rate(self, thing: Any, field: str, kind: Kind = QUEUE) -> float:
        return self.metrics.rate(self.metrics.history(thing), kind.fields[field])

    def samples(self, thing: Any, field: str, age_s: int, step_s: int) -> list[int]:
        found = self.metrics.samples(
            self.metrics.history(thing), QUEUE.fields[field], Span(age_s, step_s), BASIC
        )
        stamps = [stamp for _, stamp in found]
        assert stamps == sorted(stamps, reverse=True)
        assert all(stamp % (step_s * 1000) == 0 for stamp in stamps)
        return [value for value, _ in found]


# -- rates ------------------------------------------------------------------------------------------


def test_the_account_of_memory_has_a_history() -> None:
    node = Node()
    contents = NODE.fields["account_contents"]
    assert [node.metrics.node.value(NODE.fields[f"account_{name}"]) for name in ("held", "kept")] == [20, 1]
    node.broker.budget.used = 500
    node.clock.sleep(5)
    found = node.metrics.samples(node.metrics.node, contents, Span(5, 5), GLOBAL)
    assert [value for value, _ in found] == [500, 300]


def test_rate_of_the_last_interval() -> None:
    queue = SomeQueue()
    node = Node(q=queue)
    assert node.rate(queue, "publish") == 0.0
    queue.publish_total = 50
    node.clock.sleep(5)
    assert node.rate(queue, "publish") == 10.0
    queue.ready, queue.deliver_total, queue.get_no_ack_total = 20, 5, 10
    node.clock.sleep(5)
    assert node.rate(queue, "publish") == 0.0
    assert node.rate(queue, "messages") == 4.0
    assert node.rate(queue, "deliver_get") == 3.0
    queue.ready = 10
    node.clock.sleep(5)
    assert node.rate(queue, "messages_ready") == -2.0


def test_rate_of_a_queue_made_between_two_samples() -> None:
    node = Node()
    node.clock.sleep(5)
    queue = SomeQueue()
    queue.publish_total = 25
    node.vhost.queues["new"] = queue
    assert node.metrics.history(queue) is None
    assert node.rate(queue, "publish") == 0.0
    node.clock.sleep(5)
    assert node.rate(queue, "publish") == 5.0


def test_rate_after_the_loop_stood_still() -> None:
    queue = SomeQueue()
    node = Node(q=queue)
    node.clock.sleep(5)
    node.clock.timers = [(when + 15, call) for when, call in node.clock.timers]
    queue.publish_total = 100
    node.clock.sleep(20)
    assert node.rate(queue, "publish") == 5.0


def test_what_is_gone_is_forgotten() -> None:
    queue = SomeQueue()
    node = Node(q=queue)
    queue.publish_total = 1
    node.clock.sleep(5)
    assert node.metrics.history_bytes > 0
    del node.vhost.queues["q"]
    node.clock.sleep(5)
    assert node.metrics.history(queue) is None
    assert node.metrics.history_bytes == 0


# -- histories --------------------------------------------------------------------------------------


def test_samples_newest_first() -> None:
    queue = SomeQueue()
    node = Node(q=queue)
    for ready in range(1, 13):
        queue.ready = ready
        node.clock.sleep(5)
    assert node.samples(queue, "messages_ready", 20, 5) == [12, 11, 10, 9, 8]
    everything = node.samples(queue, "messages_ready", 600, 5)
    assert everything == list(range(12, -1, -1))
    by_tens = node.samples(queue, "messages_ready", 600, 10)
    assert by_tens in (everything[::2], everything[1::2])


def test_samples_of_what_never_changed() -> None:
    queue = SomeQueue(7)
    node = Node(q=queue)
    node.clock.sleep(20)
    assert node.metrics.history(queue).rings is None  # type: ignore[union-attr]
    assert node.samples(queue, "messages_ready", 10, 5) == [7, 7, 7]
    assert node.metrics.samples(None, READY, Span(10, 5), BASIC) == []


def test_history_begins_with_what_was_before_the_first_change() -> None:
    queue = SomeQueue(3)
    node = Node(q=queue)
    node.clock.sleep(50)
    queue.ready = 4
    node.clock.sleep(5)
    assert node.samples(queue, "messages_ready", 25, 5) == [4, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("policy", [BASIC, GLOBAL])
def test_every_ring_against_a_list(policy: Policy) -> None:
    """Two hours of a counter, ticks left out now and then; each ring must say what the list says."""
    start = 340_000_000
    history = History(start, (0,))
    history.keep(policy)
    truth = {start: 0}
    value, last = 0, start
    for tick in range(start + 1, start + 1600):
        if tick % 97 in (3, 4, 5, 6) or 500 < tick - start < 530:
            continue
        for missed in range(last + 1, tick):
            truth[missed] = value
        value += tick % 7
        truth[tick] = value
        history.record(tick, (value,), policy)
        last = tick
    newest = history.seen
    for age in (0, 1, 5, 60, 119, 120, 121, 400, 719, 720):
        tick = newest - age
        found = history.at(tick, (0,), policy)
        if age * INTERVAL_S <= policy[0][1]:
            assert found == truth[tick], age
        else:
            step = policy[1][0] // INTERVAL_S
            assert found == truth[tick // step * step], age
    assert history.at(newest + 1, (0,), policy) is None
    assert history.at(start - 1, (0,), policy) is None
    beyond = newest - policy[-1][1] // INTERVAL_S - 1
    assert history.at(beyond, (0,), policy) is None


def test_a_quiet_history_is_dropped_and_begins_again() -> None:
    queue = SomeQueue()
    node = Node(q=queue)
    queue.ready = 1
    node.clock.sleep(5)
    held = node.metrics.history_bytes
    assert held == (QUEUE.width + VHOST.width) * 8 * (121 + 61)
    node.clock.sleep(BASIC[-1][1] + 10)
    assert node.metrics.history_bytes == 0
    assert node.samples(queue, "messages_ready", 10, 5) == [1, 1, 1]
    queue.ready = 2
    node.clock.sleep(5)
    assert node.metrics.history_bytes == held
    assert node.samples(queue, "messages_ready", 10, 5) == [2, 1, 1]


def test_memory_is_bounded_and_rates_go_on() -> None:
    per_queue = QUEUE.width * 8 * (121 + 61)
    count = HISTORY_BYTES_MAX // per_queue + 100
    queues = {f"q{number}": SomeQueue() for number in range(count)}
    node = Node(**queues)
    for queue in queues.values():
        queue.publish_total += 10
    node.clock.sleep(5)
    assert node.metrics.history_bytes <= HISTORY_BYTES_MAX + per_queue
    assert {node.rate(queue, "publish") for queue in queues.values()} == {2.0}
    last = list(queues.values())[-1]
    assert node.metrics.history(last).rings is None  # type: ignore[union-attr]
    assert len(node.samples(last, "publish", 10, 5)) == 2


# -- totals -----------------------------------------------------------------------------------------


def channel(publish: int) -> Any:
    totals = SimpleNamespace(
        deliver_total=0,
        deliver_no_ack_total=0,
        get_total=0,
        get_no_ack_total=0,
        get_empty_total=0,
        redeliver_total=0,
        ack_total=0,
    )
    publishing = SimpleNamespace(publish_total=publish, return_total=0, drop_total=0)
    made = SimpleNamespace(publishing=publishing, confirms=None, delivery=totals, state=ChannelState.OPEN)
    return Hashed(made)


class Hashed:
    """A namespace that is known by its identity."""

    def __init__(self, content: SimpleNamespace) -> None:
        self.__dict__.update(content.__dict__)


def transport(vhost: Any, *channels: Any) -> Any:
    machine = SimpleNamespace(vhost=vhost, channels=dict(enumerate(channels, 1)))
    return Hashed(SimpleNamespace(machine=machine, recv_oct=100, send_oct=10))


def total(node: Node, field: str) -> int:
    return node.metrics.overview.value(OVERVIEW.fields[field])


def test_totals_count_closed_channels_and_connections() -> None:
    node = Node(a=SomeQueue(3), b=SomeQueue(4))
    one, other = channel(5), channel(7)
    node.broker.registry.append(transport(node.vhost, one, other))
    node.clock.sleep(5)
    assert (total(node, "publish"), total(node, "messages"), total(node, "recv_oct")) == (12, 7, 100)
    node.vhost.counters.closed.publish = 12
    node.broker.registry.clear()
    node.broker.registry.closed_octets["/"] = (150, 20)
    node.clock.sleep(5)
    assert (total(node, "publish"), total(node, "recv_oct"), total(node, "send_oct")) == (12, 150, 20)
    row = node.metrics.now()[node.vhost]
    assert row == node.metrics.history(node.vhost).last  # type: ignore[union-attr]


def test_channel_that_closes_while_it_is_counted_counts_once() -> None:
    """Its last word is among the closed ones by then, or totals would go up and down again."""
    node = Node()
    channels = [channel(10) for _ in range(SLICE_OBJECTS * 3)]
    node.broker.registry.append(transport(node.vhost, *channels))
    node.clock.sleep(5)
    assert total(node, "publish") == 10 * len(channels)
    sample = node.metrics._sample(node.metrics.tick + 1)
    for _ in range(3):
        next(sample)  # exchanges and queues take none, so channels are being read
    first = channels[0]
    first.state = ChannelState.CLOSING
    node.vhost.counters.closed.publish += 10
    del node.broker.registry[0].machine.channels[1]
    for _ in sample:
        pass
    assert total(node, "publish") == 10 * len(channels)


def test_very_many_channels_that_close_while_they_are_counted_are_left_out_in_slices() -> None:
    """10,000 that closed together held the event loop for 20 ms at the end of a tick."""
    node = Node()
    looked = 0
    state = ChannelState.OPEN

    class Closing(Hashed):
        """Counts the looks at its state."""

        @property
        def state(self) -> ChannelState:
            nonlocal looked
            looked += 1
            return state

    count = SLICE_OBJECTS * 20
    channels = []
    for _ in range(count):
        content = dict(vars(channel(10)))
        del content["state"]
        channels.append(Closing(SimpleNamespace(**content)))
    node.broker.registry.append(transport(node.vhost, *channels))
    node.clock.sleep(5)
    sample = node.metrics._sample(node.metrics.tick + 1)
    for _ in range(20):
        next(sample)
    state = ChannelState.CLOSING
    node.vhost.counters.closed.publish = 10 * count
    node.broker.registry.clear()
    most = looked = 0
    for _ in sample:
        most, looked = max(most, looked), 0
    assert 0 < most <= SLICE_OBJECTS
    assert not looked
    assert total(node, "publish") == 10 * count


def test_connection_in_its_handshake_is_not_counted() -> None:
    node = Node()
    node.broker.registry.append(transport(None))
    node.clock.sleep(5)
    assert total(node, "recv_oct") == 0


def test_virtual_hosts_added_up() -> None:
    node = Node(q=SomeQueue())
    other = make_vhost("other")
    other.queues["p"] = SomeQueue(1)
    node.broker.vhosts["other"] = other
    node.clock.sleep(5)
    node.vhost.queues["q"].ready = 10
    other.queues["p"].ready = 6
    node.clock.sleep(5)
    both = node.metrics.combined([node.vhost, other])
    columns = VHOST.fields["messages"]
    assert both.value(columns) == 16
    assert node.metrics.rate(both, columns) == 3.0
    values = [value for value, _ in node.metrics.samples(both, columns, Span(10, 5), BASIC)]
    assert values[:2] == [16, 1]
    alone = node.metrics.combined([other])
    assert alone.value(columns) == 6
    assert node.metrics.combined([]).value(columns) == 0


def test_large_node_is_not_counted_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "COUNTED_ANEW_MAX", 1)
    node = Node(a=SomeQueue(1), b=SomeQueue(1))
    node.clock.sleep(5)
    node.vhost.queues["a"].ready = 100
    ready = VHOST.fields["messages_ready"][0]
    assert node.metrics.now()[node.vhost][ready] == 2
    node.clock.sleep(5)
    assert node.metrics.now()[node.vhost][ready] == 101


# -- the loop ---------------------------------------------------------------------------------------


def test_many_queues_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "SLICE_S", 0.0)
    node = Node(**{f"q{number}": SomeQueue() for number in range(SLICE_OBJECTS * 10)})
    clock = node.clock
    clock.now, begin = clock.timers.pop(0)
    begin()
    turns = 0
    while clock.soon:
        turns += 1
        clock.turn()
    assert turns >= 10
    assert node.metrics._work is None


def test_what_a_client_sends_waits_for_two_milliseconds_of_samples() -> None:
    """A slice that has begun, and the next one, which is ready before the client's socket is read."""
    assert 2 * SLICE_S <= 0.002


def test_many_queues_that_are_gone_are_forgotten_in_slices() -> None:
    node = Node(**{f"q{number}": SomeQueue() for number in range(4 * SLICE_OBJECTS)})
    node.vhost.queues.clear()
    metrics = node.metrics
    known = metrics._histories
    counts = [len(known), *[len(known) for _ in metrics._sample(metrics.tick + 1)], len(known)]
    assert max(before - after for before, after in pairwise(counts)) <= SLICE_OBJECTS
    assert not any(isinstance(thing, SomeQueue) for thing in metrics._histories)


def test_fault_of_a_tick_is_reported_and_the_next_goes_on() -> None:
    queue = SomeQueue()
    node = Node(q=queue)
    told: list[str] = []
    node.broker.unexpected = lambda where, error: told.append(f"{where}: {error}")
    del queue.ack_total
    node.clock.sleep(5)
    assert len(told) == 1
    assert told[0].startswith("sampling: ")
    queue.ack_total = 10
    node.clock.sleep(5)
    assert node.metrics.history(queue).last[-1] == 10  # type: ignore[union-attr]
    assert len(told) == 1


def test_tick_that_is_not_through_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "SLICE_S", 0.0)
    node = Node(**{f"q{number}": SomeQueue() for number in range(SLICE_OBJECTS * 2)})
    clock, work = node.clock, node.metrics
    before = work.tick
    clock.now, begin = clock.timers.pop(0)
    begin()
    half = work._work
    clock.now, begin = clock.timers.pop(0)
    begin()
    assert work._work is half
    while clock.soon:
        clock.turn()
    assert work.tick == before + 1


async def test_ten_thousand_queues_are_read_in_slices() -> None:
    """A slice ends at the first look at the clock after its time is up, and the next goes on from there."""
    read = [0]

    class Counting(SomeQueue):
        def message_count(self) -> int:
            read[-1] += 1
            return super().message_count()

    node = Node(**{f"q{number}": Counting() for number in range(10_000)})
    clock = node.clock
    clock.now, call = clock.timers.pop(0)
    read.clear()
    looks = count()
    calls = [call]
    # Every look at the clock finds 0.6 of a slice gone: after the second one it is over.
    with patch.object(sampler.time, "perf_counter", lambda: next(looks) * 0.6 * SLICE_S):
        while calls:
            read.append(0)
            calls.pop()()
            calls, clock.soon = clock.soon, []
    assert sum(read) == 10_000
    assert max(read) <= 2 * SLICE_OBJECTS


async def test_timer_on_a_real_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "INTERVAL_S", 1)
    node = Node(q=SomeQueue())
    work = Metrics(node.broker, asyncio.get_running_loop(), node.metrics.lag)  # type: ignore[arg-type]
    work.start()
    first = work.tick
    async with asyncio.timeout(30):
        while work.tick < first + 2:
            await asyncio.sleep(0.02)
    work.stop()
    last = work.tick
    await asyncio.sleep(1.1)
    assert work.tick == last


def test_counters_of_a_virtual_host_are_all_sampled() -> None:
    """A counter added there is a column here."""
    assert set(Counters.__slots__) - {"closed"} <= set(VHOST.fields)
    assert set(CHANNEL.fields) - {"deliver_get"} <= set(VHOST.fields)


def test_usage_of_this_process() -> None:
    usage = Usage(".")
    memory, files, sockets, free, *_, cpu, lag = usage.read(3, 0.25)
    assert 10 << 20 < memory < usage.mem_total
    assert 3 <= files < usage.fd_total
    assert sockets == 3
    assert free > 0
    assert cpu > 0
    assert lag == 250_000
    assert usage.threads_total > 1
    assert Usage("/no/such/directory").disk_free() == 0
