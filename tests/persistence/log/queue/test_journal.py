"""The journal at a start, and its end."""

from __future__ import annotations

import copy

import pytest

from persistence.errors import CorruptLog
from persistence.log.sync.journal import read_journal
from persistence.options import LogOptions
from tests.persistence.log.queue.recovering import inode
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill


def test_a_damaged_journal_is_read_on_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    options = LogOptions(journal_logs_min=1)
    node = Node(options=options)
    node.catalog.quarantine_unknown([])
    logs = {name: node.catalog.create(name, "/", name, {}) for name in "abc"}
    for pair in ("ab", "bc", "ca"):
        for name in pair:
            fill(logs[name], 1)
        node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    [name] = [name for name in disk.list("d") if name.endswith(".journal")]
    path = f"d/{name}"
    size = len(inode(disk, path).now)
    for at in range(0, size, 11):
        caplog.clear()
        damaged = copy.deepcopy(disk)
        inode(damaged, path).now[at] ^= 2
        again = Node(damaged, options)
        for log in "abc":
            assert len(bodies(again.catalog.open(log))) == 2
        again.catalog.quarantine_unknown("abc")
        if f"{path} at byte" in caplog.text and "a damaged entry" in caplog.text:
            assert damaged.exists(f"{path}.damaged")
        else:
            assert "no whole entry" in caplog.text
            assert at > size * 2 // 3
    # The segments have lost what only the journal has, and the journal is damaged in the middle.
    for log in "abc":
        del inode(disk, f"d/queues/{log}/0/{0:020d}.log").now[:]
    first = len(read_journal(disk, path).entries[0][1].data)
    inode(disk, path).now[first + 300] ^= 2
    outcome = {}
    again = Node(disk, options)
    for log in "abc":
        try:
            outcome[log] = len(bodies(again.catalog.open(log)))
        except CorruptLog:
            outcome[log] = -1
    assert sorted(outcome.values()) == [-1, 2, 2]
    again.catalog.quarantine_unknown("abc")
    assert disk.exists(path), "one of its logs could not be opened"


def test_journal_brings_back_what_the_segments_lost() -> None:
    options = LogOptions(segment_bytes_max=4000, journal_logs_min=1)
    node = Node(options=options)
    logs = [node.catalog.create(name, "/", name, {}) for name in "abc"]
    for log in logs:
        fill(log, 5)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    assert [name for name in disk.list("d") if name.endswith(".journal")]
    assert all(log.high_watermark == log.end for log in logs)
    for name in "abc":
        del inode(disk, f"d/queues/{name}/0/{0:020d}.log").now[100:]
    again = Node(disk, options)
    for name in "abc":
        log = again.catalog.open(name)
        assert len(bodies(log)) == 5
        assert again.catalog.reports[name].replayed_batches >= 1
    again.catalog.quarantine_unknown("abc")
    assert not [name for name in disk.list("d") if name.endswith(".journal")]


def test_a_journal_that_cannot_be_removed_fences_no_log() -> None:
    node = Node(options=LogOptions(journal_logs_min=1))
    logs = [node.catalog.create(name, "/", name, {}) for name in ("a", "b")]
    for log in logs:
        fill(log, 2)
    node.settle()
    disk = node.disk
    assert isinstance(disk, SimDisk)
    disk.fail("unlink", ".journal")
    fill(logs[0], 1, first=2)
    node.sync._begin(drain_journal=True)
    node.settle()
    assert not logs[0].failed
    assert logs[0].high_watermark == logs[0].end
    disk.hook = None
    again = Node(disk)
    for name, count in (("a", 3), ("b", 2)):
        assert len(bodies(again.catalog.open(name))) == count
    again.catalog.quarantine_unknown(["a", "b"])
    assert not [name for name in disk.list("d") if name.endswith(".journal")]


def test_idle_journal_is_removed_once_its_logs_are_synced() -> None:
    node = Node(options=LogOptions(journal_logs_min=1))
    for name in "abc":
        fill(node.catalog.create(name, "/", name, {}), 2)
    node.settle()
    assert [name for name in node.disk.list("d") if name.endswith(".journal")]
    node.run_timers()
    assert not [name for name in node.disk.list("d") if name.endswith(".journal")]
