"""Nodes of the toy crash and start again."""

from __future__ import annotations

from tests.persistence.log.replica.side import Side
from tests.persistence.log.replica.toy import Toy
from tests.persistence.log.simdisk import PowerLoss


def crash(toy: Toy, side: Side, after: int) -> None:
    """The power of one node fails, at once or in the middle of what it does next."""
    side.disk.steps_left = after
    try:
        if side is toy.leader:
            toy.publish()
            toy.round()
        else:
            toy.follow()
    except PowerLoss:
        pass
    for _ in range(3):
        side.disk.power_loss(toy.random)
        side.disk.steps_left = toy.random.randrange(40) if toy.random.random() < 0.3 else -1
        try:
            side.start()
        except PowerLoss:
            toy.moves["crash at start"] += 1
            continue
        side.disk.steps_left = -1
        break
    else:
        side.disk.power_loss(toy.random)
        side.start()
    if side is toy.leader:
        _leader_is_back(toy)


def restart(toy: Toy, side: Side) -> None:
    """A stop, and a start."""
    if side.is_busy:
        return
    side.node.catalog.stop()
    side.start()
    if side is toy.leader:
        _leader_is_back(toy)


def _leader_is_back(toy: Toy) -> None:
    """It leads on in a new epoch, or the other one does."""
    if toy.other.number in toy.members and not toy.other.is_busy and toy.random.random() < 0.6:
        toy.elect()
    else:
        toy.moves["leads again"] += 1
        toy.lead(toy.leader.number)
        toy.check_leader()
