"""What a log's times are when the system's clock jumps."""

from __future__ import annotations

from struct import iter_unpack

import pytest

from amqp_router.protocol.flags import ACK
from amqp_router.protocol.message import Extras
from persistence.clock import JUMP_US
from persistence.log.format import producers, sources
from persistence.log.format.record import MESSAGES, SETTLES, parse_header
from persistence.log.offline.verify import BatchInfo, iterate, verify
from persistence.log.queue.queue_log import QueueLog
from persistence.log.queue.times import SEGMENTS_LEAST
from persistence.log.replica.follower import Follower
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import SMALL, Node, bodies, message, raw_batches, unsettled

DIRECTORY = "d/queues/a/0"
NOW_US = 1_700_000_000_000_000
YEAR_US = 365 * 86_400_000_000


class ClockedNode(Node):
    """A node whose log "a" is open, at a time."""

    def __init__(self, disk: SimDisk | None = None, now_us: int = NOW_US, **options: object) -> None:
        super().__init__(disk, **options)  # type: ignore[arg-type]
        self.now_us = now_us
        is_new = disk is None
        self.log = self.catalog.create("a", "/", "a", {}) if is_new else self.catalog.open("a")
        self.catalog.quarantine_unknown(["a"])

    def write(self, body: bytes = b"x") -> int:
        """A message, on disk; its offset."""
        made = message(body)
        self.log.append(made, self.now_us)
        self.settle()
        return made.offset


def segments(disk: object) -> dict[int, list[int]]:
    """The base times of the batches in each segment, by the segment's base offset."""
    found: dict[int, list[int]] = {}
    for each in iterate(DIRECTORY, disk):  # type: ignore[arg-type]
        assert isinstance(each, BatchInfo), each
        found.setdefault(int(each.path[-24:-4]), []).append(each.header.base_ts)
    for times in found.values():
        assert times == sorted(times), "times fall within a segment"
    return found


@pytest.mark.parametrize("end", ["clean", "clean and idle", "killed", "killed with a checkpoint"])
def test_a_start_with_the_right_clock_goes_on_at_its_time(end: str, caplog: pytest.LogCaptureFixture) -> None:
    node = ClockedNode(now_us=NOW_US - 5_000_000)
    node.write(b"before")
    node.now_us = NOW_US + YEAR_US
    node.write(b"ahead")
    if end == "killed with a checkpoint":
        node.log.request_checkpoint()
        node.settle()
    elif end != "killed":
        node.catalog.stop()
    node = ClockedNode(node.disk)
    assert [record.message for record in caplog.records if "clock" in record.message] == [
        f"the system's clock was up to {YEAR_US // 1_000_000} s ahead of now when 1 log(s) were written, "
        f"{DIRECTORY} furthest: a new segment from offset {node.log.end} on has the clock's time again"
    ]
    caplog.clear()
    if end == "clean and idle":  # nothing was written, and the time is right nevertheless
        node.catalog.stop()
        node = ClockedNode(node.disk)
        assert "clock" not in caplog.text
    first = node.log.end
    node.now_us += 1_000_000
    node.write(b"after")
    assert segments(node.disk) == {
        0: [NOW_US - 5_000_000, NOW_US - 5_000_000, NOW_US + YEAR_US],
        first: [NOW_US + 1_000_000] * 2,
    }
    assert bodies(node.log) == [b"before", b"ahead", b"after"]
    summary = verify(DIRECTORY, node.disk)
    assert summary.problem is None
    again = ClockedNode(node.disk, NOW_US + 2_000_000)
    assert "clock" not in caplog.text
    again.catalog.stop()
    again = ClockedNode(node.disk, NOW_US + 3_000_000)
    assert "clock" not in caplog.text
    assert bodies(again.log) == [b"before", b"ahead", b"after"]


def test_a_clock_that_is_a_little_behind_is_levelled_out() -> None:
    node = ClockedNode(now_us=NOW_US + JUMP_US)
    node.write()
    node = ClockedNode(node.disk)
    node.write()
    assert segments(node.disk) == {0: [NOW_US + JUMP_US] * 4}


def test_a_jump_back_of_a_running_clock_begins_a_segment_with_the_next_round() -> None:
    """The round that notices it still has the time before: messages get it before the clock is looked at."""
    node = ClockedNode()
    node.write()
    node.now_us += 7_200_000_000
    first = node.write()
    node.now_us -= 7_200_000_000 - 1
    node.write()
    node.log.settle(first, 0, ACK)
    node.sync._settles_due()
    node.settle()
    found = segments(node.disk)
    (_, old), (base, new) = found.items()
    assert old == [NOW_US] * 2 + [NOW_US + 7_200_000_000] * 2
    assert new == [NOW_US + 1]
    assert node.log.end == base + 1
    node.write()
    assert segments(node.disk)[base] == [NOW_US + 1] * 2


def test_settles_of_the_round_that_notices_the_jump_have_the_clocks_time() -> None:
    node = ClockedNode(now_us=NOW_US + YEAR_US)
    first = node.write()
    node.now_us = NOW_US
    node.log.append(message(b"y"), NOW_US)
    node.log.settle(first, 0, ACK)
    node.settle()
    kinds = [
        (each.header.kind, each.header.base_ts)
        for each in iterate(DIRECTORY, node.disk)
        if isinstance(each, BatchInfo)
    ]
    assert kinds[-2:] == [(MESSAGES, NOW_US + YEAR_US), (SETTLES, NOW_US)]
    assert len(segments(node.disk)) == 2


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_goes_to_and_fro_does_not_make_a_segment_each_time(
    restart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = ClockedNode()
    for number in range(100):
        node.now_us = NOW_US + (YEAR_US if number % 2 == 0 else 0)
        node.write(b"%d" % number)
        if restart:
            node = ClockedNode(node.disk, node.now_us)
    written = sum(len(times) for times in segments(node.disk).values())
    assert written >= 100
    size = sum(segment.size for segment in node.log.partition.segments)
    assert 2 < len(segments(node.disk)) <= SEGMENTS_LEAST + size * SEGMENTS_LEAST // SMALL.segment_bytes_max
    assert bodies(node.log) == [b"%d" % number for number in range(100)]
    if restart:
        assert "keep their last time: the last 8 segments are too small for another one" in caplog.text


def test_a_log_that_kept_its_time_goes_back_when_it_has_grown() -> None:
    node = ClockedNode()
    for number in range(2 * SEGMENTS_LEAST):
        node.now_us = NOW_US + (YEAR_US if number % 2 == 0 else 0)
        node.write()
    node.now_us = NOW_US + YEAR_US
    node.write()
    node.now_us = NOW_US
    node.write()
    assert node.log.batches.last_us > NOW_US
    node.write(b"x" * SMALL.segment_bytes_max)
    node.write()
    assert node.log.batches.last_us == NOW_US


def test_the_index_has_the_times_since_the_segments_first_batch() -> None:
    """Also of a log that was opened again, and read before it was written to."""
    node = ClockedNode()
    for _ in range(15):
        node.write(b"x" * 100)
        node.now_us += 1_000_000
    node.catalog.stop()
    node = ClockedNode(node.disk, node.now_us)
    node.write(b"x" * 100)
    assert len(bodies(node.log)) == 16
    while len(node.log.partition.segments) == 1:
        node.now_us += 1_000_000
        node.write(b"x" * 100)
    disk = node.disk
    assert isinstance(disk, SimDisk)
    index, data = disk.names[f"{DIRECTORY}/{0:020d}.index"], disk.names[f"{DIRECTORY}/{0:020d}.log"]
    assert index is not None
    assert data is not None
    entries = [(since_ms, position) for _, since_ms, position in iter_unpack("<IIQ", index.now[16:])]
    assert len(entries) > 4
    salt = node.log.partition.salt
    headers = [parse_header(bytes(data.now), position, salt) for _, position in entries]
    times = [header.base_ts for header in headers if header is not None]
    assert [since_ms for since_ms, _ in entries] == [(time - NOW_US) // 1000 for time in times]


def note(log: QueueLog, session: int, sequence: int, now_us: int) -> None:
    made = message(b"x")
    made.extras = Extras()
    made.extras.session, made.extras.sequence = session, sequence
    made.extras.source, made.extras.source_offset = bytes([session]) * 16, sequence
    log.append(made, now_us)


def letter(session: int, sequence: int) -> Extras:
    made = Extras()
    made.source, made.source_offset = bytes([session]) * 16, sequence
    return made


@pytest.mark.parametrize("end", ["checkpoint", "no checkpoint", "clean"])
def test_what_a_log_has_taken_is_known_when_its_time_falls(end: str) -> None:
    node = ClockedNode(now_us=NOW_US + YEAR_US)
    note(node.log, 1, 7, node.now_us)
    node.settle()
    node = ClockedNode(node.disk)
    note(node.log, 2, 8, NOW_US)
    node.settle()
    if end == "checkpoint":
        node.log.request_checkpoint()
        node.settle()
    elif end == "clean":
        node.catalog.stop()
    log = ClockedNode(node.disk).log
    assert (log.taken.last_sequence(1, 0), log.taken.last_sequence(2, 0)) == (7, 8)
    assert log.taken.has_letter(letter(1, 7))
    assert log.taken.has_letter(letter(2, 8))
    # They are as old as the log's time was then, not younger than all that comes.
    note(log, 3, 9, NOW_US + sources.KEPT_US + 1)
    assert not log.taken.has_letter(letter(1, 7))
    assert log.taken.last_sequence(1, 0) == 7
    note(log, 3, 10, NOW_US + producers.KEPT_US + 1)
    assert log.taken.last_sequence(1, 0) == 0


def test_a_copy_of_a_log_has_no_segment_in_which_times_fall() -> None:
    """Its segments are cut by its own rules; the batches are the leader's, octet by octet."""
    leading, following = Node(), Node()
    leader, follower = [
        Follower(node.catalog.create("a", "/", "a", {}, mirrored=True)) for node in (leading, following)
    ]
    leading.now_us = following.now_us = NOW_US
    leader.lead(1)
    for now_us in (NOW_US, NOW_US + YEAR_US, NOW_US + YEAR_US, NOW_US, NOW_US + 5):
        leading.now_us = now_us
        leader.log.append(message(b"x"), now_us)
        leading.settle()
        for data in raw_batches(leading.disk, leader.log, follower.log.end):
            follower.append_raw(data)
        following.settle()
    assert segments(following.disk) == segments(leading.disk)
    assert len(segments(following.disk)) == 2
    assert follower.log.batches.last_us == leader.log.batches.last_us == NOW_US + 5
    assert unsettled(follower.log) == unsettled(leader.log)
    again = Follower(Node(following.disk).catalog.open("a", mirrored=True))
    assert bodies(again.log) == bodies(leader.log)
