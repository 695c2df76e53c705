"""The nearest of the names that there are: what the answer to an unknown name suggests.

Spark's part has its own (``spark_analytics/schema.py``), as it imports nothing of the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from itertools import islice

#: Names looked at; those of them whose ends are compared; and those of these that are compared as a whole.
#: The loop may be waiting, and names of 255 characters are alike in all but their last.
LOOKED_AT_MAX = 10_000
ENDS_MAX = 128
WHOLE_MAX = 32
#: What two names have between their common ends is not compared if it is longer: that takes the square of it.
MIDDLE_MAX = 32
#: How alike two names must be, from 0 to 1.
CUTOFF = 0.55


def did_you_mean(name: str, known: Iterable[str], spell: Callable[[str], str] = str) -> str:
    """``did you mean x?``, or nothing if no known name is near. Capitals and small letters are alike.

    Of very many names, those that begin like the given one are compared.
    """
    wanted = name.lower()
    names = {each.lower(): each for each in islice(known, LOOKED_AT_MAX)}
    among: Iterable[str] = names
    if len(names) > ENDS_MAX:
        among = islice((each for each in names if each[:1] == wanted[:1]), ENDS_MAX)
    ranked = sorted(among, key=lambda each: sum(_ends(wanted, each)) / (len(each) or 1), reverse=True)
    close = max(ranked[:WHOLE_MAX], key=lambda each: _alike(wanted, each), default="")
    return f"did you mean {spell(names[close])}?" if close and _alike(wanted, close) >= CUTOFF else ""


def _ends(left: str, right: str) -> tuple[int, int]:
    """How many characters both begin with, and how many of the others both end with."""
    most = min(len(left), len(right))
    start = next((at for at in range(most) if left[at] != right[at]), most)
    most -= start
    return start, next((at for at in range(most) if left[-1 - at] != right[-1 - at]), most)


def _alike(left: str, right: str) -> float:
    start, end = _ends(left, right)
    middles = left[start : len(left) - end], right[start : len(right) - end]
    same = start + end
    if max(map(len, middles)) <= MIDDLE_MAX:
        same += sum(
            block.size for block in SequenceMatcher(None, *middles, autojunk=False).get_matching_blocks()
        )
    return 2 * same / ((len(left) + len(right)) or 1)
