"""The account of what followers have not acknowledged."""

from __future__ import annotations

import pytest

from persistence.log.queue.queue_log import QueueLog
from persistence.log.replica import unreplicated
from persistence.log.replica.unreplicated import PeerOctets, Unreplicated
from tests.persistence.log.support import Node, fill, raw_batches


def led(node: Node, name: str, account: PeerOctets) -> tuple[QueueLog, Unreplicated]:
    log = node.catalog.create(name, "/", name, mirrored=True)
    return log, Unreplicated(log, account)


def octets(node: Node, log: QueueLog, first: int) -> int:
    """Of the batches from offset ``first`` on."""
    return sum(len(data) for data in raw_batches(node.disk, log, first))


def test_it_rises_with_appends_and_falls_with_acknowledgements() -> None:
    node, account = Node(), PeerOctets()
    log, mine = led(node, "a", account)
    mine.join("b", 0)
    assert account.by_peer == {"b": 0}
    ends = []
    for _ in range(5):
        fill(log, 7)
        log.close_batches()
        mine.appended()
        ends.append(log.end)
        assert account.by_peer == {"b": octets(node, log, 0)}
    node.settle()
    mine.join("c", log.end)
    assert account.by_peer["c"] == 0
    for end in ends:
        mine.acknowledged("b", end)
        assert account.by_peer["b"] == octets(node, log, end)
    mine.acknowledged("b", ends[0])  # an older one comes late
    assert account.by_peer == {"b": 0, "c": 0}
    mine.leave("b")
    assert account.by_peer == {"c": 0}


def test_a_batch_counts_until_all_of_it_is_acknowledged() -> None:
    node, account = Node(), PeerOctets()
    log, mine = led(node, "a", account)
    mine.join("b", 0)
    offsets = fill(log, 7)
    log.close_batches()
    mine.appended()
    mine.acknowledged("b", offsets[-1])
    assert account.by_peer == {"b": octets(node, log, offsets[0])}


def test_several_logs_and_the_end_of_leading() -> None:
    node, account = Node(), PeerOctets()
    pairs = [led(node, name, account) for name in "xy"]
    for log, mine in pairs:
        mine.join("b", 0)
        fill(log, 9)
        log.close_batches()
        mine.appended()
    assert account.by_peer == {"b": sum(octets(node, log, 0) for log, _ in pairs)}
    pairs[0][1].close()
    assert account.by_peer == {"b": octets(node, pairs[1][0], 0)}
    pairs[1][1].close()
    assert account.by_peer == {}


def test_a_peer_that_joins_far_behind() -> None:
    node, account = Node(), PeerOctets()
    log = node.catalog.create("a", "/", "a", mirrored=True)
    offsets = fill(log, 300)
    node.settle()
    mine = Unreplicated(log, account)
    mine.join("b", offsets[100])
    exact = octets(node, log, offsets[100])
    assert abs(account.by_peer["b"] - exact) <= 2000  # an index entry every 500 octets, batches of 1000
    mine.acknowledged("b", log.end)
    assert account.by_peer == {"b": 0}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreplicated, "ENDS_MAX", 16)
    node, account = Node(), PeerOctets()
    log, mine = led(node, "a", account)
    mine.join("b", 0)
    for _ in range(200):
        fill(log, 1)
        log.close_batches()
        mine.appended()
        assert len(mine._ends) <= 17
    assert account.by_peer == {"b": octets(node, log, 0)}
    mine.acknowledged("b", log.end)
    assert account.by_peer == {"b": 0}
    assert len(mine._ends) == 1
