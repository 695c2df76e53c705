"""Transient messages paged out of memory."""

from __future__ import annotations

import errno
import gc
import threading
import time
import weakref
from contextlib import suppress
from functools import partial

import pytest

from amqp_router.protocol.message import Message
from persistence.errors import LogFailed, is_passing
from persistence.log.queue.page_files import PageFiles
from persistence.log.queue.page_log import FORGOTTEN, PageLog, PageRoom
from persistence.log.queue.spill import Spill, SpilledContent
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from persistence.worker import ThreadWorker, Worker
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import InlineWorker, ManualWorker, Node, message


def page_files(
    disk: SimDisk, account: MemoryBudget, worker: Worker | None = None, descriptors: int = 1000
) -> PageFiles:
    """``worker`` is done with a job at once if none is given."""
    return PageFiles(
        disk, "paging", worker or InlineWorker(), lambda call: call(), account, descriptors_max=descriptors
    )


def page_log(
    name: str, files: PageFiles, room: PageRoom | None = None, options: LogOptions | None = None
) -> PageLog:
    return PageLog("paging", name, options or LogOptions(), files, room or PageRoom(files.account, 1 << 20))


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
    log = page_log("q", page_files(SimDisk(), budget), room)
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
    log = page_log("q", page_files(disk, MemoryBudget(), janitor), options=options)
    for offset in range(200):
        log.append(page(offset, b"%d" % offset * 30))
    log.read(0, 1, 1, 1)
    janitor.wait_idle()
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


class Calls:
    """Which calls reach the disk, by whether the thread of this makes them."""

    def __init__(self, disk: SimDisk) -> None:
        self.here: list[str] = []
        self.elsewhere: list[str] = []
        self._thread = threading.get_ident()
        disk.hook = self._note

    def _note(self, operation: str, path: str) -> None:
        (self.here if threading.get_ident() == self._thread else self.elsewhere).append(operation)


def test_only_the_thread_makes_and_writes_files() -> None:
    """Each of these calls may wait for the journal of the file system: 7 ms on an idle machine."""
    disk, account, worker = SimDisk(), MemoryBudget(), ThreadWorker()
    calls = Calls(disk)
    files = page_files(disk, account, worker)
    options = LogOptions(batch_bytes_max=1000, page_bytes_max=5000)
    logs = [page_log(f"q{n}", files, PageRoom(account, 20_000), options) for n in range(5)]
    spill = Spill("paging", files, file_bytes_max=5000)
    unacked = [page(offset, b"%d." % offset * 100) for offset in range(50)]
    assert all(spill.put(each) for each in unacked)
    for offset in range(50):
        for log in logs:
            log.append(page(offset, bytes(5000 if offset == 20 else 300)))
    following = 0
    while following < 50:
        for log in logs:
            _, following = log.read(following, 50, 10, 1 << 20)
            log.drop_below(following)
    for offset, each in enumerate(unacked):
        assert isinstance(each.content, SpilledContent)
        assert b"%d." % offset * 100 in each.content[0]
    del unacked[10:], each
    for log in logs:
        log.delete()
    worker.wait_idle()
    files.collect()
    assert {"write", "create", "unlink"} <= set(calls.elsewhere)
    assert set(calls.here) <= {"open", "read"}
    del unacked[:]
    files.close()
    assert account.held == account.used == 0
    assert disk.list("paging") == ["unacked-3.spill"]


def test_what_is_not_written_yet_is_read_from_memory() -> None:
    disk, account, worker = SimDisk(), MemoryBudget(), ManualWorker()
    log = page_log("q", page_files(disk, account, worker))
    bodies = [b"small", b"abc" * 500_000, b"small again"]
    for offset, body in enumerate(bodies):
        log.append(page(offset, body))
    for written in range(3):
        found, _ = log.read(0, 10, 10, 1 << 30)
        assert [entry.body() for entry in found] == bodies
        assert all(entry.flags == 0 for entry in found)
        assert account.held > 1_500_000 if written < 2 else account.held < 1000
        worker.run_one()
    log.drop_below(10)
    log.delete()
    assert account.held == 0
    worker.wait_idle()
    assert disk.list("paging") == []


def test_log_that_is_emptied_while_its_batches_are_under_way() -> None:
    disk, account, worker = SimDisk(), MemoryBudget(), ManualWorker()
    log = page_log("q", page_files(disk, account, worker), options=LogOptions(batch_bytes_max=1000))
    for offset in range(10):
        log.append(page(offset, bytes(600)))
    assert account.held > 5000
    disk.fail("write", "paging", error=errno.ENOSPC)
    worker.run_one()
    worker.run_one()
    disk.hook = None
    log.delete()
    log.append(page(20, b"again"))
    worker.wait_idle()
    assert [entry.offset for entry in log.read(0, 100, 10, 1000)[0]] == [20]
    worker.wait_idle()
    assert disk.list("paging") == ["q-1.page"]
    log.delete()
    worker.wait_idle()
    assert account.held == 0
    assert disk.list("paging") == []


def test_failure_that_the_thread_tells_later_refuses_messages_until_it_has_passed() -> None:
    disk, account, worker = SimDisk(), MemoryBudget(), ManualWorker()
    log = page_log("q", page_files(disk, account, worker), options=LogOptions(batch_bytes_max=1000))
    disk.fail("create", "paging", error=errno.EMFILE)
    for offset in range(10):
        log.append(page(offset, bytes(600)))
    worker.wait_idle()
    with pytest.raises(LogFailed):
        log.append(page(10, bytes(600)))
    worker.wait_idle()
    with pytest.raises(LogFailed) as refused:
        log.append(page(11, bytes(600)))
    assert is_passing(refused.value)
    assert [entry.offset for entry in log.read(0, 100, 100, 1 << 20)[0]] == list(range(10))
    disk.hook = None
    worker.wait_idle()
    log.append(page(12, bytes(600)))
    worker.wait_idle()
    assert [entry.offset for entry in log.read(0, 100, 100, 1 << 20)[0]] == [*range(10), 12]
    log.delete()
    worker.wait_idle()
    assert account.held == 0


def test_reader_gets_a_descriptor_of_the_thread() -> None:
    disk = SimDisk()
    log = page_log("q", page_files(disk, MemoryBudget()), options=LogOptions(page_bytes_max=500))
    for offset in range(10):
        log.append(page(offset, bytes(600)))
        log.give_up_memory()
    most = disk.open_files

    def hook(operation: str, path: str) -> None:
        if operation in ("open", "create") and disk.open_files >= most:
            raise OSError(errno.EMFILE, "simulated", path)

    disk.hook = hook
    assert [entry.offset for entry in log.read(0, 100, 100, 1 << 20)[0]] == list(range(10))
    for offset in range(10, 30):
        with suppress(LogFailed):
            log.append(page(offset, bytes(600)))
            log.give_up_memory()
    assert [entry.offset for entry in log.read(0, 100, 100, 1 << 20)[0]][-1] > 25


def test_a_slow_disk_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("persistence.log.queue.page_files.UNDER_WAY_MAX", 10_000)
    account, worker = MemoryBudget(), ThreadWorker()
    files = page_files(SimDisk(), account, worker)
    log = page_log("q", files, options=LogOptions(batch_bytes_max=1000))
    for offset in range(300):
        log.append(page(offset, bytes(600)))
        assert account.held <= 12_000
    worker.submit(partial(time.sleep, 0.01))
    log.append(page(300, bytes(50_000)))
    assert len(log.read(0, 1000, 1000, 1 << 20)[0]) == 301
    files.close()


def test_all_page_logs_share_the_open_files() -> None:
    disk = SimDisk()
    options = LogOptions(batch_bytes_max=100, page_bytes_max=300)
    files = page_files(disk, MemoryBudget(), descriptors=4)
    page_logs = [page_log(f"q{n}", files, options=options) for n in range(10)]
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
    files = page_files(disk, account)
    logs = [page_log(f"q{n}", files, room) for n in range(100)]
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
    account = MemoryBudget()
    room = PageRoom(account, 10_000)
    files = page_files(disk, account)
    logs = [page_log(f"q{n}", files, room) for n in range(3)]
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
    files = page_files(disk, account)
    logs = [page_log(f"q{n}", files, room) for n in range(4)]
    for log in [*logs[:3], logs[0]]:
        log.append(page(log.place.held and 1, bytes(2000)))
    assert [log.place.held > 0 for log in logs] == [True, True, True, False]
    logs[3].append(page(0, bytes(3000)))
    assert [log.place.held > 0 for log in logs] == [True, False, True, True], "the second was the oldest"
    assert room.used == account.held == sum(log.place.held for log in logs)


def test_page_log_that_holds_memory_is_freed_when_it_is_deleted() -> None:
    disk = SimDisk()
    room = PageRoom(MemoryBudget(), 10_000)
    log = page_log("q", page_files(disk, MemoryBudget()), room)
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


def test_few_batches_are_forgotten_together() -> None:
    """A million small messages are a thousand; to forget half of them took 14 ms."""
    log = page_log("q", page_files(SimDisk(), MemoryBudget()), options=LogOptions(batch_bytes_max=64))
    count = 8 * FORGOTTEN
    for offset in range(count):
        log.append(page(offset, bytes(100)))
    before, most = len(log._batches), 0
    assert before > count // 2
    for offset in range(count):
        log.drop_below(offset)
        most = max(most, before - len(log._batches))
        before = len(log._batches)
    assert 0 < most <= FORGOTTEN + 1
    assert before <= FORGOTTEN + 2


def test_the_batches_of_a_log_that_is_deleted_are_forgotten_by_the_thread() -> None:
    """A thousand held the event loop for 23 ms when their queue was deleted."""
    worker = ManualWorker()
    log = page_log("q", page_files(SimDisk(), MemoryBudget(), worker), options=LogOptions(batch_bytes_max=64))
    for offset in range(100):
        log.append(page(offset, bytes(100)))
    worker.wait_idle()
    batches = log._batches
    count = len(batches)
    assert count > 50
    log.delete()
    assert log._batches == []
    assert len(batches) == count
    worker.wait_idle()
    assert batches == []
    log.append(page(100, b"again"))
    assert [entry.body() for entry in log.read(0, 200, 10, 100)[0]] == [b"again"]
