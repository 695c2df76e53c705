"""How old the round under way is, which tells of a disk that does not answer."""

from __future__ import annotations

from errno import ENOSPC

from amqp_router.protocol.flags import ACK
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import ManualClock, ManualWorker, Node, fill


def test_age_and_bytes_of_the_round_under_way() -> None:
    clock, worker = ManualClock(100.0), ManualWorker()
    node = Node(clock=clock)
    sync = node.sync
    sync.jobs.worker = worker
    log = node.catalog.create("a", "/", "q", {})
    assert sync.unsynced() == (0.0, 0, 0)
    fill(log, 2)
    waiting = sync.unsynced()
    assert waiting[:2] == (0.0, 0)
    sync.start_round()
    first = log.partition.active.size
    assert first >= waiting.bytes > 0
    clock.now = 103.5
    assert sync.unsynced() == (3.5, first, first)
    fill(log, 3)
    log.settle(1, 0, ACK)
    round_s, round_bytes, size = sync.unsynced()
    assert (round_s, round_bytes) == (3.5, first)
    worker.run_one()
    assert sync.unsynced() == (3.5, first, size)  # the loop has not heard of it
    node.posted.pop(0)()
    assert sync.last_round_s == 3.5
    second = log.partition.active.size - first
    assert second >= size - first > 0
    assert sync.unsynced() == (0.0, second, second)  # the end of a round begins the next one
    worker.run_one()
    node.posted.pop(0)()
    assert sync.unsynced() == (0.0, 0, 0)


def test_what_waits_for_disk_space_is_not_durable() -> None:
    disk = SimDisk()
    node = Node(disk)
    log = node.catalog.create("a", "/", "q", {})
    disk.fail("write", error=ENOSPC)
    fill(log, 2)
    node.settle()
    assert log.passing
    assert node.sync.unsynced() == (0.0, 0, log.unsynced_bytes)
    assert log.unsynced_bytes > 100
    disk.hook = None
    node.run_timers()
    assert node.sync.unsynced() == (0.0, 0, 0)
