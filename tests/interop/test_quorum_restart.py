"""In which order a quorum queue gives its messages after a start: first what had returned, as it returned.

Source: RabbitMQ 3.10.8 with a delivery limit, measured. What was out comes behind what had returned.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.brokers import Broker
from tests.interop.conftest import RABBITMQ
from tests.interop.test_quorum import declare, take
from tests.interop.test_restart import BOTH_BUILDS, opened, publish_confirmed
from tests.interop.test_restart import end as end_and_start
from tests.interop.wire import Wire

HOWS = pytest.mark.parametrize("how", ["stop", "kill9"])
LIMIT = 100_000


def end(broker: Broker, how: str) -> None:
    """End the broker and start it again."""
    if RABBITMQ:
        time.sleep(6)  # a queue that was declared a moment before a kill has no leader after it
    end_and_start(broker, how)
    if RABBITMQ:
        time.sleep(3)  # a get is lost while its queues choose their leaders


def begin(wire: Wire, queue: str, count: int, **arguments: Any) -> None:
    declare(wire, queue, **{"x_delivery_limit": LIMIT, **arguments})
    publish_confirmed(wire, "", queue, [str(number) for number in range(count)], delivery_mode=2)


def get(wire: Wire, queue: str, count: int) -> dict[int, int]:
    """Take some, which stay out: the tag of each."""
    messages = [take(wire, queue) for _ in range(count)]
    return {int(message.body): message.delivery_tag for message in messages}


def give_back(wire: Wire, tags: dict[int, int], *numbers: int) -> None:
    for number in numbers:
        wire.send(1, "basic.reject", delivery_tag=tags[number], requeue=True)
    wire.ok(1, "basic.qos")


def rest(wire: Wire, queue: str, count: int) -> list[int]:
    """The numbers of the next ``count`` messages, which are settled."""
    numbers = []
    for _ in range(count):
        message = take(wire, queue)
        wire.send(1, "basic.ack", delivery_tag=message.delivery_tag)
        numbers.append(int(message.body))
    return numbers


def write(wire: Wire, queue: str, number: int) -> None:
    """Publish one more. When it is confirmed, what happened to the queue before is on disk, too."""
    publish_confirmed(wire, "", queue, [str(number)], delivery_mode=2)


@BOTH_BUILDS
@HOWS
def test_what_had_returned_stands_before_what_was_out_and_the_rest(own_broker: Broker, how: str) -> None:
    with opened(own_broker) as wire:
        begin(wire, "some", 8)
        give_back(wire, get(wire, "some", 5), 3, 1, 4)
        write(wire, "some", 8)
        begin(wire, "twice", 6)
        give_back(wire, get(wire, "twice", 4), 3, 1)
        give_back(wire, get(wire, "twice", 1), 3)
        write(wire, "twice", 6)
        begin(wire, "settled", 6)
        give_back(wire, get(wire, "settled", 5), 3, 1, 2)
        tags = get(wire, "settled", 2)
        wire.send(1, "basic.ack", delivery_tag=tags[3])
        give_back(wire, tags, 1)
        write(wire, "settled", 6)
        begin(wire, "limited", 5, x_delivery_limit=1)
        give_back(wire, get(wire, "limited", 1), 0)
        give_back(wire, get(wire, "limited", 1), 0)  # once too often
        give_back(wire, get(wire, "limited", 3), 3, 2)
        write(wire, "limited", 5)
        end(own_broker, how)
    with opened(own_broker) as wire:
        assert rest(wire, "some", 9) == [3, 1, 4, 0, 2, 5, 6, 7, 8]
        assert rest(wire, "twice", 7) == [1, 3, 0, 2, 4, 5, 6]
        assert rest(wire, "settled", 6) == [2, 1, 0, 4, 5, 6]
        assert rest(wire, "limited", 5) == [3, 2, 1, 4, 5]


@HOWS
@pytest.mark.parametrize("by", ["channel", "connection", "nack"])
def test_what_a_channel_gave_back_keeps_its_order(own_broker: Broker, how: str, by: str) -> None:
    with opened(own_broker) as wire:
        begin(wire, "q", 8)
        other = opened(own_broker)
        tags = get(other, "q", 5)
        give_back(other, tags, 3)
        if by == "channel":
            other.ok(1, "channel.close", code=200)
        elif by == "nack":
            other.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
            other.ok(1, "basic.qos")
        other.close()
        until = time.monotonic() + 30
        while wire.ok(1, "queue.declare", queue="q", passive=True).messages < 8:
            assert time.monotonic() < until
            time.sleep(0.02)
        out = get(wire, "q", 2)
        assert list(out) == [3, 0]
        give_back(wire, out, 0)
        write(wire, "q", 8)
        if how == "kill9":
            give_back(wire, out, 3)  # what a kill finds out is not known to have been taken
            write(wire, "q", 9)
        end(own_broker, how)
    with opened(own_broker) as wire:
        assert rest(wire, "q", 9) == [1, 2, 4, 0, 3, 5, 6, 7, 8]


@HOWS
def test_the_order_of_return_outlasts_further_starts(own_broker: Broker, how: str) -> None:
    """Also with what returned since, and with a purge of all that is not out."""
    with opened(own_broker) as wire:
        for queue in ("q", "purged"):
            begin(wire, queue, 8)
            give_back(wire, get(wire, queue, 6), 5, 3, 1, 0, 2, 4)
            write(wire, queue, 8)
        end(own_broker, how)
    with opened(own_broker) as wire:
        tags = get(wire, "q", 2)
        assert list(tags) == [5, 3]
        give_back(wire, tags, 3, 5)
        tags = get(wire, "purged", 2)
        assert wire.ok(1, "queue.purge", queue="purged").messages == 7
        give_back(wire, tags, 3, 5)
        for queue in ("q", "purged"):
            write(wire, queue, 9)
        end(own_broker, how)
    with opened(own_broker) as wire:
        assert rest(wire, "q", 10) == [1, 0, 2, 4, 3, 5, 6, 7, 8, 9]
        assert rest(wire, "purged", 3) == [3, 5, 9]
