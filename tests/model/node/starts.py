"""Starts of the node, and what its logs must have then."""

from __future__ import annotations

from tests.model.node.shadow import ShadowQueue
from tests.model.node.world import World


def reopen(world: World, *, clean: bool | None) -> None:
    """Start again; None: the last stop may have been clean, ask the node."""
    known = {queue.incarnation: queue for queue in (*world.past.values(), *world.queues.values())}
    rows = {row.incarnation: row for row in world.definitions.of_kind("queue")}
    bound = {row.destination for row in world.definitions.of_kind("binding")}
    for queue in known.values():
        stored = queue.incarnation in rows
        if queue.is_delete_answered:
            assert not stored, f"{queue.name} came back after delete-ok"
        elif queue.durable and queue.is_declare_answered and not queue.deleted:
            assert stored, f"{queue.name} is lost after declare-ok"
            assert queue.name in bound or not queue.is_bind_answered
    world.answers = []
    world.start()
    assert clean in (None, world.node.catalog.was_clean)
    clean = world.node.catalog.was_clean
    assert not [name for name in world.node.set_aside if name in rows]
    assert set(world.node.set_aside) <= known.keys()
    world.past = {}
    world.queues = {}
    for incarnation, row in rows.items():
        before = known[incarnation]
        fresh = _recovered(world, before, clean=clean)
        fresh.is_bound = row.name in bound
        fresh.is_declare_answered = True
        fresh.is_bind_answered = fresh.is_bound
        world.queues[row.name] = fresh
    assert world.node.vhost.queues.keys() == world.queues.keys()
    world.begin()


def _recovered(world: World, before: ShadowQueue, *, clean: bool) -> ShadowQueue:
    """Compare what a log gave back with what it must, may and must not."""
    is_as_left = clean and not before.failed and not before.deleted
    queue = world.node.queue(before.name)
    messages, _ = queue.log.read(0, queue.log.end, 1 << 20, 1 << 30)
    fresh = ShadowQueue(before.name, before.incarnation, durable=True)
    for message in messages:
        serial = int(message.body().partition(b":")[0])
        entry = before.entries.get(serial)
        where = f"{serial} in {before.name}"
        assert entry is not None, f"{where} was never there, or was settled durably"
        assert entry.logged, f"{where} is not persistent"
        assert message.body() == entry.body
        assert message.route == b"".join(bytes([len(name)]) + name.encode() for name in entry.route)
        is_redelivered = bool(message.flags & 2)
        if is_as_left:
            assert not entry.settled, f"{where} was settled before the clean stop"
            assert is_redelivered == entry.redelivered, f"redelivered flag of {where} is wrong"
        elif not clean or before.failed:
            assert is_redelivered, f"{where} is not marked after a crash"
        kept = fresh.publish(serial, entry.body, entry.route, persistent=True)
        kept.redelivered = is_redelivered
        kept.safe = True  # it was read from the disk and synced by recovery
    assert fresh.ready == sorted(set(fresh.ready)), "the order is lost"
    for serial, entry in before.entries.items():
        if entry.logged and not entry.settled and (entry.safe or is_as_left):
            assert serial in fresh.entries, f"{serial} in {before.name} was confirmed and is lost"
    return fresh
