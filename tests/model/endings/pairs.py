"""Which two features met: both took part in the life of one message, the second in this step."""

from __future__ import annotations

from collections import Counter
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

    def note(self, marks: set[str], feature: str) -> None:
        """``feature`` takes part in the life of the message that has ``marks``."""
        for other in marks:
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
