"""Consumers that hold deliveries: what a finding says of one, and which hang beside others that work.

A consumer hangs if its channel has acknowledged nothing for a minute although it held a delivery all that
time, as in a queue that is stuck, and if the others of its queue finished at least `PACE` messages each
meanwhile. So a consumer with a long job is not called hanging where all jobs are long.

Histories are kept of channels, not of consumers. Where several consumers share a channel, `Marks` remember
from one search to the next what each had finished, so one that hangs beside a busy one is found a minute
after a search has first seen it.
"""

from __future__ import annotations

from typing import Any

from admin_ui.documents import connections
from admin_ui.live.findings import Finding
from admin_ui.live.work import Work
from amqp_router.metrics import BASIC, CHANNEL, INTERVAL_S, QUEUE, History, Metrics
from vhosts.long_lists import passing

#: Consumers that hold messages and do nothing for this many ticks are stuck, or hang.
STUCK_TICKS = 60 // INTERVAL_S
#: Messages that the others finish, on average, while one that hangs does nothing.
PACE = 10
#: Consumers looked at between two readings of the clock.
SLICE_CONSUMERS = 64

_FINISHED = tuple(QUEUE.fields[name][0] for name in ("ack", "deliver_no_ack", "get_no_ack"))
_ACKED = CHANNEL.fields["ack"]
_TAKEN = CHANNEL.fields["deliver"]


def says(holder: Any) -> Finding:
    """What a finding says of the consumer that holds most of the unacknowledged messages."""
    machine = holder.delivery.listener.connection
    return {
        "client": connections.machine_says(machine, "connection_name"),
        "connection": connections.machine_name(machine),
        "channel": connections.channel_name(holder.delivery.listener),
        "tag": holder.tag,
        "held": holder.unacked,
        "cancels": machine.consumer_cancel_notify,
    }


class Marks:
    """Consumers that share a channel with others and hold deliveries: what each had finished at a search, and
    the tick at which it had finished as much first. They are of one search, and of those before it.
    """

    def __init__(self, before: Marks | None = None) -> None:
        self._before = before._marks if before is not None else {}
        self._marks: dict[Any, tuple[int, int]] = {}

    def done(self) -> None:
        """The search is over: what the ones before it remembered is not needed any more."""
        self._before = {}

    def idle_since(self, consumer: Any) -> int | None:
        """The tick of the first search since which it has finished nothing; None if none saw it hold any."""
        mark = self._marks.get(consumer)
        return mark[1] if mark is not None and mark[0] == consumer.finished else None

    def see(self, consumer: Any, tick: int) -> int:
        """Note what it has finished by ``tick``; returns since when it has not finished more."""
        finished = consumer.finished
        known = self._before.get(consumer)
        since = known[1] if known is not None and known[0] == finished else tick
        self._marks[consumer] = finished, since
        return since


async def hanging(queue: Any, metrics: Metrics, marks: Marks, work: Work) -> tuple[Finding, Any] | None:
    """The finding of a queue some of whose consumers hang, and the one of them that holds most."""
    finished = _finished(metrics.history(queue))
    if len(queue.consumers) < 2 or not queue.unacked_count or finished < PACE:
        return None
    worst, count = None, 0
    for number, consumer in enumerate(passing(queue.consumers)):
        if consumer.unacked and _hangs(consumer, metrics, marks):
            count += 1
            if worst is None or consumer.unacked > worst.unacked:
                worst = consumer
        if number % SLICE_CONSUMERS == SLICE_CONSUMERS - 1:
            await work.pause()
    if worst is None or worst not in queue.consumers:
        return None
    others = len(queue.consumers) - count
    if others < 1 or finished < PACE * others:
        return None
    about = {"kind": "hanging", "vhost": queue.vhost.name, "name": queue.name}
    about |= {
        "ready": queue.message_count(),
        "unacked": queue.unacked_count,
        "consumers": len(queue.consumers),
    }
    return {**about, "hanging": count, "finished": finished, **says(worst)}, worst


def channel_history(consumer: Any, metrics: Metrics) -> History | None:
    """What was sampled of a consumer's channel."""
    channel = consumer.delivery.listener
    return None if channel is None else metrics.history(channel)


def is_silent(history: History, tick: int, held: int) -> bool:
    """Whether a channel has acknowledged nothing since ``tick``, and one of ``held`` is older than that."""
    acked, taken = history.at(tick, _ACKED, BASIC), history.at(tick, _TAKEN, BASIC)
    if acked is None or taken is None:
        return False
    return acked == history.value(_ACKED) and held > history.value(_TAKEN) - taken


def _hangs(consumer: Any, metrics: Metrics, marks: Marks) -> bool:
    history = channel_history(consumer, metrics)
    if history is None:
        return False
    then = history.seen - STUCK_TICKS
    shares = len(consumer.delivery.listener.consumers) > 1
    # Noted in any case: the channel may be silent now and busy at the next search.
    idle = shares and marks.see(consumer, history.seen) <= then
    if history.rings is None:
        return history.changed <= then
    return idle or (then >= history.first and is_silent(history, then, consumer.unacked))


def _finished(history: History | None) -> int:
    """Messages that were acknowledged, or needed no acknowledgement, while others did nothing."""
    if history is None or history.rings is None:
        return 0
    before = history.at(history.seen - STUCK_TICKS, _FINISHED, BASIC)
    return 0 if before is None else history.value(_FINISHED) - before
