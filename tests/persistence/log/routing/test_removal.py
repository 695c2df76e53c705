"""The routing log of a deleted virtual host."""

from __future__ import annotations

from persistence.log.sync.marks import read_marks
from tests.persistence.log.routing_support import RoutingNode, read_all


def test_it_goes_with_its_mark_and_a_new_one_begins_empty() -> None:
    node = RoutingNode()
    account = node.logs.backlog.account
    before = account.kept
    directory = node.directory
    for number in range(10):
        node.note(queue=f"q{number}")
    node.pass_time()
    assert len(read_all(node.disk, directory)) == 10
    assert len(read_marks(node.disk, "d")) == 1
    node.note(queue="not written yet")
    node.logs.remove("/")
    assert not node.disk.exists(directory)
    assert read_marks(node.disk, "d") == {}
    assert (account.kept, node.logs.backlog.bytes) == (before, 0)
    node.note(queue="q")
    node.pass_time()
    assert not node.disk.exists(directory)
    node.logs.remove("/")

    again = node.logs.open("/")
    assert again is not None
    assert again is not node.log
    node.log, node.entries = again, {}
    node.note(queue="new")
    node.pass_time()
    assert [event.names["queues"] for event in read_all(node.disk, directory)] == [["new"]]
    node.logs.stop()


def test_what_had_failed_is_not_tried_again() -> None:
    node = RoutingNode()
    node.note()
    node.pass_time()
    node.logs.halt()
    node.logs.remove("/")
    node.pass_time(100.0)
    assert not node.disk.exists(node.directory)
    assert node.logs.logs == {}
    node.logs.stop()
