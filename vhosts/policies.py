"""Policies and operator policies: what one may say, which one applies, and what they say together.

Of all policies that match a queue or exchange, the one with the highest priority applies as a whole. The
operator policy with the highest priority is merged on top: of two numbers the smaller one counts.

Source: RabbitMQ, "Parameters and Policies"; the texts are those of RabbitMQ 3.10.8, measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, TypeGuard

from vhosts.errors import erlang_term
from vhosts.patterns import Pattern, TooSlow, compile_pattern

Kind: TypeAlias = Literal["queue", "exchange"]
#: A value as in JSON.
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
#: A definition: RabbitMQ's keys, values as in JSON.
Definition: TypeAlias = Mapping[str, Json]
#: Says what is wrong with the value of a key, or "".
Check: TypeAlias = Callable[[object], str]

NO_DEFINITION: Definition = {}

#: What each value of ``apply-to`` means: kind, and the type of queues or "".
APPLIES_TO: dict[str, tuple[tuple[Kind, str], ...]] = {
    "all": (("queue", ""), ("exchange", "")),
    "queues": (("queue", ""),),
    "exchanges": (("exchange", ""),),
    "classic_queues": (("queue", "classic"),),
    "quorum_queues": (("queue", "quorum"),),
    "streams": (("queue", "stream"),),
}


class InvalidParameter(ValueError):
    """A policy or parameter is refused; the text is RabbitMQ's."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__("Validation failed\n\n" + "".join([f"{problem}\n" for problem in problems]))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy or operator policy."""

    name: str
    pattern: str
    definition: Definition
    priority: int | float = 0
    apply_to: str = "all"
    compiled: Pattern = field(compare=False, repr=False, default=None)  # type: ignore[assignment]  # see below

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", compile_pattern(self.pattern))

    def matches(self, kind: Kind, name: str, queue_type: str = "classic") -> bool:
        """Whether it applies to the queue or exchange ``name``. A pattern that takes too long does not."""
        if not any(kind == each and wanted in ("", queue_type) for each, wanted in APPLIES_TO[self.apply_to]):
            return False
        try:
            return self.compiled.matches(name)
        except TooSlow:
            return False

    @property
    def value(self) -> dict[str, Json]:
        """What a parameter of RabbitMQ has as its value."""
        return {
            "apply-to": self.apply_to,
            "definition": dict(self.definition),
            "pattern": self.pattern,
            "priority": self.priority,
        }


class Effective(NamedTuple):
    """The policies that apply to one queue or exchange."""

    policy: Policy | None = None
    operator: Policy | None = None
    definition: Definition = NO_DEFINITION


NOTHING = Effective()


def effective(policy: Policy | None, operator: Policy | None) -> Effective:
    """The two policies put together."""
    if policy is None and operator is None:
        return NOTHING
    own = policy.definition if policy is not None else NO_DEFINITION
    limits = operator.definition if operator is not None else NO_DEFINITION
    merged = {**own, **limits}
    for key in own.keys() & limits.keys():
        one, other = own[key], limits[key]
        assert is_integer(one), key  # see ``OPERATOR_KEYS``
        assert is_integer(other), key
        merged[key] = min(one, other)
    return Effective(policy, operator, dict(sorted(merged.items())))


class PolicySet:
    """The policies of one virtual host, of one of the two kinds."""

    def __init__(self) -> None:
        self.by_name: dict[str, Policy] = {}
        self._ordered: list[Policy] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def put(self, policy: Policy) -> None:
        """Add ``policy``, in place of the one of the same name."""
        self.by_name[policy.name] = policy
        self._order()

    def remove(self, name: str) -> None:
        """Remove a policy; nothing happens if there is none."""
        self.by_name.pop(name, None)
        self._order()

    def find(self, kind: Kind, name: str, queue_type: str = "classic") -> Policy | None:
        """The policy that applies: of those that match, the one with the highest priority."""
        for policy in self._ordered:
            if policy.matches(kind, name, queue_type):
                return policy
        return None

    def _order(self) -> None:
        # RabbitMQ leaves it open which of two with the same priority applies; here it is the first by name.
        self._ordered = sorted(self.by_name.values(), key=lambda policy: (-policy.priority, policy.name))


# -- what one may say ------------------------------------------------------------------------------


def parse(name: str, value: object, checks: Mapping[str, Check]) -> Policy:
    """The policy with this ``value`` (see ``Policy.value``); its definition may have the keys of ``checks``.

    Raises:
        InvalidParameter: it is wrong; the text names everything that is.
    """
    if not isinstance(value, dict):
        raise InvalidParameter([f"{name} should be a dictionary: {erlang_term(value)}"])
    priority, pattern = value.get("priority", 0), value.get("pattern")
    apply_to, definition = value.get("apply-to", "all"), value.get("definition")
    problems = [
        _number("priority", priority),
        _regex("pattern", pattern),
        _apply_to(apply_to),
        _definition(definition, checks),
    ]
    problems = [problem for problem in problems if problem]
    if problems:
        raise InvalidParameter(problems)
    assert isinstance(pattern, str)
    assert isinstance(definition, dict)
    return Policy(name, pattern, dict(sorted(definition.items())), priority, apply_to)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a JSON value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def _number(name: str, value: object) -> str:
    if is_integer(value) or isinstance(value, float):
        return ""
    return f"{name} should be a number, actually was {erlang_term(value)}"


def _regex(name: str, value: object) -> str:
    if not isinstance(value, str):
        return f"{name} should be a binary but was {erlang_term(value)}"
    try:
        compile_pattern(value)
    except ValueError as error:
        reason = str(error).rpartition("is not a regular expression: ")[2]
        reason = _PCRE_WORDS.get(reason, reason)
        return f'{name} should be regular expression but is invalid: {{"{reason}",{len(value.encode())}}}'
    return ""


#: RabbitMQ's engine has words of its own for the commonest mistakes.
_PCRE_WORDS = {
    "missing closing parenthesis": "missing )",
    "unmatched closing parenthesis": "unmatched parentheses",
    "missing terminating ] for a character class": "missing terminating ] for character class",
}


def _apply_to(value: object) -> str:
    if isinstance(value, str) and value in APPLIES_TO:
        return ""
    shown = value if isinstance(value, str) else erlang_term(value)
    return f"apply-to '{shown}' unrecognised; should be 'queues', 'exchanges' or 'all'"


def _definition(value: object, checks: Mapping[str, Check]) -> str:
    if not isinstance(value, dict):
        return f"definition must be a dictionary: {erlang_term(value)}"
    if not value:
        return "no policy provided"
    for key in value.keys() & checks.keys():
        problem = checks[key](value[key])
        if problem:
            return problem
    if checks is POLICY_KEYS:
        problem = _mirroring(value)
        if problem:
            return problem
    unknown = {key: value[key] for key in sorted(value) if key not in checks}
    return f"{erlang_term(unknown)} are not recognised policy settings" if unknown else ""


def _from(lowest: int, what: str) -> Check:
    def check(value: object) -> str:
        is_valid = is_integer(value) and value >= lowest
        return "" if is_valid else f"{erlang_term(value)} is not a valid {what}"

    return check


def _text(what: str) -> Check:
    return lambda value: "" if isinstance(value, str) else f"{erlang_term(value)} is not a valid {what}"


def _one_of(what: str, *known: str | int) -> Check:
    def check(value: object) -> str:
        is_valid = any(type(value) is type(each) and value == each for each in known)
        return "" if is_valid else f"{erlang_term(value)} is not a valid {what}"

    return check


def _max_age(value: object) -> str:
    is_valid = isinstance(value, str) and value[:-1].isdecimal() and value[-1:] in "YMDhms"
    return "" if is_valid else f"{erlang_term(value)} is not a valid max age"


def _anything(value: object) -> str:
    return ""  # checked together with the other keys of mirroring


_MIRRORING = (
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-batch-size",
    "ha-sync-mode",
)

#: Every key that an operator policy may have.
OPERATOR_KEYS: dict[str, Check] = {
    "expires": _from(1, "queue expiry"),
    "message-ttl": _from(0, "message TTL"),
    "max-length": _from(0, "maximum length"),
    "max-length-bytes": _from(0, "maximum length in bytes"),
    "max-in-memory-length": _from(0, "maximum memory in bytes"),
    "max-in-memory-bytes": _from(0, "maximum memory in bytes"),
    "delivery-limit": _from(0, "delivery limit"),
}

#: Every key that a policy may have.
POLICY_KEYS: dict[str, Check] = {
    **OPERATOR_KEYS,
    "alternate-exchange": _text("alternate exchange name"),
    "consumer-timeout": _from(0, "consumer timeout"),
    "dead-letter-exchange": _text("dead letter exchange name"),
    "dead-letter-routing-key": _text("dead letter routing key"),
    "dead-letter-strategy": _one_of("dead letter strategy", "at-most-once", "at-least-once"),
    "initial-cluster-size": _from(0, "cluster size"),
    "max-age": _max_age,
    "overflow": _one_of("overflow value", "drop-head", "reject-publish", "reject-publish-dlx"),
    "queue-leader-locator": _one_of(
        "queue leader locator value", "client-local", "balanced", "random", "least-leaders"
    ),
    "queue-master-locator": _one_of("queue master locator", "client-local", "min-masters", "random"),
    "queue-mode": _one_of("queue-mode value", "default", "lazy"),
    "queue-version": _one_of("queue-version value", 1, 2),
    "stream-max-segment-size-bytes": _from(0, "segment size"),
    **dict.fromkeys(_MIRRORING, _anything),
}


def _mirroring(definition: Definition) -> str:
    """What is wrong with the keys ``ha-*``. They are stored and have no effect: one node mirrors nothing."""
    if not definition.keys() & set(_MIRRORING):
        return ""
    if "ha-mode" not in definition:
        return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    mode, params = definition["ha-mode"], definition.get("ha-params")
    if mode == "all":
        problem = "" if params is None else 'ha-mode="all" does not take parameters'
    elif mode == "exactly":
        is_valid = isinstance(params, int) and is_integer(params) and params > 0
        problem = "" if is_valid else f'ha-mode="exactly" takes an integer, {erlang_term(params)} given'
    elif mode == "nodes":
        is_valid = isinstance(params, list) and all(isinstance(each, str) for each in params)
        problem = "" if is_valid else f'ha-mode="nodes" takes a list of strings, {erlang_term(params)} given'
        if is_valid and not params:
            problem = 'ha-mode="nodes" list must be non-empty'
    else:
        problem = f"{erlang_term(mode)} is not a valid ha-mode value"
    if problem:
        return problem
    for key, known in _MIRRORING_WORDS.items():
        if key in definition and definition[key] not in known:
            first, second = known
            return f'{key} must be "{first}" or "{second}", got {erlang_term(definition[key])}'
    size = definition.get("ha-sync-batch-size", 1)
    if not is_integer(size) or size < 1:
        return f"ha-sync-batch-size takes an integer, {erlang_term(size)} given"
    return ""


_MIRRORING_WORDS = {
    "ha-sync-mode": ("manual", "automatic"),
    "ha-promote-on-shutdown": ("always", "when-synced"),
    "ha-promote-on-failure": ("always", "when-synced"),
}
