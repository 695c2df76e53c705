"""Limits of a virtual host, as operators set them.

Source: RabbitMQ, "Virtual Hosts"; the texts are those of RabbitMQ 3.10.8, measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vhosts.errors import erlang_term
from vhosts.policies import InvalidParameter, is_integer

VHOST_LIMITS = ("max-connections", "max-queues")
USER_LIMITS = ("max-connections", "max-channels")


@dataclass(frozen=True, slots=True)
class VhostLimits:
    """A negative number means that there is no limit."""

    max_connections: int = -1
    max_queues: int = -1

    @property
    def value(self) -> dict[str, int]:
        """As the value of RabbitMQ's parameter, with the limits that are set."""
        found = {"max-connections": self.max_connections, "max-queues": self.max_queues}
        return {name: limit for name, limit in found.items() if limit >= 0}


NO_LIMITS = VhostLimits()


def parse_vhost_limits(value: object) -> VhostLimits:
    """The limits that a parameter's ``value`` sets.

    Raises:
        InvalidParameter: it is wrong.
    """
    if value == []:  # what some clients make of an empty object
        return NO_LIMITS
    if not isinstance(value, dict):
        raise InvalidParameter([f"limits should be a dictionary: {erlang_term(value)}"])
    problems = limit_problems(value, VHOST_LIMITS, "limits")
    if problems:
        raise InvalidParameter(problems)
    return VhostLimits(max(value.get("max-connections", -1), -1), max(value.get("max-queues", -1), -1))


def limit_problems(value: Mapping[str, object], known: Iterable[str], where: str) -> list[str]:
    """What is wrong with limits."""
    problems = [
        f"{name} should be a number, actually was {erlang_term(value[name])}"
        for name in known
        if name in value and not is_integer(value[name])
    ]
    unknown = {name: each for name, each in value.items() if name not in known}
    if unknown:
        problems.append(f"Unrecognised terms {erlang_term(unknown)} in {where}")
    return problems
