"""Finds what needs attention, by a search over the whole node every few seconds while somebody watches.

A finding is a dict with ``kind`` and the values for its sentence, which the pages write. Findings are sorted
by `findings.ORDER`, the worst first, and within a kind by the number of messages. `Attention.dated` adds
``since``, the time at which it began (milliseconds since 1970), as far as the histories reach back.
``longer`` means that it may have begun earlier.

    failed        a queue whose log cannot be trusted: vhost, name, reason
    disk memory files   near the limit, for those who watch the node
    filling       the disk will be full soon at the present rate: free, seconds
    stuck         messages are ready, and the consumers neither take nor acknowledge any: vhost, name, ready,
                  unacked, consumers, and the one that holds most of them: client, connection, channel, tag,
                  held, and whether it can be closed alone (cancels)
    hanging       some consumers hold messages and acknowledge none while others of the queue go on (see
                  ``holders``): as of a stuck queue, the number of those that hang (hanging), and what the
                  others finished in the last minute (finished)
    letters_wait  dead letters that a target refuses, which are sent again: vhost, name (the queue they come
                  from), letters, target (the one that most of them wait for), reason
    growing       a queue that grew all through the last minute: vhost, name, per_minute, ready, consumers
    unroutable    messages that reached no queue, per second over the last minute: vhost, rate
    no_consumers  messages are ready and nobody consumes: vhost, name, ready
    blocked       a connection that is not read from, twice in a row: vhost, name, client, user
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Iterable
from itertools import pairwise
from typing import Any

from aiohttp import web

from admin_ui.documents import connections
from admin_ui.live.findings import ORDER, Finding, Findings, Visible
from admin_ui.live.holders import STUCK_TICKS, Marks, channel_history, hanging, is_silent, says
from admin_ui.live.work import Work
from admin_ui.state import State
from amqp_router.metrics import BASIC, GLOBAL, INTERVAL_S, NODE, QUEUE, VHOST, History
from vhosts.long_lists import passing
from vhosts.queues.state import FAILED

#: Seconds between two searches.
PERIOD_S = 5.0
#: Searches further apart do not tell that a connection was blocked all the time between.
FORGET_S = 60.0
#: A queue that grew by fewer messages in a minute is not reported.
GROWTH_MIN = 100
#: Neither is one that grew by a smaller part of its size, unless by at least `GROWTH_LARGE` messages.
GROWTH_PART = 0.02
GROWTH_LARGE = 1000
MINUTE = 60 // INTERVAL_S
THIRDS = (MINUTE, MINUTE * 2 // 3, MINUTE // 3, 0)
#: The disk's trend is taken over the last 5 minutes. It is reported if the disk would be full within 6 hours.
TREND_TICKS = 5 * MINUTE
FILLING_S = 6 * 3600
MEMORY_PART = 0.9
FILES_PART = 0.85
DISK_FREE_MIN = 1 << 30
#: Findings shown at a time; and of one kind if there are others, so that eight idle queues do not hide the
#: rest.
SHOWN_MAX = 8
SHOWN_OF_KIND = 3

#: Kinds whose findings name a consumer, and go with it.
NAMES_CONSUMER = frozenset({"stuck", "hanging"})

#: The one that all viewers of a node share.
ATTENTION: web.AppKey[Attention] = web.AppKey("attention")

_READY = QUEUE.fields["messages_ready"]
_DELIVERED = QUEUE.fields["deliver_get"]
_ACKED = QUEUE.fields["ack"]
_UNROUTABLE = VHOST.fields["return_unroutable"] + VHOST.fields["drop_unroutable"]
_DISK_FREE = NODE.fields["disk_free"]


def visible_to(
    findings: list[Finding], names: Container[str], user: str, *, watches_node: bool, whole: bool = True
) -> list[Finding]:
    """The findings in the virtual hosts ``names``, and (``whole``) those of the node.

    Those of the node are for who watches it, and so are blocked connections of other users.
    """
    mine = [each for each in findings if each.get("vhost") in names or (whole and "vhost" not in each)]
    if not watches_node:
        mine = [each for each in mine if each["kind"] != "blocked" or each["user"] == user]
        mine = [each for each in mine if "vhost" in each]
    return mine


class Attention:
    """The newest findings of a node."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._blocked: set[Any] = set()
        self.findings = Findings()
        #: The consumer that a finding names, by virtual host and queue.
        self._holders: dict[tuple[str, str], Any] = {}
        self._marks = Marks()

    async def refresh(self, now: float, work: Work) -> None:
        """Search again, if it is time. ``now`` is a monotonic clock in seconds."""
        async with self._looking:  # who asks meanwhile gets what is found
            if now - self._looked_at >= PERIOD_S:
                await self._search(now, work)

    async def _search(self, now: float, work: Work) -> None:
        if now - self._looked_at > FORGET_S:
            self._blocked.clear()
        self._looked_at = now
        findings = Findings()
        holders: dict[tuple[str, str], Any] = {}
        marks = Marks(self._marks)
        for finding in self._node():
            findings.add(finding)
        for vhost in list(self._state.broker.vhosts.values()):
            for finding in (*self._unroutable(vhost), *await _letters(vhost, work)):
                findings.add(finding)
            for count, queue in enumerate(passing(vhost.queues.values())):
                if (found := self._queue(queue, holders)) is not None:
                    findings.add(found)
                if found is None or found["kind"] not in ("failed", "stuck"):
                    hung = await hanging(queue, self._state.metrics, marks, work)
                    if hung is not None:
                        findings.add(hung[0])
                        holders[vhost.name, queue.name] = hung[1]
                if count % 64 == 63:
                    await work.pause()
        for finding in await self._connections(work):
            findings.add(finding)
        await findings.sort(work)
        marks.done()
        self.findings, self._holders, self._marks = findings, holders, marks

    def visible(self, names: Container[str], user: str, *, watches_node: bool, whole: bool = True) -> Visible:
        """See ``Findings.visible``. A finding goes with the consumer that it names: its act would have no
        object, although the next search is a few seconds away.
        """
        mine = self.findings.visible(names, user, watches_node=watches_node, whole=whole)
        over = [each for each in mine.worst if self._is_over(each)]
        if not over:
            return mine
        worst = [each for each in mine.worst if not self._is_over(each)]
        return Visible(worst, mine.counts - Counter([each["kind"] for each in over]))

    def _is_over(self, finding: Finding) -> bool:
        """Whether it names a consumer that has gone since the search."""
        if finding["kind"] not in NAMES_CONSUMER:
            return False
        vhost = self._state.broker.vhosts.get(finding["vhost"])
        queue = vhost.queues.get(finding["name"]) if vhost is not None else None
        holder = self._holders.get((finding["vhost"], finding["name"]))
        return queue is None or holder not in queue.consumers

    def dated(self, finding: Finding) -> Finding:
        """The finding with ``since`` and ``longer``, if its history has them."""
        if finding["kind"] == "hanging":
            return {**finding, **self._hangs_since(finding)}
        was = _WAS.get(finding["kind"])
        vhost = self._state.broker.vhosts.get(finding.get("vhost", ""))
        if was is None or vhost is None:
            return finding
        thing = vhost.queues.get(finding["name"]) if "name" in finding else vhost
        return {**finding, **_since(self._state.metrics.history(thing), was)}

    def _hangs_since(self, finding: Finding) -> Finding:
        holder = self._holders.get((finding["vhost"], finding["name"]))
        if holder is None:
            return {}
        history = channel_history(holder, self._state.metrics)
        found = _since(history, lambda history, tick: is_silent(history, tick, holder.unacked))
        idle = self._marks.idle_since(holder)
        # A channel that others keep busy is not silent, or has been for less long than this consumer.
        if idle is not None and idle * INTERVAL_S * 1000 < found.get("since", float("inf")):
            return {"since": idle * INTERVAL_S * 1000, "longer": True}
        return found

    async def all_dated(self, findings: Iterable[Finding], work: Work) -> AsyncIterator[Finding]:
        """Each of ``findings`` as `dated` gives it; a history of an hour takes 0.1 ms."""
        for finding in findings:
            yield self.dated(finding)
            await work.pause()

    def _queue(self, queue: Any, holders: dict[tuple[str, str], Any]) -> Finding | None:
        about = {"vhost": queue.vhost.name, "name": queue.name}
        if queue.state == FAILED:
            return {"kind": "failed", **about, "reason": queue.reason}
        ready = queue.message_count()
        if not ready:
            return None
        history = self._state.metrics.history(queue)
        consumers = len(queue.consumers)
        if is_stuck(queue, history):
            about |= {"ready": ready, "unacked": queue.unacked_count, "consumers": consumers}
            holder = max(queue.consumers, key=lambda consumer: consumer.unacked)
            holders[about["vhost"], about["name"]] = holder
            return {"kind": "stuck", **about, **says(holder)}
        grown = growth(history)
        if is_growing(history, grown):
            about |= {"per_minute": grown, "ready": ready, "consumers": consumers}
            return {"kind": "growing", **about}
        if consumers:
            return None
        return {"kind": "no_consumers", **about, "ready": ready}

    def _unroutable(self, vhost: Any) -> list[Finding]:
        history = self._state.metrics.history(vhost)
        if history is None:
            return []
        since = max(history.first, history.seen - MINUTE)
        lost = history.value(_UNROUTABLE) - (history.at(since, _UNROUTABLE, BASIC) or 0)
        if lost <= 0:
            return []
        rate = lost / ((history.seen - since) * INTERVAL_S)
        return [{"kind": "unroutable", "vhost": vhost.name, "rate": rate}]

    async def _connections(self, work: Work) -> list[Finding]:
        held = set()
        for count, transport in enumerate(list(self._state.broker.registry)):
            if transport.machine.vhost is not None and transport.machine.inflow.over:
                held.add(transport)
            if count % 256 == 255:
                await work.pause()
        again = held & self._blocked
        self._blocked = held
        return [
            {
                "kind": "blocked",
                "vhost": transport.machine.vhost.name,
                "name": connections.name(transport),
                "client": connections.client_says(transport, "connection_name"),
                "user": transport.machine.user.name,
            }
            for transport in again
            if transport.machine.vhost is not None  # it may have ended meanwhile
        ]

    def _node(self) -> list[Finding]:
        metrics = self._state.metrics
        row = dict(zip(NODE.fields, metrics.node.last, strict=True))
        usage = metrics.usage
        found: list[Finding] = []
        if row["mem_used"] > MEMORY_PART * usage.mem_total:
            found.append({"kind": "memory", "used": row["mem_used"], "total": usage.mem_total})
        if row["fd_used"] > FILES_PART * usage.fd_total:
            found.append({"kind": "files", "used": row["fd_used"], "total": usage.fd_total})
        if row["disk_free"] < DISK_FREE_MIN:
            found.append({"kind": "disk", "free": row["disk_free"]})
            return found
        seconds = seconds_to_full(metrics.node)
        if seconds is not None:
            found.append({"kind": "filling", "free": row["disk_free"], "seconds": seconds})
        return found


async def _letters(vhost: Any, work: Work) -> list[Finding]:
    """For each queue whose dead letters wait, how many, and where most of them are to go."""
    found: dict[str, Finding] = {}
    most: dict[str, int] = {}
    for count, line in enumerate(vhost.dead_letters.waiting.lines()):
        about = found.setdefault(
            line.queue, {"kind": "letters_wait", "vhost": vhost.name, "name": line.queue, "letters": 0}
        )
        about["letters"] += line.letters
        if line.letters > most.get(line.queue, -1):
            most[line.queue] = line.letters
            about |= {"target": line.target, "reason": line.reason}
        if count % 64 == 63:
            await work.pause()
    return list(found.values())


def shown(findings: list[Finding]) -> list[Finding]:
    """The worst `SHOWN_MAX` findings, with at most `SHOWN_OF_KIND` of a kind if others are left."""
    if len(findings) <= SHOWN_MAX:
        return findings
    of_kind: dict[str, int] = {}
    first: list[Finding] = []
    rest: list[Finding] = []
    for each in findings:
        of_kind[each["kind"]] = number = of_kind.get(each["kind"], 0) + 1
        (first if number <= SHOWN_OF_KIND else rest).append(each)
    chosen = (first + rest)[:SHOWN_MAX]
    return sorted(chosen, key=lambda each: ORDER.index(each["kind"]))


def is_stuck(queue: Any, history: History | None) -> bool:
    """Whether messages are ready, and the consumers hold some but took and acknowledged none for a minute."""
    if not queue.unacked_count or not queue.consumers or not queue.message_count() or history is None:
        return False
    then = history.seen - STUCK_TICKS
    if history.rings is None:
        return history.changed <= then
    return then >= history.first and _nothing_done(history, then)


def growth(history: History | None) -> int:
    """Messages that became ready in the last minute, if their number rose in each third of it; else 0."""
    if history is None or history.rings is None:
        return 0
    values = [history.at(history.seen - back, _READY, BASIC) for back in THIRDS]
    known = [value for value in values if value is not None]
    if len(known) < len(values) or any(a >= b for a, b in pairwise(known)):
        return 0
    return known[-1] - known[0]


def change_in_a_minute(history: History | None) -> int:
    """How many messages more than a minute ago are ready, or than at the start if that is younger."""
    if history is None or history.rings is None:
        return 0
    before = history.at(max(history.first, history.seen - MINUTE), _READY, BASIC)
    return history.value(_READY) - (before or 0)


def is_growing(history: History | None, grown: int) -> bool:
    """Whether growth by ``grown`` messages in a minute is worth reporting."""
    if history is None or grown < GROWTH_MIN:
        return False
    return grown >= min(GROWTH_LARGE, GROWTH_PART * history.value(_READY))


def seconds_to_full(node: History) -> int | None:
    """Seconds until the disk is full at the rate of the last minutes; None if that is far off."""
    then = max(node.first, node.seen - TREND_TICKS)
    if node.seen - then < MINUTE:
        return None
    before, free = node.at(then, _DISK_FREE, GLOBAL), node.value(_DISK_FREE)
    if before is None or before <= free:
        return None
    seconds = free * (node.seen - then) * INTERVAL_S // (before - free)
    return seconds if seconds < FILLING_S else None


def _same_since(history: History, tick: int, columns: tuple[int, ...]) -> bool:
    return history.at(tick, columns, BASIC) == history.value(columns)


def _nothing_done(history: History, tick: int) -> bool:
    return _same_since(history, tick, _DELIVERED) and _same_since(history, tick, _ACKED)


def _waits(history: History, tick: int) -> bool:
    return bool(history.at(tick, _READY, BASIC)) and _same_since(history, tick, _DELIVERED)


def _grows(history: History, tick: int) -> bool:
    before = history.at(tick - MINUTE // 3, _READY, BASIC)
    return before is not None and (history.at(tick, _READY, BASIC) or 0) > before


def _loses(history: History, tick: int) -> bool:
    before = history.at(tick - MINUTE, _UNROUTABLE, BASIC)
    return (history.at(tick, _UNROUTABLE, BASIC) or 0) > (before or 0) and tick > history.first


#: For each kind, whether the finding already existed at a tick of its object's history.
_WAS: dict[str, Callable[[History, int], bool]] = {
    "stuck": _nothing_done,
    "growing": _grows,
    "no_consumers": _waits,
    "unroutable": _loses,
}


def _since(history: History | None, was: Callable[[History, int], bool]) -> Finding:
    """When it began: the oldest tick from which on ``was`` is true; empty without a history."""
    if history is None:
        return {}
    if history.rings is None:  # nothing has changed since it was first seen, or for an hour
        if not was(history, history.seen):
            return {}
        return {"since": max(history.first, history.changed) * INTERVAL_S * 1000, "longer": True}
    (_, fine), (coarse_step, coarse) = ((every // INTERVAL_S, reach // INTERVAL_S) for every, reach in BASIC)
    step = coarse_step
    began = history.seen
    ticks = [
        *range(began - 1, began - fine, -1),
        *range((began - fine) // step * step, began - coarse, -step),
    ]
    for tick in ticks:
        if tick < history.first or not was(history, tick):
            return {"since": began * INTERVAL_S * 1000, "longer": False}
        began = tick
    return {"since": began * INTERVAL_S * 1000, "longer": True}
