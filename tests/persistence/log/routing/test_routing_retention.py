"""Segments of the routing log go by age and by size."""

from __future__ import annotations

import pytest

from persistence.log.routing.layout import partition_of
from persistence.log.routing.logs import RoutingOptions
from persistence.log.routing.recorder import DAY_US
from persistence.log.routing.retention import begun
from tests.persistence.log.routing_support import START_US, RoutingNode, content, read_all, segment_bases
from tests.persistence.log.sync.test_marks import decode


@pytest.mark.parametrize(
    ("first_times", "expected"),
    [
        ([], []),
        ([1, 2, 3], [1, 2, 3]),
        ([1, 900, 2, 3], [1, 2, 2, 3]),
        ([900, 901, 2, 800, 3], [2, 2, 2, 3, 3]),
        ([1, 900], [1, 100]),
        ([50, 0, 1, 51], [50, 50, 50, 51]),
        ([50, 0, 900, 1, 51], [50, 50, 50, 50, 51]),
    ],
)
def test_when_segments_were_begun(first_times: list[int], expected: list[int]) -> None:
    assert begun(first_times, 100) == expected


@pytest.mark.parametrize("off_us", [365 * DAY_US, -50 * 365 * DAY_US], ids=["ahead", "behind"])
def test_a_wrong_clock_removes_nothing_that_is_young_and_keeps_nothing_that_is_old(off_us: int) -> None:
    options = RoutingOptions(partitions=1, days=2)
    disk = None
    for day in range(8):
        # One day of them the clock is wrong.
        now_us = START_US + day * DAY_US + (off_us if day == 3 else 0)
        node = RoutingNode(disk, options, now_us=now_us)
        disk = node.disk
        node.note(size=day)
        node.pass_time()
        if day == 3:
            node.tick.now_us = now_us + DAY_US
            node.note(size=day)
            node.pass_time()
            node.pass_time(3600)
            if off_us > 0:
                # As the clock was ahead by a year, it seemed old.
                assert [event.size for event in read_all(disk, node.directory)] == [3, 3]
        node.logs.stop()
    for day in range(8, 12):
        node = RoutingNode(disk, options, now_us=START_US + day * DAY_US)
        node.pass_time(3600)
        kept = [event.size for event in read_all(disk, node.directory)]
        assert kept == sorted(kept)
        assert set(range(day - 2, 8)) <= set(kept)
        assert not {size for size in kept if size < day - 4}
        node.logs.stop()


def test_the_oldest_closed_segments_go_by_size() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=2, bytes_max=16 << 20))
    first, second = sorted(["a", "b", "c", "d"], key=lambda name: partition_of(name, 2))[::3]
    assert partition_of(first, 2) != partition_of(second, 2)
    number = 0
    for step in range(60):
        node.tick.now_us += 1
        for _ in range(2000):
            node.note(first if step % 2 else second, key=b"%0200d" % number)
            number += 1
        node.run_posted()
    node.pass_time()
    total = 0
    sizes = {}
    for recorder in node.log.recorders:
        names = [name for name in node.disk.list(recorder.directory) if not name.endswith(".index")]
        total += sum(len(content(node.disk, f"{recorder.directory}/{name}")) for name in names)
        found = read_all(node.disk, recorder.directory)
        sizes[recorder.directory] = found
        bases = segment_bases(node.disk, recorder.directory)
        assert bases[0] > 0
        stems = {name[:20] for name in node.disk.list(recorder.directory)}
        assert stems == {f"{base:020d}" for base in bases}, "names and index go with the batches"
        marks = decode(content(node.disk, "d/synced"))
        starts = [mark[5] for mark in marks.values()]
        assert bases[0] in starts
    assert total <= (16 << 20) + (2 << 20)
    assert total > 10 << 20


def test_segments_go_when_they_are_too_old_and_idle_ones_too() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, days=2))
    node.note()
    node.pass_time()
    node.tick.now_us += DAY_US
    node.pass_time(3600)  # the look of the hour closes the segment, which is idle
    assert segment_bases(node.disk, node.directory) == [0]
    node.tick.now_us += 2 * DAY_US + 1
    node.pass_time(3600)
    assert segment_bases(node.disk, node.directory) == []
    (mark,) = decode(content(node.disk, "d/synced")).values()
    assert mark[2:] == (1, 1, 0, 1), "end, segment, position, start"
    node.note()
    node.pass_time()
    assert [event.offset for event in read_all(node.disk, node.directory)] == [1]
    node.logs.stop()


def test_offsets_go_on_when_all_segments_are_gone() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, days=2))
    for _ in range(5):
        node.note()
    node.pass_time()
    node.tick.now_us += 9 * DAY_US
    node.pass_time(3600)
    node.logs.stop()
    assert segment_bases(node.disk, node.directory) == []
    node = RoutingNode(node.disk)
    node.note()
    node.pass_time()
    assert [event.offset for event in read_all(node.disk, node.directory)] == [5]


def test_logs_of_virtual_hosts_that_are_gone_age_too() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, days=2))
    other = node.logs.open("gone")
    assert other is not None
    entry = other.entry("x", b"k", b"{}")
    entry.recorder.note(entry, 1, 0)
    node.logs.stop()
    node = RoutingNode(node.disk, RoutingOptions(partitions=1, days=2))
    node.tick.now_us = START_US + 4 * DAY_US
    node.pass_time(3600)
    assert segment_bases(node.disk, entry.recorder.directory) == []
