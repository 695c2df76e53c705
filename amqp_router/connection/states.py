"""States of a connection and the methods on channel 0 that move between them.

A move that is not in ``MOVES`` is a protocol error.

Source: AMQP 0-9-1, section 2.2.4 and class connection.
"""

from __future__ import annotations

from enum import Enum

from amqp_router.protocol import methods
from amqp_router.protocol.methods import Method


class ConnectionState(Enum):
    #: At most a part of the protocol header was received.
    HEADER = "waiting for the protocol header"
    #: connection.start sent.
    STARTING = "starting"
    #: Authenticated, connection.tune sent.
    TUNING = "tuning"
    #: Tuned; connection.open is awaited.
    OPENING = "opening"
    RUNNING = "running"
    #: connection.close sent; everything but close-ok is dropped.
    CLOSING = "closing"
    #: No more bytes are read; the socket closes once the output is out.
    CLOSED = "closed"


MOVES: dict[tuple[ConnectionState, type[Method]], ConnectionState] = {
    (ConnectionState.STARTING, methods.ConnectionStartOk): ConnectionState.TUNING,
    (ConnectionState.TUNING, methods.ConnectionTuneOk): ConnectionState.OPENING,
    (ConnectionState.OPENING, methods.ConnectionOpen): ConnectionState.RUNNING,
    (ConnectionState.RUNNING, methods.ConnectionUpdateSecret): ConnectionState.RUNNING,
    (ConnectionState.STARTING, methods.ConnectionClose): ConnectionState.CLOSED,
    (ConnectionState.TUNING, methods.ConnectionClose): ConnectionState.CLOSED,
    (ConnectionState.OPENING, methods.ConnectionClose): ConnectionState.CLOSED,
    (ConnectionState.RUNNING, methods.ConnectionClose): ConnectionState.CLOSED,
    (ConnectionState.CLOSING, methods.ConnectionClose): ConnectionState.CLOSED,
    (ConnectionState.CLOSING, methods.ConnectionCloseOk): ConnectionState.CLOSED,
}
