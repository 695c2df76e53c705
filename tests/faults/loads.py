"""Loads that could starve everybody else. Each runs for a while, checks what came of it, and cleans up.

A load is a function of (port, seconds) that returns an `Outcome`; `LOADS` has them by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.duplex import Duplex
from tests.interop.wire import Wire, encode_frame, encode_method, encode_publish

MIB = 1 << 20
QOS_OK = (60, 11)


@dataclass
class Outcome:
    """What a load did. ``problem`` is empty if everything came out as it must."""

    published: int
    delivered: int
    problem: str = ""
    #: What else is worth knowing.
    note: str = ""


class Pace:
    """How many may have been sent by now at ``rate`` a second."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.start = time.monotonic()

    def due(self) -> int:
        return int((time.monotonic() - self.start) * self.rate)


def control(port: int) -> Wire:
    wire = Wire(port)
    wire.open_channel(1)
    return wire


def delete(port: int, *queues: str) -> None:
    with control(port) as wire:
        for queue in queues:
            wire.ok(1, "queue.delete", queue=queue)


def publisher_that_consumes(port: int, seconds: float) -> Outcome:
    """One connection publishes persistently as fast as it can, with confirms, and consumes the same queue."""
    queue = "load-both"
    wire = control(port)
    wire.ok(1, "queue.delete", queue=queue)
    wire.ok(1, "queue.declare", queue=queue, durable=True)
    wire.ok(1, "basic.qos", count=1000)
    wire.ok(1, "basic.consume", queue=queue)
    wire.open_channel(2, confirm=True)
    both = Duplex(wire)
    message = encode_publish(2, "", queue, bytes(1024), delivery_mode=2)
    both.on_deliver = lambda _channel, tag: both.queue_ack(1, tag) if tag % 100 == 0 else None
    published = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end and not both.closed:
        if len(both.out) < MIB:
            both.out += message * 64
            published += 64
        both.turn(0.05)
    done = both.until(lambda: both.delivered == published and both.confirmed == published, 60)
    wire.socket.close()
    delete(port, queue)
    problem = both.closed or (
        "" if done and not both.redelivered and not both.nacked else f"confirmed {both.confirmed}"
    )
    return Outcome(published, both.delivered, problem)


def _faster(port: int, seconds: float, persistent: bool) -> Outcome:
    queue = "load-faster-persistent" if persistent else "load-faster-transient"
    delete(port, queue)
    with control(port) as wire:
        wire.ok(1, "queue.declare", queue=queue, durable=persistent)
    publishers = [Duplex(control(port)) for _ in range(3)]
    consumer_wire = control(port)
    consumer_wire.ok(1, "basic.qos", count=100)
    consumer_wire.ok(1, "basic.consume", queue=queue)
    consumer = Duplex(consumer_wire)
    consumer.on_deliver = lambda channel, tag: consumer.queue_ack(channel, tag) if tag % 50 == 0 else None
    block = encode_publish(1, "", queue, bytes(1024), delivery_mode=2 if persistent else 1) * 100
    published = 0
    slow, quick = Pace(2_000), Pace(20_000)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for publisher in publishers:
            if published < quick.due() and len(publisher.out) < MIB:
                publisher.out += block
                published += 100
            publisher.turn(0)
        if consumer.delivered < slow.due():
            consumer.turn(0)
        time.sleep(0.001)
    problem = next((p.closed for p in [*publishers, consumer] if p.closed), "")
    for publisher in publishers:
        if not _taken(publisher):
            problem = problem or publisher.closed or "a publisher was not read any more"
        publisher.wire.socket.close()
    # What comes from now on is not acknowledged. Unread deliveries end a connection with a reset, which may
    # overtake acknowledgements that the broker has not read.
    consumer.on_deliver = None
    acked = consumer.delivered - consumer.delivered % 50
    if not _taken(consumer):
        problem = problem or consumer.closed or "the acknowledgements were not taken"
    consumer_wire.socket.close()
    left = _ready(port, queue)
    # what was delivered and not acked has come back: all that was published is acked or there
    if not problem and not acked <= published - left <= consumer.delivered + 100:
        problem = f"{left} left of {published}, {acked} acked"
    delete(port, queue)
    return Outcome(published, consumer.delivered, problem)


def _taken(both: Duplex) -> bool:
    """Wait until the broker has done all that was sent on channel 1."""
    before = both.others[QOS_OK]
    both.out += encode_frame(1, 1, encode_method("basic.qos", count=100))
    return both.until(lambda: both.others[QOS_OK] > before, 60)


def _ready(port: int, queue: str) -> int:
    """Ready messages, once that number stands still."""
    with control(port) as wire:
        before = -1
        while (now := wire.ready(queue)) != before:
            before = now
            time.sleep(0.3)
    return now


def _returned(port: int, queue: str, count: int) -> int:
    """Ready messages, once there are ``count``, or after a minute."""
    end = time.monotonic() + 60
    with control(port) as wire:
        while (now := wire.ready(queue)) != count and time.monotonic() < end:
            time.sleep(0.05)
    return now


def publishers_faster_persistent(port: int, seconds: float) -> Outcome:
    """Three publishers, together 20,000 persistent messages of 1 KiB a second; one consumer of 2,000."""
    return _faster(port, seconds, persistent=True)


def publishers_faster_transient(port: int, seconds: float) -> Outcome:
    """The same with transient messages in a queue that is not durable."""
    return _faster(port, seconds, persistent=False)


def consumer_that_stops_reading(port: int, seconds: float) -> Outcome:
    """A consumer without acknowledgement never reads its socket; another on that queue gets the rest."""
    queue = "load-stuck"
    stuck = Wire(port, receive_buffer=4096)
    stuck.open_channel(1)
    stuck.ok(1, "queue.delete", queue=queue)
    stuck.ok(1, "queue.declare", queue=queue)
    stuck.ok(1, "basic.consume", queue=queue, no_ack=True)
    other_wire = control(port)
    other_wire.ok(1, "basic.consume", queue=queue, no_ack=True)
    other = Duplex(other_wire)
    publisher = Duplex(control(port))
    block = encode_publish(1, "", queue, bytes(1024)) * 100
    published = 0
    pace = Pace(20_000)
    last = 0
    problem = ""
    end = time.monotonic() + seconds
    next_look = time.monotonic() + 1
    while time.monotonic() < end and not problem:
        if published < pace.due() and len(publisher.out) < MIB:
            publisher.out += block
            published += 100
        publisher.turn(0.001)
        other.turn(0)
        if time.monotonic() > next_look:
            if other.delivered == last:
                publisher.out += block
                published += 100
            never = time.monotonic() + 60
            while other.delivered == last and not problem:
                publisher.turn(0.001)
                other.turn(0.01)
                problem = publisher.closed or other.closed
                if time.monotonic() > never:
                    problem = problem or "the other consumer starves"
            last = other.delivered
            next_look = time.monotonic() + 1
    publisher.until(lambda: not publisher.out, 30)
    other.until(lambda: False, 0.5)
    for wire in (publisher.wire, other_wire):
        wire.socket.close()
    stuck.drop()
    delete(port, queue)
    return Outcome(published, other.delivered, problem)


def large_body(port: int, seconds: float, size: int = 128 * MIB) -> Outcome:
    """Publish a persistent body of 128 MiB, wait for its confirm, consume and ack it, again and again."""
    queue = "load-large"
    wire = control(port)
    wire.ok(1, "queue.delete", queue=queue)
    wire.ok(1, "queue.declare", queue=queue, durable=True)
    wire.ok(1, "confirm.select")
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "basic.consume", queue=queue)
    both = Duplex(wire)
    both.on_deliver = both.queue_ack
    published = 0
    problem = ""
    end = time.monotonic() + seconds
    while (published == 0 or time.monotonic() < end) and not problem:
        both.out += encode_publish(1, "", queue, bytes(size), delivery_mode=2)
        published += 1
        target = published
        if not both.until(lambda: both.confirmed == target and both.body_octets == target * size, 120):  # noqa: B023
            problem = (
                both.closed
                or f"{both.body_octets} of {published * size} octets came, {both.confirmed} confirmed"
            )
    both.until(lambda: not both.out, 10)
    wire.socket.close()
    delete(port, queue)
    return Outcome(published, both.delivered, problem)


def _fanout(port: int, seconds: float, durable: bool, queues: int, chunk: int) -> Outcome:
    exchange = "load-fanout-durable" if durable else "load-fanout"
    names = [f"{exchange}-{index}" for index in range(queues)]
    consumer_wire = control(port)
    consumer_wire.ok(1, "exchange.declare", exchange=exchange, type="fanout")
    for name in names:
        consumer_wire.send(1, "queue.declare", queue=name, durable=durable)
        consumer_wire.send(1, "queue.bind", queue=name, exchange=exchange)
        consumer_wire.send(1, "basic.consume", queue=name, no_ack=True)
    for _ in range(3 * queues):
        reply = consumer_wire.receive(60)
        assert reply.name in ("queue.declare-ok", "queue.bind-ok", "basic.consume-ok"), reply
    consumer = Duplex(consumer_wire)
    publisher_wire = control(port)
    publisher_wire.ok(1, "confirm.select")
    publisher = Duplex(publisher_wire)
    message = encode_publish(1, exchange, "", bytes(100), delivery_mode=2 if durable else 1)
    published = 0
    problem = ""
    end = time.monotonic() + seconds
    while (published == 0 or time.monotonic() < end) and not problem:
        publisher.out += message * chunk
        published += chunk
        limit = time.monotonic() + 60
        while consumer.delivered < published * queues or publisher.confirmed < published:
            publisher.turn(0.001)
            consumer.turn(0.01)
            if time.monotonic() > limit or publisher.closed or consumer.closed:
                problem = (
                    publisher.closed
                    or consumer.closed
                    or f"{consumer.delivered} of {published * queues} came"
                )
                break
    for wire in (publisher_wire, consumer_wire):
        wire.socket.close()
    with control(port) as wire:
        for name in names:
            wire.send(1, "queue.delete", queue=name)
        wire.receive_named("queue.delete-ok", queues)
        wire.ok(1, "exchange.delete", exchange=exchange)
    return Outcome(published, consumer.delivered, problem)


def wide_fanout(port: int, seconds: float, queues: int = 1000, chunk: int = 50) -> Outcome:
    """Chunks of 50 messages in one write, each to 1,000 queues with consumers."""
    return _fanout(port, seconds, False, queues, chunk)


def wide_fanout_durable(port: int, seconds: float, queues: int = 1000, chunk: int = 5) -> Outcome:
    """Chunks of 5 persistent messages in one write, each to 1,000 durable queues, with confirms."""
    return _fanout(port, seconds, True, queues, chunk)


def mass_requeue(port: int, seconds: float, count: int = 100_000) -> Outcome:
    """A consumer holds 100,000 messages unacked and is gone; again and again. Then all are purged at once."""
    queue = "load-requeue"
    wire = control(port)
    wire.ok(1, "queue.delete", queue=queue)
    wire.ok(1, "queue.declare", queue=queue, durable=True)
    wire.ok(1, "confirm.select")
    publisher = Duplex(wire)
    publisher.out += encode_publish(1, "", queue, bytes(100), delivery_mode=2) * count
    problem = "" if publisher.until(lambda: publisher.confirmed == count, 60) else "not all were confirmed"
    wire.socket.close()
    delivered = 0
    end = time.monotonic() + seconds
    while (delivered == 0 or time.monotonic() < end) and not problem:
        holder_wire = control(port)
        holder_wire.ok(1, "basic.consume", queue=queue)
        holder = Duplex(holder_wire)
        if not holder.until(lambda: holder.delivered == count, 60):  # noqa: B023
            problem = holder.closed or f"{holder.delivered} of {count} were delivered"
        elif holder.redelivered != (count if delivered else 0):
            problem = f"{holder.redelivered} were marked as redelivered"
        delivered += holder.delivered
        holder_wire.drop()
        if not problem and (left := _returned(port, queue, count)) != count:
            problem = f"{left} of {count} came back"
    with control(port) as wire:
        purged = wire.ok(1, "queue.purge", queue=queue).messages
        if not problem and purged != count:
            problem = f"{purged} of {count} were purged"
        wire.ok(1, "queue.delete", queue=queue)
    return Outcome(count, delivered, problem)


Load = Callable[[int, float], Outcome]
LOADS: dict[str, Load] = {
    "publisher that also consumes": publisher_that_consumes,
    "publishers faster, persistent": publishers_faster_persistent,
    "publishers faster, transient": publishers_faster_transient,
    "consumer that stops reading": consumer_that_stops_reading,
    "bodies of 128 MiB": large_body,
    "fanout to 1,000 queues": wide_fanout,
    "fanout to 1,000 durable queues": wide_fanout_durable,
    "requeue of 100,000": mass_requeue,
}
