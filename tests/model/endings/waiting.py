"""Time goes by, and what runs beside the loop goes on: threads and the definition store."""

from __future__ import annotations

from tests.model.endings import closing, hearing, queues
from tests.model.endings.world import World


def sleep(world: World, seconds: float) -> None:
    """Time goes by, from timer to timer."""
    world.moves["time passes"] += 1
    end = round(world.clock.now + seconds, 6)
    while world.clock.now < end:
        closing.keep_timeouts_apart(world)
        world.node.sleep(max(world.clock.next_due(end) - world.clock.now, 0))
        let_timers_go_off(world)
        pass_time(world)


def let_timers_go_off(world: World) -> None:
    """All that are due: some set another one for the rest of their work."""
    for _ in range(1000):
        if world.clock.next_due(world.clock.now + 1) > world.clock.now:
            return
        world.node.sleep(0)
    raise AssertionError("timers go off for ever")


def pass_time(world: World) -> None:
    """The time has changed; the timers that had to go off have."""
    world.lists.now_us = world.clock.wall_us()
    world.look()
    hearing.note_closed_channels(world)  # what they had came back before the queue expired
    for queue in list(world.lists.queues.values()):
        expires = queue.rules.expires
        if expires is None or queue.consumers:
            continue
        if world.lists.now_us >= queue.used_us + expires * 1000:
            assert queue.name not in world.node.vhost.queues, f"{queue.name} has not expired"
            world.moves["(queue expires)"] += 1
            world.lists.pump(queue)  # messages whose time was over by then are not lost with it
            queues.gone(world, queue)
    world.compare()


def work(world: World) -> None:
    """One of the threads that write does a job; the loop has not heard of it."""
    world.moves["a thread works"] += 1
    world.node.work()


def hear(world: World) -> None:
    """The loop hears of one thing that a thread has done."""
    if world.node.posted:
        world.moves["the loop hears"] += 1
        world.node.hear()
        world.come_to_rest()


def commit(world: World) -> None:
    """One submission of definitions is stored, and the loop hears of it."""
    if world.definitions.pending:
        world.moves["definitions stored"] += 1
        world.node.commit(1)
        world.come_to_rest()


def settle_down(world: World) -> None:
    """Everything is synced and stored; nobody waits any more."""
    world.moves["settle down"] += 1
    world.node.commit()
    for _ in range(20):
        world.node.settle()
        sleep(world, 0.3)
        world.node.settle()
        world.come_to_rest()
        if world.node.sync.is_idle:
            break
    assert world.node.sync.is_idle
    for peer in world.peers:
        for channel in peer.channels.values():
            assert not channel.unanswered, f"no confirm for {list(channel.unanswered)}"
            assert not channel.late, f"{peer.name} did not get {channel.late}"
    _harden(world)


def _harden(world: World) -> None:
    """All that happened so far is durable."""
    for queue in world.past.values():
        queue.was_removed = True
    for queue in world.lists.queues.values():
        queue.entries = {
            key: entry for key, entry in queue.entries.items() if not entry.ended and not entry.letters
        }
        for entry in queue.entries.values():
            entry.safe = True
