"""``/admin/v1/exchanges/{vhost}/{exchange}/delayed``: what waits in a delayed-message exchange.

GET lists the messages that are due first, ``count`` of them (100), each with an ``id``. DELETE of
``.../delayed/{id}`` drops one, DELETE of ``.../delayed`` all. Reading needs the permission to read from the
exchange, dropping that to write to it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from admin_ui.api.messages import names_of
from admin_ui.documents.properties import properties_document
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import ApiError, Done, bad_request, not_authorised, not_found
from admin_ui.writing import caller
from amqp_router.protocol.errors import AccessRefused
from vhosts.exchanges.delayed import DelayedExchange
from vhosts.queues.delayed import PREFIX, DelayQueue
from vhosts.queues.ready.due import Delayed

COUNT_DEFAULT = 100
COUNT_MAX = 500
#: Messages read in one turn of the event loop.
SLICE = 25


async def show(call: Call) -> dict[str, Any]:
    """The number of messages that wait, and those that are due first."""
    queue = _queue(call, "read")
    wanted = call.request.query.get("count", str(COUNT_DEFAULT))
    if not (wanted.isascii() and wanted.isdigit() and 0 < int(wanted) <= COUNT_MAX):
        raise bad_request(f"count is a number from 1 to {COUNT_MAX}, not {wanted[:20]!r}")
    if queue is None:
        return {"messages": 0, "first": []}
    first: list[dict[str, Any]] = []
    for number, delayed in enumerate(list(queue.order.first(int(wanted))), 1):
        document = _document(queue, delayed)
        if document is not None:
            document["properties"] = properties_document(document["properties"])
            first.append(document)
        if number % SLICE == 0:
            await asyncio.sleep(0)
    return {"messages": queue.message_count(), "first": first}


def _document(queue: DelayQueue, delayed: Delayed) -> dict[str, Any] | None:
    """Its properties are octets. None if it has become due meanwhile."""
    message = queue.order.read(delayed.offset)
    if message is None or message.extras is None or message.extras.due_us != delayed.due_us:
        return None
    exchange, routing_key = names_of(message.route)
    return {
        "id": f"{delayed.due_us}-{delayed.offset}",
        "due": delayed.due_us // 1000,
        "exchange": exchange,
        "routing_key": routing_key,
        "payload_bytes": message.body_size,
        "properties": message.properties(),
    }


async def cancel(call: Call) -> Done:
    """Drop one message.

    Raises:
        ApiError: it does not wait here (404).
    """
    queue = _queue(call, "write")
    due, _, offset = call.part("id").partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in (due, offset)):
        raise bad_request("the id is two numbers, as in the list")
    broker = call.state.broker
    cancelled: list[bool] = []
    if queue is not None:
        delayed = Delayed(int(due), int(offset))
        broker.enter(lambda: cancelled.append(queue.drop(delayed)))
    if cancelled != [True]:
        raise not_found()
    return Done(204)


async def cancel_all(call: Call) -> Done:
    """Drop all messages."""
    queue = _queue(call, "write")
    if queue is not None:
        cancelled: list[int] = []
        call.state.broker.enter(lambda: cancelled.append(queue.empty()))
    return Done(204)


def _queue(call: Call, action: Literal["read", "write"]) -> DelayQueue | None:
    """The internal queue of the exchange that the path names; None if nothing was ever delayed.

    Raises:
        ApiError: there is no such exchange (404), or it delays nothing (400), or the caller may not (401).
    """
    name = call.part("exchange")
    who = caller(call)
    exchange = who.vhost.exchanges.get(name)
    if exchange is None:
        raise not_found()
    try:
        who.permissions.check(action, "exchange", name)
    except AccessRefused as error:
        raise not_authorised(error.reply_text) from None
    if not isinstance(exchange, DelayedExchange):
        raise ApiError(400, "bad_request", f"exchange '{name}' is no x-delayed-message exchange")
    queue = who.vhost.queues.get(PREFIX + name)
    return queue if isinstance(queue, DelayQueue) else None


ENDPOINTS = [
    Endpoint("/exchanges/{vhost}/{exchange}/delayed", get=show, delete=cancel_all),
    Endpoint("/exchanges/{vhost}/{exchange}/delayed/{id}", delete=cancel),
]
