"""The walk of one publish from its exchange to queues, in as many turns of the event loop as it takes.

Most walks are a handful of look-ups. But one client can make 100,000 bindings, or patterns for which matching
one key takes long, and other clients must not wait for that. So a walk counts what it visits, stops when that
is too much for one turn, and continues in the next. Its publisher's later frames wait meanwhile.

Other clients may bind and unbind meanwhile. A walk does not start again after such a change, because a client
that never stops binding would keep it from ending. It finds every binding that exists during the whole walk,
and possibly some that came or went meanwhile. Such a route is used once and not cached.

Compiled: see ``walk.pxd``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vhosts.exchanges.exchange import BY_HEADERS, BY_KEY, Binding, Exchange, Routable
from vhosts.exchanges.route_names import NAMED_MAX
from vhosts.long_lists import unwatched
from vhosts.queues.handle import QueueHandle
from vhosts.spread_map import SpreadMap
from vhosts.unstored import Unstored

if TYPE_CHECKING:
    from vhosts.counters import ExchangeCounters

# C integers where compiled (see walk.pxd).
_BY_HEADERS = BY_HEADERS
_NAMED_MAX = NAMED_MAX
#: Limit of one turn: bindings, nodes of a trie and entries of an index visited; about a millisecond.
LOOKS_MAX = 4096
_LOOKS_MAX = LOOKS_MAX
#: What each further exchange on the way costs beside what is looked at in it: some 4 µs.
_EXCHANGE_LOOKS = 16
#: Routing keys that are compared with a topic permission in one turn, some 5 µs each.
_KEYS_CHECKED = 512
#: This many visits cost as much as one enqueue.
_LOOKS_PER_UNIT = 4


class WalkedTable:
    """What a walk reads of a virtual host: ``router.RoutingTable`` is one."""

    __slots__ = ("exchanges", "generation", "unstored")

    def __init__(self) -> None:
        #: Every change of exchanges, bindings or permissions raises it.
        self.generation = 1
        self.exchanges: dict[str, Exchange] = {}
        #: Removals that a crash would undo.
        self.unstored = Unstored()


class Asked:
    """The publish whose route is searched: its arguments and properties, and whether these have CC or BCC."""

    __slots__ = ("args", "has_bcc", "has_cc", "properties")

    def __init__(self, args: bytes, properties: bytes) -> None:
        self.args = args
        self.properties = properties
        self.has_cc = False
        self.has_bcc = False

    def is_for(self, args: bytes, properties: bytes) -> bool:
        """Whether a publish with these is the same."""
        return self.args == args and self.properties == properties


class Walk:
    """The search for the queues of ``message``, published to ``exchange``.

    Follows bindings between exchanges and visits each exchange once, so cycles end. The alternate exchange of
    an exchange is used if no binding of that exchange matched. As in RabbitMQ, it is not used if a binding
    matched that led nowhere.

    ``asked`` is the publish; the caller compares it when it asks again.
    """

    __slots__ = (
        "_found",
        "_match_count",
        "_matches",
        "_message",
        "_position",
        "_seen",
        "_source",
        "_table",
        "_to_visit",
        "asked",
        "checked",
        "decided_by",
        "durable_queues",
        "exchange",
        "generation",
        "inner",
        "keepers",
        "looks",
        "matched",
        "queues",
    )

    def __init__(self, table: WalkedTable, exchange: Exchange, message: Routable, asked: Asked) -> None:
        self.exchange = exchange
        self.asked = asked
        #: How many of the routing keys the publisher may use for certain; -1 if all.
        self.checked = -1
        #: The queues found, each once, in the order in which bindings led there, and those of them that are
        #: durable.
        self.queues: list[QueueHandle] = []
        self.durable_queues: list[QueueHandle] = []
        #: The same to look up. A dict of 100,000 would hold the loop for 6 to 12 ms when it grows, as the
        #: kernel has to find 1,300 pages for it. This map grows by small steps.
        self._found: SpreadMap[QueueHandle, None] = SpreadMap()
        #: The bindings that led there, the first ``NAMED_MAX``.
        self.matched: dict[Binding, None] = {}
        #: The counters of the other exchanges on the way, each with the number of its bindings that match.
        self.inner: list[tuple[ExchangeCounters, int]] = []
        #: The exchanges on the way that keep messages, or None.
        self.keepers: list[Exchange] | None = None
        #: What the whole route depends on: the least repeatable exchange on the way decides.
        self.decided_by = BY_KEY
        #: The routing table's generation when the walk began. The route may be cached only under this
        #: generation.
        self.generation = table.generation
        #: Number of visits in the last turn.
        self.looks = 0
        self._table = table
        self._message = message
        self._seen: dict[Exchange, None] = {exchange: None}
        self._to_visit = [exchange]
        self._position = 0
        self._source: Exchange | None = None
        self._matches: Iterator[Binding | int] | None = None
        self._match_count = 0

    def next_keys(self) -> list[str]:
        """Some of the routing keys that are not checked so far; all are if there are none."""
        start = self.checked
        if start < 0:
            return []
        some = self._message.keys[start : start + _KEYS_CHECKED]
        self.checked = start + len(some) if start + len(some) < len(self._message.keys) else -1
        return some

    def go_on(self) -> bool:
        """Continue the walk to its end or to the limit of one turn; True at the end."""
        self.looks = 0
        while True:
            if self._source is None:
                if self._position == len(self._to_visit):
                    return self._is_let_go()
                source = self._to_visit[self._position]
                if self._position > 0:
                    self.looks += _EXCHANGE_LOOKS
                self._position += 1
                self._source = source
                self._match_count = 0
                if source.decided_by > self.decided_by:
                    self.decided_by = source.decided_by
                if source.decided_by > _BY_HEADERS and source.keeps:
                    if self.keepers is None:
                        self.keepers = []
                    self.keepers.append(source)
                self._matches = iter(source.route(self._message))
            if self._follow():
                self._leave()
                if self.looks < _LOOKS_MAX:
                    continue
            unwatched(self.queues)
            unwatched(self.durable_queues)
            return False

    def _follow(self) -> bool:
        """Process the matches of the current exchange; False if there are more."""
        found = self._found
        queues = self.queues
        is_named = self._source.name != ""  # type: ignore[union-attr]
        looks = self.looks
        matched = self.matched
        for item in self._matches:  # type: ignore[union-attr]
            if isinstance(item, int):
                looks += item
            else:
                looks += 1
                binding = item
                destination = binding.destination
                if not destination.deleted:
                    self._match_count += 1
                    if is_named and len(matched) < _NAMED_MAX:
                        matched[binding] = None
                    if isinstance(destination, QueueHandle):
                        found[destination] = None
                        if len(found) > len(queues):
                            looks += 1  # to enter the map costs as much as the look
                            queue = destination
                            queues.append(queue)
                            if queue.durable:
                                self.durable_queues.append(queue)
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
        if self._match_count > 0 or not source.alternate:
            return  # the default exchange is nobody's alternate, as in RabbitMQ
        alternate = self._table.exchanges.get(source.alternate)
        if alternate is not None and alternate not in self._seen:
            self._seen[alternate] = None
            self._to_visit.append(alternate)

    def _is_let_go(self) -> bool:
        """Whether nothing large is kept that the route does not need: it goes in turns of its own."""
        if len(self._found) < _LOOKS_MAX:
            return True
        if self.looks == 0:
            for _ in range(_LOOKS_MAX):
                self._found.popitem()
            self.looks = _LOOKS_MAX
        return False

    def abandon(self) -> list[list[QueueHandle] | SpreadMap[QueueHandle, None]]:
        """End the walk; returns what it has found, which its caller lets go of."""
        found: list[list[QueueHandle] | SpreadMap[QueueHandle, None]] = [
            self.queues,
            self.durable_queues,
            self._found,
        ]
        self.queues = []
        self.durable_queues = []
        self._found = SpreadMap()
        return found

    def waits_for(self) -> int:
        """The revision that stores the removals its route depends on; 0 if there are none."""
        return self._table.unstored.rev_for(self._seen, self._message.keys)

    def units(self) -> int:
        """The cost of the last turn, in enqueues."""
        return self.looks // _LOOKS_PER_UNIT
