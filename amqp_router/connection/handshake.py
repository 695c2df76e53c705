"""The handshake, from the protocol header to an open virtual host.

As in RabbitMQ, a client that breaks the rules gets a reason only where the protocol has one. Otherwise the
socket is closed, at once or after a delay that slows guessing down.

Source: AMQP 0-9-1, section 2.2.4, class connection.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from amqp_router.connection.states import MOVES, ConnectionState
from amqp_router.protocol import methods
from amqp_router.protocol.constants import FRAME_METHOD, FRAME_SIZE_MIN, PROTOCOL_HEADER
from amqp_router.protocol.errors import (
    ChannelError,
    LoginRefused,
    NotAllowed,
    unexpected_frame,
)
from amqp_router.protocol.message import JOINED_BYTES_MAX
from amqp_router.protocol.methods import Method, decode_method

if TYPE_CHECKING:
    from amqp_router.connection.machine import Machine

#: Seconds before the socket is closed after a wrong connection.tune-ok, or after a failed login.
TUNE_DELAY_S = 3.0
LOGIN_DELAY_S = 1.5


def receive_header(machine: Machine, header: bytes) -> None:
    """Answer the first eight bytes: with connection.start, or with our protocol header and the end."""
    if header != PROTOCOL_HEADER:
        machine.output.buf.put(PROTOCOL_HEADER)
        machine.output.touch()
        machine.refuse(f"bad protocol header {header!r}", 0.0)
        return
    machine.state = ConnectionState.STARTING
    node = machine.node
    machine.send(
        0, methods.ConnectionStart(0, 9, node.server_properties(), node.mechanisms.encode(), b"en_US")
    )


def receive_frame(machine: Machine, kind: int, number: int, payload: bytes) -> None:
    """Handle one frame of a connection that is not yet open.

    Raises:
        UnexpectedFrame: a frame that is not due (505).
        ChannelError: an unexpected method while only connection.open is missing (504), as in RabbitMQ.
            Anything else that an AMQPError says.
    """
    method = decode_method(payload) if kind == FRAME_METHOD and number == 0 else None
    following = MOVES.get((machine.state, type(method))) if method is not None else None
    if method is not None and following is None and machine.state is ConnectionState.OPENING:
        raise ChannelError("unexpected method in connection state opening")
    if method is None or following is None:
        machine.class_id = machine.method_id = (
            0  # as in RabbitMQ, the error is about the frame and names no method
        )
        raise unexpected_frame(kind, payload)
    _STEPS[type(method)](machine, method, following)


def _start_ok(machine: Machine, method: methods.ConnectionStartOk, following: ConnectionState) -> None:
    properties = method.client_properties
    machine.client_properties = properties
    capabilities = properties.get("capabilities")
    table: dict[str, Any] = capabilities[1] if capabilities is not None and capabilities[0] == "F" else {}
    machine.capabilities = {name for name, field in table.items() if field == ("t", True)}
    machine.consumer_cancel_notify = "consumer_cancel_notify" in machine.capabilities
    machine.mechanism = mechanism = method.mechanism
    if mechanism not in machine.node.mechanisms.split():
        machine.refuse(f"unknown authentication mechanism '{mechanism}'", 0.0)
        return
    try:
        machine.user = machine.node.login(mechanism, method.response, machine.peer_host)
    except LoginRefused as error:
        reason = getattr(error, "reason", error.text)
        level = logging.WARNING if getattr(error, "is_news", True) else logging.DEBUG
        machine.node.event(level, "login refused", peer=machine.peer, mechanism=mechanism, reason=reason)
        delay_s = getattr(error, "delay_s", 0.0)
        if "authentication_failure_close" in machine.capabilities:
            machine.close_delay_s = delay_s
            raise
        machine.state = ConnectionState.CLOSED
        machine.close_delay_s = max(LOGIN_DELAY_S, delay_s)
        return
    machine.state = following
    options = machine.node.options
    machine.send(0, methods.ConnectionTune(options.channel_max, options.frame_max, options.heartbeat_s))


def _tune_ok(machine: Machine, method: methods.ConnectionTuneOk, following: ConnectionState) -> None:
    options = machine.node.options
    frame_max, channel_max = method.frame_max, method.channel_max
    # 0 asks for no limit, which a server with a limit cannot grant.
    if not FRAME_SIZE_MIN <= frame_max <= (options.frame_max or 1 << 31) and (frame_max or options.frame_max):
        machine.refuse(
            f"negotiation of frame_max failed: {frame_max} asked, {options.frame_max} offered", TUNE_DELAY_S
        )
        return
    if options.channel_max and not 1 <= channel_max <= options.channel_max:
        machine.refuse(
            f"negotiation of channel_max failed: {channel_max} asked, {options.channel_max} offered",
            TUNE_DELAY_S,
        )
        return
    machine.frame_max = frame_max or 1 << 31
    machine.scan.payload_max = min(machine.frame_max, JOINED_BYTES_MAX)  # the limit of the machine itself
    machine.channel_max = channel_max or 65535
    machine.heartbeat_s = method.heartbeat
    machine.state = following


def _open(machine: Machine, method: methods.ConnectionOpen, following: ConnectionState) -> None:
    name = method.virtual_host
    vhost = machine.node.vhosts.get(name)
    if vhost is None:
        raise NotAllowed(f"vhost {name} not found", class_id=10, method_id=40)
    permissions = machine.user.enter(name)
    machine.vhost = vhost
    machine.permissions = permissions
    machine.cache = machine.node.route_cache(machine.user, vhost, permissions)
    machine.state = following
    machine.send(0, methods.ConnectionOpenOk())
    machine.opened()


def _close(machine: Machine, method: methods.ConnectionClose, following: ConnectionState) -> None:
    machine.client_closed(method)


def _close_ok(machine: Machine, method: methods.ConnectionCloseOk, following: ConnectionState) -> None:
    machine.state = following


def _update_secret(
    machine: Machine, method: methods.ConnectionUpdateSecret, following: ConnectionState
) -> None:
    machine.send(0, methods.ConnectionUpdateSecretOk())


_STEPS: dict[type[Method], Any] = {
    methods.ConnectionStartOk: _start_ok,
    methods.ConnectionTuneOk: _tune_ok,
    methods.ConnectionOpen: _open,
    methods.ConnectionClose: _close,
    methods.ConnectionCloseOk: _close_ok,
    methods.ConnectionUpdateSecret: _update_secret,
}

__all__ = ["receive_frame", "receive_header"]
