"""What a follower takes and refuses, and the toy's first seeds."""

from __future__ import annotations

import pytest

from amqp_router.protocol.flags import ACK
from persistence.files import join
from persistence.log.format.checkpoint import LogState, newest, pack_log, unpack_log
from persistence.log.format.record import parse_header
from persistence.log.queue.epochs import epoch_at
from persistence.log.queue.held import Held, hold, reached
from persistence.log.queue.truncation import truncate_later
from persistence.log.replica.copying import NotCopied
from persistence.log.replica.epochs import common_end
from persistence.log.replica.follower import Follower
from persistence.log.replica.leader import is_valid, snapshot
from persistence.log.replica.reading import RawReader
from persistence.log.sync.marks import log_id, read_marks
from tests.persistence.log.replica.walk import walk
from tests.persistence.log.support import (
    ManualWorker,
    Node,
    bodies,
    fill,
    last_of,
    message,
    raw_batches,
    unsettled,
)

EVERYTHING = 1 << 62


@pytest.mark.parametrize("seed", range(40))
def test_a_follower_has_what_the_leader_has(seed: int) -> None:
    walk(seed)


def pair() -> tuple[Node, Follower, Node, Follower]:
    """A leader in epoch 1 with three messages, of which one is settled, and a follower without any."""
    nodes = Node(), Node()
    leader, follower = [Follower(node.catalog.create("a", "/", "q", {}, mirrored=True)) for node in nodes]
    leader.lead(1)
    fill(leader.log, 3)
    leader.log.settle(2, 0, ACK)
    nodes[0].settle()
    return nodes[0], leader, nodes[1], follower


def copy(node: Node, leader: Follower, follower: Follower) -> None:
    """Copy what ``follower`` lacks from ``leader``, which is on ``node``."""
    for data in raw_batches(node.disk, leader.log, follower.log.end):
        follower.append_raw(data)


def test_the_follower_is_durable_and_its_watermark_is_the_leaders() -> None:
    leads, leader, node, follower = pair()
    copy(leads, leader, follower)
    node.settle()
    log = follower.log
    assert (log.end, log.durable, log.high_watermark) == (leader.log.end, leader.log.end, 0)
    log.advance_high_watermark(3)
    log.request_checkpoint()
    node.settle()
    assert log.checkpoints.durable == 0  # it waits for the high watermark
    log.advance_high_watermark(log.durable)
    node.settle()
    assert (log.checkpoints.durable, log.checkpoints.offset) == (1, log.end)
    again = Follower(Node(node.disk).catalog.open("a", mirrored=True)).log
    assert (again.high_watermark, unsettled(again)) == (log.end, [1, 3])
    assert bodies(again) == bodies(leader.log)


def test_what_does_not_follow_is_refused() -> None:
    node, leader, _, follower = pair()
    first, second, *_ = raw_batches(node.disk, leader.log)
    elsewhere = Node()
    other = elsewhere.catalog.create("b", "/", "q", {})
    fill(other, 1)
    damaged = second[:-1] + bytes([second[-1] ^ 1])
    follower.log.batches.end = 1
    with pytest.raises(NotCopied, match="epoch 1 where epoch 0 goes on"):
        follower.append_raw(second)
    follower.log.batches.end = 0
    for data, text in (
        (second, "offset 1 where 0 follows"),
        (first[:-1], "one whole batch"),
        (b"", "one whole batch"),
        (raw_batches(elsewhere.disk, other)[0], "batch of this log"),
        (damaged, "checksum of the payload"),
    ):
        with pytest.raises(NotCopied, match=text):
            follower.append_raw(data)
    assert follower.log.end == 0
    follower.append_raw(first)
    with pytest.raises(NotCopied, match="offset 0 where 1 follows"):
        follower.append_raw(first)
    follower.lead(2)
    with pytest.raises(NotCopied, match="epoch 1 after one of epoch 2"):
        follower.append_raw(second)
    with pytest.raises(NotCopied, match="not above"):
        follower.lead(2)


def test_reserved_places_get_a_batch_before_a_copied_one() -> None:
    """A leader that is deposed has given places to transient messages; no batch of its own has them."""
    leads, leader, node, follower = pair()
    copy(leads, leader, follower)
    log = follower.log
    made = message(b"t")
    made.flags = 0
    log.reserve(made)
    base = log.batches.closed.end
    leader.log.reserve(message(b"t"))
    leader.log.batches.closed.end += 1  # as if another leader had begun its batch behind the place
    leader.log.append(message(b"new"), 5)
    (data,) = raw_batches(leads.disk, leader.log, log.batches.end)
    follower.append_raw(data)
    found = [parse_header(each, 0, log.partition.salt) for each in raw_batches(node.disk, log, base)]
    assert [(each.kind, each.base, each.last) for each in found if each] == [
        (3, base, base),
        (1, base + 1, base + 1),
    ]
    assert unsettled(log) == [1, 3, base + 1]


def test_a_snapshot_where_settles_are_cleaned_away() -> None:
    """A follower of the bare batches would keep what the leader has settled long ago."""
    node, leader, other, follower = pair()
    log = leader.log
    offsets = fill(log, 40, 200)
    node.settle()
    log.advance_high_watermark(log.durable)
    for offset in [1, 3, *offsets[:30]]:
        log.settle(offset, 0, ACK)
    for _ in range(6):
        node.settle()
        log.advance_high_watermark(log.durable)
        node.run_timers()
    assert log.copies.history_start > 0
    found = snapshot(log, node.disk, "d")
    assert found is not None
    end, state = found
    with pytest.raises(NotCopied, match="not await"):
        follower.install(0, state)
    follower.begin_backfill()
    with pytest.raises(NotCopied, match="yet"):
        follower.backfill(0, b"", end)
    other.settle()
    with pytest.raises(NotCopied, match="awaits a snapshot"):
        copy(node, leader, follower)
    first = 0
    for data in raw_batches(node.disk, log):
        if last_of(data) >= end:
            break
        header = parse_header(data, 0, log.partition.salt)
        assert header is not None
        follower.backfill(first, data, end)
        first = header.last + 1
    with pytest.raises(NotCopied, match="missing"):
        follower.install(end + 1, state)
    assert is_valid(log, end)
    assert Node(other.disk).catalog.open("a", mirrored=True).copies.awaits_snapshot
    follower.install(follower.log.end, state)
    fill(log, 1)
    with pytest.raises(NotCopied, match="begun to write"):
        copy(node, leader, follower)
    assert not follower.is_whole
    other.settle()
    assert follower.is_whole
    copy(node, leader, follower)
    assert unsettled(follower.log) == unsettled(log)
    assert bodies(follower.log) == bodies(log)


def test_a_snapshot_from_before_a_removal_is_not_valid() -> None:
    """Also if the history of the log began behind the removed segment already."""
    node, leader, _, _ = pair()
    log = leader.log
    offsets = fill(log, 4, 3000)
    node.settle()
    log.settle(offsets[2], 0, ACK)

    def save() -> None:
        log.request_checkpoint()
        node.settle()

    node.settle()
    log.advance_high_watermark(log.durable)
    save()
    save()
    log.advance_high_watermark(log.durable)
    node.settle()
    assert log.copies.history_start == offsets[3]
    end = log.checkpoints.offset
    assert is_valid(log, end)
    log.settle(offsets[1], 0, ACK)
    save()
    assert offsets[1] not in [segment.base for segment in log.partition.segments]
    assert not is_valid(log, end)


def test_a_copy_is_emptied_below_its_checkpoint() -> None:
    leads, leader, node, follower = pair()
    copy(leads, leader, follower)
    node.settle()
    follower.log.advance_high_watermark(follower.log.durable)
    follower.log.request_checkpoint()
    node.settle()
    done: list[int] = []
    truncate_later(follower.log, node.sync, node.disk, "d", 2, lambda: done.append(follower.log.end))
    assert not done
    node.settle()
    assert done == [0]
    assert follower.log.copies.awaits_snapshot
    assert node.disk.list("d/queues/a/0") == ["checkpoint"]
    again = Node(node.disk).catalog.open("a", mirrored=True)
    assert (again.end, again.copies.awaits_snapshot, again.batches.generation) == (0, True, 1)


def test_logs_are_compared_by_epochs() -> None:
    mine = [(1, 0), (3, 10)]
    assert [epoch_at(mine, offset) for offset in (0, 9, 10, 99)] == [1, 1, 3, 3]
    assert epoch_at([], 5) == 0
    assert common_end(mine, 15, mine, 12) == 12
    assert common_end(mine, 15, [(1, 0), (2, 8), (4, 14)], 20) == 8
    assert common_end(mine, 15, [(1, 0), (4, 12)], 20) == 10
    assert common_end(mine, 15, [(2, 0)], 20) == 0
    assert common_end([], 0, mine, 15) == 0


def test_held_checkpoints() -> None:
    waiting: list[Held] = []
    for number in range(1, 5):
        hold(waiting, Held(number, 10 * number, b"%d" % number, [], None))
    assert [held.number for held in waiting] == [1, 4]
    assert reached(waiting, 9) is None
    found = reached(waiting, 39)
    assert found is not None
    assert found.number == 1
    found = reached(waiting, 40)
    assert found is not None
    assert found.number == 4
    assert not waiting


def test_fields_of_a_checkpoint() -> None:
    state = LogState("a", 0, generation=3, is_cut=True, awaits_snapshot=True, history_start=7)
    found = unpack_log(pack_log(state))
    assert (found.generation, found.is_cut, found.awaits_snapshot, found.history_start) == (3, True, True, 7)
    older = LogState("a", 0, generation=2, epoch=9, recovery_offset=50)
    assert newest(older, state) is state
    with pytest.raises(ValueError, match="not the state"):
        unpack_log(b"abc")


def test_batches_are_read_from_memory_and_by_the_worker() -> None:
    node, leader, _, _ = pair()
    log = leader.log
    fill(log, 60, 300)
    worker = ManualWorker()
    reader = RawReader(log, node.disk, node.sync.loop, worker, cache_bytes=1500)
    answers: list[list[bytes]] = []

    def read(first: int, max_bytes: int = 700) -> list[bytes]:
        reader.read(first, max_bytes, lambda found, error: answers.append(found if error is None else []))
        while not answers:
            worker.run_one()
            node.posted.pop(0)()
        return answers.pop()

    wanted = raw_batches(node.disk, log)
    found: list[bytes] = []
    while len(found) < len(wanted):
        found += read(last_of(found[-1]) + 1 if found else 0)
    assert [each[:64] for each in found] == [each[:64] for each in wanted]  # without ``unsynced_back``
    assert read(log.batches.closed.end) == []
    node.settle()
    assert log.reader.closed(log.end - 1) is None
    assert read(last_of(wanted[-2]) + 1) == found[-1:]  # still in memory
    assert not worker.jobs
    assert read(0)[0] == raw_batches(node.disk, log)[0]


def test_what_is_rewritten_meanwhile_is_read_again() -> None:
    node, leader, _, _ = pair()
    worker = ManualWorker()
    reader = RawReader(leader.log, node.disk, node.sync.loop, worker)
    answers: list[tuple[list[bytes], Exception | None]] = []
    path = leader.log.partition.active.path
    reader.read(0, 1, lambda *answer: answers.append(answer))
    node.disk.rename(path, path + ".away")
    worker.run_one()
    node.disk.rename(path + ".away", path)
    node.posted.pop(0)()
    worker.run_one()
    node.posted.pop(0)()
    assert answers[0][0] == raw_batches(node.disk, leader.log)[:1]
    reader.read(0, 1, lambda *answer: answers.append(answer))
    node.disk.unlink(path)
    for _ in range(2):
        worker.run_one()
        node.posted.pop(0)()
    assert isinstance(answers[1][1], FileNotFoundError)


def test_the_mark_stays_behind_settles_whose_checkpoint_waits() -> None:
    """The file of a segment that left the log's list is read until a durable checkpoint is without it."""
    node, leader, _, _ = pair()
    log = leader.log
    node.catalog.quarantine_unknown(["a"])  # shows the marks to readers
    offsets = fill(log, 3, 3000)
    node.settle()
    first, given_up, last = log.partition.segments
    assert given_up.base == offsets[1]
    log.advance_high_watermark(last.base)
    log.settle(offsets[1], 0, ACK)
    log.request_checkpoint()
    node.settle()
    assert log.saving.held  # the settle lies above the high watermark
    assert log.partition.segments == [first, last]
    fill(log, 1)
    node.settle()
    directory = log.partition.directory
    assert given_up.path in [join(directory, name) for name in node.disk.list(directory)]
    assert log.shown_place() == (last.base, last.base, 0)
    mark = read_marks(node.disk, "d")[log_id("a"), 0]
    assert (mark.watermark, mark.segment, mark.position) == log.shown_place()


def test_the_start_that_readers_see_waits_for_the_high_watermark() -> None:
    """What is settled above the high watermark only may come back, so it may still be read."""
    node, leader, _, _ = pair()
    log = leader.log
    node.catalog.quarantine_unknown(["a"])
    offsets = fill(log, 3, 3000)
    node.settle()
    last = log.partition.segments[-1]
    log.advance_high_watermark(last.base)
    for offset in [1, 3, *offsets[:2]]:
        log.settle(offset, 0, ACK)
    log.request_checkpoint()
    node.settle()
    assert log.partition.segments == [last]
    fill(log, 1)
    node.settle()
    assert read_marks(node.disk, "d")[log_id("a"), 0].start == 0
    log.advance_high_watermark(log.durable)
    node.settle()
    assert read_marks(node.disk, "d")[log_id("a"), 0].start == last.base


def test_a_stop_before_the_log_follows_begins_no_epoch() -> None:
    """The next start keeps what the log has taken since, which has the leader's epoch."""
    leads, leader, node, follower = pair()
    copy(leads, leader, follower)
    node.settle()
    follower.log.advance_high_watermark(follower.log.durable)
    node.settle()
    for _ in range(2):
        node.catalog.quarantine_unknown(["a"])
        node.catalog.stop()
        node = Node(node.disk)
        log = node.catalog.open("a", mirrored=True)
    node.catalog.quarantine_unknown(["a"])
    fill(leader.log, 1)
    leads.settle()
    copy(leads, leader, Follower(log))
    node.settle()
    assert log.durable == leader.log.end
    again = Node(node.disk).catalog.open("a", mirrored=True)
    assert again.end == log.durable
    assert bodies(again) == bodies(leader.log)
