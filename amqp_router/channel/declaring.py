"""The channel's declarations: classes exchange and queue.

Each method runs at once and hands its reply to the channel with the revision it waits for, that of the
definitions it changed or relies on. Errors are raised, and the channel closes.

``METHODS`` maps each method to its function.

Source: AMQP 0-9-1, classes exchange (40) and queue (50); semantics 2.2 to 2.4 and 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqp_router.channel.ports import Permissions
from amqp_router.protocol.methods import (
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
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from vhosts.arguments import alternate_exchange, dead_letter_exchange
from vhosts.errors import default_exchange_refused, no_previous_queue, reserved_name
from vhosts.exchanges.types import exchange_type
from vhosts.vhost import RESERVED_PREFIX, VirtualHost

#: Followed by 22 characters of base64url, in names that the server gives.
GENERATED_PREFIX = "amq.gen-"


class DeclaringChannel(Protocol):
    """What declarations need of a channel."""

    #: The queue last declared on this channel, which an empty queue name stands for; "" if there is none.
    last_queue: str

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host of the connection."""

    @property
    def connection(self) -> Any:
        """Owner of exclusive queues, by identity."""

    @property
    def permissions(self) -> Permissions:
        """Of the connection's user."""

    def reply(self, method: Method | None, rev: int) -> None:
        """Send ``method`` once revision ``rev`` of the definitions is committed; 0 is at once.

        None (nowait) sends nothing and holds nothing back.
        """


# -- exchanges -------------------------------------------------------------------------------------


def declare_exchange(channel: DeclaringChannel, method: ExchangeDeclare) -> None:
    """Answer exchange.declare."""
    name = _stripped(method.exchange)
    vhost = channel.vhost
    if not method.passive:
        exchange_type(method.type)
    if not method.passive and name:
        channel.permissions.check("configure", "exchange", name)
        if name not in vhost.exchanges:
            _check_name("exchange", name)
            alternate = alternate_exchange(name, vhost.name, method.arguments)
            if alternate is not None:
                channel.permissions.check("read", "exchange", name)
                channel.permissions.check("write", "exchange", alternate)
    rev = vhost.declare_exchange(
        name,
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
    name = _stripped(method.exchange)
    if name and not name.startswith(RESERVED_PREFIX):
        channel.permissions.check("configure", "exchange", name)
    rev = channel.vhost.delete_exchange(name, if_unused=method.if_unused)
    _reply(channel, method.nowait, ExchangeDeleteOk(), rev)


def bind_exchange(channel: DeclaringChannel, method: ExchangeBind) -> None:
    """Answer exchange.bind."""
    destination, source = _exchange_ends(channel, method)
    rev = channel.vhost.bind_exchange(destination, source, method.routing_key, method.arguments)
    _reply(channel, method.nowait, ExchangeBindOk(), rev)


def unbind_exchange(channel: DeclaringChannel, method: ExchangeUnbind) -> None:
    """Answer exchange.unbind."""
    destination, source = _exchange_ends(channel, method)
    rev = channel.vhost.unbind_exchange(destination, source, method.routing_key, method.arguments)
    _reply(channel, method.nowait, ExchangeUnbindOk(), rev)


def _exchange_ends(channel: DeclaringChannel, method: ExchangeBind | ExchangeUnbind) -> tuple[str, str]:
    destination, source = _stripped(method.destination), _stripped(method.source)
    if not destination or not source:
        raise default_exchange_refused()
    channel.permissions.check("write", "exchange", destination)
    channel.permissions.check("read", "exchange", source)
    return destination, source


# -- queues ----------------------------------------------------------------------------------------


def declare_queue(channel: DeclaringChannel, method: QueueDeclare) -> None:
    """Answer queue.declare, and remember the queue as the channel's last one."""
    name = _stripped(method.queue)
    vhost = channel.vhost
    if method.passive:
        queue = vhost.find_queue(name, channel.connection)
        rev = queue.definition_rev
    else:
        if name:
            _check_name("queue", name)
        else:
            name = vhost.generate_name(GENERATED_PREFIX)
        channel.permissions.check("configure", "queue", name)
        if name not in vhost.queues:
            target = dead_letter_exchange(name, vhost.name, method.arguments)
            if target is not None:
                channel.permissions.check("read", "queue", name)
                channel.permissions.check("write", "exchange", target)
        queue, rev = vhost.declare_queue(
            name,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
            owner=channel.connection,
        )
    if queue.durable and queue.log is None:
        # Its log is damaged: nobody knows how many messages it has.
        queue.check_available()
    channel.last_queue = name
    declared = QueueDeclareOk(name, queue.message_count(), queue.consumer_count())
    _reply(channel, method.nowait, declared, rev)


def delete_queue(channel: DeclaringChannel, method: QueueDelete) -> None:
    """Answer queue.delete."""
    name = _stripped(queue_name(channel, method.queue))
    channel.permissions.check("configure", "queue", name)
    count, rev = channel.vhost.delete_queue(
        name, if_unused=method.if_unused, if_empty=method.if_empty, owner=channel.connection
    )
    _reply(channel, method.nowait, QueueDeleteOk(count), rev)


def purge_queue(channel: DeclaringChannel, method: QueuePurge) -> None:
    """Answer queue.purge."""
    name = _stripped(queue_name(channel, method.queue))
    channel.permissions.check("read", "queue", name)
    count = channel.vhost.find_queue(name, channel.connection).purge()
    _reply(channel, method.nowait, QueuePurgeOk(count), 0)


def bind_queue(channel: DeclaringChannel, method: QueueBind) -> None:
    """Answer queue.bind."""
    queue, exchange, routing_key = _queue_ends(channel, method)
    rev = channel.vhost.bind_queue(queue, exchange, routing_key, method.arguments, channel.connection)
    _reply(channel, method.nowait, QueueBindOk(), rev)


def unbind_queue(channel: DeclaringChannel, method: QueueUnbind) -> None:
    """Answer queue.unbind."""
    queue, exchange, routing_key = _queue_ends(channel, method)
    rev = channel.vhost.unbind_queue(queue, exchange, routing_key, method.arguments, channel.connection)
    _reply(channel, False, QueueUnbindOk(), rev)


def queue_name(channel: DeclaringChannel, name: str) -> str:
    """The queue that a method means; an empty name is the last one declared on the channel.

    Raises:
        NotFound: it is empty, and none was declared (404).
    """
    if not name and not channel.last_queue:
        raise no_previous_queue()
    return name or channel.last_queue


def _queue_ends(channel: DeclaringChannel, method: QueueBind | QueueUnbind) -> tuple[str, str, str]:
    """Queue, exchange and routing key; of an empty queue name and key both, the key is the queue's name."""
    queue, exchange = _stripped(queue_name(channel, method.queue)), _stripped(method.exchange)
    routing_key = method.routing_key
    if not method.queue and not routing_key:
        routing_key = channel.last_queue
    channel.permissions.check("write", "queue", queue)
    if not exchange:
        raise default_exchange_refused()
    channel.permissions.check("read", "exchange", exchange)
    return queue, exchange, routing_key


# -- both ------------------------------------------------------------------------------------------

METHODS: dict[type[Method], Callable[[DeclaringChannel, Any], None]] = {
    ExchangeDeclare: declare_exchange,
    ExchangeDelete: delete_exchange,
    ExchangeBind: bind_exchange,
    ExchangeUnbind: unbind_exchange,
    QueueDeclare: declare_queue,
    QueueDelete: delete_queue,
    QueuePurge: purge_queue,
    QueueBind: bind_queue,
    QueueUnbind: unbind_queue,
}


def _reply(channel: DeclaringChannel, nowait: bool, method: Method, rev: int) -> None:
    channel.reply(None if nowait else method, rev)


def _check_name(kind: str, name: str) -> None:
    if name.startswith(RESERVED_PREFIX):
        raise reserved_name(kind, name)


def _stripped(name: str) -> str:
    """``name`` without line ends, which RabbitMQ takes out of names, as they come from careless scripts."""
    return name.replace("\r", "").replace("\n", "")
