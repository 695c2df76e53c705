"""What waits for the definition store."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.nodes import Client, SimNode

MANY = 1000
#: Logs that go in one turn: each takes some ten microseconds.
GONE_MAX = 100


def node_with_deleted_queues() -> SimNode:
    """All rows are to be deleted by one commit."""
    node = SimNode()
    client = Client(node).open(1)
    for start in range(0, MANY, 100):
        names = [f"q{number}" for number in range(start, start + 100)]
        client.feed(b"".join(m.frame(1, m.QueueDeclare(name, durable=True, nowait=True)) for name in names))
        node.settle()
    assert len(node.core.storage.catalog.logs) == MANY
    for start in range(0, MANY, 100):
        names = [f"q{number}" for number in range(start, start + 100)]
        client.feed(b"".join(m.frame(1, m.QueueDelete(name, nowait=True)) for name in names))
        node.quiet()
    assert not node.vhost.queues
    return node


def test_logs_of_very_many_deleted_queues_go_in_slices() -> None:
    node = node_with_deleted_queues()
    logs = node.core.storage.catalog.logs
    assert len(logs) == MANY
    node.commit()
    left, turns = MANY, 0
    while logs:
        assert left - len(logs) <= 2 * GONE_MAX  # of the commit, and of the turn after it
        left, turns = len(logs), turns + 1
        node.turn()
    assert turns >= MANY // GONE_MAX - 2


def test_they_go_at_once_when_the_node_stops() -> None:
    node = node_with_deleted_queues()
    logs = node.core.storage.catalog.logs
    node.stop()
    assert not logs
