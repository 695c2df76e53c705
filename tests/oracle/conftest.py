"""The broker, and raw connections to it, as in ``tests.interop``."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.interop.conftest import (
    broker,
    connect,
    name,
    pytest_collection_modifyitems,
    pytest_configure,
    shared_broker,
    wire,
)
from tests.interop.wire import Wire

__all__ = [
    "broker",
    "connect",
    "name",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "shared_broker",
    "wire",
]


class Asker:
    """One connection with channel 1, and queues that go with it."""

    def __init__(self, wire: Wire, prefix: str) -> None:
        self.wire = wire
        self._prefix = prefix

    def queue(self, short: str, **arguments: Any) -> str:
        """An exclusive queue; ``x_message_ttl`` stands for x-message-ttl. Other queues are named by
        ``of``."""
        name = self.of(short)
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments=given)
        return name

    def publish(self, queue: str, body: str, **properties: Any) -> None:
        """Publish, and wait until the broker has taken it: its time begins then, not when it is sent."""
        self.wire.publish(1, "", queue, body, **properties)
        self.wire.ok(1, "basic.qos")

    def of(self, short: str) -> str:
        """The name of a queue of this test."""
        return f"{self._prefix}.{short}"

    def reject(self, queue: str, *, requeue: bool = False) -> None:
        """Get a message and reject it."""
        found = self.wire.get(queue, no_ack=False)
        assert found is not None
        self.wire.send(1, "basic.reject", delivery_tag=found.delivery_tag, requeue=requeue)

    def await_ready(self, queue: str, count: int) -> None:
        """Wait until a queue has ``count`` ready messages: a declare of RabbitMQ may overtake publishes."""
        for _ in range(1000):
            if (found := self.wire.ready(queue)) == count:
                return
            time.sleep(0.02)
        raise AssertionError(f"{queue} has {found} ready messages, not {count}")

    def bodies(self, queue: str) -> list[str]:
        """The bodies of all messages of a queue, which it then has no more."""
        return [found.body.decode() for found in self.wire.get_all(queue)]


@pytest.fixture
def asker(wire: Wire, name: str) -> Asker:
    return Asker(wire, name)
