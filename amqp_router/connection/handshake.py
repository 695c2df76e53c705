"""The handshake, from the protocol header to an open virtual host.

As in RabbitMQ, a client that breaks the rules gets a reason only where the protocol has one. Otherwise the
socket is closed, at once or after a delay that slows guessing down.

Source: AMQP 0-9-1, section 2.2.4, class connection.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from amqp_router.connection.ports import Services
from amqp_router.connection.session import EXTERNAL, FRAME_MAX, Session
from amqp_router.connection.shared import Shared
from amqp_router.connection.states import MOVES, ConnectionState
from amqp_router.protocol import amqp_0_8, methods
from amqp_router.protocol.constants import FRAME_METHOD, FRAME_SIZE_MIN, PROTOCOL_HEADER, PROTOCOL_HEADER_0_9
from amqp_router.protocol.errors import (
    ChannelError,
    LoginRefused,
    NotAllowed,
    unexpected_frame,
)
from amqp_router.protocol.input import Input
from amqp_router.protocol.message import JOINED_BYTES_MAX
from amqp_router.protocol.methods import Method, decode_method

#: Seconds before the socket is closed without a reason. Measured on RabbitMQ 3.10.8.
SILENT_DELAY_S = 3.0
#: The first octets of the methods of class connection.
_CLASS = b"\x00\x0a"
#: States in which an error closes the socket like that: the client is not known yet, or has not agreed.
SILENT = (ConnectionState.STARTING, ConnectionState.TUNING)


class Negotiating(Protocol):
    """The part of a connection that the handshake uses."""

    node: Services
    peer: str
    session: Session
    shared: Shared
    frames: Input
    state: ConnectionState
    close_delay_s: float

    def refuse(self, reason: str, delay_s: float) -> None:
        """End the handshake without an answer, ``delay_s`` seconds from now."""

    def opened(self) -> None:
        """connection.open succeeded."""

    def client_closed(self) -> None:
        """The client sent connection.close; close-ok follows when everything it held is given back."""


def receive_header(machine: Negotiating, header: bytes) -> None:
    """Answer the first eight bytes: with connection.start, or with our protocol header and the end."""
    machine.session.is_0_8 = is_0_8 = header in amqp_0_8.HEADERS
    if not is_0_8 and header not in (PROTOCOL_HEADER, PROTOCOL_HEADER_0_9):
        output = machine.shared.output
        output.buf.put(PROTOCOL_HEADER)
        output.touch()
        machine.refuse(f"bad protocol header {header!r}", 0.0)
        return
    machine.state = ConnectionState.STARTING
    node = machine.node
    mechanisms = machine.session.offered(node.mechanisms).encode()
    properties = node.server_properties()
    if is_0_8:
        properties["capabilities"] = ("F", {})
    major, minor = amqp_0_8.VERSION if is_0_8 else (0, 9)
    machine.shared.send(0, methods.ConnectionStart(major, minor, properties, mechanisms, b"en_US"))


def as_0_9_1(frames: Input, payload: bytes) -> bytes:
    """The method of a client that speaks AMQP 0-8, which ``frames`` has found, as 0-9-1 has it.

    connection.close gets its other number in ``frames``, too. Errors about others name what the client sent.
    """
    payload = amqp_0_8.as_0_9_1(payload)
    if payload[:2] == _CLASS:
        frames.method_id = int.from_bytes(payload[2:4], "big")
    return payload


def receive_frame(machine: Negotiating, kind: int, number: int, payload: bytes) -> None:
    """Handle one frame of a connection that is not open, or of channel 0.

    Raises:
        UnexpectedFrame: a frame that is not due (505).
        ChannelError: an unexpected method although nothing but connection.open is missing, or nothing at all
            (504), as in RabbitMQ. Anything else that an AMQPError says.
    """
    method = decode_method(payload) if kind == FRAME_METHOD and number == 0 else None
    following = MOVES.get((machine.state, type(method))) if method is not None else None
    if method is not None and following is None and machine.state in _NAMED:
        raise ChannelError(f"unexpected method in connection state {machine.state.value}")
    if method is None or following is None:
        # As in RabbitMQ, the error is about the frame and names no method.
        machine.frames.class_id = machine.frames.method_id = 0
        raise unexpected_frame(kind, payload)
    _STEPS[type(method)](machine, method, following)


def _start_ok(machine: Negotiating, method: methods.ConnectionStartOk, following: ConnectionState) -> None:
    mechanism = method.mechanism
    session = machine.session
    session.introduce(mechanism, method.client_properties)
    if mechanism not in session.offered(machine.node.mechanisms).split():
        machine.refuse(f"unknown authentication mechanism '{mechanism}'", SILENT_DELAY_S)
        return
    try:
        node, relayed = machine.node, session.is_relayed
        if mechanism == EXTERNAL:
            name = session.certificate_user
            machine.shared.user = node.login_external(name, session.host, is_relayed=relayed)
        else:
            machine.shared.user = node.login(mechanism, method.response, session.host, is_relayed=relayed)
    except LoginRefused as error:
        reason = getattr(error, "reason", error.text)
        level = logging.WARNING if getattr(error, "is_news", True) else logging.DEBUG
        machine.node.event(level, "login refused", peer=machine.peer, mechanism=mechanism, reason=reason)
        machine.node.feed.login(session, machine.shared.name, getattr(error, "user", ""), reason)
        delay_s = getattr(error, "delay_s", 0.0)
        if "authentication_failure_close" in session.capabilities:
            machine.close_delay_s = delay_s
            raise
        machine.state = ConnectionState.CLOSED
        machine.close_delay_s = max(SILENT_DELAY_S, delay_s)
        return
    node.feed.login(session, machine.shared.name, machine.shared.user.name)
    machine.state = following
    machine.frames.payload_max = session.frame_max
    options = machine.node.options
    tune = methods.ConnectionTune(options.channel_max, options.frame_max, options.heartbeat_s)
    machine.shared.send(0, tune)


def _tune_ok(machine: Negotiating, method: methods.ConnectionTuneOk, following: ConnectionState) -> None:
    options = machine.node.options
    frame_max, channel_max = method.frame_max, method.channel_max
    # 0 asks for no limit, which a server with a limit cannot grant.
    if not FRAME_SIZE_MIN <= frame_max <= (options.frame_max or FRAME_MAX) and (
        frame_max or options.frame_max
    ):
        machine.refuse(
            f"negotiation of frame_max failed: {frame_max} asked, {options.frame_max} offered", SILENT_DELAY_S
        )
        return
    if options.channel_max and not 1 <= channel_max <= options.channel_max:
        machine.refuse(
            f"negotiation of channel_max failed: {channel_max} asked, {options.channel_max} offered",
            SILENT_DELAY_S,
        )
        return
    session = machine.session
    session.agree(frame_max=frame_max, channel_max=channel_max, heartbeat_s=method.heartbeat)
    frames = machine.frames
    frames.payload_max = session.frame_max
    frames.scan.payload_max = min(session.frame_max, JOINED_BYTES_MAX)
    machine.state = following


def _open(machine: Negotiating, method: methods.ConnectionOpen, following: ConnectionState) -> None:
    name = method.virtual_host
    node, shared = machine.node, machine.shared
    vhost = node.vhosts.get(name)
    if vhost is None:
        raise NotAllowed(f"vhost {name} not found", class_id=10, method_id=40)
    node.admission.connection(shared.user, vhost)
    permissions = shared.user.enter(name)
    shared.vhost = vhost
    shared.permissions = permissions
    shared.cache = node.route_cache(shared.user, vhost, permissions)
    machine.state = following
    shared.send(0, methods.ConnectionOpenOk())
    machine.opened()


def _close(machine: Negotiating, method: methods.ConnectionClose, following: ConnectionState) -> None:
    machine.client_closed()


def _close_ok(machine: Negotiating, method: methods.ConnectionCloseOk, following: ConnectionState) -> None:
    machine.state = following


def _update_secret(
    machine: Negotiating, method: methods.ConnectionUpdateSecret, following: ConnectionState
) -> None:
    machine.shared.send(0, methods.ConnectionUpdateSecretOk())


#: The states in which an error names the state, not the frame.
_NAMED = (ConnectionState.OPENING, ConnectionState.RUNNING)
_STEPS: dict[type[Method], Any] = {
    methods.ConnectionStartOk: _start_ok,
    methods.ConnectionTuneOk: _tune_ok,
    methods.ConnectionOpen: _open,
    methods.ConnectionClose: _close,
    methods.ConnectionCloseOk: _close_ok,
    methods.ConnectionUpdateSecret: _update_secret,
}

__all__ = ["receive_frame", "receive_header"]
