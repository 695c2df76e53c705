"""The walk of one publish from its exchange to queues, in as many turns as it takes.

Most walks are a handful of look-ups. But one client can bind 100,000 times, or make patterns that keep the
matching of one key busy for long, and nobody else may wait for that. So a walk counts what it looks at, stops
when that is too much for one turn, and goes on where it was; its publisher's later frames wait meanwhile.

Others may bind and unbind meanwhile, and whoever never ceases to must not keep a walk from its end. So a walk
does not begin anew. It finds what was bound from its begin to its end, and what it happens to meet of the
bindings that came or went meanwhile; such a route is used once and not remembered.

Compiled: see ``walk.pxd``.

Source: semantics 2.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vhosts.exchanges.exchange import BY_KEY, Exchange, Routable
from vhosts.exchanges.route_names import NAMED_MAX
from vhosts.queues.handle import QueueHandle

if TYPE_CHECKING:
    from vhosts.bindings import Binding
    from vhosts.counters import ExchangeCounters

# C integers where compiled (see walk.pxd).
_NAMED_MAX = NAMED_MAX
#: What one turn may look at (bindings, nodes of a trie, entries of an index): about a millisecond.
_LOOKS_MAX = 4096
#: So many looks cost what one enqueue does.
_LOOKS_PER_UNIT = 4


class Walk:
    """Where ``message``, published to ``exchange``, goes.

    Follows bindings between exchanges, each exchange once, so cycles end. The alternate exchange of an
    exchange comes in when no binding of it matched, as in RabbitMQ: also if what matched led nowhere.

    ``args`` and ``properties`` are those of the publish, so that it is known when it comes again.
    """

    __slots__ = (
        "_exchanges",
        "_match_count",
        "_matches",
        "_message",
        "_position",
        "_seen",
        "_source",
        "_table",
        "_to_visit",
        "args",
        "decided_by",
        "exchange",
        "generation",
        "has_bcc",
        "has_cc",
        "inner",
        "looks",
        "matched",
        "properties",
        "queues",
    )

    def __init__(self, table: Any, exchange: Exchange, message: Routable) -> None:
        self.exchange = exchange
        self.args = b""
        self.properties = b""
        self.has_cc = False
        self.has_bcc = False
        #: The queues found, each once, in the order in which bindings led there.
        self.queues: dict[QueueHandle, None] = {}
        #: The bindings that led there, the first ``NAMED_MAX``.
        self.matched: dict[Binding, None] = {}
        #: The counters of the other exchanges on the way, each with the number of its bindings that match.
        self.inner: list[tuple[ExchangeCounters, int]] = []
        #: The least repeatable exchange counts.
        self.decided_by = BY_KEY
        #: The routing table's when the walk began; what it finds is not to be remembered under another one.
        self.generation: int = table.generation
        #: What ``go_on`` has looked at in its last turn.
        self.looks = 0
        self._table = table
        self._message = message
        self._seen: dict[Exchange, None] = {exchange: None}
        self._to_visit = [exchange]
        self._position = 0
        self._source: Exchange | None = None
        self._matches: Iterator[Any] | None = None
        self._match_count = 0

    def go_on(self) -> bool:
        """Walk until the end, or until it is enough for one turn; True at the end."""
        self.looks = 0
        while True:
            if self._source is None:
                if self._position == len(self._to_visit):
                    return True
                source = self._to_visit[self._position]
                self._position += 1
                self._source = source
                self._match_count = 0
                if source.decided_by > self.decided_by:
                    self.decided_by = source.decided_by
                self._matches = iter(source.route(self._message))
            if not self._follow():
                return False
            self._leave()

    def _follow(self) -> bool:
        """Take in what matches at the exchange visited; False if that is not all yet."""
        is_named = self._source.name != ""  # type: ignore[union-attr]
        looks = self.looks
        matched = self.matched
        for item in self._matches:  # type: ignore[union-attr]
            if isinstance(item, int):
                looks += item
            else:
                looks += 1
                destination = item.destination
                if not destination.deleted:
                    self._match_count += 1
                    if is_named and len(matched) < _NAMED_MAX:
                        matched[item] = None
                    if isinstance(destination, QueueHandle):
                        self.queues[destination] = None
                    elif destination not in self._seen:
                        self._seen[destination] = None
                        self._to_visit.append(destination)
            if looks >= _LOOKS_MAX:
                self.looks = looks
                return False
        self.looks = looks
        return True

    def _leave(self) -> None:
        source = self._source
        self._source = None
        self._matches = None
        if source is None:
            return
        if source is not self.exchange:
            self.inner.append((source.counters, self._match_count))
        if self._match_count > 0 or source.alternate is None:
            return
        alternate = self._table.exchanges.get(source.alternate)
        if alternate is not None and alternate not in self._seen:
            self._seen[alternate] = None
            self._to_visit.append(alternate)

    def units(self) -> int:
        """What the last turn cost, in enqueues."""
        return self.looks // _LOOKS_PER_UNIT
