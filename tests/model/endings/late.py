"""Frames of clients that are there before what is due: timers, or the rest of a queue's slices."""

from __future__ import annotations

from amqp_router.protocol import methods as m
from tests.model.endings import closing, consuming, letters, publishing, queues, settling, waiting
from tests.model.endings.clients import Channel
from tests.model.endings.queue import ModelQueue
from tests.model.endings.says import Says
from tests.model.endings.wire import properties_of
from tests.model.endings.world import World
from tests.nodes import publish_frames


def late_frame(world: World, who: int, number: int, name: str, seconds: float, *, get: bool) -> None:
    """The loop is late: a client's frame is there before the timers of ``seconds`` go off."""
    peer, channel = world.channel(who, number)
    queue = world.lists.queues.get(name)
    if queue is None or not queue.was_declared or queue.rules.expires is not None:
        return
    closing.keep_timeouts_apart(world)
    seconds = min(_until_others_are_due(world, queue), seconds)
    if _gets_letters_and_returns(world, name):
        seconds = min(_until_timed_out(world), seconds)
    if seconds <= 0:
        return
    world.moves["late get" if get else "late declare"] += 1
    world.clock.now = round(world.clock.now + seconds, 6)
    world.node.tick.now_us = world.lists.now_us = world.clock.wall_us()
    method = m.BasicGet(name, True) if get else m.QueueDeclare(name, passive=True)
    peer.client.send(method, channel=number)
    world.look()
    world.lists.pump(queue)
    if get:
        consuming.got(world, peer, channel, queue, no_ack=True)
        world.lists.pump(queue)  # before the timers go off
    else:
        queue.used_us = world.lists.now_us
        answer = world.take(peer, channel, m.QueueDeclareOk).method
        assert answer == m.QueueDeclareOk(name, len(queue.ready), queues.consumers_of(world, queue)), answer
    world.watch_anew()
    world.node.sleep(0)
    waiting.let_timers_go_off(world)
    waiting.pass_time(world)


def frame_among_slices(
    world: World, who: int, number: int, name: str, seconds: float, *, frame: str, turns: int
) -> None:
    """Timers go off, and some ``turns`` later, while messages still expire in slices, a client's frame
    comes: a declare, a get, a publish, or messages that return.

    In RabbitMQ all have expired before the queue looks at it.
    """
    peer, channel = world.channel(who, number)
    queue = world.lists.queues.get(name)
    if queue is None or not _is_foretold(world, channel, queue, frame):
        return
    seconds = min(_until_others_are_due(world, queue), _until_timed_out(world), seconds)
    if seconds <= 0:
        return
    timers = world.clock.advance(seconds)
    world.node.tick.now_us = world.lists.now_us = world.clock.wall_us()
    for timer in timers:
        world.node.enter(timer.go_off)
    for _ in range(turns):
        world.node.turn()
    world.moves[f"{frame} among slices"] += 1
    before = world.node.queue(name).message_count()
    mine = sorted(channel.out)
    says = Says.published("", name, persistent=number == 1, priority=who * 3 or None, ms=None)
    body = b""
    if frame == "publish":
        body = publishing.new_body(world, 20)
        frames = publish_frames(1, m.BasicPublish("", name), properties_of(says), body)
        world.publisher.client.feed(b"".join(frames))
    elif frame == "declare":
        peer.client.send(m.QueueDeclare(name, passive=True), channel=number)
    elif frame == "get":
        peer.client.send(m.BasicGet(name, True), channel=number)
    else:
        peer.client.send(m.BasicNack(mine[-1], True, True), channel=number)
    world.look()
    world.lists.pump(queue)
    if before > len(queue.ready):
        world.moves["(the slices were unfinished)"] += 1
    if frame == "publish":
        publishes = world.publisher.channels[1]
        publishes.unanswered[publishes.next_sequence] = publishing.published(world, [queue], says, body)
        publishes.next_sequence += 1
    elif frame == "declare":
        queues.looked_into(world, peer, channel, queue)
    elif frame == "get":
        consuming.got(world, peer, channel, queue, no_ack=True)
    else:
        settling.note_settled(world, channel, mine, "requeue")
    world.watch_anew()
    waiting.let_timers_go_off(world)
    waiting.pass_time(world)


def _is_foretold(world: World, channel: Channel, queue: ModelQueue, frame: str) -> bool:
    """Whether it is known what a frame finds that comes while messages of a queue expire in slices."""
    if not queue.was_declared or queue.rules.expires is not None:
        return False
    if frame != "declare" and letters.comes_round(world, queue.name):
        return False  # what expires comes again before the frame or after it, also by way of other queues
    if frame != "requeue":
        return True
    if channel.is_transacted or {out.queue for out in channel.out.values()} != {queue}:
        return False
    # A nack with multiple does not wait for the queue of a consumer that was cancelled.
    return any(each.queue is queue for each in channel.consumers.values())


def _until_timed_out(world: World) -> float:
    """Seconds until just before a delivery may be too old."""
    times = [out.at_us + out.timeout_us() for out in world.outs() if out.timeout_us()]
    return min([60.0, *[(due_us - 1 - world.lists.now_us) / 1e6 for due_us in times]])


def _gets_letters_and_returns(world: World, name: str) -> bool:
    """Whether a timeout would give back to a queue that gets the letters of this one: the frame makes
    those come first, while the model hears of the return first.
    """
    fed = letters.letters_go_to(world, name)
    return any(out.queue.name in fed and out.timeout_us() for out in world.outs())


def _until_others_are_due(world: World, queue: ModelQueue | None) -> float:
    """Seconds until just before something is due in another queue, which might come before or after."""
    others = [each for each in world.lists.queues.values() if each is not queue]
    times = [e.deadline_us for each in others for e in each.ready if e.deadline_us is not None]
    times += [each.used_us + each.rules.expires * 1000 for each in others if each.rules.expires]
    return min([60.0, *[(due_us - 1 - world.lists.now_us) / 1e6 for due_us in times]])
