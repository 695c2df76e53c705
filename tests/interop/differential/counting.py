"""How often walks used what: methods, fields, properties, kinds of queues and exchanges, policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.interop.differential.operations import ADDRESS_IN
from tests.interop.differential.state import State, Step
from tests.interop.differential.vocabulary import (
    EXCHANGES,
    FEATURE_QUEUES,
    FEATURES,
    QUORUM_FEATURES,
    QUORUM_QUEUES,
    REPLY_TO,
)

FEATURES_OF = dict(zip(FEATURE_QUEUES, FEATURES, strict=True)) | {
    queue: {"x-queue-type": "quorum", **arguments}
    for queue, arguments in zip(QUORUM_QUEUES, QUORUM_FEATURES, strict=True)
}


def uses(step: Step, state: State) -> Iterator[str]:
    """What a step uses, each under a name of its own. ``state`` is that before the step."""
    yield step.name
    fields = step.fields
    for field, value in fields.items():
        if value and field not in ("queue", "exchange", "routing_key", "tag", "body", "calls", "name"):
            yield f"{step.name} {field}"
    for field in ("arguments", "headers"):
        for name in fields.get(field) or ():
            yield f"{step.name} {field} {name}"
    queue = fields.get("queue", "")
    if step.name == "publish" and not fields["exchange"]:
        queue = fields["routing_key"]
    for name in FEATURES_OF.get(queue, ()):
        yield f"{step.name} to a queue with {name}"
    if queue.startswith(ADDRESS_IN) or queue.startswith(REPLY_TO):
        yield f"{step.name} to {REPLY_TO}"
    if "exchange" in fields:
        kind = EXCHANGES.get(fields["exchange"], fields["exchange"] or "default")
        yield f"{step.name} to an exchange {kind}"
    if step.name == "policy" and fields["policy"]:
        for name in fields["policy"]["definition"]:
            yield f"{fields.get('kind', 'policies')} {name}"
    if step.name == "basic.consume" and queue in state.consumers.values():
        yield f"{step.name} beside others"
    if (step.connection, step.channel) in state.tx and step.name != "channel.open":
        yield f"{step.name} in a transaction"


def lines(counts: Counter[str]) -> list[str]:
    """A table of counts, by name."""
    return [f"{count:8} {name}" for name, count in sorted(counts.items())]
