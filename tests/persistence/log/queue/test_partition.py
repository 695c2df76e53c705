"""Reading a log's segments where recovery, which trusts what a checkpoint covers, has not looked."""

from __future__ import annotations

import pytest

from persistence.errors import LogFailed
from persistence.options import LogOptions
from tests.persistence.log.simdisk import SimDisk
from tests.persistence.log.support import Node, fill

OPTIONS = LogOptions(
    segment_bytes_max=2000, batch_bytes_max=500, index_interval_bytes=200, journal_logs_min=0
)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize(("copied", "over"), [(0, 1), (1, 0), (0, 2)])
def test_a_segment_whose_batches_are_of_another_is_named(copied: int, over: int, with_index: bool) -> None:
    disk = SimDisk()
    node = Node(disk, OPTIONS)
    log = node.catalog.create("a", "/", "q", {})
    for number in range(20):
        fill(log, 10, first=number)
        node.settle()
    segments = log.partition.segments
    assert len(segments) > 4
    node.catalog.stop()
    path = segments[over].path
    file = disk.open(segments[copied].path)
    data = file.read(file.size(), 0)
    file.close()
    file = disk.open(path, write=True)
    # as long as it was, so that its size tells nothing
    size = segments[over].size
    file.truncate(0)
    file.write([(data * 2)[:size]], 0)
    file.close()
    if not with_index:
        disk.unlink(segments[over].index_path)
    found = Node(disk, OPTIONS).catalog.open("a", "/", "q", {})
    with pytest.raises(LogFailed) as caught:
        found.read(segments[over].base + 3, found.end, 10, 1000)
    assert path in str(caught.value)
