"""What can be read of damaged logs."""

from __future__ import annotations

import copy
from random import Random

import pytest

from amqp_router.protocol.flags import ACK
from persistence.files import join
from persistence.log.offline.salvage import Salvage
from persistence.log.offline.verify import read_journals
from persistence.log.sync.marks import log_id, read_marks
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import SMALL, Node, fill

DIRECTORY = "d/queues/a/0"


def made(options: LogOptions = SMALL) -> tuple[SimDisk, dict[int, bytes]]:
    """A log of several segments, some messages of it settled; and what waits in it, by offset."""
    node = Node(options=options)
    node.catalog.quarantine_unknown([])
    log = node.catalog.create("a", "/", "q", {})
    for number in range(0, 200, 20):
        fill(log, 20, first=number)
        node.settle()
    found, _ = log.read(0, log.end, 1000, 1 << 20)
    held = {message.offset: message.body() for message in found}
    for offset in list(held)[5:190:3]:
        log.settle(offset, 0, ACK)
        del held[offset]
    node.sync._settles_due()
    node.settle()
    assert isinstance(node.disk, SimDisk)
    return node.disk, held


def salvaged(disk: SimDisk) -> tuple[dict[int, bytes], Salvage]:
    log = Salvage(
        disk,
        DIRECTORY,
        mark=read_marks(disk, "d").get((log_id("a"), 0)),
        journal=read_journals("d", disk).get("a", ()),
    )
    messages = list(log.messages())
    assert len({message.offset for message in messages}) == len(messages)
    assert all(message.route == b"\x00\x01q" for message in messages)
    return {message.offset: message.body for message in messages}, log


def test_of_a_whole_log_everything() -> None:
    disk, held = made()
    found, log = salvaged(disk)
    assert found == held
    assert not log.missing
    assert not log.faults


@pytest.mark.parametrize("change", ["flip", "cut", "remove"])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_there_is_named(change: str, seed: int) -> None:
    """Any segment is damaged: every message is there, or among the missing offsets."""
    disk, held = made()
    disk = copy.deepcopy(disk)
    random = Random(seed)
    names = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    assert len(names) > 3
    path = join(DIRECTORY, random.choice(names))
    inode = disk.names[path]
    assert inode is not None
    if change == "remove":
        disk.unlink(path)
    elif change == "cut":
        del inode.now[random.randrange(len(inode.now)) :]
    else:
        inode.now[random.randrange(len(inode.now))] ^= 1 << random.randrange(8)
    found, log = salvaged(disk)
    missing = {offset for gap in log.missing for offset in range(gap.first, gap.end)}
    assert set(held) - set(found) <= missing
    assert not set(found) & missing
    assert all(found[offset] == body for offset, body in held.items() if offset in found)
    # A settle that is lost brings back messages, and then something is named.
    assert set(found) == set(held) or log.missing
    assert all(path in gap.where or DIRECTORY in gap.where for gap in log.missing)


def test_the_journal_fills_what_a_segment_lacks() -> None:
    disk, held = made(LogOptions(journal_logs_min=0))
    assert read_journals("d", disk)
    name = next(name for name in disk.list(DIRECTORY) if name.endswith(".log"))
    inode = disk.names[join(DIRECTORY, name)]
    assert inode is not None
    inode.now[len(inode.now) // 2] ^= 1
    found, log = salvaged(disk)
    assert found == held
    assert not log.missing
