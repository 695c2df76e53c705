"""The channel's declarations: the methods of the classes exchange and queue, and their replies.

``vhosts.declarations`` does the work. Each method runs at once and gives its reply to the channel, together
with the revision of the definitions that the reply waits for. Errors are raised, and the channel closes. What
a queue answers (queue.declare, purge and delete) is in ``questions``.

``METHODS`` maps each method to its function.

Source: AMQP 0-9-1, classes exchange (40) and queue (50).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from amqp_router.protocol.methods import (
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    QueueUnbindOk,
)
from vhosts import declarations
from vhosts.declarations import Caller, stripped
from vhosts.errors import no_previous_queue
from vhosts.queues.handle import QueueHandle

#: The methods in which an empty name means the queue last declared.
_OF_ONE_QUEUE = (BasicConsume, BasicGet, QueueBind, QueueDelete, QueuePurge, QueueUnbind)


class DeclaringChannel(Caller, Protocol):
    """The part of a channel that declarations use."""

    #: The queue last declared on this channel; "" if there is none. An empty queue name means this queue.
    last_queue: str

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` once revision ``rev`` of the definitions is committed; 0 is at once.

        None (nowait) sends nothing and holds nothing back.
        """

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` once per turn until it returns True; later frames of the client wait."""


# -- exchanges -------------------------------------------------------------------------------------


def declare_exchange(channel: DeclaringChannel, method: ExchangeDeclare) -> None:
    """Answer exchange.declare."""
    rev = declarations.declare_exchange(
        channel,
        method.exchange,
        method.type,
        passive=method.passive,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
    )
    _reply(channel, method.nowait, ExchangeDeclareOk(), rev)


def delete_exchange(channel: DeclaringChannel, method: ExchangeDelete) -> None:
    """Answer exchange.delete."""
    rev = declarations.delete_exchange(channel, method.exchange, if_unused=method.if_unused)
    _reply(channel, method.nowait, ExchangeDeleteOk(), rev)


def bind_exchange(channel: DeclaringChannel, method: ExchangeBind) -> None:
    """Answer exchange.bind."""
    rev = declarations.bind_exchange(
        channel, method.destination, method.source, method.routing_key, method.arguments
    )
    _reply(channel, method.nowait, ExchangeBindOk(), rev)
    _await_passing(channel)


def unbind_exchange(channel: DeclaringChannel, method: ExchangeUnbind) -> None:
    """Answer exchange.unbind."""
    rev = declarations.unbind_exchange(
        channel, method.destination, method.source, method.routing_key, method.arguments
    )
    _reply(channel, method.nowait, ExchangeUnbindOk(), rev)


# -- queues ----------------------------------------------------------------------------------------


def bind_queue(channel: DeclaringChannel, method: QueueBind) -> None:
    """Answer queue.bind."""
    queue, routing_key = _queue_and_key(channel, method)
    rev = declarations.bind_queue(channel, queue, method.exchange, routing_key, method.arguments)
    _reply(channel, method.nowait, QueueBindOk(), rev)
    _await_passing(channel)


def _await_passing(channel: DeclaringChannel) -> None:
    """Let the client's later frames wait until all is passed on that the exchange gives to a new binding.

    What the client publishes next must not come before that. And each client has one such list of messages
    in memory, however many queues it binds.
    """
    passing = channel.vhost.topology.passing
    if passing.ended < passing.begun:
        channel.in_slices(partial(passing.has_ended, passing.begun))


def unbind_queue(channel: DeclaringChannel, method: QueueUnbind) -> None:
    """Answer queue.unbind."""
    queue, routing_key = _queue_and_key(channel, method)
    rev = declarations.unbind_queue(channel, queue, method.exchange, routing_key, method.arguments)
    _reply(channel, False, QueueUnbindOk(), rev)


def queue_named(channel: DeclaringChannel, name: str) -> QueueHandle | None:
    """The queue that a method means by ``name``, None if there is none."""
    return channel.vhost.queues.get(stripped(name or channel.last_queue))


def means_last_queue(method: Method) -> bool:
    """Whether ``method`` is about the queue last declared on its channel, because it names none."""
    return isinstance(method, _OF_ONE_QUEUE) and not method.queue


def queue_name(channel: DeclaringChannel, name: str) -> str:
    """The queue name of a method; an empty name means the last queue declared on the channel.

    Raises:
        NotFound: it is empty, and none was declared (404).
    """
    if not name and not channel.last_queue:
        raise no_previous_queue()
    return name or channel.last_queue


def _queue_and_key(channel: DeclaringChannel, method: QueueBind | QueueUnbind) -> tuple[str, str]:
    """Queue and routing key. If both are empty in the method, the key is the queue's name."""
    queue = queue_name(channel, method.queue)
    if not method.queue and not method.routing_key:
        return queue, channel.last_queue
    return queue, method.routing_key


# -- both ------------------------------------------------------------------------------------------

METHODS: dict[type[Method], Callable[[DeclaringChannel, Any], None]] = {  # each takes its own method
    ExchangeDeclare: declare_exchange,
    ExchangeDelete: delete_exchange,
    ExchangeBind: bind_exchange,
    ExchangeUnbind: unbind_exchange,
    QueueBind: bind_queue,
    QueueUnbind: unbind_queue,
}


def _reply(channel: DeclaringChannel, nowait: bool, method: Method, rev: int) -> None:
    channel.reply(None if nowait else method, rev)
