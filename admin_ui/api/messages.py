"""Messages: published to an exchange, and taken from a queue to be shown.

A persistent message is stored when the answer comes. What is taken is unacknowledged until all of it is read;
then it is settled, or goes back to its place with the mark ``redelivered``.

Source: RabbitMQ's HTTP API, 3.10, as measured.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Iterator
from math import isfinite
from typing import Any

from admin_ui.api.exchanges import real_name
from admin_ui.api.message_list import add_messages
from admin_ui.api.publish_listener import Publish
from admin_ui.api.published import message_of, payload_of, properties_of
from admin_ui.api.taken import Taken
from admin_ui.endpoints import Call, Endpoint
from admin_ui.replies import ApiError, Body, bad_request, not_authorised
from admin_ui.writing import (
    Caller,
    caller,
    delivered,
    new_name,
    read_object,
    required,
    shown_value,
    text,
)
from amqp_router.protocol.errors import (
    AccessRefused,
    AMQPError,
    NotFound,
    PreconditionFailed,
    too_large_message,
)
from amqp_router.protocol.flags import REDELIVERED
from amqp_router.protocol.message import Message, body_start
from amqp_router.protocol.shown import shown as seen_by_clients
from persistence.errors import PersistenceError
from vhosts.exchanges.router import RouteCache, publish_args
from vhosts.exchanges.taps import Actor, Tap
from vhosts.publishing.checks import check_delivery_mode, check_properties, expiration_ms
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.publisher import Publisher
from vhosts.queues.handle import QueueHandle

#: Octets of a request that publishes.
PUBLISH_BYTES_MAX = 16 << 20
#: A body in memory: as octets, as text and as a message.
COPIES = 3
#: Octets of payload in one answer, and of properties.
GET_BYTES_MAX = 16 << 20
#: Messages taken, or returned, in one turn of the event loop; and octets of payload.
SLICE = 100
SLICE_BYTES = 256 << 10
#: Acknowledgement modes: whether the messages go back, and whether they are rejected.
ACK_MODES = {
    "ack_requeue_true": (True, False),
    "reject_requeue_true": (True, True),
    "ack_requeue_false": (False, False),
    "reject_requeue_false": (False, True),
}
NO_PROPERTIES = b"\x00\x00"


# -- publish -----------------------------------------------------------------------------------------


async def publish(call: Call) -> dict[str, Any]:
    """Publish one message: ``routing_key``, ``properties``, ``payload``, ``payload_encoding``."""
    call.check_vhost()
    broker = call.state.broker
    if broker.alarms.on:
        raise ApiError(503, "blocked", f"the node blocks publishers: {broker.alarms.reason}")
    with _admitted(call):
        content = await read_object(call, PUBLISH_BYTES_MAX, in_pieces=("payload",))
        required(content, "routing_key", "properties", "payload", "payload_encoding")
        exchange, routing_key = real_name(new_name(call, "exchange")), text(content, "routing_key")
        properties = await properties_of(call, content["properties"])
        body = await payload_of(call, content)
        if len(body) > broker.options.message_bytes_max:
            raise amqp_fault(too_large_message(len(body), broker.options.message_bytes_max))
        await call.turns.next()
        message = message_of(call, properties, body)
        await call.turns.next()
        who = caller(call)
        listener = Publish(broker)
        try:
            broker.enter(_send, call, who, exchange, routing_key, properties, message, listener)
        except AMQPError as error:
            raise amqp_fault(error) from None
        await listener.settled.wait()
    if listener.outcome & Outcome.REFUSED:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    if listener.failed:
        raise ApiError(500, "internal_error", "a queue could not store the message")
    return {"routed": not listener.outcome & Outcome.UNROUTABLE}


def _send(
    call: Call,
    who: Caller,
    exchange: str,
    routing_key: str,
    properties: dict[str, Any],
    message: Message,
    listener: Publish,
) -> None:
    broker, user = call.state.broker, call.identity.user
    broker.tick.now_us = broker.wall_us()
    cache = broker.route_cache(user, who.vhost, who.permissions)
    try:
        check_delivery_mode(properties)
        check_properties(properties, user.name)
        if "expiration" in properties:
            # Perhaps with a sign, which ``build_message`` does not take for a number.
            message.expire_ms = expiration_ms(properties["expiration"])
    except PreconditionFailed:
        # As in RabbitMQ, errors about the exchange come before those about properties.
        cache.resolve(publish_args(exchange, routing_key), NO_PROPERTIES)
        raise
    publisher = Publisher(who.vhost.table, cache, broker.budget, listener)
    if who.vhost.table.taps:
        _tell_taps(call, who, cache, exchange, routing_key, message)
    outcome = publisher.send(exchange, routing_key, message, 1)
    if outcome != Outcome.LATER:
        listener.published(1, outcome, message)
    publisher.close_run()


def _tell_taps(
    call: Call, who: Caller, cache: RouteCache, exchange: str, routing_key: str, message: Message
) -> None:
    """Let those hear of a publish who hear of every one, unless its route takes more than one turn to find.

    Raises:
        AMQPError: it cannot be published.
    """
    args = publish_args(exchange, routing_key)
    message.route = args[2 : len(args) - 1]
    route = cache.find(args) or cache.resolve(args, message.properties())
    if route is not None:
        for tap in list(who.vhost.table.taps):
            tap.on_publish(route, message, _actor(call))


def _actor(call: Call) -> Actor:
    return Actor(f"{call.request.remote} -> HTTP API", 1, call.identity.user.name)


@contextlib.contextmanager
def _admitted(call: Call) -> Iterator[None]:
    """Count the request's body in the account of memory while it is read and published."""
    length = call.request.content_length
    if length is not None and length > PUBLISH_BYTES_MAX:
        raise bad_request("Exceeded HTTP request body size limit")
    size = COPIES * (PUBLISH_BYTES_MAX if length is None else length)
    account = call.state.broker.budget
    if not account.admit(size, 0):
        raise ApiError(503, "no_memory", "there is no room for the message at present")
    try:
        yield
    finally:
        account.release(size)


# -- get ---------------------------------------------------------------------------------------------


async def get(call: Call) -> Body:
    """Take messages and show them: ``count``, ``ackmode``, ``encoding``, ``truncate``.

    Fewer than ``count`` come if their payloads or their properties have more than ``GET_BYTES_MAX``.
    """
    call.check_vhost()
    content = await read_object(call)
    required(content, "ackmode", "count", "encoding")
    count = _number(content, "count")
    truncate = _number(content, "truncate") if "truncate" in content else None
    mode = content["ackmode"]
    if not isinstance(mode, str) or mode not in ACK_MODES:
        raise bad_request(f"Unsupported ackmode. Please use one of {', '.join(ACK_MODES)}.")
    if content["encoding"] not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    who, name = caller(call), call.part("queue")
    queue = readable(who, name)
    await delivered(call, queue)
    requeue, reject = ACK_MODES[mode]
    taken = Taken(queue, requeue=requeue, reject=reject)
    account = call.state.broker.budget
    reading = Reading(taken, count, truncate, is_text=content["encoding"] == "auto")
    reading.taps, reading.actor = who.vhost.table.taps, _actor(call)
    is_shown = False
    try:
        while not reading.is_done:
            before = reading.size
            call.state.broker.tick.now_us = call.state.broker.wall_us()
            try:
                call.state.broker.enter(reading.go_on)
            finally:
                account.held += reading.size - before
            await taken.answered()
            await asyncio.sleep(0)
        is_shown = True
    except AMQPError as error:
        raise amqp_fault(error) from None
    except (PersistenceError, OSError) as error:
        raise ApiError(500, "internal_error", f"a message cannot be read: {error}") from None
    finally:
        if not is_shown:
            account.held -= reading.size
        taken.finish(call.state.broker, is_shown=is_shown)  # also if the client is gone
    try:
        await taken.done.wait()
        body = call.new_body()
        await add_messages(body, reading.documents, call.query.columns, call.turns)
        return body
    finally:
        account.held -= reading.size


def readable(who: Caller, name: str) -> QueueHandle:
    """The queue ``name``, which the caller may read.

    Raises:
        ApiError: the caller may not (401), there is none (404), or it cannot be used (400).
    """
    try:
        who.permissions.check("read", "queue", name)
        queue = who.vhost.find_queue(name, who.connection)
        queue.check_available()
    except AccessRefused as error:
        raise not_authorised(error.reply_text) from None
    except NotFound as error:
        raise ApiError(404, "not_found", error.reply_text) from None
    except AMQPError as error:
        raise amqp_fault(error) from None
    return queue


class Reading:
    """Takes messages and makes their documents, some in each turn of the event loop."""

    def __init__(self, taken: Taken, count: int, truncate: int | None, *, is_text: bool) -> None:
        self.documents: list[dict[str, Any]] = []
        #: Octets of payload and properties read so far.
        self.size = 0
        self.is_done = count == 0
        #: Those who hear of every delivery, and to whom these go.
        self.taps: list[Tap] = []
        self.actor = Actor("", 1, "")
        self._taken = taken
        self._count = count
        self._truncate = truncate
        self._is_text = is_text
        self._properties_size = 0

    def go_on(self) -> None:
        """Read some messages, or as many as the queue answers at once.

        Raises:
            PreconditionFailed: the queue cannot be used, or a message is too large to be shown (406).
            PersistenceError, OSError: a message cannot be read.
        """
        end = len(self.documents) + SLICE
        start = self.size
        while not self.is_done and len(self.documents) < end and self.size - start < SLICE_BYTES:
            answer = self._taken.take()
            if answer is None:
                return
            message = answer.message
            if message is None:
                self.is_done = True
                return
            for tap in list(self.taps):
                tap.on_delivery(self._taken.queue.name, message, self.actor)
            self._show(message, answer.count)
            self._taken.let_go(message)
            payload_size = self.size - self._properties_size
            is_much = max(payload_size, self._properties_size) >= GET_BYTES_MAX
            if len(self.documents) == self._count or is_much:
                self.is_done = True

    def _show(self, message: Message, left: int) -> None:
        size = message.body_size if self._truncate is None else min(message.body_size, self._truncate)
        if size > GET_BYTES_MAX:
            raise PreconditionFailed(
                f"a message of {message.body_size} octets is too large to be shown as a whole: use truncate"
            )
        payload = body_start(message, size)
        self.size += size
        encoding = "base64"
        shown = None
        if self._is_text:
            with contextlib.suppress(UnicodeDecodeError):
                shown = payload.decode()
                encoding = "string"
        exchange, routing_key = names_of(message.route)
        properties = seen_by_clients(message, self._taken.queue.counts_returns).properties()
        self.size += len(properties)
        self._properties_size += len(properties)
        self.documents.append(
            {
                "payload_bytes": message.body_size,
                "redelivered": message.flags & REDELIVERED != 0,
                "exchange": exchange,
                "routing_key": routing_key,
                "message_count": left,
                "properties": properties,
                "payload": base64.b64encode(payload).decode() if shown is None else shown,
                "payload_encoding": encoding,
            }
        )


def names_of(route: bytes) -> tuple[str, str]:
    """Exchange and routing key of two short strings."""
    key_at = 1 + route[0]
    return (
        route[1:key_at].decode("utf-8", "surrogateescape"),
        route[key_at + 1 :].decode("utf-8", "surrogateescape"),
    )


def _number(content: dict[str, Any], name: str) -> int:
    """A number from 0 on, also as a string: rabbitmqadmin sends one.

    Raises:
        ApiError: it is something else (400).
    """
    found = content[name]
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 19:
        found = int(found)
    if isinstance(found, float) and isfinite(found):  # RabbitMQ drops what is behind the point, too
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool):
        raise bad_request(["not_integer", shown_value(found)])
    if found < 0:
        raise bad_request(f"{name} is negative")
    return found


def amqp_fault(error: AMQPError) -> ApiError:
    """An error of AMQP, with its reply code."""
    return bad_request(f"{error.reply_code} {error.reply_text}")


ENDPOINTS = [
    Endpoint("/exchanges/{vhost}/{exchange}/publish", post=publish),
    Endpoint("/queues/{vhost}/{queue}/get", post=get),
]
