"""Starts of the node, and what its logs must have then.

A message that was given up is in its queue, in the queue of its dead letter, or after a crash in both; never
in neither, if it was safe. What is in both is not taken twice.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from amqp_router.protocol.flags import REDELIVERED
from amqp_router.protocol.message import Extras, Message
from persistence.log.sync.marks import log_id
from tests.model.endings.clock import Clock
from tests.model.endings.queue import Entry, ModelQueue
from tests.model.endings.rules import KINDS, target
from tests.model.endings.sizes import whole_turns
from tests.model.endings.wire import read, serial_of
from tests.model.endings.world import World


def reopen(world: World, *, clean: bool | None) -> None:
    """Start again and compare; None: the last stop may have been clean, ask the node."""
    known = {queue.incarnation: queue for queue in (*world.past.values(), *world.lists.queues.values())}
    rows = {row.incarnation: row for row in world.definitions.of_kind("queue")}
    for queue in known.values():
        is_stored = queue.incarnation in rows
        assert not (is_stored and queue.deleted and queue.was_removed), f"{queue.name} came back"
        if queue.kind.durable and queue.was_declared and not queue.deleted:
            assert is_stored, f"{queue.name} is lost"
    world.received = []
    feature = "restart" if clean else "kill -9"
    for queue in world.lists.queues.values():
        for entry in queue.entries.values():
            if not entry.ended:
                world.lists.note(queue, entry, feature)
    world.start(Clock(round(world.clock.now + world.random.choice((0.01, 0.01, 1.0)), 6)))
    assert clean in (None, world.node.catalog.was_clean)
    is_clean = world.node.catalog.was_clean
    world.past = {}
    bound = {row.destination for row in world.definitions.of_kind("binding")}
    fresh = {
        row.incarnation: ModelQueue(
            KINDS[row.name],
            row.incarnation,
            known[row.incarnation].arguments,
            world.policy_of(row.name),
            world.lists.now_us,
        )
        for row in rows.values()
    }
    for incarnation, queue in fresh.items():
        _recover(world, known[incarnation], queue, is_clean=is_clean)
        queue.was_declared = True
        queue.is_bound = queue.name in bound
    for incarnation, queue in fresh.items():
        _find_letters(world, known[incarnation], queue, fresh)
        _compare_with_log(world, known[incarnation], queue, fresh, is_clean=is_clean)
    world.lists.queues = {queue.name: queue for queue in fresh.values()}
    with whole_turns() if _is_open(world) else nullcontext():
        world.connect()


def _recover(world: World, before: ModelQueue, fresh: ModelQueue, *, is_clean: bool) -> None:
    """Fill ``fresh`` with what the log gave back, and compare each message with what it was."""
    log = world.node.queue(before.name).log
    assert log is not None
    messages, _ = log.read(0, log.end, 1 << 20, 1 << 30)
    for message in messages:
        length = message.route[0]
        exchange = message.route[1 : 1 + length].decode()
        says, _ = read(message.properties(), exchange, message.route[2 + length :].decode())
        where = f"{serial_of(message.body())} {says.deaths} in {before.name}"
        likes = [
            each
            for each in before.entries.values()
            if each.shown == (serial_of(message.body()), says.deaths) and each.key not in fresh.entries
        ]
        entry = min(likes, key=partial(_unlike, message), default=None)
        assert entry is not None, f"{where} was never there, is there twice, or was settled durably"
        assert entry.logged, f"{where} is not of the log"
        is_over = entry.ended and not entry.may_stay
        assert not (is_clean and is_over and not before.deleted), f"{where} was settled"
        assert (message.body(), says) == (entry.body, entry.says), where
        assert message.deadline_us == (entry.deadline_us or 0), f"the deadline of {where}"
        is_redelivered = bool(message.flags & REDELIVERED)
        if is_clean and not entry.letters and not entry.may_stay and not before.deleted:
            assert is_redelivered == entry.redelivered, f"redelivered flag of {where}"
            assert message.delivery_count == entry.returns, f"returns of {where}"
        else:
            assert is_clean or is_redelivered, f"{where} is not marked after a crash"
            assert message.delivery_count <= entry.returns, f"{where} returned {message.delivery_count}"
        kept = Entry(entry.serial, entry.body, entry.says, entry.marks)
        kept.copy = entry.copy
        kept.deadline_us = entry.deadline_us
        kept.redelivered, kept.returns = is_redelivered, message.delivery_count
        kept.places = {count: place for count, place in entry.places.items() if count <= kept.returns}
        kept.origin = entry.origin
        kept.logged = kept.safe = True
        kept.is_old = True
        kept.offset, kept.epoch = message.offset, log.batches.epochs.at(message.offset)
        fresh.entries[kept.key] = kept
        fresh.recover(kept)


def _find_letters(
    world: World, before: ModelQueue, fresh: ModelQueue, all_fresh: dict[str, ModelQueue]
) -> None:
    """Which letters of messages that are back the log has, or has had."""
    log = world.node.queue(before.name).log
    assert log is not None
    for queue in all_fresh.values():
        for entry in queue.entries.values():
            origin = (queue.incarnation, *entry.key)
            letters = [each for each in before.entries.values() if each.origin == origin]
            extras = Extras()
            extras.source, extras.source_offset = log_id(queue.incarnation), entry.offset
            extras.source_epoch = entry.epoch
            has_letter = log.taken.has_letter(extras)
            if has_letter:
                fresh.letters.add(origin)
                assert letters or origin in before.letters, f"{entry.serial} was never sent"
            for letter in letters:
                assert has_letter or letter.key not in fresh.entries, f"{letter.serial} is not known"


def _compare_with_log(
    world: World, before: ModelQueue, fresh: ModelQueue, all_fresh: dict[str, ModelQueue], *, is_clean: bool
) -> None:
    """Nothing that must be there is missing."""
    if before.deleted:
        return
    for key, entry in before.entries.items():
        if not entry.logged or entry.ended or key in fresh.entries:
            continue
        if entry.safe or is_clean:
            where = f"{entry.serial} in {before.name}"
            assert entry.letters, f"{where} is lost"
            for target, letter in entry.letters:
                assert _is_somewhere(target, letter, all_fresh), f"{where} and its letter are lost"


def _is_open(world: World) -> bool:
    """Whether a queue that drops its head may have too many messages now, some of them over, and gets letters
    of another queue. If one came between two turns of a drop, more would be dropped and fewer would expire.
    """
    queues = world.lists.queues.values()
    fed = {target(each.kind, each.rules) for each in queues if target(each.kind, each.rules) != each.name}
    return any(
        each.name in fed
        and each.rules.is_limited
        and each.rules.overflow == "drop-head"
        and any(entry.deadline_us is not None for entry in each.ready)
        for each in queues
    )


def _unlike(message: Message, entry: Entry) -> tuple[bool, bool, bool]:
    """How little ``message`` of the log is ``entry``, of those that look like it."""
    was_elsewhere = entry.is_old and entry.offset != message.offset
    return was_elsewhere, message.deadline_us != (entry.deadline_us or 0), entry.ended


def _is_somewhere(queue: ModelQueue, entry: Entry, fresh: dict[str, ModelQueue]) -> bool:
    """Whether a message is in its queue, was done with, or lives on in its letters."""
    if entry.ended or queue.deleted or queue.incarnation not in fresh:
        return True
    if entry.key in fresh[queue.incarnation].entries:
        return True
    return bool(entry.letters) and all(_is_somewhere(*each, fresh) for each in entry.letters)
