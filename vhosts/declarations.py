"""Declare, delete, bind, unbind and purge, for every kind of caller.

AMQP channels and the HTTP API both use these functions, so both have the same rules for names, the same
permissions and the same errors. What belongs to the client's protocol (nowait, an empty queue name, the
reply) is handled there.

Each function does its work at once and returns the revision of the definitions that the reply waits for, 0
for none. What only the queue's leader can do is answered to an ``Asker``. Errors leave everything as it was.

Source: AMQP 0-9-1, classes exchange (40) and queue (50); RabbitMQ, "Access Control", for the permission that
each operation needs.
"""

from __future__ import annotations

from typing import Protocol

from amqp_router.protocol.kept_table import Arguments
from vhosts.arguments import alternate_exchange, dead_letter_exchange
from vhosts.errors import default_exchange_refused, reserved_name
from vhosts.exchanges.route_names import GENERATED_PREFIX
from vhosts.exchanges.types import exchange_type
from vhosts.ports import Permissions
from vhosts.queues.destination import Asker
from vhosts.queues.handle import QueueHandle
from vhosts.vhost import RESERVED_PREFIX, VirtualHost


class Caller(Protocol):
    """The user who declares, and the virtual host."""

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host in which the caller is."""

    @property
    def permissions(self) -> Permissions:
        """The permissions of the caller's user there."""

    @property
    def connection(self) -> object:
        """The owner of the caller's exclusive queues, by identity."""


# -- exchanges -------------------------------------------------------------------------------------


def declare_exchange(
    caller: Caller,
    name: str,
    type_name: str,
    *,
    passive: bool = False,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments | None = None,
) -> int:
    """Make the exchange, or check that the existing one is the same. ``passive``: only check that it exists.

    Raises:
        AccessRefused: no permission, a reserved name, or the default exchange (403).
        NotFound: ``passive``, and there is none (404).
        CommandInvalid: there is no such type (503).
        PreconditionFailed: the existing one differs, or an argument is wrong (406).
    """
    name = stripped(name)
    vhost, permissions = caller.vhost, caller.permissions
    if not passive:
        exchange_type(type_name)
        if name:
            permissions.check("configure", "exchange", name)
            if name not in vhost.exchanges:
                _check_name("exchange", name)
                alternate = alternate_exchange(name, vhost.name, arguments or {})
                if alternate is not None:
                    permissions.check("read", "exchange", name)
                    permissions.check("write", "exchange", alternate)
    return vhost.declare_exchange(
        name,
        type_name,
        passive=passive,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
    )


def delete_exchange(caller: Caller, name: str, *, if_unused: bool = False) -> int:
    """Remove the exchange and its bindings. Nothing happens if it does not exist.

    Raises:
        AccessRefused: no permission, or an exchange that every virtual host has (403).
        PreconditionFailed: ``if_unused``, and it has bindings (406).
    """
    name = stripped(name)
    if name and not name.startswith(RESERVED_PREFIX):
        caller.permissions.check("configure", "exchange", name)
    return caller.vhost.delete_exchange(name, if_unused=if_unused)


def bind_exchange(
    caller: Caller, destination: str, source: str, routing_key: str, arguments: Arguments
) -> int:
    """Bind ``destination`` to ``source``, if it is not bound yet.

    Raises:
        AccessRefused: no permission, or one of them is the default exchange (403).
        NotFound: one of them does not exist (404).
        PreconditionFailed: the source cannot use the key or the arguments (406).
    """
    destination, source = _exchange_ends(caller, destination, source, routing_key)
    return caller.vhost.bind_exchange(destination, source, routing_key, arguments)


def unbind_exchange(
    caller: Caller, destination: str, source: str, routing_key: str, arguments: Arguments
) -> int:
    """Undo ``bind_exchange``. Nothing happens if the binding or exchange does not exist.

    Raises:
        AccessRefused: no permission, or one of them is the default exchange (403).
    """
    destination, source = _exchange_ends(caller, destination, source, routing_key)
    return caller.vhost.unbind_exchange(destination, source, routing_key, arguments)


def _exchange_ends(caller: Caller, destination: str, source: str, routing_key: str) -> tuple[str, str]:
    destination, source = stripped(destination), stripped(source)
    if not destination or not source:
        raise default_exchange_refused()
    caller.permissions.check("write", "exchange", destination)
    caller.permissions.check("read", "exchange", source)
    _check_topic(caller, source, routing_key)
    return destination, source


def _check_topic(caller: Caller, exchange: str, routing_key: str) -> None:
    """See whether the caller may bind to ``exchange`` with the key, if it is a topic exchange."""
    found = caller.vhost.exchanges.get(exchange)
    if found is not None and found.type == "topic":
        caller.permissions.check_topic("read", exchange, routing_key)


# -- queues ----------------------------------------------------------------------------------------


def find_queue(caller: Caller, name: str) -> QueueHandle:
    """The queue ``name``, if the caller may use it. No permission is needed to learn that it exists.

    Raises:
        NotFound: there is none (404).
        ResourceLocked: it is exclusive to another connection (405).
    """
    queue = _available(caller.vhost.find_queue(stripped(name), caller.connection))
    queue.note_use()
    return queue


def declare_queue(
    caller: Caller,
    name: str,
    *,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Arguments | None = None,
) -> tuple[QueueHandle, int]:
    """Make the queue, or check that the existing one is the same. With an empty name it gets a unique one.

    Raises:
        AccessRefused: no permission, or a reserved name (403).
        ResourceLocked: the existing one is exclusive to another connection, or ``exclusive`` differs (405).
        PreconditionFailed: the existing one differs, or an argument is wrong (406).
        InternalError: the log of the existing one is damaged (541).
    """
    name = stripped(name)
    vhost, permissions = caller.vhost, caller.permissions
    if name:
        _check_name("queue", name)
    else:
        name = vhost.generate_name(GENERATED_PREFIX)
    permissions.check("configure", "queue", name)
    if name not in vhost.queues:
        target = dead_letter_exchange(name, vhost.name, arguments or {})
        if target is not None:
            permissions.check("read", "queue", name)
            permissions.check("write", "exchange", target)
    queue, rev = vhost.declare_queue(
        name,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments=arguments,
        owner=caller.connection,
    )
    return _available(queue), rev


def delete_queue(
    caller: Caller, name: str, asker: Asker, *, if_unused: bool = False, if_empty: bool = False
) -> None:
    """Remove the queue and its bindings; ``asker`` hears of it. Nothing happens if it does not exist.

    The asker is refused with PreconditionFailed (406) if it is not empty (``if_empty``) or has consumers
    (``if_unused``).

    Raises:
        AccessRefused: no permission (403).
        ResourceLocked: it is exclusive to another connection (405).
    """
    name = stripped(name)
    caller.permissions.check("configure", "queue", name)
    vhost = caller.vhost
    queue = vhost.queues.get(name)
    if queue is None:
        asker.removed(*vhost.delete_queue(name))
        return
    vhost.topology.check_lock(queue, caller.connection)
    queue.remove(asker, if_unused, if_empty)


def purge_queue(caller: Caller, name: str, asker: Asker) -> None:
    """Remove the ready messages; ``asker`` hears how many there were.

    Raises:
        AccessRefused: no permission (403).
        NotFound: there is no such queue (404).
        ResourceLocked: it is exclusive to another connection (405).
    """
    name = stripped(name)
    caller.permissions.check("read", "queue", name)
    caller.vhost.find_queue(name, caller.connection).purge(asker)


def bind_queue(caller: Caller, queue: str, exchange: str, routing_key: str, arguments: Arguments) -> int:
    """Bind ``queue`` to ``exchange``, if it is not bound yet.

    Raises:
        AccessRefused: no permission, or the default exchange (403).
        NotFound: one of the two does not exist (404).
        ResourceLocked: the queue is exclusive to another connection (405).
        PreconditionFailed: the exchange cannot use the key or the arguments (406).
    """
    queue, exchange = _queue_ends(caller, queue, exchange, routing_key)
    return caller.vhost.bind_queue(queue, exchange, routing_key, arguments, caller.connection)


def unbind_queue(caller: Caller, queue: str, exchange: str, routing_key: str, arguments: Arguments) -> int:
    """Undo ``bind_queue``. Nothing happens if the binding, queue or exchange does not exist.

    Raises:
        AccessRefused: no permission, or the default exchange (403).
        ResourceLocked: the queue is exclusive to another connection (405).
    """
    queue, exchange = _queue_ends(caller, queue, exchange, routing_key)
    return caller.vhost.unbind_queue(queue, exchange, routing_key, arguments, caller.connection)


def _queue_ends(caller: Caller, queue: str, exchange: str, routing_key: str) -> tuple[str, str]:
    queue, exchange = stripped(queue), stripped(exchange)
    caller.permissions.check("write", "queue", queue)
    if not exchange:
        raise default_exchange_refused()
    caller.permissions.check("read", "exchange", exchange)
    _check_topic(caller, exchange, routing_key)
    return queue, exchange


def _available(queue: QueueHandle) -> QueueHandle:
    """``queue``, unless its log is damaged, so that the number of its messages is unknown."""
    if queue.durable and queue.log is None:
        queue.check_available()
    return queue


# -- names -----------------------------------------------------------------------------------------


def stripped(name: str) -> str:
    """``name`` without line ends. RabbitMQ removes them too; careless scripts send them."""
    return name.replace("\r", "").replace("\n", "")


def _check_name(kind: str, name: str) -> None:
    if name.startswith(RESERVED_PREFIX):
        raise reserved_name(kind, name)
