"""What a start finds of the routing log after a crash."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from persistence.log.format.identity import salt_at
from persistence.log.routing.layout import pack_name, routing_id
from persistence.log.routing.logs import RoutingOptions
from persistence.log.routing.recorder import DAY_US
from tests.persistence.log.routing_support import RoutingNode, content, read_all
from tests.persistence.log.simdisk import PowerLoss, SimDisk
from tests.persistence.log.sync.test_marks import decode
from tests.seeds import first_seeds


def crashed(disk: Any) -> RoutingNode:
    """The next process, of a broker that was killed."""
    return RoutingNode(disk)


def test_a_batch_torn_at_any_byte_is_cut() -> None:
    node = RoutingNode()
    for number in range(3):
        node.note(size=number, queue=f"q{number}")
    node.pass_time()
    before = content(node.disk, f"{node.directory}/00000000000000000000.log")
    synced = content(node.disk, "d/synced")
    for number in range(3):
        node.note(size=10 + number, queue=f"r{number}")
    node.logs.stop()
    path, names = f"{node.directory}/00000000000000000000.log", f"{node.directory}/00000000000000000000.names"
    after, all_names = content(node.disk, path), content(node.disk, names)
    for length in range(len(before), len(after) + 1):
        node.disk.names[path].now[:] = after[:length]
        node.disk.names[names].now[:] = all_names
        node.disk.names["d/synced"].now[:] = synced
        again = crashed(node.disk)
        whole = length == len(after)
        assert bool(again.logs.reports) is (len(before) < length < len(after))
        assert len(content(node.disk, path)) == (length if whole else len(before))
        again.note(size=99, queue="q0")
        again.logs.stop()
        found = read_all(node.disk, node.directory)
        assert [event.size for event in found] == ([0, 1, 2, 10, 11, 12, 99] if whole else [0, 1, 2, 99])


def test_names_torn_at_any_byte_are_cut() -> None:
    node = RoutingNode()
    node.note(queue="first")
    node.pass_time()
    path, names = f"{node.directory}/00000000000000000000.log", f"{node.directory}/00000000000000000000.names"
    log, before = content(node.disk, path), content(node.disk, names)
    synced = content(node.disk, "d/synced")
    node.logs.stop()
    salt = salt_at(node.disk, node.directory)
    torn = before + pack_name(1, b'{"exchange":"x","queues":["second"]}', salt)
    for length in range(len(before), len(torn) + 1):
        node.disk.names[path].now[:] = log
        node.disk.names[names].now[:] = torn[:length]
        node.disk.names["d/synced"].now[:] = synced
        again = crashed(node.disk)
        again.note(queue="second")
        again.note(queue="third")
        again.logs.stop()
        assert content(node.disk, names)[: len(torn)] == torn
        found = read_all(node.disk, node.directory)
        assert [event.names["queues"] for event in found] == [["first"], ["second"], ["third"]]


@pytest.mark.parametrize("has_marks", [True, False])
def test_damage_in_the_middle_sets_the_segment_aside(has_marks: bool) -> None:
    node = RoutingNode()
    for number in range(5):
        node.note(size=number)
        node.pass_time()
    if not has_marks:
        node.disk.unlink("d/synced")
    path = f"{node.directory}/00000000000000000000.log"
    node.disk.names[path].now[80] ^= 1
    again = crashed(node.disk)
    ((vhost, number, text),) = again.logs.reports
    assert (vhost, number) == ("/", 0)
    assert "set aside" in text
    assert path in text
    again.note(size=9)
    again.logs.stop()
    assert [name for name in node.disk.list(node.directory) if "damaged" in name] == [
        "00000000000000000000.log.damaged",
        "00000000000000000000.names.damaged",
    ]
    found = read_all(node.disk, node.directory)
    assert [(event.offset, event.size) for event in found] == [(5, 9)]
    assert RoutingNode(node.disk).logs.reports == []


def test_what_the_mark_covers_and_is_not_there_is_damage() -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    path = f"{node.directory}/00000000000000000000.log"
    del node.disk.names[path].now[-1]
    again = crashed(node.disk)
    assert "had been synced" in again.logs.reports[0][2]
    assert again.log.recorders[0].end == 1


@pytest.mark.parametrize("what", ["gone", "short", "foreign", "a name less"])
def test_names_that_are_missing_set_the_segment_aside(what: str) -> None:
    node = RoutingNode()
    node.note(queue="a")
    node.note(queue="b")
    node.logs.stop()
    path = f"{node.directory}/00000000000000000000.names"
    inode = node.disk.names[path]
    if what == "gone":
        del node.disk.names[path]
    elif what == "short":
        del inode.now[10:]
    elif what == "foreign":
        inode.now[8] = 1
    else:
        del inode.now[-1:]
    again = crashed(node.disk)
    assert len(again.logs.reports) == 1
    again.note(size=7)
    again.logs.stop()
    assert [(event.offset, event.size) for event in read_all(node.disk, node.directory)] == [(2, 7)]


def test_an_empty_segment_and_lone_names_are_leftovers() -> None:
    node = RoutingNode()
    node.note()
    node.logs.stop()
    for name in ("00000000000000000001.log", "00000000000000000009.names", "00000000000000000008.index"):
        node.disk.open(f"{node.directory}/{name}", write=True, create=True).close()
    again = crashed(node.disk)
    assert again.logs.reports == []
    again.note(size=3)
    again.logs.stop()
    assert [event.offset for event in read_all(node.disk, node.directory)] == [0, 1]
    assert not any(name.startswith("00000000000000000009") for name in node.disk.list(node.directory))


@pytest.mark.parametrize("seed", first_seeds(100))
def test_power_loss_at_any_step(seed: int) -> None:
    """What the mark covered is there after the next start; what is there is what was noted, in order."""
    random = Random(seed)
    disk = SimDisk()
    noted: list[Any] = []
    options = RoutingOptions(partitions=1, bytes_max=1 << 40)
    for _ in range(4):
        synced = 0
        try:
            node = RoutingNode(disk, options)
            assert not [text for _, _, text in node.logs.reports if "aside" in text]
            found = [(event.names["queues"][0], event.size) for event in read_all(disk, node.directory)]
            assert found == noted[: len(found)]
            noted = found
            synced = len(found)
            disk.steps_left = random.randint(0, 60)
            while True:
                for _ in range(random.choice([1, 5, 5, 5, 5000])):
                    event = (f"q{random.randint(0, 30)}", random.randint(0, 3))
                    noted.append(event)
                    node.note(queue=event[0], size=event[1])
                if random.random() < 0.1:
                    node.tick.now_us += DAY_US
                if random.random() < 0.7:
                    node.pass_time()
                marks = decode(content(disk, "d/synced"))
                if marks:
                    synced = next(iter(marks.values()))[2]
        except PowerLoss:
            pass
        disk.steps_left = -1
        directory = f"d/routing/{routing_id('/')}/0"
        disk.power_loss(random)
        again = RoutingNode(disk, options)
        assert not [text for _, _, text in again.logs.reports if "aside" in text]
        assert len(read_all(disk, directory)) >= synced
        again.logs.stop()
