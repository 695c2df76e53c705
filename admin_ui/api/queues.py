"""Queues: listed, declared, purged and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from admin_ui.asking import Answer
from admin_ui.auth import ADMINISTRATOR
from admin_ui.documents import queues
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Rows, WithRows
from admin_ui.ordering import by_name
from admin_ui.replies import Done, bad_request, not_found
from admin_ui.table_octets import arguments_of
from admin_ui.writing import (
    DELETED,
    boolean,
    caller,
    change,
    created,
    delivered,
    flag,
    new_name,
    read_object,
    refusal,
    required,
    stored,
    text,
)
from amqp_router.metrics import QUEUE
from amqp_router.protocol.errors import AMQPError
from vhosts import declarations
from vhosts.long_lists import unwatched
from vhosts.queues.destination import Asker
from vhosts.queues.handle import QueueHandle


async def every(call: Call) -> Rows:
    """The queues of all virtual hosts."""
    found: list[Any] = unwatched([])
    for vhost in call.vhosts():
        found += await by_name(vhost.queues, call.turns)
    return rows(call, found)


async def of_vhost(call: Call) -> Rows:
    """The queues of one virtual host."""
    return rows(call, await by_name(call.vhost().queues, call.turns))


def one(call: Call) -> dict[str, Any] | WithRows:
    """One queue."""
    queue = call.vhost().queues.get(call.part("queue"))
    if queue is None:
        raise not_found()
    if call.query.disable_stats:
        return queues.brief(queue, call.state.node, totals=call.query.enable_queue_totals)
    document = queues.single(queue, call.state.node, Stats(call.state.metrics, call.query.spans))
    return WithRows(document, "consumer_details", queues.consumers(queue.consumers, call.state.node))


def rows(call: Call, found: list[Any]) -> Rows:
    """A list of queues."""
    node, query = call.state.node, call.query
    stats = Stats(call.state.metrics, query.spans)
    quick = _quick(stats)
    if query.disable_stats:
        totals = query.enable_queue_totals
        return Rows(found, lambda queue: queues.brief(queue, node, totals=totals), quick=quick)
    if query.columns is not None and query.columns.keys() <= queues.BRIEF:
        # For `rabbitmqadmin list queues name messages` and most other requests with columns.
        return Rows(found, lambda queue: queues.brief(queue, node, totals=True), quick=quick)
    return Rows(found, lambda queue: queues.document(queue, node, stats), quick=quick)


def _quick(stats: Stats) -> dict[str, Callable[[Any], Any]]:
    """The usual sort values of queues, for which no document is made."""
    metrics = stats.metrics

    def rate(columns: tuple[int, ...]) -> Callable[[Any], float]:
        return lambda queue: metrics.rate(metrics.history(queue), columns)

    quick: dict[str, Callable[[Any], Any]] = {
        "name": lambda queue: queue.name,
        "vhost": lambda queue: queue.vhost.name,
        "messages": lambda queue: queue.message_count() + queue.unacked_count,
        "messages_ready": lambda queue: queue.message_count(),
        "messages_unacknowledged": lambda queue: queue.unacked_count,
        "consumers": lambda queue: len(queue.consumers) + queue.view().holder_count(),
    }
    for name, columns in QUEUE.fields.items():
        prefix = "" if name.startswith("messages") else "message_stats."
        quick[f"{prefix}{name}_details.rate"] = rate(columns)
    return quick


# -- changes -----------------------------------------------------------------------------------------


async def declare(call: Call) -> Done:
    """Declare the queue: ``durable``, ``auto_delete``, ``arguments``."""
    content = await read_object(call)
    durable, auto_delete = boolean(content, "durable"), boolean(content, "auto_delete")
    node = text(content, "node")
    if node not in ("", call.state.node):
        raise bad_request(f"Node {node} could not be contacted")
    table = await arguments_of(call, content)
    who, name = caller(call), new_name(call, "queue")

    def act() -> tuple[bool, int]:
        before = name in who.vhost.queues
        _, rev = declarations.declare_queue(
            who, name, durable=durable, auto_delete=auto_delete, arguments=table
        )
        return not before, rev

    return created(await change(call, act))


async def delete(call: Call) -> Done:
    """Delete the queue; with ``if-empty=true`` or ``if-unused=true`` only if it is so."""
    if_empty, if_unused = flag(call, "if-empty"), flag(call, "if-unused")
    who, name = caller(call), _existing(call)
    queue = who.vhost.queues[name]
    if if_empty:
        await delivered(call, queue)

    def ask(asker: Asker) -> None:
        declarations.delete_queue(who, name, asker, if_unused=if_unused, if_empty=if_empty)

    await _removed(call, queue, ask)
    return DELETED


async def purge(call: Call) -> Done:
    """Remove the messages that are ready in the queue."""
    who, name = caller(call), _existing(call)
    queue = who.vhost.queues[name]
    await delivered(call, queue)
    await _removed(call, queue, lambda asker: declarations.purge_queue(who, name, asker))
    return DELETED


async def _removed(call: Call, queue: QueueHandle, ask: Callable[[Asker], None]) -> None:
    """Ask for a removal, and wait until it is stored.

    Raises:
        ApiError: the queue or the broker refuses it.
    """
    answer = Answer()

    def act() -> tuple[None, int]:
        ask(answer)
        return None, 0

    await change(call, act)
    try:
        await answer.wait(queue)
    except AMQPError as error:
        raise refusal(error) from None
    await stored(call, answer.rev)


def _existing(call: Call) -> str:
    name = call.part("queue")
    if name not in call.vhost().queues:
        raise not_found()
    return name


async def act(call: Call) -> Done:
    """Start or stop the synchronisation of mirrors, of which a queue here has none."""
    _existing(call)
    content = await read_object(call)
    required(content, "action")
    if content["action"] not in ("sync", "cancel_sync"):
        raise bad_request(["unknown", content["action"]])
    return Done(204)


ENDPOINTS = [
    Endpoint("/queues", every),
    # Flower does not escape the virtual host "/", so its part of the path is empty.
    Endpoint("/queues/{vhost:[^/]*}", of_vhost),
    Endpoint("/queues/{vhost}/{queue}", one, put=declare, delete=delete),
    Endpoint("/queues/{vhost}/{queue}/contents", delete=purge),
    Endpoint("/queues/{vhost}/{queue}/actions", post=act, write_tags=ADMINISTRATOR),
]
