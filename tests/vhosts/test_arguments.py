from __future__ import annotations

import contextlib
from typing import Any

import pytest

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import Table, decode_table, encode_plain
from vhosts.arguments import (
    QUEUE_ARGUMENTS,
    UNSUPPORTED,
    alternate_exchange,
    check_exchange_equivalence,
    check_queue_arguments,
    check_queue_equivalence,
    dead_letter_exchange,
)
from vhosts.queues.settings import KEYS


def typed(values: dict[str, Any]) -> Table:
    return decode_table(encode_plain(values), 0)[0]


def refusal(values: dict[str, Any], **flags: bool) -> str:
    given = {"durable": False, "exclusive": False, "auto_delete": False, **flags}
    with pytest.raises(PreconditionFailed) as error:
        check_queue_arguments("q.ttl", "/", typed(values), **given)
    return error.value.reply_text.removeprefix("PRECONDITION_FAILED - ")


QUEUE = "queue 'q.ttl' in vhost '/'"

# Measured on RabbitMQ 3.10.8.
MEASURED = [
    ({"x-message-ttl": "100"}, f"invalid arg 'x-message-ttl' for {QUEUE}: \"expected integer, got longstr\""),
    ({"x-message-ttl": -1}, f"invalid arg 'x-message-ttl' for {QUEUE}: {{value_negative,-1}}"),
    (
        {"x-message-ttl": 315_360_000_001},
        f"invalid arg 'x-message-ttl' for {QUEUE}: {{value_too_large,315360000001}}",
    ),
    ({"x-message-ttl": 1.5}, f"invalid arg 'x-message-ttl' for {QUEUE}: \"expected integer, got double\""),
    ({"x-expires": 0}, f"invalid arg 'x-expires' for {QUEUE}: {{value_zero,0}}"),
    ({"x-max-length": -1}, f"invalid arg 'x-max-length' for {QUEUE}: {{value_negative,-1}}"),
    ({"x-max-length": "1"}, f"invalid arg 'x-max-length' for {QUEUE}: \"expected integer, got longstr\""),
    ({"x-max-priority": 256}, f"invalid arg 'x-max-priority' for {QUEUE}: {{max_value_exceeded,256}}"),
    ({"x-overflow": "foo"}, f"invalid arg 'x-overflow' for {QUEUE}: invalid_overflow"),
    ({"x-overflow": 1}, f"invalid arg 'x-overflow' for {QUEUE}: {{unacceptable_type,signedint}}"),
    (
        {"x-dead-letter-routing-key": "a"},
        f"invalid arg 'x-dead-letter-routing-key' for {QUEUE}: routing_key_but_no_dlx_defined",
    ),
    ({"x-dead-letter-exchange": 1}, f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {QUEUE}"),
    ({"x-queue-mode": "foo"}, f"invalid arg 'x-queue-mode' for {QUEUE}: \"unsupported queue mode 'foo'\""),
    ({"x-queue-type": "foo"}, f"invalid arg 'x-queue-type' for {QUEUE}: \"unsupported queue type 'foo'\""),
    ({"x-queue-type": 1}, f"invalid arg 'x-queue-type' for {QUEUE}: {{unacceptable_type,signedint}}"),
    (
        {"x-single-active-consumer": "yes"},
        f"invalid arg 'x-single-active-consumer' for {QUEUE}: {{unacceptable_type,longstr}}",
    ),
    ({"x-queue-type": "quorum"}, f"invalid property 'non-durable' for {QUEUE}"),
    ({"x-queue-version": -1}, f"invalid arg 'x-queue-version' for {QUEUE}: {{value_negative,-1}}"),
    ({"x-queue-version": 3}, f"invalid arg 'x-queue-version' for {QUEUE}: \"unsupported queue version '3'\""),
    # First the values that the type takes, in RabbitMQ's order, then arguments of other types as sent.
    (
        {"x-delivery-limit": 1, "x-message-ttl": "a", "x-expires": "a"},
        f"invalid arg 'x-expires' for {QUEUE}: \"expected integer, got longstr\"",
    ),
    (
        {"x-max-age": 5, "x-delivery-limit": "a"},
        f"invalid arg 'x-max-age' for {QUEUE} of queue type rabbit_classic_queue",
    ),
    (
        {"x-delivery-limit": "a", "x-max-age": 5},
        f"invalid arg 'x-delivery-limit' for {QUEUE} of queue type rabbit_classic_queue",
    ),
    (
        {"x-queue-mode": 1, "x-queue-type": "quorum", "x-max-priority": "a"},
        f"invalid arg 'x-queue-mode' for {QUEUE} of queue type rabbit_quorum_queue",
    ),
    (
        {"x-queue-type": "quorum", "x-dead-letter-strategy": "a"},
        f"invalid arg 'x-dead-letter-strategy' for {QUEUE}: invalid_dlx_strategy",
    ),
    (
        {"x-queue-type": "quorum", "x-queue-leader-locator": "a"},
        f"invalid arg 'x-queue-leader-locator' for {QUEUE}: invalid_queue_locator_arg",
    ),
]


@pytest.mark.parametrize(("values", "text"), MEASURED)
def test_refusals_measured_on_rabbitmq(values: dict[str, Any], text: str) -> None:
    assert refusal(values) == text


def test_properties_that_a_quorum_queue_cannot_have() -> None:
    quorum = {"x-queue-type": "quorum"}
    assert refusal(quorum, durable=True, exclusive=True) == f"invalid property 'exclusive-owner' for {QUEUE}"
    assert refusal(quorum, durable=True, auto_delete=True) == f"invalid property 'auto-delete' for {QUEUE}"


def test_arguments_of_another_queue_type() -> None:
    of_quorum = f"invalid arg 'x-max-priority' for {QUEUE} of queue type rabbit_quorum_queue"
    assert refusal({"x-queue-type": "quorum", "x-max-priority": 3}, durable=True) == of_quorum
    of_stream = f"invalid arg 'x-dead-letter-exchange' for {QUEUE} of queue type rabbit_stream_queue"
    assert refusal({"x-queue-type": "stream", "x-dead-letter-exchange": "a"}, durable=True) == of_stream
    of_classic = f"invalid arg 'x-delivery-limit' for {QUEUE} of queue type rabbit_classic_queue"
    assert refusal({"x-delivery-limit": 3}) == of_classic


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"x-foo": 1, "foo": "bar"},
        {"x-max-priority": 0},
        {"x-message-ttl": 315_360_000_000, "x-expires": 315_360_000_000},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-type": "classic"},
        {"x-queue-version": 2},
        {"x-single-active-consumer": False},
        {"x-partitions": 1},
        {"x-queue-master-locator": "client-local"},
    ],
)
def test_what_is_accepted(values: dict[str, Any]) -> None:
    check_queue_arguments("q", "/", typed(values), durable=False, exclusive=False, auto_delete=False)


NOT_YET = [
    ({"x-partitions": 2}, "x-partitions"),
    ({"x-queue-type": "stream", "x-max-age": "7D"}, "x-queue-type 'stream'"),
]


@pytest.mark.parametrize(("values", "feature"), NOT_YET)
def test_features_that_do_not_exist_yet(values: dict[str, Any], feature: str) -> None:
    assert refusal(values, durable=True) == f"{feature} for {QUEUE} is not supported yet"


def test_every_known_argument_is_accounted_for() -> None:
    """Known arguments either do what they say, are hints that change nothing, or are refused."""
    unchecked = {"x-consumer-timeout"}
    hints = {"x-queue-mode", "x-queue-version", "x-queue-leader-locator", "x-queue-master-locator"}
    of_other_types = {
        "x-dead-letter-strategy",
        "x-initial-cluster-size",
        "x-max-age",
        "x-max-in-memory-bytes",
        "x-max-in-memory-length",
        "x-quorum-initial-group-size",
        "x-stream-max-segment-size-bytes",
    }
    done = {f"x-{key}" for key in KEYS}
    assert QUEUE_ARGUMENTS.keys() == UNSUPPORTED.keys() | hints | of_other_types | (done - unchecked)
    assert not done & UNSUPPORTED.keys()
    for argument in of_other_types:
        value = {"x-dead-letter-strategy": "at-most-once", "x-max-age": "1h"}.get(argument, 1)
        text = f"invalid arg '{argument}' for {QUEUE} of queue type rabbit_classic_queue"
        assert refusal({argument: value}) == text


# Arguments of each tag, for every check: no value of a wrong type may raise anything else.
ODD_VALUES = [True, 1, -1, 2**40, 0.5, "text", b"octets", None, [], [1], {}, {"a": 1}]


@pytest.mark.parametrize("argument", QUEUE_ARGUMENTS)
def test_no_value_surprises_a_check(argument: str) -> None:
    for value in ODD_VALUES:
        with contextlib.suppress(PreconditionFailed):
            check_queue_arguments(
                "q", "/", typed({argument: value}), durable=True, exclusive=False, auto_delete=False
            )


# -- equivalence ------------------------------------------------------------------------------------


def difference(current: Table, received: Table) -> str:
    with pytest.raises(PreconditionFailed) as error:
        check_queue_equivalence("q.d", "/", (True, False, current), (True, False, received))
    return error.value.text


HUNDRED = {"x-message-ttl": ("I", 100)}


@pytest.mark.parametrize(
    ("current", "received", "text"),
    [
        ({}, HUNDRED, "received the value '100' of type 'signedint' but current is none"),
        (HUNDRED, {}, "received none but current is the value '100' of type 'signedint'"),
        (HUNDRED, {"x-message-ttl": ("I", 200)}, "received '200' but current is '100'"),
        (HUNDRED, {"x-message-ttl": ("d", 100.0)}, "received '100.0' but current is '100'"),
        (HUNDRED, {"x-message-ttl": ("S", b"100")}, "received '100' but current is '100'"),
        (HUNDRED, {"x-message-ttl": ("V", None)}, "received 'undefined' but current is '100'"),
    ],
)
def test_inequivalent_argument(current: Table, received: Table, text: str) -> None:
    expected = f"inequivalent arg 'x-message-ttl' for queue 'q.d' in vhost '/': {text}"
    assert difference(current, received) == expected


@pytest.mark.parametrize(
    ("argument", "value", "shown"),
    [
        ("x-queue-type", ("S", b"quorum"), "the value 'quorum' of type 'longstr'"),
        ("x-queue-mode", ("S", b"lazy"), "the value 'lazy' of type 'longstr'"),
        ("x-queue-master-locator", ("S", b"random"), "the value 'random' of type 'longstr'"),
        ("x-single-active-consumer", ("t", True), "the value 'true' of type 'bool'"),
    ],
)
def test_inequivalent_argument_of_any_type(argument: str, value: Any, shown: str) -> None:
    text = f"inequivalent arg '{argument}' for queue 'q.d' in vhost '/': received {shown} but current is none"
    assert difference({}, {argument: value}) == text


def test_classic_may_be_left_unsaid() -> None:
    classic = {"x-queue-type": ("S", b"classic")}
    check_queue_equivalence("q", "/", (True, True, classic), (True, True, {}))
    check_queue_equivalence("q", "/", (True, True, {}), (True, True, classic))
    check_queue_equivalence("q", "/", (True, True, classic), (True, True, classic))
    text = difference(classic, {"x-queue-type": ("S", b"quorum")})
    assert text.endswith(
        "'x-queue-type' for queue 'q.d' in vhost '/': received 'quorum' but current is 'classic'"
    )


def test_arguments_of_another_queue_type_are_not_compared() -> None:
    received = {"x-delivery-limit": ("I", 1), "x-max-age": ("S", b"1D"), "x-max-in-memory-length": ("I", 1)}
    check_queue_equivalence("q", "/", (True, True, {}), (True, True, received))


def test_a_boolean_is_no_number() -> None:
    received = {"x-single-active-consumer": ("I", 1)}
    assert "received '1' but current is 'true'" in difference(
        {"x-single-active-consumer": ("t", True)}, received
    )


def test_equal_by_value_whatever_the_width() -> None:
    for tag in "bBsuIilL":
        check_queue_equivalence("q", "/", (True, True, HUNDRED), (True, True, {"x-message-ttl": (tag, 100)}))


def test_unknown_arguments_are_not_compared() -> None:
    check_queue_equivalence("q", "/", (True, True, {}), (True, True, {"x-foo": ("I", 100)}))


@pytest.mark.parametrize(
    ("received", "argument", "values"),
    [
        ((False, True), "durable", "received 'false' but current is 'true'"),
        ((True, True), "auto_delete", "received 'true' but current is 'false'"),
    ],
)
def test_inequivalent_queue(received: tuple[bool, bool], argument: str, values: str) -> None:
    with pytest.raises(PreconditionFailed) as error:
        check_queue_equivalence("q.d", "/", (True, False, {}), (*received, HUNDRED))
    assert error.value.text == f"inequivalent arg '{argument}' for queue 'q.d' in vhost '/': {values}"


CURRENT = {"type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
ALTERNATE = {"alternate-exchange": ("S", b"a")}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"type": "fanout"}, "'type' for {}: received 'fanout' but current is 'direct'"),
        ({"durable": False}, "'durable' for {}: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for {}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for {}: received 'true' but current is 'false'"),
        (
            {"arguments": ALTERNATE},
            "'alternate-exchange' for {}: received the value 'a' of type 'longstr' but current is none",
        ),
    ],
)
def test_inequivalent_exchange(change: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed) as error:
        check_exchange_equivalence("x.d", "/", CURRENT, {**CURRENT, **change})
    assert error.value.text == "inequivalent arg " + text.format("exchange 'x.d' in vhost '/'")


def test_equivalent_exchange() -> None:
    check_exchange_equivalence("x.d", "/", CURRENT, {**CURRENT, "arguments": {"foo": ("S", b"a")}})


def test_other_exchanges_named_in_arguments() -> None:
    assert alternate_exchange("x", "/", ALTERNATE) == "a"
    assert alternate_exchange("x", "/", {}) is None
    assert dead_letter_exchange("q", "/", {"x-dead-letter-exchange": ("S", b"")}) == ""
    with pytest.raises(PreconditionFailed) as error:
        alternate_exchange("x", "/", {"alternate-exchange": ("I", 1)})
    assert (
        error.value.text
        == "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"
    )
