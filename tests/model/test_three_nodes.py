"""Three nodes in one process against what their clients know."""

from __future__ import annotations

import logging
from collections import Counter

from tests.model import three_nodes


def test_schedules_of_three_nodes(moves: Counter[str]) -> None:
    logging.disable(logging.CRITICAL)
    try:
        rate = three_nodes.play(0, 60, moves)
    finally:
        logging.disable(logging.NOTSET)
    print(f"{rate:.0f} schedules of {three_nodes.PUBLISHES} publishes a second")


def test_nodes_have_nothing_in_common() -> None:
    one, other = three_nodes.Hosts(0).hosts[:2]
    assert one.node.core.identity != other.node.core.identity
    assert not {queue.incarnation for queue in one.node.vhost.queues.values()} & {
        queue.incarnation for queue in other.node.vhost.queues.values()
    }
    one.publish("d", 3, 10)
    assert one.node.queue("d").unacked_count == 3
    assert other.node.queue("d").unacked_count == 0
    assert other.node.queue("d").message_count() == 0
