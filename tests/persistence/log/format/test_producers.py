"""Which publishes a log has taken."""

from __future__ import annotations

import pytest

from amqp_router.protocol.message import Extras
from persistence.log.format import producers
from persistence.log.format.producers import KEPT_US, note_sequence, pack_producers, unpack_producers
from tests.persistence.log.support import Node, message


def test_the_last_publishes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    found: producers.Producers = {}
    for session, sequence in ((1, 5), (2, 9), (1, 8), (1, 6), (3, 1)):
        note_sequence(found, session, 0, sequence, 1000)
    assert found == {(1, 0): (8, 1000), (3, 0): (1, 1000)}
    note_sequence(found, 4, 1, 2, 1001 + KEPT_US)
    assert found == {(4, 1): (2, 1001 + KEPT_US)}
    assert unpack_producers(pack_producers(found, 1001 + KEPT_US)) == found
    assert pack_producers(found, 1002 + 2 * KEPT_US) == b""


def test_a_start_knows_them() -> None:
    node = Node()
    log = node.catalog.create("a", "/", "q", {})
    for sequence in (3, 4, 9):
        made = message(b"x")
        made.extras = Extras()
        made.extras.session, made.extras.channel, made.extras.sequence = 1 << 60, 2, sequence
        log.append(made, 1)
        node.settle()
    assert log.taken.last_sequence(1 << 60, 2) == 9
    log.request_checkpoint()
    node.settle()
    again = Node(node.disk).catalog.open("a")
    assert (again.taken.last_sequence(1 << 60, 2), again.taken.last_sequence(1 << 60, 3)) == (9, 0)
