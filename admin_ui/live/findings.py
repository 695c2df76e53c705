"""What a search over the node has found: of each kind and virtual host the worst, and how many there were.

A node may have 100,000 queues without a consumer. Nobody looks at more than the worst of them, and each
event of each viewer goes through what is kept here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from heapq import heappush, heappushpop
from typing import Any, NamedTuple

from admin_ui.live.work import Work

Finding = dict[str, Any]

ORDER = (
    "failed",
    "disk",
    "memory",
    "files",
    "filling",
    "stuck",
    "hanging",
    "letters_wait",
    "growing",
    "unroutable",
    "no_consumers",
    "blocked",
)
_RANK = {kind: rank for rank, kind in enumerate(ORDER)}
#: Findings of one kind that are kept in one virtual host.
KEPT_OF_KIND = 200
#: Where findings of the node itself are kept, among those of the virtual hosts.
_NODE = None


class Visible(NamedTuple):
    """What one user sees: the worst findings in their order, and the number of all by kind."""

    worst: list[Finding]
    counts: Counter[str]


class Findings:
    """The findings of one search. Iterated, it gives the worst in their order."""

    def __init__(self) -> None:
        #: By virtual host and kind, the least bad first: number of messages, less the number of the finding.
        self._heaps: dict[str | None, dict[str, list[tuple[int, int, Finding]]]] = {}
        self._counts: dict[str | None, Counter[str]] = {}
        self._worst: dict[str | None, list[Finding]] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Finding]:
        return iter(_in_order([each for found in self._worst.values() for each in found]))

    def add(self, finding: Finding) -> None:
        """Note one; it is kept if it is among the worst of its kind and virtual host."""
        where, kind = finding.get("vhost", _NODE), finding["kind"]
        self._counts.setdefault(where, Counter())[kind] += 1
        heap = self._heaps.setdefault(where, {}).setdefault(kind, [])
        self._number += 1
        entry = finding.get("ready", 0), -self._number, finding
        if len(heap) < KEPT_OF_KIND:
            heappush(heap, entry)
        else:
            heappushpop(heap, entry)

    async def sort(self, work: Work) -> None:
        """Put them in order; nothing may be added afterwards."""
        for where, kinds in self._heaps.items():
            found = [
                each for kind in sorted(kinds, key=_RANK.__getitem__) for each in sorted(kinds[kind])[::-1]
            ]
            self._worst[where] = [finding for _, _, finding in found]
            await work.pause()
        self._heaps.clear()

    @property
    def counts(self) -> Counter[str]:
        """The number of all findings by kind."""
        return sum(self._counts.values(), Counter())

    def visible(self, names: Container[str], user: str, *, watches_node: bool, whole: bool = True) -> Visible:
        """Those in the virtual hosts ``names``, and (``whole``) those of the node.

        Those of the node are for who watches it, and so are blocked connections of other users.
        """
        counts: Counter[str] = Counter()
        worst: list[Finding] = []
        several = False
        for where, found in self._worst.items():
            if not (where in names if where is not None else whole and watches_node):
                continue
            mine = found if watches_node else [each for each in found if _concerns(each, user)]
            for kind, number in self._counts[where].items():
                # How many connections of others are blocked is for who watches the node.
                is_own = kind == "blocked" and not watches_node
                counts[kind] += sum(each["kind"] == kind for each in mine) if is_own else number
            several = several or bool(worst)
            worst += mine
        return Visible(_in_order(worst) if several else worst, +counts)


def _concerns(finding: Finding, user: str) -> bool:
    return bool(finding["kind"] != "blocked" or finding["user"] == user)


def _in_order(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: (_RANK[each["kind"]], -each.get("ready", 0)))
