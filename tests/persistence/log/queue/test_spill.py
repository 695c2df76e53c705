"""Contents of unacknowledged transient messages on disk."""

from __future__ import annotations

import errno
import gc

import pytest

from amqp_router.protocol.message import build_message
from persistence.errors import CorruptLog
from persistence.log.queue.spill import Spill, SpilledContent
from persistence.memory import MemoryBudget
from tests.persistence.log.queue.test_page_log import page_files
from tests.persistence.log.simdisk import SimDisk


def spill_on(disk: SimDisk, file_bytes_max: int = 1000) -> Spill:
    return Spill("paging", page_files(disk, MemoryBudget()), file_bytes_max=file_bytes_max)


def files(disk: SimDisk) -> list[str]:
    return sorted(disk.list("paging"))


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
def test_content_reads_back(size: int) -> None:
    spill = spill_on(SimDisk())
    message = build_message(b"", b"\0\0", bytes(size) + b"end", 1000)
    content = message.content
    assert content is not None
    assert spill.put(build_message(b"", b"\0\0", b"before"))
    assert spill.put(message)
    spilled = message.content
    assert isinstance(spilled, SpilledContent)
    assert spilled.is_whole == isinstance(content, bytes)
    frames = [spilled[index] for index in range(len(spilled))]
    assert frames == ([content] if isinstance(content, bytes) else list(content))
    if not spilled.is_whole:
        assert message.body() == bytes(size) + b"end"


def test_file_goes_with_the_last_content_in_it() -> None:
    disk = SimDisk()
    spill = spill_on(disk)
    messages = [build_message(b"", b"\0\0", bytes(400)) for _ in range(6)]
    assert all(spill.put(message) for message in messages)
    assert len(files(disk)) == 2
    del messages[1:3]
    assert len(files(disk)) == 2
    del messages[0]
    assert files(disk) == ["unacked-2.spill"]
    del messages[:]
    assert files(disk) == []
    for _ in range(3):
        again = build_message(b"", b"\0\0", bytes(400))
        assert spill.put(again)
        del again
    assert files(disk) == ["unacked-3.spill"]


def test_content_stays_in_memory_if_it_cannot_be_written() -> None:
    disk = SimDisk()
    spill = spill_on(disk)
    first, second = build_message(b"", b"\0\0", b"first"), build_message(b"", b"\0\0", b"second")
    assert spill.put(first)
    disk.fail("write", "paging", error=errno.ENOSPC)
    assert not spill.put(second)
    disk.hook = None
    assert isinstance(second.content, bytes)
    assert spill.put(second)
    assert isinstance(second.content, SpilledContent)
    assert b"second" in second.content[0]


def test_content_that_is_cut_short_is_told() -> None:
    disk = SimDisk()
    spill = spill_on(disk)
    message = build_message(b"", b"\0\0", b"body")
    assert spill.put(message)
    disk.open("paging/unacked-1.spill", write=True).truncate(3)
    with pytest.raises(CorruptLog):
        message.content[0]  # type: ignore[index]


def test_the_collector_does_not_look_at_contents() -> None:
    """A million are unacknowledged; what some milliseconds bring of them took 5 to 10 ms to look at."""
    disk = SimDisk()
    spill = spill_on(disk)
    messages = [build_message(b"", b"\0\0", bytes(size)) for size in (10, 3 << 20)]
    assert all(spill.put(message) for message in messages)
    assert not any(gc.is_tracked(message.content) for message in messages)
    gc.collect()
    assert files(disk)
    messages.clear()
    assert not spill.files.account.used
