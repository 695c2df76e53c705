"""``POST /admin/v1/previews/policy``: what a policy would apply to, before it is set.

The body is that of ``PUT /api/policies/V/P`` without the definition, and ``vhost``, ``name`` and ``kind``
(``policy`` or ``operator_policy``). The answer names the queues and exchanges that the pattern matches, the
first ones of each, and for each the policy that would apply to it instead, if there is one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from admin_ui.auth import POLICYMAKER
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import bad_request, not_authorised, not_found
from admin_ui.writing import read_object
from vhosts.long_lists import passing
from vhosts.policies import OPERATOR_KEYS, Kind, Policy, parse
from vhosts.vhost import VirtualHost

#: Names in an answer, of each kind.
NAMES_MAX = 50
#: Seconds of matching in one request. What was not looked at by then is not in the answer, which says so.
MATCHING_S = 0.25
#: A definition that is valid: only the pattern and where it applies are looked at.
ANY_DEFINITION = {"expires": 1}


async def preview(call: Call) -> dict[str, Any]:
    """What a policy would apply to."""
    content = await read_object(call)
    vhost = call.state.broker.vhosts.get(str(content.get("vhost")))
    if vhost is None:
        raise not_found()
    if not call.identity.lists(vhost.name):
        raise not_authorised("User not authorised to access virtual host")
    kind = content.get("kind", "policy")
    if kind not in ("policy", "operator_policy"):
        raise bad_request(f"kind is policy or operator_policy, not {kind!r}")
    given: dict[str, Any] = {
        name: content[name] for name in ("pattern", "priority", "apply-to") if name in content
    }
    try:
        policy = parse(str(content.get("name", "")), {**given, "definition": ANY_DEFINITION}, OPERATOR_KEYS)
    except ValueError as error:
        # Not an error: it is half of a pattern, which somebody is typing.
        return {"problem": str(error).removeprefix("Validation failed").strip()}
    is_operator = kind == "operator_policy"
    others = vhost.obedience.operator_policies if is_operator else vhost.obedience.policies
    stronger = sorted(
        [
            each
            for each in others.by_name.values()
            if each.name != policy.name and _rank(each) < _rank(policy)
        ],
        key=_rank,
    )
    found = {"queues": _Found(), "exchanges": _Found()}
    left_s = MATCHING_S
    for section, name, queue_type in _ends(vhost):
        begin = time.thread_time()
        end_kind: Kind = "queue" if section == "queues" else "exchange"
        # Operator policies apply to queues alone.
        if (section == "queues" or not is_operator) and policy.matches(end_kind, name, queue_type):
            winner = next((each.name for each in stronger if each.matches(end_kind, name, queue_type)), None)
            found[section].add(name, winner)
        left_s -= time.thread_time() - begin
        if left_s < 0:
            break
        await call.turns.next()
    return {"complete": left_s >= 0, **{section: each.document() for section, each in found.items()}}


class _Found:
    """The objects of one kind that match."""

    def __init__(self) -> None:
        self.total = 0
        self.names: list[dict[str, str | None]] = []

    def add(self, name: str, winner: str | None) -> None:
        self.total += 1
        if len(self.names) < NAMES_MAX:
            self.names.append({"name": name, "instead": winner})

    def document(self) -> dict[str, Any]:
        return {"total": self.total, "names": self.names}


def _ends(vhost: VirtualHost) -> Iterator[tuple[str, str, str]]:
    for queue in passing(vhost.queues.values()):
        field = queue.arguments.get("x-queue-type")
        yield "queues", queue.name, field[1].decode("utf-8", "replace") if field is not None else "classic"
    for exchange in passing(vhost.exchanges.values()):
        if exchange.name:
            yield "exchanges", exchange.name, ""


def _rank(policy: Policy) -> tuple[float, str]:
    """Of several policies that match, the one with the lowest rank applies (``PolicySet``)."""
    return -policy.priority, policy.name


ENDPOINTS = [Endpoint("/previews/policy", post=preview, write_tags=POLICYMAKER)]
