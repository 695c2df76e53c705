"""What the broker's log is told about connections that open and end."""

from __future__ import annotations

import logging

from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import Services
from amqp_router.connection.session import Session

#: Longest part of a client's connection name in the log, in characters.
NAME_MAX = 200


def opened(node: Services, machine: Machine) -> None:
    """A client has opened its virtual host."""
    node.event(
        logging.INFO,
        "connection opened",
        peer=machine.peer,
        user=machine.user.name,
        vhost=machine.vhost.name,
        name=_client_name(machine.session),
    )


def ended(
    node: Services, machine: Machine, *, level: int | None, clean: bool, seconds: float, reason: str
) -> None:
    """A connection that was opened ``seconds`` ago has ended.

    It ended by connection.close (``clean``), or for ``reason``. ``level`` is that of the line; None is the
    usual one.
    """
    if level is None:
        level = logging.INFO if clean else logging.WARNING
    node.event(
        level,
        "connection closed" if clean else "connection lost",
        peer=machine.peer,
        user=machine.user.name,
        vhost=machine.vhost.name,
        name=_client_name(machine.session),
        seconds=round(seconds, 3),
        reason="closed" if clean else reason or "the client closed the socket without connection.close",
    )


def _client_name(session: Session) -> str | None:
    """The name that the client gave its connection; None if it gave none."""
    kind, name = session.client_properties.get("connection_name", ("", b""))
    return name.decode(errors="replace")[:NAME_MAX] if kind == "S" else None
