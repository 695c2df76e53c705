"""What does not exist yet says so by name, and is never accepted in silence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.wire import Wire

pytestmark = pytest.mark.ours_only


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-partitions": 2},
        {"x-queue-type": "stream"},
    ],
    ids=lambda arguments: "-".join(str(value) for pair in arguments.items() for value in pair),
)
def test_queue_argument(wire: Wire, name: str, arguments: dict[str, Any]) -> None:
    wire.open_channel(2)
    reply = wire.call(1, "queue.declare", queue=name, durable=True, arguments=arguments)
    assert (reply.name, reply.code, reply.class_id, reply.method_id) == ("channel.close", 406, 50, 10)
    assert any(argument in reply.text for argument in arguments), reply.text
    assert "not supported yet" in reply.text
    reply = wire.call(2, "queue.declare", queue=name, passive=True)
    assert reply.code == 404


@pytest.mark.parametrize(
    "arguments",
    [{"x-queue-type": "classic"}, {"x-queue-mode": "lazy"}, {"x-partitions": 1}, {"x-max-priority": 0}],
    ids=str,
)
def test_arguments_that_change_nothing_are_accepted(wire: Wire, name: str, arguments: dict[str, Any]) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments=arguments)


def test_message_priority_is_only_a_property(wire: Wire, name: str) -> None:
    """As in RabbitMQ, in a queue without x-max-priority."""
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    for priority in (1, 9, 5):
        wire.publish(1, "", name, str(priority), priority=priority)
    wire.ok(1, "basic.consume", queue=name)
    messages = wire.receive_named("basic.deliver", 3)
    assert [message.properties["priority"] for message in messages] == [1, 9, 5]
