"""Messages and queues that expire."""

from __future__ import annotations

import time

from tests.oracle.conftest import Asker


def test_expired_messages_are_gone(asker: Asker) -> None:
    queue = asker.queue("t", x_message_ttl=60)
    asker.publish(queue, "a")
    time.sleep(0.2)
    assert asker.wire.get(queue) is None
    asker.await_ready(queue, 0)


def test_only_the_head_expires(asker: Asker) -> None:
    """A short life behind a long one still counts, and is dropped when it is the head."""
    queue = asker.queue("t")
    asker.wire.publish(1, "", queue, "long", expiration="60000")
    asker.publish(queue, "short", expiration="50")
    time.sleep(0.2)
    asker.await_ready(queue, 2)
    assert asker.bodies(queue) == ["long"]


def test_expiration_0_is_now_or_never(asker: Asker) -> None:
    queue = asker.queue("t")
    asker.wire.publish(1, "", queue, "lost", expiration="0")
    assert asker.wire.get(queue) is None
    asker.wire.ok(1, "basic.consume", queue=queue, no_ack=True)
    asker.wire.publish(1, "", queue, "taken", expiration="0")
    assert asker.wire.receive().body == b"taken"


def test_a_life_ends_while_the_message_is_unacked(asker: Asker) -> None:
    queue = asker.queue("t", x_message_ttl=2000)
    asker.wire.publish(1, "", queue, "a")
    found = asker.wire.get(queue, no_ack=False)
    assert found is not None
    time.sleep(2.2)
    asker.wire.send(1, "basic.reject", delivery_tag=found.delivery_tag, requeue=True)
    assert asker.wire.get(queue) is None


def test_the_shorter_life_counts(asker: Asker) -> None:
    queue = asker.queue("t", x_message_ttl=60_000)
    asker.publish(queue, "a", expiration="50")
    time.sleep(0.2)
    assert asker.wire.get(queue) is None


def test_what_renews_a_queue_that_expires(asker: Asker) -> None:
    """Declaring it, also passively, and basic.get: each alone keeps its queue."""
    arguments = {"x-expires": 3000}
    queues = {renew: asker.of(renew) for renew in ("declare", "get", "passive")}
    for queue in queues.values():
        asker.wire.ok(1, "queue.declare", queue=queue, arguments=arguments)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        time.sleep(0.4)
        asker.wire.ok(1, "queue.declare", queue=queues["declare"], arguments=arguments)
        asker.wire.ok(1, "basic.get", queue=queues["get"])
        asker.wire.ok(1, "queue.declare", queue=queues["passive"], passive=True)
    time.sleep(3.5)
    for queue in queues.values():
        while (
            reply := asker.wire.call(1, "queue.declare", queue=queue, passive=True)
        ).name != "channel.close":
            time.sleep(3.5)  # to ask renews it as well, if the broker has not come to removing it
        assert (reply.code, reply.text) == (404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")
        asker.wire.send(1, "channel.close-ok")
        asker.wire.open_channel(1)
