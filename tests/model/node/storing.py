"""The definition store goes on, fails and heals."""

from __future__ import annotations

from pathlib import Path

from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import methods as m
from persistence.definitions import StoreFailed
from tests.model.node.world import World


def commit(world: World, count: int) -> None:
    """The definition store finishes some of what was submitted, and the loop hears of it."""
    if world.definitions.pending and world.is_storing:
        world.moves["definitions stored"] += 1
        commit_all(world, count)


def commit_all(world: World, count: int = 1 << 30) -> None:
    """The definition store finishes the next ``count`` submissions, and the loop hears of it."""
    # What is stored is known before the loop hears of it, and confirms what waited for it.
    world.definitions.commit(count)
    world.note_stored()
    world.node.commit(0)
    world.absorb()


def fail_definitions(world: World, *, lasting: bool) -> None:
    """The next transaction of the definition store fails: once, or until ``heal_definitions``."""
    if not world.is_storing:
        return
    world.moves["definitions fail" if lasting else "definitions fail once"] += 1
    world.is_storing = False
    for queue in world.queues.values():
        queue.is_refusing = queue.durable and not world.is_stored(queue)
    for queue in world.past.values():
        queue.is_refusing = not queue.is_removed and not world.is_stored(queue)
    for channel in world.publisher.channels.values():
        for publish in channel.unanswered.values():
            publish.is_unsafe = publish.is_unsafe or publish.depends_on_definitions()
    world.node.fail_definitions(StoreFailed(Path("simulated"), "simulated", passing=True))
    if world.admin.channels[1].expected:
        _admin_is_closed(world)
    world.absorb()
    if not lasting:
        heal_definitions(world)


def heal_definitions(world: World) -> None:
    """The definition store stores all that it had taken."""
    if world.is_storing:
        return
    world.moves["definitions heal"] += 1
    world.is_storing = True
    for queue in (*world.queues.values(), *world.past.values()):
        queue.is_refusing = False
    world.definitions.failed = None
    world.definitions.commit()
    world.note_stored()
    world.node.heal_definitions()
    world.absorb()
    compare_with_store(world)


def compare_with_store(world: World) -> None:
    """All is stored: memory and store have the same."""
    vhost = world.node.vhost
    rows = {(row.name, row.incarnation) for row in world.definitions.of_kind("queue")}
    assert rows == {(q.name, q.incarnation) for q in vhost.queues.values() if q.durable}
    keys = {row.key for row in world.definitions.of_kind("binding")}
    assert keys == {each.row("/").key for each in vhost.bindings if each.is_durable()}


def refused(world: World, method: m.Method) -> None:
    """The definition store refuses what the admin asks for."""
    world.admin.client.send(method)
    _admin_is_closed(world)
    world.absorb()


def _admin_is_closed(world: World) -> None:
    """The admin's connection is closed for what cannot be stored, and it comes back."""
    world.node.quiet()
    assert world.admin.client.take()[-1].method.reply_code == 541  # type: ignore[attr-defined]
    world.answers = []
    world.admin.client.drop()
    world.admin.client.machine.state = ConnectionState.CLOSED
    world.node.quiet()
    world.admin.connect(world.node)
