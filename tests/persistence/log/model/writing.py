"""Moves that write to a log or cut it, each on the log and on its model."""

from __future__ import annotations

from amqp_router.protocol.flags import ACK, DROP, RETURN
from amqp_router.protocol.message import build_message
from persistence.errors import LogFailed
from tests.persistence.log.model.reading import drain
from tests.persistence.log.model.shadow import Entry
from tests.persistence.log.model.world import World
from tests.persistence.log.support import returned


def append(world: World, number: int, count: int, size: int) -> None:
    """Publish ``count`` messages of ``size`` octets."""
    shadow, log = world.shadows[number], world.log(number)
    world.moves["append"] += 1
    for _ in range(count):
        world.serial += 1
        body = (b"%d:" % world.serial).ljust(size, b"*")
        message = build_message(b"\x01e" + bytes([1 + number]) + b"k" * (1 + number), b"\x10\x00\x02", body)
        message.flags = 1
        try:
            log.append(message, world.wall_us())
        except LogFailed:
            assert shadow.failed
            return
        assert not shadow.failed
        assert message.offset not in shadow.entries
        shadow.entries[message.offset] = Entry(body)
        shadow.waiting.append(message.offset)
        shadow.gaps[message.offset] = message.gap


def reserve(world: World, number: int) -> None:
    """A transient message takes an offset; it is settled at once."""
    log = world.log(number)
    world.moves["reserve"] += 1
    message = build_message(b"\x00\x01q", b"\x00\x00", b"t")
    log.reserve(message)
    log.settle(message.offset, message.gap, ACK)


def settle(world: World, number: int, first: int, count: int, kind: int) -> None:
    """Settle or return ``count`` unsettled messages in order, from the ``first``-th on."""
    shadow, log = world.shadows[number], world.log(number)
    offsets = shadow.unsettled()
    if not offsets or (shadow.failed and not shadow.passing):
        return
    first %= len(offsets)
    world.moves["return" if kind == RETURN else "settle"] += 1
    for offset in offsets[first : first + count]:
        log.settle(offset, shadow.gaps.get(offset, 0), kind)
        entry = shadow.entries[offset]
        if kind == RETURN:
            entry.returns += 1
            shadow.line += 1
            entry.places.append(shadow.line)
            shadow.unsealed.append((offset, entry.returns))
        else:
            entry.settled = True
            shadow.unsealed.append((offset, 0))
            # Once more changes nothing.
            log.settle(offset, 0, DROP)


def purge(world: World, number: int, keep_every: int) -> None:
    """Purge all but the oldest ones: of ``keep_every`` messages one is kept, and none if that is 0."""
    shadow, log = world.shadows[number], world.log(number)
    if shadow.failed:
        return
    world.moves["purge"] += 1
    unsettled = shadow.unsettled()
    kept = unsettled[: len(unsettled) // keep_every] if keep_every else []
    log.purge(kept[-1] + 1 if kept else 0, log.end)
    for offset, entry in shadow.entries.items():
        if offset not in kept and not entry.settled:
            entry.settled = True
            shadow.sealed.append((offset, 0, log.end))


def delete(world: World, number: int) -> None:
    """Delete a queue and declare it again: nothing of the old one may show."""
    shadow = world.shadows[number]
    world.moves["delete"] += 1
    world.catalog.forget(shadow.name)
    world.deleted.add(shadow.name)
    world.removed.add(shadow.name)
    fresh = world.new_shadow(number)
    world.shadows[number] = fresh
    world.create(fresh)


def truncate(world: World, number: int, share: float) -> None:
    """Cut the log somewhere above what is confirmed, a round under way or not."""
    shadow, log = world.shadows[number], world.log(number)
    if shadow.failed:
        return
    world.moves["truncate"] += 1
    end = shadow.confirmed_below + int(share * (log.end - shadow.confirmed_below))
    shadow.asks_too_much = end < log.checkpoints.offset or not log.writer.is_made
    try:
        world.catalog.truncate(log, end, keep_as_orphan=share > 0.5)
    except LogFailed:
        assert shadow.failed or end < log.checkpoints.offset or log.checkpoints.is_unsure
        if shadow.failed:
            shadow.unsealed = []
        return
    shadow.unsealed = []
    world.note_sealed()
    assert not shadow.waiting, "what is left is durable, and what is cut is refused"
    assert shadow.confirmed_below <= log.end <= max(end, shadow.confirmed_below)
    assert log.durable == log.high_watermark == log.end
    messages = {message.offset: message for message in drain(log)}
    fresh: dict[int, Entry] = {}
    for offset, entry in shadow.entries.items():
        if offset < log.end:
            # Settles above the cut are undone with it.
            found = messages.pop(offset, None)
            assert found is not None or entry.settled
            assert found is None or not entry.settle_durable
            entry.settled = found is None
            if found is not None:
                entry.returns = found.delivery_count
                del entry.places[entry.returns + 1 :]
                assert entry.returns >= entry.returns_durable
            fresh[offset] = entry
    assert not messages
    shadow.entries = fresh
    assert returned(log) == shadow.returned()
    shadow.unsealed = []
    shadow.sealed = [(offset, returns, log.end) for offset, returns, need in shadow.sealed if need <= log.end]
    shadow.confirmed_below = log.end
    shadow.harden()
