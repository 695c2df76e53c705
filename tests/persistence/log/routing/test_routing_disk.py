"""The routing log on a disk that fails, or is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp_router.channel.publishing import Inflow
from persistence.log.routing.logs import RoutingOptions
from persistence.log.routing.recorder import DAY_US
from tests.persistence.log.routing_support import RoutingNode, content, read_all
from tests.persistence.log.sync.test_marks import decode


def failing(operation: str, number: int, suffix: str) -> Callable[[str, str], None]:
    """A hook that lets an operation fail for ever from its ``number``-th time on."""
    left = [number]

    def hook(what: str, path: str) -> None:
        if what == operation and path.endswith(suffix):
            if left[0] == 0:
                raise OSError(28, "No space left on device", path)
            left[0] -= 1

    return hook


@pytest.mark.parametrize("suffix", [".log", ".names", "log.json.tmp", "0"])
@pytest.mark.parametrize("operation", ["write", "sync", "create", "sync_directory"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_disk_that_fails_and_recovers(
    operation: str, number: int, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, bytes_max=16 << 20))
    node.disk.hook = failing(operation, number, suffix)
    durable = []
    sent = 0
    for step in range(6):
        for _ in range(50):
            node.note(size=sent, queue=f"q{step}")
            sent += 1
        if step == 3:
            node.tick.now_us += DAY_US
        node.pass_time()
        if decode(content(node.disk, "d/synced")):
            (mark,) = decode(content(node.disk, "d/synced")).values()
            durable = read_all(node.disk, node.directory, (mark[3], mark[4]))
            assert len(durable) == mark[2]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    recorder = node.log.recorders[0]
    assert len(errors) == recorder.stopped
    assert node.logs.backlog.bytes == 0
    # It is tried again, in vain, then with success.
    node.pass_time(60)
    node.disk.hook = None
    node.pass_time(60)
    lost = [record.args[2] for record in caplog.records if "goes on" in record.msg and record.args]
    assert not recorder.stopped
    for _ in range(50):
        node.note(size=sent)
        sent += 1
    node.pass_time()
    found = read_all(node.disk, node.directory)
    assert found[: len(durable)] == durable, "what was synced stays"
    assert len(found) + sum(lost) == sent, "events that are lost are counted"
    assert [event.offset for event in found] == list(range(len(found)))
    assert [event.size for event in found[-50:]] == list(range(sent - 50, sent))
    node.logs.stop()
    again = RoutingNode(node.disk, now_us=node.tick.now_us)
    assert again.logs.reports == []


def test_a_disk_that_fails_at_start(caplog: pytest.LogCaptureFixture) -> None:
    node = RoutingNode()
    for _ in range(10):
        node.note()
    node.logs.stop()
    disk = node.disk
    disk.hook = failing("read", 0, ".names")
    node = RoutingNode(disk)
    assert len(caplog.records) == 1
    node.note()
    node.pass_time()
    disk.hook = None
    node.pass_time(60)
    node.note()
    node.logs.stop()
    found = read_all(disk, node.directory)
    assert [event.offset for event in found] == list(range(11))


def test_publishers_wait_for_a_slow_disk() -> None:
    node = RoutingNode(options=RoutingOptions(partitions=1, backlog_bytes_max=2 << 20))
    jobs: list[Callable[[], None]] = []
    node.logs._worker.submit = jobs.append  # type: ignore[method-assign]  # a thread that is slow
    inflow = Inflow()
    inflow.limit = 1000
    resumed: list[bool] = []
    inflow.resume = lambda: resumed.append(True)
    number = 0
    while not inflow.over:
        if node.note(size=number):
            node.logs.backlog.hold(inflow)
        number += 1
        assert number < 200_000
    assert node.note(size=number)
    node.logs.backlog.hold(inflow)
    for _ in range(3):
        jobs.pop(0)()
        node.run_posted()
        if not jobs:
            break
    assert resumed == [True]
    assert inflow.unsynced == 0


def test_a_stop_waits_for_the_job_under_way_and_writes_the_rest() -> None:
    node = RoutingNode()
    jobs: list[Callable[[], None]] = []
    worker: Any = node.logs._worker
    worker.submit = jobs.append

    def wait_idle() -> None:
        while jobs:
            jobs.pop(0)()

    worker.wait_idle = wait_idle
    node.note(size=1)
    node.pass_time()
    assert len(jobs) == 1
    node.note(size=2)
    node.logs.stop()
    node.run_posted()
    assert jobs == []
    assert [event.size for event in read_all(node.disk, node.directory)] == [1, 2]
    (mark,) = decode(content(node.disk, "d/synced")).values()
    assert mark[2] == 2
