"""Starts that are cut short, with logs that no definition names."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from persistence.options import LogOptions
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.support import Node, bodies, fill

OPTIONS = LogOptions(segment_bytes_max=4000, batch_bytes_max=1000, journal_logs_min=1, sync_all_logs_min=1)


def crashed_disk() -> SimDisk:
    """Two logs synced through the commit journal alone; of one the definition was not stored in time."""
    disk = SimDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    node = Node(disk, OPTIONS)
    for name in ("known", "unknown"):
        fill(node.catalog.create(name, "/", name, {}), 5)
    node.settle()
    assert [name for name in disk.names if name.endswith(".journal")]
    return disk


def start(disk: SimDisk) -> Node:
    node = Node(disk, OPTIONS)
    node.catalog.open("known", "/", "known", {})
    node.catalog.quarantine_unknown(["known"])
    return node


@pytest.mark.parametrize("seed", range(12))
def test_start_cut_short_anywhere(seed: int) -> None:
    """The next start finds whatever the cut one left, and takes no offence at it."""
    for steps in range(60):
        disk = crashed_disk()
        disk.power_loss(Random(seed))
        disk.steps_left = steps
        with contextlib.suppress(PowerLoss):
            start(disk)
        is_done = disk.steps_left > 0
        disk.power_loss(Random(seed + 1))
        node = start(disk)
        assert len(bodies(node.catalog.logs["known"])) == 5
        assert node.catalog.incarnations() == ["known"]
        if is_done:
            return
    raise AssertionError("a start takes more steps")
