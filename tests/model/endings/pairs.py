"""Which two features met, each pair counted once a step.

A feature acts on a message: its time is noted or over (TTL), it comes back (requeue), a policy changes over
it, its node ends, and so on. It meets in that step

- every feature that has acted on the same message before, in this queue or before it was a dead letter;
- every rule that is in force on the queue where this happens: its TTL, priorities, length, refusal of
  messages (overflow), delivery limit, consumer timeout, and that it is its own dead letter target
  (dead-letter cycle).

So two rules do not meet because some queue has both: something must happen to a message there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations

FEATURES = (
    "TTL",
    "priority",
    "requeue",
    "max-length",
    "overflow",
    "paging",
    "restart",
    "kill -9",
    "delivery limit",
    "dead-letter cycle",
    "consumer timeout",
    "policy change",
)
PAIRS = tuple(combinations(FEATURES, 2))


class Pairs:
    """Counts the steps in which two features met, each pair once a step."""

    def __init__(self) -> None:
        self.steps = 0
        self.total: Counter[tuple[str, str]] = Counter()
        self._now: set[tuple[str, str]] = set()

    def note(self, marks: set[str], feature: str, in_force: Iterable[str] = ()) -> None:
        """``feature`` acts on the message that has ``marks``, in a queue with the rules ``in_force``."""
        for other in marks.union(in_force):
            if other != feature:
                first, second = sorted((feature, other), key=FEATURES.index)
                self._now.add((first, second))
        marks.add(feature)

    def end_step(self) -> None:
        self.steps += 1
        self.total.update(self._now)
        self._now.clear()


def shown(total: Counter[tuple[str, str]]) -> str:
    """The histogram as a triangle, a row and a column for each feature."""
    lines = [" " * 18 + "".join(f"{feature[:9]:>10}" for feature in FEATURES[1:])]
    for row, first in enumerate(FEATURES[:-1]):
        cells = [f"{total[first, second]:10}" for second in FEATURES[row + 1 :]]
        lines.append(f"{first:18}" + " " * 10 * row + "".join(cells))
    return "\n".join(lines)
