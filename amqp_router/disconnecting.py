"""Closes many connections for one reason, as many in each turn of the event loop as there is time for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from amqp_router.connection.machine import Machine
from amqp_router.connection.registry import ConnectionRegistry
from amqp_router.connection.transport import Transport
from amqp_router.protocol.errors import ConnectionForced, InternalError
from vhosts.ports import InSlices

#: Connections that are closed in one turn.
CLOSED_PER_TURN = 50


def close_those(
    registry: ConnectionRegistry[Transport],
    which: Callable[[Machine], bool],
    error: ConnectionForced,
    in_slices: InSlices,
) -> None:
    """Close the connections that ``which`` says True to."""
    leaving = [transport for transport in registry if which(transport.machine)]

    def step() -> bool:
        for _ in range(min(len(leaving), CLOSED_PER_TURN)):
            leaving.pop().close(partial(force, error))
        return not leaving

    if leaving:
        in_slices(step)


def fail_waiting(registry: ConnectionRegistry[Transport], error: Exception) -> None:
    """The definition store has failed with ``error``: close the connections that wait for it."""
    for transport in registry:
        machine = transport.machine
        changes = machine.shared.unstored_changes
        if changes is not None:
            changes.failed()
        if any(channel.pending.wait_for_definitions() for channel in machine.channels.values()):
            transport.close(lambda machine: machine.close(InternalError(str(error))))


def force(error: ConnectionForced, machine: Machine) -> None:
    """Close ``machine`` for a reason that has nothing to do with a method of its client."""
    machine.close(error)
