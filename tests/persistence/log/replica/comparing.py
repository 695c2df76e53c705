"""Leader and follower are compared once the follower has caught up."""

from __future__ import annotations

from persistence.log.queue.epochs import epoch_at
from tests.persistence.log.replica.toy import Toy
from tests.persistence.log.support import last_of, raw_batches, unsettled


def compare(toy: Toy) -> None:
    """Let the follower catch up, and compare."""
    side, lead = toy.other, toy.leader.log
    for _ in range(400):
        toy.round()
        toy.follow()
        if side.is_busy or not side.is_joined or not side.follower.is_whole:
            if side.number not in toy.members:
                toy.shrink()
            continue
        if side.log.end == lead.batches.closed.end == lead.end:
            break
        if lead.end > lead.batches.closed.end:
            lead.batches.note(0)  # places of transient messages
            lead.end = lead.batches.end
            lead.mark_dirty()
    else:
        raise AssertionError("the follower does not catch up")
    toy.round()
    toy.follow()
    for each in toy.sides:
        assert not each.waiting, "a publish has no answer"
    log = side.log
    assert unsettled(log) == unsettled(lead)
    assert log.batches.state.live == lead.batches.state.live
    mine, _ = log.read(0, log.end, 1 << 30, 1 << 40)
    theirs, _ = lead.read(0, lead.end, 1 << 30, 1 << 40)
    for each, wanted in zip(mine, theirs, strict=True):
        assert (each.offset, each.body(), each.delivery_count) == (
            wanted.offset,
            wanted.body(),
            wanted.delivery_count,
        )
    _compare_octets(toy)
    borders = [first for _, first in lead.batches.epochs.starts]
    assert [epoch_at(log.batches.epochs.starts, at) for at in borders] == [
        epoch_at(lead.batches.epochs.starts, at) for at in borders
    ]
    for letter, _ in zip(mine, range(5), strict=False):
        if letter.extras is not None:
            assert log.taken.has_letter(letter.extras) == lead.taken.has_letter(letter.extras)
    for channel in range(3):
        assert log.taken.last_sequence(7, channel) == lead.taken.last_sequence(7, channel)
    _check_sequences(toy)
    toy.check_leader()
    toy.moves["compared"] += 1


def _compare_octets(toy: Toy) -> None:
    """What nobody has cleaned and no snapshot has replaced is the same, octet by octet."""
    first = max(side.log.copies.history_start for side in toy.sides)
    found = [raw_batches(side.disk, side.log, first) for side in toy.sides]
    by_base = [{data[48:56]: data for data in each if last_of(data) >= first} for each in found]
    for base, data in by_base[0].items():
        other = by_base[1].get(base)
        if other is not None and last_of(other) == last_of(data):
            assert _same_everywhere(data) == _same_everywhere(other), f"batches differ at {base!r}"
            toy.moves["the same octets"] += 1


def _same_everywhere(data: bytes) -> bytes:
    """A batch without the octets that are the node's own."""
    return data[:64] + data[72:]


def _check_sequences(toy: Toy) -> None:
    """A publish that is in the log is known, so it would not be taken again."""
    log = toy.leader.log
    for each in log.read(0, log.end, 1 << 30, 1 << 40)[0]:
        if each.extras is not None:
            assert each.extras.sequence <= log.taken.last_sequence(7, each.extras.channel)
