"""Policies, parameters, and what policies make of queues and exchanges."""

from __future__ import annotations

from typing import Any

from vhosts.policies import Effective


def document(parameter: tuple[str, str, Any]) -> dict[str, Any]:
    """A policy or operator policy, of its virtual host, name and value."""
    vhost, name, value = parameter
    return {
        "vhost": vhost,
        "name": name,
        "pattern": value["pattern"],
        "apply-to": value["apply-to"],
        "definition": value["definition"],
        "priority": value["priority"],
    }


def applied(found: Effective) -> dict[str, Any]:
    """The fields of a queue that tell of its policies."""
    return {
        "policy": found.policy.name if found.policy is not None else None,
        "operator_policy": found.operator.name if found.operator is not None else None,
        "effective_policy_definition": dict(found.definition),
    }
