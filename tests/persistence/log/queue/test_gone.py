"""What a log may forget is its policy's to say: one that keeps messages for a time needs no other log."""

from __future__ import annotations

import pytest

from amqp_router.protocol.flags import ACK
from persistence.log.format.record import MESSAGES, parse_header
from persistence.log.format.segment import Segment
from persistence.log.format.settles import SettleState
from persistence.log.queue.gone import Settled
from persistence.log.queue.idle import drop_dead
from persistence.log.queue.queue_log import QueueLog
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, bodies, fill, raw_batches

OPTIONS = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, clean_bytes_min=1000)


class KeptUntil(Settled):
    """A message is gone once it is settled and its segment began before ``time_us``."""

    def __init__(self, time_us: int) -> None:
        self.time_us = time_us

    def all_gone(self, state: SettleState) -> bool:
        return False

    def is_gone(self, segment: Segment) -> bool:
        return segment.live == 0 and segment.first_ts < self.time_us

    def is_sparse(self, segment: Segment, ratio: float) -> bool:
        return False


def offsets_of(node: Node, log: QueueLog) -> list[int]:
    """The offsets below the end that batches on disk hold as messages."""
    found: list[int] = []
    for data in raw_batches(node.disk, log):
        header = parse_header(data, 0, log.partition.salt)
        assert header is not None
        if header.kind == MESSAGES:
            found += range(header.base, header.base + header.records)
    return found


def opened(disk: SimDisk | None = None) -> tuple[Node, QueueLog]:
    node = Node(disk, OPTIONS)
    log = node.catalog.open("a") if disk is not None else node.catalog.create("a", "/", "q", {})
    return node, log


def settle_all_but(node: Node, log: QueueLog, offsets: list[int], keep_every: int) -> list[int]:
    kept = [offset for number, offset in enumerate(offsets) if number % keep_every == 0]
    for offset in offsets:
        if offset not in kept:
            log.settle(offset, 0, ACK)
    node.sync._settles_due()
    for _ in range(20):
        node.settle()
        node.run_timers()
    log.request_checkpoint()
    node.settle()
    return kept


@pytest.mark.parametrize("keep_every", [1000, 60])
def test_settled_messages_stay_as_long_as_the_policy_says(keep_every: int) -> None:
    node, log = opened()
    log.partition.gone = policy = KeptUntil(0)
    offsets = fill(log, 150)
    node.settle()
    kept = settle_all_but(node, log, offsets, keep_every)
    # Replay finds everything, consumers what is not settled.
    assert [offset for offset in offsets_of(node, log) if offset in offsets] == offsets
    assert len(bodies(log)) == len(kept)
    policy.time_us = 1 << 60
    before = len(log.partition.segments)
    drop_dead(log)
    node.settle()
    assert len(log.partition.segments) < before
    assert len(bodies(log)) == len(kept)


def test_start_finds_what_the_policy_kept() -> None:
    node, log = opened()
    log.partition.gone = KeptUntil(0)
    offsets = fill(log, 150)
    node.settle()
    kept = settle_all_but(node, log, offsets, 50)
    node.catalog.stop()
    assert isinstance(node.disk, SimDisk)
    node, again = opened(node.disk)
    assert [offset for offset in offsets_of(node, again) if offset in offsets] == offsets
    assert len(bodies(again)) == len(kept)


def test_settled_messages_of_a_queue_go() -> None:
    node, log = opened()
    offsets = fill(log, 150)
    node.settle()
    kept = settle_all_but(node, log, offsets, 50)
    assert len(offsets_of(node, log)) < 100
    assert len(bodies(log)) == len(kept)
