"""Transient messages paged out of memory."""

from __future__ import annotations

import errno
import gc
import weakref

from amqp_router.protocol.message import Message
from persistence.files import FileCache
from persistence.log.queue.page_log import PageLog, PageRoom
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import InlineWorker, ManualWorker, Node, message


def page(offset: int, body: bytes) -> Message:
    made = message(body)
    made.flags = 0
    made.offset = offset
    return made


def test_messages_come_back_with_their_offsets() -> None:
    node = Node()
    log = node.catalog.new_page_log("q")
    wanted = {}
    for number in range(60):
        offset = 10 + 3 * number
        wanted[offset] = b"%d" % number * 20
        log.append(page(offset, wanted[offset]))
    found, following = log.read(0, 1000, 1000, 1 << 20)
    assert {entry.offset: entry.body() for entry in found} == wanted
    assert following == 1000
    assert all(entry.flags == 0 for entry in found)
    found, following = log.read(0, 1000, 2, 1 << 20)
    assert [entry.offset for entry in found] == [10, 13]
    found, _ = log.read(following, 20, 100, 1 << 20)
    assert [entry.offset for entry in found] == [16, 19]
    log.drop_below(100)
    found, _ = log.read(0, 1000, 1000, 1 << 20)
    assert [entry.offset for entry in found] == [offset for offset in wanted if offset >= 100]
    log.drop_below(1000)
    assert log.read(0, 3000, 10, 100)[0] == []
    log.append(page(2000, b"again"))
    assert [entry.body() for entry in log.read(0, 3000, 10, 100)[0]] == [b"again"]


def test_a_batch_that_grows_is_work() -> None:
    """A thousand queues that get the same messages all grow at the same one: in one turn, for 12 ms."""
    budget = MemoryBudget()
    room = PageRoom(budget, 1 << 30)
    node = Node()
    log = PageLog(
        node.disk, "d/paging", "q", LogOptions(), InlineWorker(), FileCache(node.disk, 8, write=True), room
    )
    costs = []
    for number in range(1000):
        log.append(page(number, bytes(20)))
        costs.append(budget.take_work())
    plain = min(costs)
    grown = [cost - plain for cost in costs if cost > plain]
    assert 5 <= len(grown) <= 40, "each part of the batch doubles"
    assert grown == sorted(grown)
    assert max(grown) >= 60


def test_large_message_is_paged_too() -> None:
    log = Node().catalog.new_page_log("q")
    body = b"abc" * 500_000
    log.append(page(1, b"small"))
    log.append(page(2, body))
    log.append(page(3, b"small"))
    found, _ = log.read(0, 10, 10, 1 << 30)
    assert [entry.body() for entry in found] == [b"small", body, b"small"]


def test_paging_is_wiped_at_start() -> None:
    node = Node()
    log = node.catalog.new_page_log("q")
    log.append(page(1, b"x"))
    log.read(0, 10, 1, 1)
    assert node.disk.list("d/paging")
    again = Node(node.disk)
    assert again.disk.list("d/paging") == []


def test_files_go_as_they_are_passed_and_elsewhere() -> None:
    # A file of some GB, removed on the event loop, kept everyone waiting for a third of a second.
    disk, janitor = SimDisk(), ManualWorker()
    options = LogOptions(batch_bytes_max=1000, page_bytes_max=5000)
    log = PageLog(
        disk,
        "paging",
        "q",
        options,
        janitor,
        FileCache(disk, 8, write=True),
        PageRoom(MemoryBudget(), 1 << 20),
    )
    for offset in range(200):
        log.append(page(offset, b"%d" % offset * 30))
    log.read(0, 1, 1, 1)
    made = disk.list("paging")
    assert len(made) > 3
    assert max(len(disk.open(f"paging/{name}").read(1 << 20, 0)) for name in made) < 6100
    seen: list[int] = []
    following = 0
    while following < 200:
        found, following = log.read(following, 200, 7, 1 << 20)
        seen += [entry.offset for entry in found]
        assert [entry.body() for entry in found] == [b"%d" % entry.offset * 30 for entry in found]
        log.drop_below(following)
    assert seen == list(range(200))
    assert disk.list("paging") == made  # the event loop removed nothing
    janitor.wait_idle()
    assert disk.list("paging") == made[-1:]
    log.append(page(300, b"more"))
    log.delete()
    janitor.wait_idle()
    assert disk.list("paging") == []
    log.append(page(301, b"again"))
    assert [entry.body() for entry in log.read(0, 400, 10, 100)[0]] == [b"again"]


def test_all_page_logs_share_the_open_files() -> None:
    disk = SimDisk()
    options = LogOptions(batch_bytes_max=100, page_bytes_max=300)
    files = FileCache(disk, 4, write=True)
    page_logs = [
        PageLog(disk, "paging", f"q{n}", options, InlineWorker(), files, PageRoom(MemoryBudget(), 1 << 20))
        for n in range(10)
    ]
    for offset in range(30):
        for log in page_logs:
            log.append(page(offset, b"x" * 50))
            assert disk.open_files <= 4
    for offset in (0, 15, 29, 10, 28, 0):
        for log in page_logs:
            found, _ = log.read(offset, offset + 1, 1, 1000)
            assert [entry.offset for entry in found] == [offset]
            assert disk.open_files <= 4
    for log in page_logs:
        log.delete()
    assert disk.open_files == 0


def test_many_page_logs_share_the_room_for_batches_in_memory() -> None:
    disk = SimDisk()
    account = MemoryBudget()
    room = PageRoom(account, 100_000)
    files = FileCache(disk, 1000, write=True)
    logs = [PageLog(disk, "paging", f"q{n}", LogOptions(), InlineWorker(), files, room) for n in range(100)]
    for offset in range(20):
        for number, log in enumerate(logs):
            log.append(page(offset, b"%d." % number * 500))
            assert room.used <= 100_000
            assert account.held == room.used
    assert room.used > 90_000
    for number, log in enumerate(logs):
        found, _ = log.read(0, 100, 100, 1 << 20)
        assert [entry.body() for entry in found] == [b"%d." % number * 500] * 20
        assert room.used <= 100_000
    for log in logs:
        log.delete()
    assert room.used == account.held == 0


def test_log_that_cannot_write_keeps_its_batch_and_does_not_fail_the_others() -> None:
    disk = SimDisk()
    room = PageRoom(MemoryBudget(), 10_000)
    files = FileCache(disk, 1000, write=True)
    logs = [PageLog(disk, "paging", f"q{n}", LogOptions(), InlineWorker(), files, room) for n in range(3)]
    disk.fail("write", "q0", error=errno.EIO)
    for offset in range(10):
        for log in logs[: 1 if offset == 0 else 3][-2:]:
            log.append(page(offset, bytes(1000)))
    disk.hook = None
    assert [entry.offset for entry in logs[0].read(0, 100, 100, 1 << 20)[0]] == [0]
    assert [entry.offset for entry in logs[2].read(0, 100, 100, 1 << 20)[0]] == list(range(1, 10))


def test_log_that_is_used_again_is_the_last_to_give_up_its_memory() -> None:
    disk = SimDisk()
    account = MemoryBudget()
    room = PageRoom(account, 10_000)
    files = FileCache(disk, 1000, write=True)
    logs = [PageLog(disk, "paging", f"q{n}", LogOptions(), InlineWorker(), files, room) for n in range(4)]
    for log in [*logs[:3], logs[0]]:
        log.append(page(log.place.held and 1, bytes(2000)))
    assert [log.place.held > 0 for log in logs] == [True, True, True, False]
    logs[3].append(page(0, bytes(3000)))
    assert [log.place.held > 0 for log in logs] == [True, False, True, True], "the second was the oldest"
    assert room.used == account.held == sum(log.place.held for log in logs)


def test_page_log_that_holds_memory_is_freed_when_it_is_deleted() -> None:
    disk = SimDisk()
    room = PageRoom(MemoryBudget(), 10_000)
    log = PageLog(disk, "paging", "q", LogOptions(), InlineWorker(), FileCache(disk, 9, write=True), room)
    log.append(page(0, b"x"))
    known = weakref.ref(log)
    gc.disable()
    try:
        log.delete()
        del log
        assert known() is None
    finally:
        gc.enable()


def test_deadlines_come_back_as_they_were() -> None:
    """To the microsecond, also if the clock goes on for hours between two messages of a batch, or back."""
    log = Node().catalog.new_page_log("q")
    times = [1_000_000_000, 1_000_000_001, 9_000_000_002, 9_000_000_001, 9_000_000_004, 9_000_000_009]
    for offset, now_us in enumerate(times):
        made = page(offset, b"x" * (300_000 if offset == 4 else 5))
        made.deadline_us = now_us + 310_000
        log.append(made, now_us)
    found, _ = log.read(0, 100, 100, 1 << 30)
    assert [each.deadline_us for each in found] == [now_us + 310_000 for now_us in times]
