"""Every error a client can provoke: code, text, class and method, and whether the channel or the connection goes.

Source: measured on RabbitMQ 3.10.8.
"""
# ruff: noqa: E501 - the table below has one case a line

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.brokers import Broker
from tests.interop.wire import Received, Typed, Wire, encode_method, encode_short, long_int

SOFT = (311, 312, 313, 403, 404, 405, 406)
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally"
    " declared on another connection or the exclusive property value does not match that of the original declaration."
)
DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"
DECLARE, BIND = (50, 10), (50, 20)


class Case(NamedTuple):
    title: str
    act: Callable[[Wire], Received]
    code: int
    text: str
    method: tuple[int, int]


def call(name: str, **fields: Any) -> Callable[[Wire], Received]:
    return lambda wire: wire.call(1, name, **fields)


def calls(*steps: tuple[str, dict[str, Any]]) -> Callable[[Wire], Received]:
    """All but the last step must succeed."""

    def act(wire: Wire) -> Received:
        for name, fields in steps[:-1]:
            wire.ok(1, name, **fields)
        name, fields = steps[-1]
        return wire.call(1, name, **fields)

    return act


def send(name: str, **fields: Any) -> Callable[[Wire], Received]:
    """For methods without an answer of their own."""

    def act(wire: Wire) -> Received:
        wire.send(1, name, **fields)
        return wire.receive()

    return act


def publish(exchange: str, key: str, **options: Any) -> Callable[[Wire], Received]:
    def act(wire: Wire) -> Received:
        wire.publish(1, exchange, key, b"x", **options)
        return wire.receive()

    return act


def frames(*steps: Callable[[Wire], None]) -> Callable[[Wire], Received]:
    def act(wire: Wire) -> Received:
        for step in steps:
            step(wire)
        return wire.receive()

    return act


def publish_in_confirm_mode(wire: Wire) -> Received:
    wire.ok(1, "confirm.select")
    wire.publish(1, "nope", "a", b"x")
    wire.publish(1, "", "q.d.never", b"x")
    return wire.receive()


def not_empty(wire: Wire) -> Received:
    wire.ok(1, "confirm.select")
    wire.publish(1, "", "q.full", b"x")
    assert wire.receive().name == "basic.ack"
    return wire.call(1, "queue.delete", queue="q.full", if_empty=True)


def double_ack(wire: Wire) -> Received:
    wire.ok(1, "queue.declare", queue="q.once", exclusive=True)
    wire.publish(1, "", "q.once", b"x")
    wire.ok(1, "basic.qos", count=0)
    tag = 0
    while not tag:
        message = wire.get("q.once", no_ack=False)
        tag = message.delivery_tag if message else 0
    wire.send(1, "basic.ack", delivery_tag=tag)
    wire.send(1, "basic.ack", delivery_tag=tag)
    return wire.receive()


# fmt: off
CASES = [
    # 404
    Case("declare passive, no queue", call("queue.declare", queue="nope", passive=True), 404, "NOT_FOUND - no queue 'nope' in vhost '/'", DECLARE),
    Case("declare passive, no exchange", call("exchange.declare", exchange="nope", type="direct", passive=True), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (40, 10)),
    Case("consume, no queue", call("basic.consume", queue="nope"), 404, "NOT_FOUND - no queue 'nope' in vhost '/'", (60, 20)),
    Case("get, no queue", call("basic.get", queue="nope"), 404, "NOT_FOUND - no queue 'nope' in vhost '/'", (60, 70)),
    Case("purge, no queue", call("queue.purge", queue="nope"), 404, "NOT_FOUND - no queue 'nope' in vhost '/'", (50, 30)),
    Case("bind, no queue", call("queue.bind", queue="nope", exchange="x.d", routing_key="a"), 404, "NOT_FOUND - no queue 'nope' in vhost '/'", BIND),
    Case("bind, no exchange", call("queue.bind", queue="q.d", exchange="nope", routing_key="a"), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", BIND),
    Case("bind, neither", call("queue.bind", queue="nope", exchange="nope2", routing_key="a"), 404, "NOT_FOUND - no exchange 'nope2' in vhost '/'", BIND),
    Case("exchange bind, no source", call("exchange.bind", destination="x.d", source="nope"), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (40, 30)),
    Case("exchange bind, no destination", call("exchange.bind", destination="nope", source="x.d"), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (40, 30)),
    Case("publish, no exchange", publish("nope", "a"), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (60, 40)),
    Case("publish, no exchange, confirm mode", publish_in_confirm_mode, 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (60, 40)),
    Case("declare passive, empty name", call("queue.declare", queue="", passive=True), 404, "NOT_FOUND - no queue '' in vhost '/'", DECLARE),
    Case("declare passive, empty name, after a declare", calls(("queue.declare", {"exclusive": True}), ("queue.declare", {"passive": True})), 404, "NOT_FOUND - no queue '' in vhost '/'", DECLARE),
    Case("consume, no last queue", call("basic.consume", queue=""), 404, "NOT_FOUND - no previously declared queue", (60, 20)),
    Case("bind, no last queue", call("queue.bind", queue="", exchange="x.d", routing_key="a"), 404, "NOT_FOUND - no previously declared queue", BIND),
    # 403
    Case("declare default exchange", call("exchange.declare", exchange="", type="direct"), 403, DEFAULT_EXCHANGE, (40, 10)),
    Case("declare passive default exchange", call("exchange.declare", exchange="", type="direct", passive=True), 403, DEFAULT_EXCHANGE, (40, 10)),
    Case("delete default exchange", call("exchange.delete", exchange=""), 403, DEFAULT_EXCHANGE, (40, 20)),
    Case("bind to default exchange", call("queue.bind", queue="q.d", exchange="", routing_key="q.d"), 403, DEFAULT_EXCHANGE, BIND),
    Case("unbind from default exchange", call("queue.unbind", queue="q.d", exchange="", routing_key="q.d"), 403, DEFAULT_EXCHANGE, (50, 50)),
    Case("exchange bind, default destination", call("exchange.bind", destination="", source="x.d"), 403, DEFAULT_EXCHANGE, (40, 30)),
    Case("exchange bind, default source", call("exchange.bind", destination="x.d", source=""), 403, DEFAULT_EXCHANGE, (40, 30)),
    Case("exchange unbind, default destination", call("exchange.unbind", destination="", source="x.d"), 403, DEFAULT_EXCHANGE, (40, 40)),
    Case("exchange unbind, default source", call("exchange.unbind", destination="x.d", source=""), 403, DEFAULT_EXCHANGE, (40, 40)),
    Case("declare amq.* exchange", call("exchange.declare", exchange="amq.foo", type="direct"), 403, "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'", (40, 10)),
    Case("declare amq.* queue", call("queue.declare", queue="amq.foo"), 403, "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'", DECLARE),
    Case("delete amq.direct", call("exchange.delete", exchange="amq.direct"), 403, "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed", (40, 20)),
    Case("delete an amq.* exchange that is missing", call("exchange.delete", exchange="amq.nope"), 403, "ACCESS_REFUSED - deletion of system exchange 'amq.nope' in vhost '/' not allowed", (40, 20)),
    Case("publish to an internal exchange", publish("x.int", "a"), 403, "ACCESS_REFUSED - cannot publish to internal exchange 'x.int' in vhost '/'", (60, 40)),
    Case("consume beside an exclusive consumer", calls(("basic.consume", {"queue": "q.d", "exclusive": True, "tag": "a"}), ("basic.consume", {"queue": "q.d", "tag": "b"})), 403, "ACCESS_REFUSED - queue 'q.d' in vhost '/' in exclusive use", (60, 20)),
    Case("exclusive consume beside a consumer", calls(("basic.consume", {"queue": "q.d", "tag": "a"}), ("basic.consume", {"queue": "q.d", "tag": "b", "exclusive": True})), 403, "ACCESS_REFUSED - queue 'q.d' in vhost '/' in exclusive use", (60, 20)),
    # 405: another connection's exclusive queue, and an exclusive redeclare of a shared one
    Case("declare, locked", call("queue.declare", queue="q.ex", exclusive=True), 405, LOCKED.format("q.ex"), DECLARE),
    Case("declare, locked, not exclusive", call("queue.declare", queue="q.ex"), 405, LOCKED.format("q.ex"), DECLARE),
    Case("declare passive, locked", call("queue.declare", queue="q.ex", passive=True), 405, LOCKED.format("q.ex"), DECLARE),
    Case("consume, locked", call("basic.consume", queue="q.ex"), 405, LOCKED.format("q.ex"), (60, 20)),
    Case("get, locked", call("basic.get", queue="q.ex"), 405, LOCKED.format("q.ex"), (60, 70)),
    Case("purge, locked", call("queue.purge", queue="q.ex"), 405, LOCKED.format("q.ex"), (50, 30)),
    Case("delete, locked", call("queue.delete", queue="q.ex"), 405, LOCKED.format("q.ex"), (50, 40)),
    Case("bind, locked", call("queue.bind", queue="q.ex", exchange="x.d", routing_key="a"), 405, LOCKED.format("q.ex"), BIND),
    Case("redeclare a shared queue as exclusive", call("queue.declare", queue="q.d", durable=True, exclusive=True), 405, LOCKED.format("q.d"), DECLARE),
    # 406
    Case("redeclare queue, durable", call("queue.declare", queue="q.d"), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q.d' in vhost '/': received 'false' but current is 'true'", DECLARE),
    Case("redeclare queue, not durable", call("queue.declare", queue="q.nd", durable=True), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q.nd' in vhost '/': received 'true' but current is 'false'", DECLARE),
    Case("redeclare queue, auto_delete", call("queue.declare", queue="q.d", durable=True, auto_delete=True), 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q.d' in vhost '/': received 'true' but current is 'false'", DECLARE),
    Case("redeclare queue, durable is looked at before auto_delete", call("queue.declare", queue="q.d", auto_delete=True), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q.d' in vhost '/': received 'false' but current is 'true'", DECLARE),
    Case("redeclare exchange, type", call("exchange.declare", exchange="x.d", type="fanout", durable=True), 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x.d' in vhost '/': received 'fanout' but current is 'direct'", (40, 10)),
    Case("redeclare exchange, a type with a dash", call("exchange.declare", exchange="x.d", type="x-random", durable=True), 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x.d' in vhost '/': received ''x-random'' but current is 'direct'", (40, 10)),
    Case("redeclare exchange, durable", call("exchange.declare", exchange="x.d", type="direct"), 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'x.d' in vhost '/': received 'false' but current is 'true'", (40, 10)),
    Case("redeclare exchange, auto_delete", call("exchange.declare", exchange="x.d", type="direct", durable=True, auto_delete=True), 406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for exchange 'x.d' in vhost '/': received 'true' but current is 'false'", (40, 10)),
    Case("redeclare exchange, internal", call("exchange.declare", exchange="x.d", type="direct", durable=True, internal=True), 406, "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange 'x.d' in vhost '/': received 'true' but current is 'false'", (40, 10)),
    Case("redeclare exchange, alternate", call("exchange.declare", exchange="x.d", type="direct", durable=True, arguments={"alternate-exchange": "a"}), 406, "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x.d' in vhost '/': received the value 'a' of type 'longstr' but current is none", (40, 10)),
    Case("redeclare exchange, without its alternate", call("exchange.declare", exchange="x.alt", type="direct"), 406, "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x.alt' in vhost '/': received none but current is the value 'amq.fanout' of type 'longstr'", (40, 10)),
    Case("redeclare exchange, other alternate", call("exchange.declare", exchange="x.alt", type="direct", arguments={"alternate-exchange": "b"}), 406, "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x.alt' in vhost '/': received 'b' but current is 'amq.fanout'", (40, 10)),
    Case("redeclare amq.direct, type", call("exchange.declare", exchange="amq.direct", type="fanout", durable=True), 406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but current is 'direct'", (40, 10)),
    Case("delete queue if unused", calls(("basic.consume", {"queue": "q.d"}), ("queue.delete", {"queue": "q.d", "if_unused": True})), 406, "PRECONDITION_FAILED - queue 'q.d' in vhost '/' in use", (50, 40)),
    Case("delete queue if empty", not_empty, 406, "PRECONDITION_FAILED - queue 'q.full' in vhost '/' not empty", (50, 40)),
    Case("delete exchange if unused", call("exchange.delete", exchange="x.bound", if_unused=True), 406, "PRECONDITION_FAILED - exchange 'x.bound' in vhost '/' in use", (40, 20)),
    Case("ack unknown tag", send("basic.ack", delivery_tag=99), 406, "PRECONDITION_FAILED - unknown delivery tag 99", (60, 80)),
    Case("ack tag 0", send("basic.ack", delivery_tag=0), 406, "PRECONDITION_FAILED - unknown delivery tag 0", (60, 80)),
    Case("ack multiple, never issued", send("basic.ack", delivery_tag=5, multiple=True), 406, "PRECONDITION_FAILED - unknown delivery tag 5", (60, 80)),
    Case("ack twice", double_ack, 406, "PRECONDITION_FAILED - unknown delivery tag 1", (60, 80)),
    Case("nack unknown tag", send("basic.nack", delivery_tag=7, requeue=True), 406, "PRECONDITION_FAILED - unknown delivery tag 7", (60, 120)),
    Case("reject unknown tag", send("basic.reject", delivery_tag=7, requeue=True), 406, "PRECONDITION_FAILED - unknown delivery tag 7", (60, 90)),
    Case("publish, wrong user_id", publish("", "q.d", user_id="bob"), 406, "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'", (60, 40)),
    Case("publish, expiration is no number", publish("", "q.d", expiration="abc"), 406, "PRECONDITION_FAILED - invalid expiration 'abc': no_integer", (60, 40)),
    Case("publish, negative expiration", publish("", "q.d", expiration="-1"), 406, "PRECONDITION_FAILED - invalid expiration '-1': {value_negative,-1}", (60, 40)),
    Case("publish, expiration is too large", publish("", "q.d", expiration="315360000001"), 406, "PRECONDITION_FAILED - invalid expiration '315360000001': {value_too_large,315360000001}", (60, 40)),
    Case("publish, expiration with two signs", publish("", "q.d", expiration="--5"), 406, "PRECONDITION_FAILED - invalid expiration '--5': no_integer", (60, 40)),
    Case("publish, expiration with a fraction", publish("", "q.d", expiration="1.5"), 406, "PRECONDITION_FAILED - invalid expiration '1.5': {leftover_string,\".5\"}", (60, 40)),
    Case("publish, empty expiration", publish("", "q.d", expiration=""), 406, "PRECONDITION_FAILED - invalid expiration '': no_integer", (60, 40)),
    Case("publish, user_id and exchange are wrong", publish("nope", "a", user_id="bob"), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (60, 40)),
    Case("publish, expiration and exchange are wrong", publish("nope", "a", expiration="abc"), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (60, 40)),
    Case("publish, delivery mode and exchange are wrong", publish("nope", "a", delivery_mode=3), 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", (60, 40)),
    Case("publish, delivery mode 0", publish("", "q.d", delivery_mode=0), 406, "PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,0}", (60, 40)),
    Case("publish, CC is looked at before delivery mode", publish("", "q.d", delivery_mode=3, headers={"CC": "a"}), 406, 'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}', (60, 40)),
    Case("publish, expiration is looked at before delivery mode", publish("", "q.d", delivery_mode=3, expiration="abc"), 406, "PRECONDITION_FAILED - invalid expiration 'abc': no_integer", (60, 40)),
    Case("publish, CC is no array", publish("", "q.d", headers={"CC": "a"}), 406, 'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}', (60, 40)),
    Case("publish, BCC is no array", publish("", "q.d", headers={"BCC": 1}), 406, 'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"BCC",signedint}', (60, 40)),
    Case("consume, x-priority is no number", call("basic.consume", queue="q.d", arguments={"x-priority": "a"}), 406, "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q.d' in vhost '/': \"expected integer, got longstr\"", (60, 20)),
    Case("consume, x-cancel-on-ha-failover is no boolean", call("basic.consume", queue="q.d", arguments={"x-cancel-on-ha-failover": "a"}), 406, "PRECONDITION_FAILED - invalid arg 'x-cancel-on-ha-failover' for queue 'q.d' in vhost '/': {unacceptable_type,longstr}", (60, 20)),
    Case("consume, x-stream-offset on a classic queue", call("basic.consume", queue="q.d", arguments={"x-stream-offset": "first"}), 406, "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue 'q.d' in vhost '/' of queue type rabbit_classic_queue", (60, 20)),
    Case("headers binding, bad x-match", call("queue.bind", queue="q.d", exchange="amq.headers", arguments={"x-match": "foo"}), 406, 'PRECONDITION_FAILED - Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x', BIND),
    Case("headers binding, x-match is a number", call("queue.bind", queue="q.d", exchange="amq.headers", arguments={"x-match": 1}), 406, "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr", BIND),
    # 406: arguments. Only known ones are compared; a redeclaration is compared before it is checked
    Case("redeclare queue, x-message-ttl", call("queue.declare", queue="q.d", durable=True, arguments={"x-message-ttl": 100}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q.d' in vhost '/': received the value '100' of type 'signedint' but current is none", DECLARE),
    Case("redeclare queue, x-max-length of 64 bits", call("queue.declare", queue="q.d", durable=True, arguments={"x-max-length": long_int(100)}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q.d' in vhost '/': received the value '100' of type 'long' but current is none", DECLARE),
    Case("redeclare queue, x-queue-type", call("queue.declare", queue="q.d", durable=True, arguments={"x-queue-type": "quorum"}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q.d' in vhost '/': received the value 'quorum' of type 'longstr' but current is none", DECLARE),
    Case("redeclare queue, x-queue-mode", call("queue.declare", queue="q.d", durable=True, arguments={"x-queue-mode": "lazy"}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-mode' for queue 'q.d' in vhost '/': received the value 'lazy' of type 'longstr' but current is none", DECLARE),
    Case("redeclare queue, without x-queue-mode", call("queue.declare", queue="q.lazy"), 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-mode' for queue 'q.lazy' in vhost '/': received none but current is the value 'lazy' of type 'longstr'", DECLARE),
    Case("redeclare queue, other x-queue-mode", call("queue.declare", queue="q.lazy", arguments={"x-queue-mode": "default"}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-mode' for queue 'q.lazy' in vhost '/': received 'default' but current is 'lazy'", DECLARE),
    Case("redeclare queue, x-queue-master-locator", call("queue.declare", queue="q.d", durable=True, arguments={"x-queue-master-locator": "min-masters"}), 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-master-locator' for queue 'q.d' in vhost '/': received the value 'min-masters' of type 'longstr' but current is none", DECLARE),
    Case("x-message-ttl is a string", call("queue.declare", queue="q.new", arguments={"x-message-ttl": "100"}), 406, "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q.new' in vhost '/': \"expected integer, got longstr\"", DECLARE),
    Case("x-message-ttl is negative", call("queue.declare", queue="q.new", arguments={"x-message-ttl": -1}), 406, "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q.new' in vhost '/': {value_negative,-1}", DECLARE),
    Case("x-message-ttl is too large", call("queue.declare", queue="q.new", arguments={"x-message-ttl": 315_360_000_001}), 406, "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q.new' in vhost '/': {value_too_large,315360000001}", DECLARE),
    Case("x-message-ttl is a float", call("queue.declare", queue="q.new", arguments={"x-message-ttl": 1.5}), 406, "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q.new' in vhost '/': \"expected integer, got double\"", DECLARE),
    Case("x-expires is 0", call("queue.declare", queue="q.new", arguments={"x-expires": 0}), 406, "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'q.new' in vhost '/': {value_zero,0}", DECLARE),
    Case("x-max-length is negative", call("queue.declare", queue="q.new", arguments={"x-max-length": -1}), 406, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q.new' in vhost '/': {value_negative,-1}", DECLARE),
    Case("x-max-length is a string", call("queue.declare", queue="q.new", arguments={"x-max-length": "1"}), 406, "PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q.new' in vhost '/': \"expected integer, got longstr\"", DECLARE),
    Case("x-max-priority is 256", call("queue.declare", queue="q.new", arguments={"x-max-priority": 256}), 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q.new' in vhost '/': {max_value_exceeded,256}", DECLARE),
    Case("x-overflow is unknown", call("queue.declare", queue="q.new", arguments={"x-overflow": "foo"}), 406, "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'q.new' in vhost '/': invalid_overflow", DECLARE),
    Case("x-overflow is a number", call("queue.declare", queue="q.new", arguments={"x-overflow": 1}), 406, "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'q.new' in vhost '/': {unacceptable_type,signedint}", DECLARE),
    Case("dead letter key without exchange", call("queue.declare", queue="q.new", arguments={"x-dead-letter-routing-key": "a"}), 406, "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue 'q.new' in vhost '/': routing_key_but_no_dlx_defined", DECLARE),
    Case("dead letter exchange is a number", call("queue.declare", queue="q.new", arguments={"x-dead-letter-exchange": 1}), 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q.new' in vhost '/'", DECLARE),
    Case("x-queue-mode is unknown", call("queue.declare", queue="q.new", arguments={"x-queue-mode": "foo"}), 406, "PRECONDITION_FAILED - invalid arg 'x-queue-mode' for queue 'q.new' in vhost '/': \"unsupported queue mode 'foo'\"", DECLARE),
    Case("x-queue-type is unknown", call("queue.declare", queue="q.new", arguments={"x-queue-type": "foo"}), 406, "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'q.new' in vhost '/': \"unsupported queue type 'foo'\"", DECLARE),
    Case("x-queue-type is a number", call("queue.declare", queue="q.new", arguments={"x-queue-type": 1}), 406, "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'q.new' in vhost '/': {unacceptable_type,signedint}", DECLARE),
    Case("x-single-active-consumer is a string", call("queue.declare", queue="q.new", arguments={"x-single-active-consumer": "yes"}), 406, "PRECONDITION_FAILED - invalid arg 'x-single-active-consumer' for queue 'q.new' in vhost '/': {unacceptable_type,longstr}", DECLARE),
    Case("quorum queue, not durable", call("queue.declare", queue="q.new", arguments={"x-queue-type": "quorum"}), 406, "PRECONDITION_FAILED - invalid property 'non-durable' for queue 'q.new' in vhost '/'", DECLARE),
    Case("quorum queue, exclusive", call("queue.declare", queue="q.new", durable=True, exclusive=True, arguments={"x-queue-type": "quorum"}), 406, "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'q.new' in vhost '/'", DECLARE),
    Case("quorum queue with priorities", call("queue.declare", queue="q.new", durable=True, arguments={"x-queue-type": "quorum", "x-max-priority": 3}), 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q.new' in vhost '/' of queue type rabbit_quorum_queue", DECLARE),
    Case("stream with dead letters", call("queue.declare", queue="q.new", durable=True, arguments={"x-queue-type": "stream", "x-dead-letter-exchange": "a"}), 406, "PRECONDITION_FAILED - invalid arg 'x-dead-letter-exchange' for queue 'q.new' in vhost '/' of queue type rabbit_stream_queue", DECLARE),
    Case("alternate exchange is a number", call("exchange.declare", exchange="x.new", type="direct", arguments={"alternate-exchange": 1}), 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x.new' in vhost '/'", (40, 10)),
    # 501 and 505: frames
    Case("frame end", frames(lambda w: w.send_bytes(struct.pack(">BHI", 1, 1, 4) + b"abcd\x00")), 501, 'FRAME_ERROR - type 1, all octets = <<"abcd">>: {invalid_frame_end_marker,0}', (0, 0)),
    Case("frame type", frames(lambda w: w.frame(9, 1, b"abcd")), 501, 'FRAME_ERROR - type 9, all octets = <<"abcd">>: unknown_frame', (0, 0)),
    Case("frame too large", frames(lambda w: w.send_bytes(struct.pack(">BHI", 1, 1, 200000))), 501, "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,200000,131064}", (0, 0)),
    Case("frame too large, with its payload", frames(lambda w: w.frame(1, 1, b"a" * 131073)), 501, "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,131073,131064}", (0, 0)),
    Case("method arguments cut short", frames(lambda w: w.frame(1, 1, struct.pack(">HH", 50, 10) + b"\0\0\xff")), 501, "FRAME_ERROR - cannot decode <<0,0,255>>", DECLARE),
    Case("heartbeat on a channel", frames(lambda w: w.frame(8, 1, b"")), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", (0, 0)),
    Case("heartbeat with a payload", frames(lambda w: w.frame(8, 0, b"x")), 501, 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame', (0, 0)),
    Case("header without publish", frames(lambda w: w.header(1, 1)), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", (0, 0)),
    Case("body without publish", frames(lambda w: w.frame(3, 1, b"abc")), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", (0, 0)),
    Case("header on a closed channel", frames(lambda w: w.header(5, 1)), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", (0, 0)),
    Case("body on a closed channel", frames(lambda w: w.frame(3, 5, b"abc")), 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", (0, 0)),
    Case("header without its fields", frames(lambda w: w.send(1, "basic.publish", routing_key="q.d"), lambda w: w.frame(2, 1, b"\0\x3c\0\0\0")), 501, "FRAME_ERROR - type 2, all octets = <<0,60,0,0,0>>: unknown_frame", (0, 0)),
    Case("header with a weight", frames(lambda w: w.send(1, "basic.publish", routing_key="q.d"), lambda w: w.frame(2, 1, struct.pack(">HHQH", 60, 7, 0, 0))), 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", (60, 40)),
    Case("method between publish and header", frames(lambda w: w.send(1, "basic.publish", routing_key="q.d"), lambda w: w.send(1, "basic.qos")), 505, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", (60, 40)),
    Case("header of another class", frames(lambda w: w.send(1, "basic.publish", routing_key="q.d"), lambda w: w.header(1, 1, class_id=50)), 505, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead", (60, 40)),
    # 503, 504, 530, 540
    Case("unknown exchange type", call("exchange.declare", exchange="x.q", type="nope"), 503, "COMMAND_INVALID - unknown exchange type 'nope'", (40, 10)),
    Case("unknown exchange type, default exchange", call("exchange.declare", exchange="", type="nope"), 503, "COMMAND_INVALID - unknown exchange type 'nope'", (40, 10)),
    Case("empty exchange type", call("exchange.declare", exchange="x.q", type=""), 503, "COMMAND_INVALID - invalid exchange type ''", (40, 10)),
    Case("connection method on a channel", send("connection.close", code=200), 503, "COMMAND_INVALID - unimplemented method", (10, 50)),
    Case("close-ok on an open channel", send("channel.close-ok"), 503, "COMMAND_INVALID - unimplemented method", (20, 41)),
    Case("channel opened twice", call("channel.open"), 504, "CHANNEL_ERROR - second 'channel.open' seen", (20, 10)),
    Case("method on a closed channel", frames(lambda w: w.send(5, "basic.qos", count=1)), 504, "CHANNEL_ERROR - expected 'channel.open'", (60, 10)),
    Case("close of a closed channel", frames(lambda w: w.send(5, "channel.close", code=200)), 504, "CHANNEL_ERROR - expected 'channel.open'", (20, 40)),
    Case("channel.open on channel 0", frames(lambda w: w.send(0, "channel.open")), 504, "CHANNEL_ERROR - unexpected method in connection state running", (20, 10)),
    Case("qos on channel 0", frames(lambda w: w.send(0, "basic.qos")), 504, "CHANNEL_ERROR - unexpected method in connection state running", (60, 10)),
    Case("connection.open twice", frames(lambda w: w.send(0, "connection.open", vhost="/")), 504, "CHANNEL_ERROR - unexpected method in connection state running", (10, 40)),
    Case("consumer tag used twice", calls(("basic.consume", {"queue": "q.d", "tag": "a"}), ("basic.consume", {"queue": "q.d", "tag": "a"})), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'a'", (60, 20)),
    Case("prefetch in bytes", call("basic.qos", size=100), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (100)", (60, 10)),
    Case("immediate", publish("", "q.d", immediate=True), 540, "NOT_IMPLEMENTED - immediate=true", (60, 40)),
    Case("recover without requeue", call("basic.recover", requeue=False), 540, "NOT_IMPLEMENTED - requeue=false", (60, 110)),
    Case("flow off", call("channel.flow", active=False), 540, "NOT_IMPLEMENTED - active=false", (20, 20)),
]
# fmt: on


@pytest.fixture(scope="module")
def furniture(shared_broker: Broker) -> Iterator[None]:
    """What the cases find: q.d and x.d (durable), q.nd, q.full, q.lazy, q.ex (exclusive elsewhere), x.int, x.bound, x.alt."""
    with Wire(shared_broker.port) as wire:
        wire.open_channel(1)
        wire.ok(1, "queue.declare", queue="q.d", durable=True)
        wire.ok(1, "queue.declare", queue="q.nd")
        wire.ok(1, "queue.declare", queue="q.full")
        wire.ok(1, "queue.declare", queue="q.lazy", arguments={"x-queue-mode": "lazy"})
        wire.ok(1, "queue.declare", queue="q.ex", exclusive=True)
        wire.ok(1, "exchange.declare", exchange="x.d", type="direct", durable=True)
        wire.ok(1, "exchange.declare", exchange="x.int", type="fanout", internal=True)
        wire.ok(1, "exchange.declare", exchange="x.bound", type="fanout")
        wire.ok(
            1,
            "exchange.declare",
            exchange="x.alt",
            type="direct",
            arguments={"alternate-exchange": "amq.fanout"},
        )
        wire.ok(1, "queue.bind", queue="q.nd", exchange="x.bound")
        yield
        for queue in ("q.d", "q.nd", "q.full", "q.lazy"):
            wire.ok(1, "queue.delete", queue=queue)
        for exchange in ("x.d", "x.int", "x.bound", "x.alt"):
            wire.ok(1, "exchange.delete", exchange=exchange)


def check(wire: Wire, reply: Received, code: int, text: str, method: tuple[int, int]) -> None:
    """The right close came, it closes what it should, and nothing else."""
    scope = "channel.close" if code in SOFT else "connection.close"
    assert reply.name == scope, reply
    assert (reply.code, reply.text, (reply.class_id, reply.method_id)) == (code, text, method)
    if code in SOFT:
        assert reply.channel == 1
        wire.send(1, "channel.close-ok")
        wire.ok(1, "channel.open")
        wire.ok(2, "basic.qos", count=1)
    else:
        assert reply.channel == 0
        wire.send(0, "connection.close-ok")
        assert wire.receive().name in ("eof", "reset")


@pytest.mark.usefixtures("furniture")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title.replace(" ", "-"))
def test_error(wire: Wire, case: Case) -> None:
    wire.open_channel(2)
    check(wire, case.act(wire), case.code, case.text, case.method)


@pytest.mark.ours_only  # RabbitMQ resets the socket, or waits for ever
@pytest.mark.parametrize(
    ("payload", "code", "method"),
    [
        (struct.pack(">HH", 60, 99), 503, (60, 99)),
        (struct.pack(">HH", 70, 10), 503, (70, 10)),
        (b"\x00", 501, (0, 0)),
        (struct.pack(">HH", 50, 10) + b"\0\0\1q\0" + struct.pack(">I", 4) + b"\1aZ\0", 501, (50, 10)),
        (struct.pack(">HH", 50, 10) + b"\0\0\1q\0" + struct.pack(">I", 400) + b"\1aV", 501, (50, 10)),
        (
            encode_method(
                "queue.declare", queue="q", arguments={"a": Typed("S", struct.pack(">I", 99) + b"x")}
            ),
            501,
            (50, 10),
        ),
    ],
    ids=["method", "class", "no-method", "field-type", "table-size", "string-size"],
)
def test_undecodable_method_is_a_connection_error(
    wire: Wire, payload: bytes, code: int, method: tuple[int, int]
) -> None:
    wire.frame(1, 1, payload)
    reply = wire.receive()
    assert reply.name == "connection.close", reply
    assert (reply.code, (reply.class_id, reply.method_id)) == (code, method), reply


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack(">HHH", 50, 10, 0) + encode_short(b"q\xff") + b"\0" + struct.pack(">I", 0),
        struct.pack(">HHH", 60, 20, 0) + encode_short("q.d") + encode_short(b"\xff") + b"\0" + bytes(4),
    ],
    ids=["queue", "tag"],
)
def test_names_must_be_utf8(wire: Wire, payload: bytes) -> None:
    wire.frame(1, 1, payload)
    reply = wire.receive()
    assert (reply.name, reply.code) == ("connection.close", 501), reply
    assert reply.text == "FRAME_ERROR - Malformed UTF-8 in shortstr"


MALFORMED = {
    "short string missing": b"\x80\0",
    "short string cut off": b"\0\x10\x09gu",
    "delivery mode missing": b"\x10\0",
    "timestamp cut off": b"\0\x40\0\0",
    "octets behind": b"\0\0zz",
    "table of 4 GiB": b"\x20\0\xff\xff\xff\xff",
    "unknown field type": b"\x20\0\0\0\0\x04\x01aZ\0",
    "field cut off": b"\x20\0\0\0\0\x06\x02CCA\0\0",
    "inner table too long": b"\x20\0\0\0\0\x08\x01aF\0\0\0\x01\0",
}


@pytest.mark.ours_only  # RabbitMQ answers 541
@pytest.mark.parametrize("exchange", ["", "amq.headers", "nope"])
@pytest.mark.parametrize("properties", MALFORMED.values(), ids=MALFORMED)
def test_malformed_properties_never_reach_a_consumer(
    wire: Wire, connect: Callable[..., Wire], name: str, exchange: str, properties: bytes
) -> None:
    consumer = connect()
    consumer.open_channel(1)
    consumer.ok(1, "queue.declare", queue=name, auto_delete=True)
    consumer.ok(1, "queue.bind", queue=name, exchange="amq.headers")
    consumer.ok(1, "basic.consume", queue=name, tag="t")
    if exchange != "nope":
        wire.publish(1, exchange, name, b"good")  # the route is known from now on
        assert consumer.receive().body == b"good"
    wire.send(1, "basic.publish", exchange=exchange, routing_key=name)
    wire.frame(2, 1, struct.pack(">HHQ", 60, 0, 0) + properties)
    reply = wire.receive()
    assert (reply.name, reply.code) == ("connection.close", 501), reply
    assert reply.text.endswith(": malformed property list")
    assert consumer.call(1, "basic.cancel", tag="t").name == "basic.cancel-ok"


@pytest.mark.ours_only  # RabbitMQ never answers
def test_body_longer_than_announced_is_a_frame_error(wire: Wire) -> None:
    wire.send(1, "basic.publish", routing_key="nowhere")
    wire.header(1, 1)
    wire.frame(3, 1, b"abc")
    reply = wire.receive()
    assert (reply.name, reply.code) == ("connection.close", 501), reply


@pytest.mark.ours_only  # RabbitMQ waits for the body first
def test_body_above_the_limit_is_a_precondition_failure(wire: Wire) -> None:
    wire.send(1, "basic.publish", routing_key="nowhere")
    wire.header(1, 2**40)
    reply = wire.receive()
    assert (reply.name, reply.code) == ("channel.close", 406), reply
    wire.send(1, "channel.close-ok")
    wire.ok(1, "channel.open")


def test_no_error(wire: Wire, name: str) -> None:
    """What looks like an error and is none."""
    assert wire.ok(1, "queue.delete", queue="nope").messages == 0
    assert wire.ok(1, "queue.delete", queue="amq.nope").messages == 0
    wire.ok(1, "exchange.delete", exchange="nope")
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "queue.unbind", queue=name, exchange="amq.direct", routing_key="never-bound")
    wire.ok(1, "queue.unbind", queue="nope", exchange="amq.direct")
    wire.ok(1, "queue.unbind", queue=name, exchange="nope")
    wire.ok(1, "exchange.unbind", destination="amq.direct", source="nope")
    wire.ok(1, "exchange.unbind", destination="nope", source="amq.direct")
    assert wire.ok(1, "basic.cancel", tag="nope").tag == "nope"
    wire.send(1, "basic.ack", delivery_tag=0, multiple=True)
    wire.send(1, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    wire.ok(1, "exchange.declare", exchange="amq.direct", type="direct", durable=True)
    wire.ok(1, "exchange.declare", exchange="amq.direct", type="topic", passive=True)
    assert wire.ok(1, "channel.flow", active=True).active is True
    assert wire.ok(1, "access.request", realm="/data", active=True).ticket == 1
    wire.ok(1, "exchange.declare", exchange="a" * 255, type="direct", auto_delete=True)
    wire.ok(1, "exchange.delete", exchange="a" * 255)
    wire.ok(1, "basic.consume", queue=name, no_local=True)


def test_publish_to_a_locked_queue_is_allowed(connect: Callable[..., Wire], wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    other = connect()
    other.open_channel(1, confirm=True)
    other.publish(1, "", name, b"x", mandatory=True)
    assert other.receive().name == "basic.ack"
    message = wire.get(name)
    assert message is not None
    assert message.body == b"x"


def test_frames_after_channel_close_are_dropped_until_close_ok(wire: Wire, name: str) -> None:
    wire.open_channel(2)
    wire.ok(2, "queue.declare", queue=name, exclusive=True)
    wire.publish(1, "nope", "a", b"x")
    assert wire.receive().name == "channel.close"
    wire.publish(1, "", name, b"dropped")
    wire.send(1, "queue.declare", queue="q.d", durable=False)
    wire.send(1, "basic.ack", delivery_tag=77)
    wire.ok(2, "basic.qos")
    wire.send(1, "channel.close-ok")
    wire.ok(1, "channel.open")
    assert wire.ready(name) == 0


def test_reopening_before_close_ok_is_an_error(wire: Wire) -> None:
    wire.publish(1, "nope", "a", b"x")
    assert wire.receive().name == "channel.close"
    reply = wire.call(1, "channel.open")
    assert (reply.name, reply.code, reply.text) == (
        "connection.close",
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
    )


def test_crossing_channel_closes(wire: Wire) -> None:
    """Our channel.close that meets the server's gets close-ok, and our own close-ok afterwards is harmless."""
    wire.publish(1, "nope", "a", b"x")
    wire.send(1, "channel.close", code=200)
    assert wire.receive().name == "channel.close"
    assert wire.receive().name == "channel.close-ok"
    wire.send(1, "channel.close-ok")
    wire.ok(1, "channel.open")


def test_reopened_channel_starts_afresh(wire: Wire, name: str) -> None:
    """Delivery tags, confirm mode, the last queue and the prefetch are all forgotten."""
    wire.open_channel(2)
    wire.ok(1, "confirm.select")
    wire.ok(1, "basic.qos", count=1)
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    for body in "abc":
        wire.publish(1, "", name, body)
    wire.confirmed(3)
    assert wire.get(name, no_ack=False).delivery_tag == 1  # type: ignore[union-attr]
    assert wire.get(name, no_ack=False).delivery_tag == 2  # type: ignore[union-attr]
    wire.ok(1, "channel.close", code=200)
    wire.open_channel(1)
    wire.publish(1, "", name, "d")
    wire.ok(1, "basic.consume", queue=name, tag="t")
    deliveries = wire.receive_named("basic.deliver", 4)
    assert [(d.delivery_tag, d.body, d.redelivered) for d in deliveries] == [
        (1, b"a", True),
        (2, b"b", True),
        (3, b"c", False),
        (4, b"d", False),
    ]
    reply = wire.call(1, "queue.bind", queue="", exchange="amq.direct", routing_key="x")
    assert (reply.code, reply.text) == (404, "NOT_FOUND - no previously declared queue")


def test_outstanding_confirms_stay_unanswered_after_a_channel_error(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "confirm.select")
    wire.publish(1, "nope", "a", b"x")
    wire.publish(1, "", name, b"after")
    replies = wire.until_quiet(expected=1)
    assert [reply.name for reply in replies] == ["channel.close"]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_garbage_ends_only_its_own_connection(connect: Callable[..., Wire], wire: Wire, size: int) -> None:
    victim = connect()
    victim.open_channel(1)
    victim.send_bytes(bytes(range(200, 200 + min(size, 50))) * 3000)
    names = [reply.name for reply in victim.until_quiet(1, expected=1)]
    assert names[-1:] in (["connection.close"], ["eof"], ["reset"])
    wire.ok(1, "basic.qos")


def test_truncated_frame_then_gone(connect: Callable[..., Wire], wire: Wire) -> None:
    victim = connect()
    victim.send_bytes(struct.pack(">BHI", 1, 1, 100) + encode_short("half")[:3])
    victim.drop()
    wire.ok(1, "basic.qos")


def test_integers_of_different_width_are_the_same_argument(wire: Wire, name: str) -> None:
    """Unknown arguments are stored and never compared."""
    wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments={"x-foo": 1, "foo": "bar"})
    wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments={"x-foo": long_int(2)})
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "exchange.declare", exchange="amq.topic", type="topic", durable=True, arguments={"foo": "a"})


def test_arguments_that_a_redeclaration_may_add(wire: Wire, name: str) -> None:
    """The type that a queue has anyway, and what only other types know."""
    classic = {"x-queue-type": "classic"}
    wire.ok(1, "queue.declare", queue=name, exclusive=True)
    wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments=classic)
    wire.ok(1, "queue.declare", queue=name, exclusive=True, arguments={"x-delivery-limit": 3})
    wire.ok(1, "queue.declare", queue=f"{name}.c", exclusive=True, arguments=classic)
    wire.ok(1, "queue.declare", queue=f"{name}.c", exclusive=True)
    reply = wire.call(
        1, "queue.declare", queue=f"{name}.c", exclusive=True, arguments={"x-queue-type": "quorum"}
    )
    assert reply.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{name}.c' in vhost '/': "
        "received 'quorum' but current is 'classic'"
    )


def test_passive_declare_ignores_flags_and_arguments(wire: Wire, name: str) -> None:
    wire.ok(1, "queue.declare", queue=name, durable=True)
    wire.ok(
        1, "queue.declare", queue=name, passive=True, auto_delete=True, exclusive=True, arguments={"x-foo": 1}
    )
    wire.ok(1, "queue.delete", queue=name)
