from __future__ import annotations

from typing import Any

import pytest

from vhosts.policies import (
    NOTHING,
    OPERATOR_KEYS,
    POLICY_KEYS,
    InvalidParameter,
    Policy,
    PolicySet,
    effective,
    parse,
)


def failed(*problems: str) -> str:
    return "Validation failed\n\n" + "".join([f"{problem}\n" for problem in problems])


#: What is wrong with a policy, as RabbitMQ 3.10.8 says it.
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"pattern": "(", "definition": {"max-length": 5}},
        'pattern should be regular expression but is invalid: {"missing )",1}',
    ),
    ({"pattern": "x", "definition": {}}, "no policy provided"),
    (
        {"pattern": "x", "definition": {"bogus-key": 1}},
        '[{<<"bogus-key">>,1}] are not recognised policy settings',
    ),
    (
        {"pattern": "x", "definition": {"foo": "a"}},
        '[{<<"foo">>,<<"a">>}] are not recognised policy settings',
    ),
    ({"pattern": "x", "definition": {"max-length": "abc"}}, '<<"abc">> is not a valid maximum length'),
    ({"pattern": "x", "definition": {"max-length": -1}}, "-1 is not a valid maximum length"),
    ({"pattern": "x", "definition": {"max-length": True}}, "true is not a valid maximum length"),
    ({"pattern": "x", "definition": {"expires": 0}}, "0 is not a valid queue expiry"),
    ({"pattern": "x", "definition": {"message-ttl": 1.5}}, "1.5 is not a valid message TTL"),
    ({"pattern": "x", "definition": {"overflow": "spill"}}, '<<"spill">> is not a valid overflow value'),
    ({"pattern": "x", "definition": {"max-age": "5"}}, '<<"5">> is not a valid max age'),
    (
        {"pattern": "x", "definition": {"max-length": 5}, "apply-to": "bogus"},
        "apply-to 'bogus' unrecognised; should be 'queues', 'exchanges' or 'all'",
    ),
    (
        {"pattern": "x", "definition": {"max-length": 5}, "priority": "high"},
        'priority should be a number, actually was <<"high">>',
    ),
    (
        {"pattern": "x", "definition": {"ha-params": 2}},
        "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown",
    ),
    ({"pattern": "x", "definition": {"ha-mode": "half"}}, '<<"half">> is not a valid ha-mode value'),
    (
        {"pattern": "x", "definition": {"ha-mode": "all", "ha-sync-mode": "never"}},
        'ha-sync-mode must be "manual" or "automatic", got <<"never">>',
    ),
]


@pytest.mark.parametrize(("value", "problem"), WRONG)
def test_what_is_wrong_is_said_in_words_of_rabbitmq(value: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidParameter) as error:
        parse("p", value, POLICY_KEYS)
    assert str(error.value) == failed(problem)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidParameter) as error:
        parse("p", {"pattern": "(", "definition": {}, "priority": None}, POLICY_KEYS)
    assert str(error.value) == failed(
        "priority should be a number, actually was null",
        'pattern should be regular expression but is invalid: {"missing )",1}',
        "no policy provided",
    )


def test_an_operator_policy_has_fewer_keys() -> None:
    value = {"pattern": "x", "definition": {"dead-letter-exchange": "a"}}
    assert parse("p", value, POLICY_KEYS).definition == {"dead-letter-exchange": "a"}
    with pytest.raises(InvalidParameter) as error:
        parse("p", value, OPERATOR_KEYS)
    text = '[{<<"dead-letter-exchange">>,<<"a">>}] are not recognised policy settings'
    assert str(error.value) == failed(text)


@pytest.mark.parametrize(
    "definition",
    [
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
        {"ha-mode": "all"},
        {"ha-mode": "nodes", "ha-params": ["a@b"], "ha-promote-on-shutdown": "always"},
    ],
)
def test_mirroring_is_taken(definition: dict[str, Any]) -> None:
    assert parse("p", {"pattern": "", "definition": definition}, POLICY_KEYS).definition == definition


def policy(name: str, pattern: str, priority: int = 0, apply_to: str = "all", **definition: Any) -> Policy:
    return Policy(
        name, pattern, {key.replace("_", "-"): each for key, each in definition.items()}, priority, apply_to
    )


def test_the_highest_priority_that_matches_applies_as_a_whole() -> None:
    policies = PolicySet()
    policies.put(policy("all", ".*", 0, max_length=1, expires=1))
    policies.put(policy("orders", "^orders", 5, max_length=2))
    policies.put(policy("exchanges", ".*", 9, "exchanges", alternate_exchange="ae"))
    policies.put(policy("quorum", ".*", 7, "quorum_queues", delivery_limit=2))

    def name(*what: Any) -> str | None:
        found = policies.find(*what)
        return None if found is None else found.name

    assert name("queue", "orders.eu") == "orders"
    assert name("queue", "other") == "all"
    assert name("queue", "other", "quorum") == "quorum"
    assert name("exchange", "orders") == "exchanges"
    policies.remove("orders")
    policies.remove("nothing")
    assert name("queue", "orders.eu") == "all"
    policies.put(policy("all", "^only", 0, max_length=3))
    assert name("queue", "orders.eu") is None


def test_a_pattern_that_takes_too_long_does_not_match() -> None:
    slow = policy("slow", r"^(?=(a+)+$)b", 0, max_length=1)
    assert not slow.matches("queue", "a" * 40 + "c")


def test_operator_policies_are_merged_by_the_smaller_number() -> None:
    own = policy("own", ".*", max_length=5, message_ttl=60000, overflow="reject-publish")
    operator = policy("operator", ".*", max_length=3, message_ttl=90000, expires=7)
    found = effective(own, operator)
    assert found.definition == {
        "expires": 7,
        "max-length": 3,
        "message-ttl": 60000,
        "overflow": "reject-publish",
    }
    assert effective(own, None).definition == own.definition
    assert effective(None, operator).definition == operator.definition
    assert effective(None, None) is NOTHING
