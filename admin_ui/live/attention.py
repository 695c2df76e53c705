"""What needs attention: found by looking over the whole node every few seconds while anybody watches.

A finding is a dict with ``kind`` and what its sentence needs; the pages have the words.

    failed        a queue whose log cannot be trusted: vhost, name, reason
    growing       a queue that grew all through the last minute: vhost, name, per_minute, ready, consumers
    no_consumers  messages are ready and nobody consumes: vhost, name, ready
    unroutable    messages that no queue wanted, per second over the last minute: vhost, rate
    blocked       a connection that is not read from, twice in a row: vhost, name, client, user
    memory disk files   near the limit, for those who watch the node
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from admin_ui.documents import connections
from admin_ui.live.work import Work
from admin_ui.state import State
from amqp_router.metrics import BASIC, INTERVAL_S, NODE, QUEUE, VHOST

#: How often everything is looked over (s).
PERIOD_S = 5.0
#: A queue that grew by fewer messages, or by a smaller part of itself, in a minute is left in peace.
GROWTH_MIN = 100
GROWTH_PART = 0.02
MINUTE = 60 // INTERVAL_S
THIRDS = (MINUTE, MINUTE * 2 // 3, MINUTE // 3, 0)
MEMORY_PART = 0.9
FILES_PART = 0.85
DISK_FREE_MIN = 1 << 30
ORDER = ("failed", "disk", "memory", "files", "growing", "no_consumers", "unroutable", "blocked")

Finding = dict[str, Any]


class Attention:
    """The newest findings of a node."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._looked_at = float("-inf")
        self._blocked: set[Any] = set()
        self.findings: list[Finding] = []

    async def refresh(self, now: float, work: Work) -> None:
        """Look again, if it is time; ``now`` is a clock that only goes forward (s)."""
        if now - self._looked_at < PERIOD_S:
            return
        self._looked_at = now
        found = self._node()
        for vhost in list(self._state.broker.vhosts.values()):
            found += self._unroutable(vhost)
            for count, queue in enumerate(list(vhost.queues.values())):
                finding = self._queue(queue)
                if finding is not None:
                    found.append(finding)
                if count % 64 == 63:
                    await work.pause()
        found += self._connections()
        found.sort(key=lambda each: (ORDER.index(each["kind"]), -each.get("ready", 0)))
        self.findings = found

    def _queue(self, queue: Any) -> Finding | None:
        about = {"vhost": queue.vhost.name, "name": queue.name}
        if queue.error:
            return {"kind": "failed", **about, "reason": str(queue.error)}
        ready = queue.message_count()
        if not ready:
            return None
        consumers = len(queue.consumers)
        grown = self._growth(queue)
        if grown:
            return {"kind": "growing", **about, "per_minute": grown, "ready": ready, "consumers": consumers}
        return None if consumers else {"kind": "no_consumers", **about, "ready": ready}

    def _growth(self, queue: Any) -> int:
        """Messages that became ready in the last minute, if their number rose in each third of it; else 0."""
        history = self._state.metrics.history(queue)
        if history is None or history.rings is None:
            return 0
        columns = QUEUE.fields["messages_ready"]
        values = [history.at(history.seen - back, columns, BASIC) for back in THIRDS]
        known = [value for value in values if value is not None]
        if len(known) < len(values) or any(a >= b for a, b in pairwise(known)):
            return 0
        grown = known[-1] - known[0]
        return grown if grown >= max(GROWTH_MIN, GROWTH_PART * known[-1]) else 0

    def _unroutable(self, vhost: Any) -> list[Finding]:
        history = self._state.metrics.history(vhost)
        if history is None:
            return []
        columns = VHOST.fields["return_unroutable"] + VHOST.fields["drop_unroutable"]
        since = max(history.first, history.seen - MINUTE)
        lost = history.value(columns) - (history.at(since, columns, BASIC) or 0)
        if lost <= 0:
            return []
        return [
            {"kind": "unroutable", "vhost": vhost.name, "rate": lost / ((history.seen - since) * INTERVAL_S)}
        ]

    def _connections(self) -> list[Finding]:
        held = {
            t for t in self._state.broker.registry if t.machine.vhost is not None and t.machine.inflow.over
        }
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
