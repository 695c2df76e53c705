"""How old the round under way is, which tells of a disk that does not answer."""

from __future__ import annotations

from tests.persistence.log.support import ManualClock, ManualWorker, Node, fill


def test_age_and_bytes_of_the_round_under_way() -> None:
    clock, worker = ManualClock(100.0), ManualWorker()
    node = Node(clock=clock)
    sync = node.sync
    sync.jobs.worker = worker
    log = node.catalog.create("a", "/", "q", {})
    assert (sync.unfinished_s, sync.unfinished_bytes) == (0.0, 0)
    fill(log, 2)
    sync.start_round()
    clock.now = 103.5
    assert (sync.unfinished_s, sync.unfinished_bytes) == (3.5, log.partition.active.size)
    worker.run_one()
    assert sync.unfinished_s == 3.5  # the loop has not heard of it
    node.posted.pop(0)()
    assert (sync.unfinished_s, sync.unfinished_bytes) == (0.0, 0)
    assert sync.last_round_s == 3.5
