"""The file ``synced``: its layout, and that it never says more than a power failure leaves."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from struct import unpack_from
from typing import Any
from zlib import crc32

import pytest

from persistence.errors import CorruptLog
from persistence.files import RealDisk
from persistence.log.format.segment import segment_name
from persistence.log.queue import copies
from persistence.log.queue.idle import roll_idle
from persistence.log.sync.marks import Marks, log_id, read_marks
from persistence.options import LogOptions
from spark_analytics import synced
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import SMALL, Node, fill, message

ONE, TWO = "0123456789abcdef" * 2, "f" * 32


def read(node: Node, name: str = "d/synced") -> dict[bytes, tuple[int, ...]]:
    """Log id to (partition, epoch, end, segment, position, start), by the words of FORMAT.md."""
    disk: Any = node.disk
    data = bytes(disk.names[name].now)
    return decode(data)


def decode(data: bytes) -> dict[bytes, tuple[int, ...]]:
    magic, version, slot_size, slots, zero = unpack_from("<4sHHII", data)
    assert (magic, version, slot_size, zero) == (b"ARLW", 0, 64, 0)
    assert unpack_from("<I", data, 60)[0] == crc32(data[:60])
    assert data[32:60] == bytes(28)
    found = {}
    for at in range(64, len(data), 64):
        slot = data[at : at + 64]
        if slot == bytes(64):
            continue
        assert (at - 64) // 64 < slots
        assert unpack_from("<I", slot, 60)[0] == crc32(slot[:60])
        assert unpack_from("<I", slot, 56)[0] == 1
        found[slot[:16]] = unpack_from("<IIQQQQ", slot, 16)
    return found


def started(disk: SimDisk | None = None, options: LogOptions = SMALL) -> Node:
    node = Node(disk, options)
    for incarnation in node.catalog.incarnations():
        node.catalog.open(incarnation)
    node.catalog.quarantine_unknown(node.catalog.incarnations())
    return node


def test_a_log_without_a_batch_has_no_mark() -> None:
    node = started()
    node.catalog.create(ONE, "/", "q")
    node.settle()
    assert read(node) == {}


def test_the_mark_follows_every_round() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    disk: Any = node.disk
    for number in range(30):
        fill(log, 3, first=3 * number)
        before = read(node)
        assert before.get(log_id(ONE), (0, 0, 0))[2] == log.durable, "unsynced messages are not in the mark"
        node.settle()
        partition, epoch, end, segment, position, start = read(node)[log_id(ONE)]
        assert (partition, epoch, end, start) == (0, log.epoch, log.end, 0)
        inode = disk.names[f"d/queues/{ONE}/0/{segment_name(segment)}"]
        assert len(inode.durable) == position, "the position is what is synced of the segment"
    assert len(log.partition.segments) > 1
    assert segment == log.partition.active.base


def test_what_arrives_while_a_round_is_under_way_is_not_covered() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    fill(log, 3)
    node.sync.start_round()
    fill(log, 30, first=3)
    log.seal()
    node.posted.pop(0)()
    assert log.durable < log.end
    _, _, end, segment, position, _ = read(node)[log_id(ONE)]
    disk: Any = node.disk
    assert end == log.durable
    assert position == len(disk.names[f"d/queues/{ONE}/0/{segment_name(segment)}"].durable)


def test_the_log_start_moves_when_segments_go() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    offsets = fill(log, 200)
    node.settle()
    for offset in offsets[:150]:
        log.settle(offset, 0, 1)
    node.run_timers()
    log.request_checkpoint()
    node.settle()
    assert log.start > 0
    assert read(node)[log_id(ONE)][5] == log.start


def test_an_idle_log_that_drops_its_segment() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    for offset in fill(log, 5):
        log.settle(offset, 0, 1)
    node.settle()
    roll_idle(log)
    node.settle()
    _, _, end, segment, position, start = read(node)[log_id(ONE)]
    assert (segment, position, start, end) == (log.partition.active.base, 0, log.start, log.end)


def test_a_mirrored_log_shows_what_lies_below_its_high_watermark(tmp_path: Path) -> None:
    """What is durable on this node alone may still be cut: the mark stops before it, a promise does not."""
    node = started()
    log = node.catalog.create(ONE, "/", "q", mirrored=True)
    ends = []
    for number in range(4):
        fill(log, 2, first=2 * number)
        node.settle()
        ends.append((log.end, log.partition.active.size))
    key = log_id(ONE), 0

    def marked() -> tuple[int, int, int]:
        """Offset and position for readers, and the end that the next start asks for."""
        disk: Any = node.disk
        (tmp_path / "synced").write_bytes(disk.names["d/synced"].now)
        found = synced.read_marks(str(tmp_path))
        assert found is not None
        mark, own = found[ONE, 0], read_marks(node.disk, "d")[key]
        assert (own.watermark, own.segment, own.position) == (mark.end, mark.base, mark.position)
        return mark.end, mark.position, own.end

    assert marked() == (0, 0, log.durable)
    log.advance_high_watermark(ends[1][0])
    assert marked() == (*ends[1], log.durable)
    log.advance_high_watermark(ends[2][0] - 1)  # inside of a batch
    assert marked() == (*ends[1], log.durable)
    disk: Any = node.disk
    disk.forget_files()
    node = Node(disk)
    log = node.catalog.open(ONE, mirrored=True)
    node.catalog.quarantine_unknown([ONE])
    assert (log.high_watermark, log.durable, log.copies.visible_end) == (ends[1][0], log.end, ends[1][0])
    assert marked() == (*ends[1], ends[3][0])
    log.advance_high_watermark(log.durable)
    assert marked() == (*ends[3], ends[3][0])
    node.catalog.forget(ONE)
    assert read_marks(node.disk, "d") == {}


def test_the_promise_of_a_log_that_cannot_be_opened_is_kept() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q", mirrored=True)
    fill(log, 3)
    node.settle()
    before = read_marks(node.disk, "d")
    disk: Any = node.disk
    disk.forget_files()
    path = log.partition.active.path
    disk.names[path].now[:] = b""
    for _ in range(2):
        node = Node(disk)
        with pytest.raises(CorruptLog, match="had been made durable"):
            node.catalog.open(ONE, mirrored=True)
        node.catalog.quarantine_unknown([ONE])
        assert read_marks(node.disk, "d") == before


def test_the_ends_of_many_batches_are_found_in_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_ENDS_MAX", 2)
    node = started()
    log = node.catalog.create(ONE, "/", "q", mirrored=True)
    ends = []
    for number in range(12):
        fill(log, 1, first=number)
        node.settle()
        ends.append(log.end)
    for end in ends:
        log.advance_high_watermark(end)
        mark = read_marks(node.disk, "d")[log_id(ONE), 0]
        assert mark.watermark == end
        segment = next(each for each in log.partition.segments if each.base == mark.segment)
        assert segment.base < end <= segment.end
        assert (mark.position == segment.size) == (end == segment.end)


def test_deleting_frees_the_slot_for_the_next_log() -> None:
    node = started()
    for name in (ONE, TWO):
        fill(node.catalog.create(name, "/", name), 1)
    node.settle()
    assert read(node).keys() == {log_id(ONE), log_id(TWO)}
    node.catalog.forget(ONE)
    assert read(node).keys() == {log_id(TWO)}
    fill(node.catalog.create("ab" * 16, "/", "third"), 1)
    node.settle()
    assert read(node).keys() == {log_id(TWO), bytes.fromhex("ab" * 16)}
    disk: Any = node.disk
    assert unpack_from("<I", disk.names["d/synced"].now, 8)[0] == 2


def test_a_log_deleted_while_its_round_is_under_way() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    fill(log, 1)
    node.sync.start_round()
    node.catalog.forget(ONE)
    node.settle()
    assert read(node) == {}


def test_truncating_takes_the_mark_back() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    fill(log, 5)
    node.settle()
    middle = log.end
    fill(log, 5, first=5)
    node.settle()
    node.catalog.truncate(log, middle)
    _, _, end, _, position, _ = read(node)[log_id(ONE)]
    assert (end, position) == (log.end, log.partition.active.size)
    assert end <= middle


def test_cleaning_shortens_the_segment_the_mark_is_in() -> None:
    """It may be a closed one: the next is begun, and nothing of it is synced yet."""
    options = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, clean_bytes_min=1000)
    node = started(None, options)
    log = node.catalog.create(ONE, "/", "q")
    offsets = fill(log, 200)
    node.settle()
    for offset in offsets:
        if offset % 25:
            log.settle(offset, 0, 1)
    log.request_checkpoint()
    node.settle()
    log.partition.roll(log.end)
    disk: Any = node.disk
    for _ in range(60):
        node.run_timers()
        _, _, _, segment, position, _ = read(node)[log_id(ONE)]
        assert len(disk.names[f"d/queues/{ONE}/0/{segment_name(segment)}"].now) == position
    assert node.catalog.caretaker.cleaning.segments_cleaned > 1


def test_a_start_replaces_the_file_once_all_logs_are_recovered() -> None:
    node = started()
    for name in (ONE, TWO):
        fill(node.catalog.create(name, "/", name), 3)
    node.settle()
    before = read(node)
    later = Node(node.disk)
    later.catalog.open(ONE)
    assert read(later) == before, "until then the marks of the last process stand"
    later.catalog.open(TWO)
    later.catalog.quarantine_unknown([ONE, TWO])
    after = read(later)
    assert after.keys() == before.keys()
    assert {key: mark[2:5] for key, mark in after.items()} == {key: mark[2:5] for key, mark in before.items()}
    assert later.disk.list("d").count("synced.tmp") == 0


def test_the_marks_stay_after_a_stop() -> None:
    node = started()
    log = node.catalog.create(ONE, "/", "q")
    fill(log, 3)
    node.catalog.stop()
    assert read(node)[log_id(ONE)][2] == log.end


@pytest.mark.parametrize("seed", range(40))
def test_power_loss_leaves_no_mark_beyond_what_was_synced(seed: int) -> None:
    random = Random(seed)
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    node = started(disk)
    log = node.catalog.create(ONE, "/", "q")
    for number in range(random.randint(1, 12)):
        fill(log, random.randint(1, 8), first=10 * number)
        if random.random() < 0.8:
            node.settle()
    durable = log.durable
    disk.power_loss(random)
    if "d/synced" in disk.names:
        assert disk.names["d/synced"] is not None
        for mark in decode_what_is_whole(bytes(disk.names["d/synced"].now)):
            assert mark[2] <= durable
            path = f"d/queues/{ONE}/0/{segment_name(mark[3])}"
            inode = disk.names[path]
            assert inode is not None
            assert len(inode.now) >= mark[4]


def decode_what_is_whole(data: bytes) -> list[tuple[int, ...]]:
    slots = [data[at : at + 64] for at in range(64, len(data), 64)]
    return [
        unpack_from("<IIQQQQ", slot, 16)
        for slot in slots
        if len(slot) == 64 and unpack_from("<I", slot, 60)[0] == crc32(slot[:60]) and slot != bytes(64)
    ]


def test_layout_on_a_real_disk_bit_by_bit(tmp_path: Path) -> None:
    marks = Marks(RealDisk(), str(tmp_path))
    marks.begin(bytes(range(16)))
    marks.put("key", ONE, 3, 7, 1000, 900, 4096, 12)
    assert not (tmp_path / "synced").exists()
    marks.publish()
    data = (tmp_path / "synced").read_bytes()
    assert data[:12] == bytes.fromhex("41524c57 0000 4000 01000000")
    assert data[16:32] == bytes(range(16))
    slot = data[64:128]
    assert slot[:16] == bytes.fromhex(ONE)
    assert slot[16:60] == (
        bytes.fromhex("03000000 07000000 e803000000000000 8403000000000000 0010000000000000")
        + bytes.fromhex("0c00000000000000 01000000")
    )
    assert slot[60:] == crc32(slot[:60]).to_bytes(4, "little")
    assert os.stat(tmp_path / "synced").st_mode & 0o777 & ~0o640 == 0
    marks.close()
    assert (tmp_path / "synced").read_bytes() == data


def test_marks_are_found_wherever_the_last_one_is(tmp_path: Path) -> None:
    """A slot between others is free; the file may end behind the last mark or within a slot."""
    names = [f"{number:032x}" for number in range(1, 10)]
    marks = Marks(RealDisk(), str(tmp_path))
    marks.begin(bytes(16))
    for number, name in enumerate(names, 1):
        marks.put(name, name, 0, 1, number, 0, 0, 0)
    marks.clear(names[3])
    marks.publish()
    marks.close()
    wanted = {(log_id(name), 0): end for end, name in enumerate(names, 1) if end != 4}
    whole = (tmp_path / "synced").read_bytes()
    for size in (len(whole), len(whole) - 1, 64 * 11, 64 * 10 + 1, 64 * 10):
        (tmp_path / "synced").write_bytes(whole[:size])
        faults: list[str] = []
        found = read_marks(RealDisk(), str(tmp_path), faults)
        assert {key: mark.end for key, mark in found.items()} == wanted, size
        assert faults == [], size
    (tmp_path / "synced").write_bytes(whole[: 64 * 10 - 1])
    wanted.popitem()
    assert {key: mark.end for key, mark in read_marks(RealDisk(), str(tmp_path)).items()} == wanted
    for empty in (b"", whole[:64], bytes(4096)):
        (tmp_path / "synced").write_bytes(empty)
        assert read_marks(RealDisk(), str(tmp_path)) == {}


def test_the_file_grows_by_whole_slots_with_their_space(tmp_path: Path) -> None:
    marks = Marks(RealDisk(), str(tmp_path))
    marks.begin(bytes(16))
    marks.publish()
    first = os.stat(tmp_path / "synced").st_size
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(5000):
        marks.put(number, f"{number:032x}", 0, 1, number, 0, number, 0)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    status = os.stat(tmp_path / "synced")
    assert status.st_size > first
    assert status.st_size % 64 == 0
    assert status.st_blocks * 512 >= status.st_size
    found = decode((tmp_path / "synced").read_bytes())
    assert {int.from_bytes(key, "big"): mark[2] for key, mark in found.items()} == {
        number: number for number in range(5000)
    }
    marks.close()


def test_no_space_to_grow_leaves_new_logs_out_until_there_is(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    disk.make_directory("d")
    marks = Marks(disk, "d")
    marks.begin(bytes(16))

    def full(operation: str, path: str) -> None:
        raise OSError(28, "No space left on device", path)

    for number in range(1023):
        marks.put(number, f"{number:032x}", 0, 1, 1, 0, 1, 0)
    disk.hook = full
    for _ in range(3):
        marks.put(1023, f"{1023:032x}", 0, 1, 1, 0, 1, 0)
    assert len(caplog.records) == 1
    marks.put(5, f"{5:032x}", 0, 1, 99, 0, 99, 0)
    disk.hook = None
    marks.put(1023, f"{1023:032x}", 0, 1, 1, 0, 1, 0)
    marks.publish()
    inode = disk.names["d/synced"]
    assert inode is not None
    found = decode(bytes(inode.now))
    assert len(found) == 1024
    assert found[(5).to_bytes(16, "big")][2] == 99


def test_a_large_message_and_a_journalled_round() -> None:
    """Marks speak of both ways to make durable."""
    node = started(None, LogOptions(journal_logs_min=1))
    logs = [node.catalog.create(name, "/", name) for name in (ONE, TWO)]
    for log in logs:
        log.append(message(b"x" * 100_000), 1_000_000)
        fill(log, 2)
    node.settle()
    for log in logs:
        _, _, end, segment, position, _ = read(node)[log_id(log.incarnation)]
        assert (end, segment, position) == (log.end, 0, log.partition.active.size)
