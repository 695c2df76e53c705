"""What messages say, and what they say when they have become dead letters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.model.endings.rules import Rules


class Death(NamedTuple):
    """One entry of ``x-death`` but for its time."""

    queue: str
    reason: str
    count: int
    exchange: str
    keys: tuple[str, ...]
    expiration: str | None


@dataclass(frozen=True)
class Says:
    """What a consumer sees of a message beside its body and flags."""

    exchange: str
    key: str
    priority: int | None
    expiration: str | None
    persistent: bool
    deaths: tuple[Death, ...] = ()
    first: tuple[str, str, str] | None = None

    @classmethod
    def published(
        cls, exchange: str, key: str, *, persistent: bool, priority: int | None, ms: int | None
    ) -> Says:
        """What a publisher sends; ``ms`` is the expiration."""
        return cls(exchange, key, priority, None if ms is None else str(ms), persistent)


def after_death(says: Says, queue: str, reason: str, found: Rules) -> Says:
    """What a message says when it leaves ``queue`` for ``reason``."""
    deaths = list(says.deaths)
    for death in deaths:
        if (death.queue, death.reason) == (queue, reason):
            deaths.remove(death)
            newest = death._replace(count=death.count + 1)
            break
    else:
        newest = Death(queue, reason, 1, says.exchange, (says.key,), says.expiration)
    return replace(
        says,
        exchange=found.exchange or "",
        key=says.key if found.key is None else found.key,
        expiration=None,
        deaths=(newest, *deaths),
        first=says.first or (queue, reason, says.exchange),
    )


def would_go_round(says: Says, reason: str, target: str) -> bool:
    """Whether it was in ``target`` before, and nobody has rejected it since."""
    if reason == "rejected":
        return False
    for death in says.deaths:
        if death.reason == "rejected":
            return False
        if death.queue == target:
            return True
    return False
