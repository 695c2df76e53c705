"""Queues of the type quorum: how often a message came back, and for how long it may.

Source: RabbitMQ, "Quorum Queues", as measured with 3.10.8.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.brokers import Broker, RouterProcess
from tests.interop.test_restart import BOTH_BUILDS, end, opened, publish_confirmed
from tests.interop.wire import Received, Wire

QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}


def declare(wire: Wire, name: str, **arguments: Any) -> None:
    typed = {key.replace("_", "-"): value for key, value in arguments.items()}
    wire.ok(1, "queue.declare", queue=name, durable=True, arguments={**QUORUM, **typed})


def take(wire: Wire, name: str, *, within: float = 30) -> Received:
    """The next message, to be acknowledged. RabbitMQ's quorum queues take a moment to have one."""
    until = time.monotonic() + within
    while (found := wire.get(name, no_ack=False)) is None:
        assert time.monotonic() < until, f"no message in {name}"
        time.sleep(0.02)
    return found


def give_back(wire: Wire, message: Received, how: str) -> None:
    if how == "reject":
        wire.send(1, "basic.reject", delivery_tag=message.delivery_tag, requeue=True)
    elif how == "nack":
        wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    elif how == "recover":
        wire.ok(1, "basic.recover", requeue=True)
    else:
        wire.ok(1, "channel.close", code=200)
        wire.open_channel(1)


@pytest.mark.parametrize("argument", ["x-stream-offset", "x-cancel-on-ha-failover"])
@pytest.mark.parametrize("value", ["first", True, 5])
def test_arguments_of_consumers_of_other_types(wire: Wire, name: str, argument: str, value: Any) -> None:
    declare(wire, name)
    close = wire.call(1, "basic.consume", queue=name, arguments={argument: value})
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/'"
    assert (close.code, close.text) == (406, f"{text} of queue type rabbit_quorum_queue")


@pytest.mark.parametrize("value", ["a", True, -1, {"a": 1}])
def test_a_delivery_limit_that_is_no_number_limits_nothing(wire: Wire, name: str, value: Any) -> None:
    declare(wire, name, x_delivery_limit=value)
    wire.publish(1, "", name, "m")
    for _ in range(4):
        give_back(wire, take(wire, name), "reject")
    assert take(wire, name).body == b"m"


@pytest.mark.parametrize("how", ["reject", "nack", "recover", "close"])
def test_count_of_returns(wire: Wire, name: str, how: str) -> None:
    declare(wire, name)
    wire.publish(1, "", name, "m", headers={"a": 1})
    for count in range(4):
        message = take(wire, name)
        assert message.properties == {"headers": {"a": 1, "x-delivery-count": count}}
        assert message.redelivered == (count > 0)
        give_back(wire, message, how)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"headers": {}},
        {"content_type": "text/plain", "content_encoding": "gzip", "priority": 3, "app_id": "a"},
        {"content_encoding": "gzip", "headers": {"b": [1, "x"]}, "timestamp": 7},
        {"headers": {"x-delivery-count": 77, "a": 1}, "message_id": "m"},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [0, 5, 1_500_000])
def test_other_properties_and_the_body_are_as_sent(
    wire: Wire, name: str, properties: dict[str, Any], size: int
) -> None:
    declare(wire, name)
    body = b"x" * size
    wire.publish(1, "", name, body, **properties)
    message = take(wire, name)
    headers = properties.get("headers", {})
    assert message.properties == {**properties, "headers": {**headers, "x-delivery-count": 0}}
    assert message.body == body
    give_back(wire, message, "reject")
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "basic.consume", queue=name, tag="c")
    message = wire.receive()
    assert message.properties == {**properties, "headers": {**headers, "x-delivery-count": 1}}
    assert message.body == body


def test_consumer_sees_no_count_at_first(wire: Wire, name: str) -> None:
    declare(wire, name)
    wire.ok(1, "basic.consume", queue=name, tag="c")
    for headers in ({}, {"x-delivery-count": 77}):
        wire.publish(1, "", name, "m", headers=headers)
        message = wire.receive()
        assert message.properties == {"headers": headers}
        give_back(wire, message, "reject")
        assert wire.receive().properties == {"headers": {"x-delivery-count": 1}}


def test_classic_queues_do_not_say_it(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.publish(1, "", name, "m")
    for redelivered in (False, True):
        message = take(wire, name)
        assert (message.properties, message.redelivered) == ({}, redelivered)
        give_back(wire, message, "reject")


@pytest.mark.parametrize("how", ["reject", "nack", "close"])
def test_delivery_limit(wire: Wire, name: str, how: str) -> None:
    """A limit of 2 allows three deliveries."""
    declare(
        wire, name,
        x_delivery_limit=2, x_dead_letter_exchange="", x_dead_letter_routing_key=f"{name}.dead",
    )  # fmt: skip
    wire.ok(1, "queue.declare", queue=f"{name}.dead", exclusive=True)
    wire.publish(1, "", name, "m", headers={"x-delivery-count": 77})
    for count in range(3):
        message = take(wire, name)
        assert message.properties["headers"] == {"x-delivery-count": count}
        give_back(wire, message, how)
    headers = take(wire, f"{name}.dead").properties["headers"]
    (death,) = headers.pop("x-death")
    assert death.pop("time") > 0
    assert death == {
        "count": 1,
        "reason": "delivery_limit",
        "queue": name,
        "exchange": "",
        "routing-keys": [name],
    }
    assert headers == {
        "x-delivery-count": 77,
        "x-first-death-exchange": "",
        "x-first-death-queue": name,
        "x-first-death-reason": "delivery_limit",
    }
    assert wire.get(name) is None


def test_delivery_limit_without_dead_letters(wire: Wire, name: str) -> None:
    declare(wire, name, x_delivery_limit=0)
    wire.publish(1, "", name, "lost")
    give_back(wire, take(wire, name), "reject")
    wire.publish(1, "", name, "next")
    assert take(wire, name).body == b"next"


def test_returned_messages_keep_their_places(wire: Wire, name: str) -> None:
    declare(wire, name, x_delivery_limit=5)
    for text in "abc":
        wire.publish(1, "", name, text)
    assert [take(wire, name).body for _ in "abc"] == [b"a", b"b", b"c"]
    give_back(wire, Received(1, "", {}), "nack")
    assert [take(wire, name).body for _ in "abc"] == [b"a", b"b", b"c"]


def test_global_limit_is_refused(wire: Wire, name: str) -> None:
    declare(wire, name)
    wire.ok(1, "basic.qos", count=5, is_global=True)
    reply = wire.call(1, "basic.consume", queue=name)
    assert (reply.name, reply.code) == ("connection.close", 540)
    assert reply.text == f"NOT_IMPLEMENTED - queue '{name}' in vhost '/' does not support global qos"


OTHER_TYPE = "inequivalent arg 'x-queue-type' for queue '{name}' in vhost '/': received "
INVALID = "invalid arg '{argument}' for queue '{name}' in vhost '/' of queue type rabbit_quorum_queue"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, OTHER_TYPE + "none but current is the value 'quorum' of type 'longstr'"),
        ({"x-queue-type": "classic"}, OTHER_TYPE + "'classic' but current is 'quorum'"),
        (
            {**QUORUM, "x-delivery-limit": 4},
            "inequivalent arg 'x-delivery-limit' for queue '{name}' in vhost '/': "
            "received '4' but current is '3'",
        ),
        (
            QUORUM,
            "inequivalent arg 'x-delivery-limit' for queue '{name}' in vhost '/': "
            "received none but current is the value '3' of type 'signedint'",
        ),
    ],
    ids=str,
)
def test_redeclaration_that_differs(wire: Wire, name: str, arguments: dict[str, Any], text: str) -> None:
    declare(wire, name, x_delivery_limit=3)
    reply = wire.call(1, "queue.declare", queue=name, durable=True, arguments=arguments)
    assert (reply.name, reply.code) == ("channel.close", 406)
    assert reply.text == f"PRECONDITION_FAILED - {text.format(name=name)}"


def test_redeclaration_that_does_not_differ(wire: Wire, name: str) -> None:
    """What a quorum queue does not know is not compared."""
    declare(wire, name, x_delivery_limit=3)
    declare(wire, name, x_delivery_limit=3, x_max_priority=3, x_queue_mode="lazy")


@pytest.mark.parametrize("argument", ["x-queue-mode", "x-max-priority", "x-queue-version"])
def test_arguments_that_a_quorum_queue_does_not_take(wire: Wire, name: str, argument: str) -> None:
    value: Any = "lazy" if argument == "x-queue-mode" else 1
    reply = wire.call(1, "queue.declare", queue=name, durable=True, arguments={**QUORUM, argument: value})
    assert (reply.name, reply.code) == ("channel.close", 406)
    assert reply.text == f"PRECONDITION_FAILED - {INVALID.format(argument=argument, name=name)}"


@pytest.mark.parametrize(
    ("overflow", "outcome"),
    [("reject-publish", ["basic.ack", "basic.nack"]), ("drop-head", ["basic.ack", "basic.ack"])],
)
@pytest.mark.ours_only
def test_limits_of_length(wire: Wire, name: str, overflow: str, outcome: list[str]) -> None:
    """RabbitMQ's quorum queues refuse some messages later."""
    declare(wire, name, x_max_length=1, x_overflow=overflow)
    wire.open_channel(2, confirm=True)
    for text, answer in zip("ab", outcome, strict=True):
        wire.publish(2, "", name, text)
        assert wire.receive().name == answer
    assert take(wire, name).body == (b"a" if overflow == "reject-publish" else b"b")


@BOTH_BUILDS
@pytest.mark.parametrize("how", ["stop", pytest.param("kill9", marks=pytest.mark.ours_only)])
def test_every_message_survives_whatever_its_delivery_mode(own_broker: Broker, how: str) -> None:
    """Also among other queues of the same route, which keep only persistent ones."""
    with opened(own_broker) as wire:
        declare(wire, "quorum", x_delivery_limit=9)
        wire.ok(1, "queue.declare", queue="classic", durable=True)
        for queue in ("quorum", "classic"):
            wire.ok(1, "queue.bind", queue=queue, exchange="amq.fanout", routing_key="")
        publish_confirmed(wire, "amq.fanout", "", ["transient", "never"])
        publish_confirmed(wire, "amq.fanout", "", ["persistent"], delivery_mode=2)
        publish_confirmed(wire, "", "quorum", ["alone"], delivery_mode=1)
        message = take(wire, "quorum")
        assert message.body == b"transient"
        give_back(wire, message, "close")
    end(own_broker, how)
    with opened(own_broker) as wire:
        found = wire.get_all("quorum")
        # A message that was never delivered counts no return, whatever became of the broker.
        counts = [message.properties["headers"]["x-delivery-count"] for message in found]
        modes = [message.properties.get("delivery_mode") for message in found]
        assert [message.body for message in found] == [b"transient", b"never", b"persistent", b"alone"]
        assert counts[1:] == [0, 0, 0]
        assert counts[0] == 1 or how == "kill9"  # the return may not be on disk yet
        assert modes == [None, None, 2, 1]
        assert [message.body for message in wire.get_all("classic")] == [b"persistent"]


@pytest.mark.ours_only
def test_dead_letter_keeps_its_delivery_mode(own_broker: Broker) -> None:
    """What a quorum queue logs does not become persistent in a classic queue."""
    with opened(own_broker) as wire:
        declare(wire, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
        wire.ok(1, "queue.declare", queue="dead", durable=True)
        for mode in (1, 2):
            publish_confirmed(wire, "", "q", [str(mode)], delivery_mode=mode)
            wire.send(1, "basic.reject", delivery_tag=take(wire, "q").delivery_tag, requeue=False)
        while wire.ready("dead") < 2:
            time.sleep(0.02)
        publish_confirmed(wire, "", "dead", ["3"], delivery_mode=2)  # then the log has those before it, too
    end(own_broker, "kill9")
    with opened(own_broker) as wire:
        assert [message.body for message in wire.get_all("dead")] == [b"2", b"3"]


def put(broker: Broker, path: str, document: dict[str, Any]) -> None:
    """A request of the HTTP API, which RabbitMQ is started without."""
    assert isinstance(broker, RouterProcess)
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.admin_port}/api/{path}", json.dumps(document).encode(), method="PUT"
    )
    request.add_header("Authorization", f"Basic {base64.b64encode(b'guest:guest').decode()}")
    request.add_header("Content-Type", "application/json")
    urllib.request.urlopen(request).close()


@pytest.mark.ours_only
def test_policy_sets_a_delivery_limit(broker: Broker, wire: Wire, name: str) -> None:
    """The smaller one of argument and policy counts; a classic queue does not obey it."""
    put(broker, f"policies/%2F/{name}", {"pattern": f"^{name}", "definition": {"delivery-limit": 1}})
    declare(wire, f"{name}.q", x_delivery_limit=3)
    wire.ok(1, "queue.declare", queue=f"{name}.c", exclusive=True)
    for queue, deliveries in ((f"{name}.q", 2), (f"{name}.c", 5)):
        wire.publish(1, "", queue, "m")
        for _ in range(deliveries):
            give_back(wire, take(wire, queue), "reject")
    assert wire.get(f"{name}.q") is None
    assert wire.get(f"{name}.c") is not None


@pytest.mark.ours_only
def test_default_type_of_a_virtual_host(
    broker: Broker, wire: Wire, connect: Callable[..., Wire], name: str
) -> None:
    """As measured with ``rabbitmqctl add_vhost --default-queue-type quorum``."""
    put(broker, f"vhosts/{name}", {"default_queue_type": "quorum"})
    put(broker, f"permissions/{name}/guest", {"configure": ".*", "write": ".*", "read": ".*"})

    def declared(queue: str, arguments: dict[str, Any], **flags: bool) -> str:
        with connect(vhost=name) as other:
            other.open_channel(1)
            reply = other.call(1, "queue.declare", queue=queue, arguments=arguments, **flags)
            return reply.text if reply.name == "channel.close" else reply.name

    ok, classic = "queue.declare-ok", {"x-queue-type": "classic"}
    assert declared("d1", {}, durable=True) == ok
    assert declared("d1", QUORUM, durable=True) == ok
    assert "received 'classic' but current is 'quorum'" in declared("d1", classic, durable=True)
    # What cannot be a quorum queue is a classic one.
    assert declared("d2", {}) == ok
    assert declared("d2", classic) == ok
    assert declared("d3", {}, durable=True, auto_delete=True) == ok
    assert declared("d4", {}, durable=True, exclusive=True) == ok
    assert declared("d5", classic, durable=True) == ok
    assert "received 'quorum' but current is 'classic'" in declared("d5", {}, durable=True)
    assert "of queue type rabbit_quorum_queue" in declared("d6", {"x-max-priority": 3}, durable=True)
    assert declared("d7", {"x-delivery-limit": 3}, durable=True) == ok
    with connect(vhost=name) as other:
        other.open_channel(1)
        other.publish(1, "", "d1", "m")
        assert take(other, "d1").properties == {"headers": {"x-delivery-count": 0}}


@pytest.mark.parametrize("no_ack", [False, True])
def test_get_from_a_queue_with_a_single_active_consumer(wire: Wire, name: str, no_ack: bool) -> None:
    """Only its consumer gets its messages. A classic queue has no such rule."""
    declare(wire, name, x_single_active_consumer=True)
    wire.publish(1, "", name, "m")
    reply = wire.call(1, "basic.get", queue=name, no_ack=no_ack)
    assert (reply.name, reply.code, reply.class_id, reply.method_id) == ("channel.close", 405, 60, 70)
    assert reply.text == (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{name}' in vhost '/'. basic.get operations"
        " are not supported by quorum queues with single active consumer"
    )
    wire.send(1, "channel.close-ok")
    wire.open_channel(1)
    wire.ok(1, "basic.consume", queue=name, tag="c")
    assert wire.receive_named("basic.deliver", 1)[0].body == b"m"


@pytest.mark.parametrize("is_single", [False, True])
def test_exclusive_consumers_are_as_others(wire: Wire, name: str, is_single: bool) -> None:
    """A classic queue refuses the second one, and all of them if one consumer is active."""
    declare(wire, name, **({"x_single_active_consumer": True} if is_single else {}))
    for tag in "ab":
        wire.ok(1, "basic.consume", queue=name, tag=tag, exclusive=True)
    wire.ok(1, "basic.consume", queue=name, tag="c")
    for body in "123":
        wire.publish(1, "", name, body)
    served = {(each.tag, each.body.decode()) for each in wire.receive_named("basic.deliver", 3)}
    assert served == {(tag, body) for tag, body in zip("aaa" if is_single else "abc", "123", strict=True)}


@pytest.mark.parametrize("how", ["nack", "recover", "close"])
def test_consumers_get_what_returns_above_the_limit(
    wire: Wire, connect: Callable[..., Wire], name: str, how: str
) -> None:
    """A classic queue drops the oldest messages first."""
    declare(wire, name, x_max_length=1)
    other = connect()
    other.open_channel(1)
    other.ok(1, "basic.consume", queue=name, tag="c")
    for body in "123":
        wire.publish(1, "", name, body)
        assert other.receive().body == body.encode()
    if how == "close":
        wire.ok(1, "basic.consume", queue=name, tag="d")
        other.close()
        again = wire
    else:
        again = other
        fields: dict[str, Any] = {"delivery_tag": 0, "multiple": True} if how == "nack" else {}
        other.send(1, f"basic.{how}", requeue=True, **fields)
        if how == "recover":
            assert other.receive().name == "basic.recover-ok"
    assert [each.body for each in again.receive_named("basic.deliver", 3)] == [b"1", b"2", b"3"]


def test_limit_after_a_return_without_consumers(wire: Wire, name: str) -> None:
    """The oldest go, which are those that came back."""
    declare(wire, name, x_max_length=1)
    wire.publish(1, "", name, "1")
    message = take(wire, name)
    wire.publish(1, "", name, "2")
    time.sleep(0.2)  # RabbitMQ's queue may see the return first
    give_back(wire, message, "reject")
    assert take(wire, name).body == b"2"
    assert wire.get(name) is None


def test_what_a_redeclaration_compares_first(wire: Wire, name: str) -> None:
    """Not what a classic queue does, which looks at x-message-ttl before the limits."""
    declare(wire, name, x_message_ttl=60_000, x_max_length=5)
    reply = wire.call(1, "queue.declare", queue=name, durable=True)
    assert reply.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{name}' in vhost '/':"
        " received none but current is the value '5' of type 'signedint'"
    )
