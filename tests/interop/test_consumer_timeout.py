"""A client that keeps a delivery for too long without an acknowledgement loses its channel.

RabbitMQ 3.10 has one timeout for the whole node, which these tests do not set; its text is the same.
"""

from __future__ import annotations

import pytest

from tests.interop.wire import Wire

pytestmark = pytest.mark.ours_only


def test_channel_closes_and_the_message_goes_to_the_next(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments={"x-consumer-timeout": 300})
    wire.open_channel(2)
    wire.publish(1, "", name, "m")
    wire.ok(1, "basic.consume", queue=name)
    assert wire.receive().name == "basic.deliver"
    close = wire.receive()
    assert (close.channel, close.name, close.code) == (1, "channel.close", 406)
    assert (close.class_id, close.method_id) == (0, 0)
    assert close.text == (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 300 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    message = wire.get(name, channel=2)
    assert message is not None
    assert message.redelivered
    wire.send(1, "channel.close-ok")
    wire.open_channel(1)
