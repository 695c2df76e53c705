"""``DELETE /admin/v1/queues/{vhost}/{queue}/consumers/{tag}``: closes one consumer; its connection stays.

Its client gets basic.cancel, and what it holds unacknowledged goes back to the queue (``channel.closing``).
The answer says how many messages that were. The header ``X-Reason`` goes into the log, because basic.cancel
has no field for it. If several consumers of the queue have the tag, ``channel`` in the query chooses: the
name of a channel, as lists of channels have it.

Users close their own consumers, administrators any, as with connections.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from admin_ui.api.connections import given_reason
from admin_ui.auth import ADMINISTRATOR
from admin_ui.documents import connections
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import bad_request, not_authorised, not_found
from amqp_router.channel.channel import Channel
from amqp_router.channel.closing import NotCancellable, close_consumer
from amqp_router.channel.consumer import ChannelConsumer

#: Channels that an error names.
NAMED_MAX = 5


async def close(call: Call) -> dict[str, int]:
    """Close a consumer.

    Raises:
        ApiError: there is none (404), it is another user's (401), several have this tag, or its client could
            not be told (400).
    """
    consumer = _find(call)
    channel = consumer.delivery.listener
    assert isinstance(channel, Channel)
    queue, machine = consumer.queue, channel.connection
    if machine.user.name != call.identity.name and not call.identity.has(ADMINISTRATOR):
        raise not_authorised("User not authorised to access object")
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def done(returned: int) -> None:
        if not ended.done():  # else the caller has gone
            ended.set_result(returned)

    connection = connections.machine_name(machine)
    broker = call.state.broker
    try:
        broker.enter(lambda: close_consumer(channel, consumer, done))
    except NotCancellable:
        raise bad_request(
            f"the client of connection {connection} does not have the capability consumer_cancel_notify: it "
            "would not learn that its consumer has ended; close the connection"
        ) from None
    returned = await ended
    if returned < 0:
        raise not_found()
    broker.event(
        logging.INFO,
        "consumer closed",
        queue=queue.name,
        vhost=queue.vhost.name,
        consumer=consumer.tag,
        connection=connection,
        channel=consumer.delivery.number,
        returned=returned,
        by=call.identity.name or "the owner of the data directory",
        reason=given_reason(call),
    )
    return {"returned": returned}


def _find(call: Call) -> ChannelConsumer:
    """The consumer that the path names.

    Raises:
        ApiError: there is none (404), or there are several (400).
    """
    queue, tag = call.vhost().queues.get(call.part("queue")), call.part("tag")
    wanted = call.request.query.get("channel")
    every: list[Any] = list(queue.consumers) if queue is not None else []
    found = [
        each
        for each in every
        if each.tag == tag and wanted in (None, connections.channel_name(each.delivery.listener))
    ]
    if not found:
        raise not_found()
    if len(found) > 1:
        names = [connections.channel_name(each.delivery.listener) for each in found[:NAMED_MAX]]
        raise bad_request(
            f"{len(found)} consumers of this queue have the tag {tag!r}: choose one by its channel, like "
            + ", ".join(names)
        )
    consumer: ChannelConsumer = found[0]
    return consumer


ENDPOINTS = [Endpoint("/queues/{vhost}/{queue}/consumers/{tag}", delete=close)]
