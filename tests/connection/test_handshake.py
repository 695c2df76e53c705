"""From the protocol header to an open connection, and every way to fail, as in RabbitMQ."""

from __future__ import annotations

import itertools

import pytest

from amqp_router.connection.handshake import SILENT_DELAY_S
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.states import MOVES, ConnectionState
from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import FRAME_SIZE_MIN, HEARTBEAT_FRAME, PROTOCOL_HEADER
from amqp_router.protocol.methods import METHODS, Method
from tests.nodes import Client, SimNode, raw_frame

STARTING, TUNING, OPENING = ConnectionState.STARTING, ConnectionState.TUNING, ConnectionState.OPENING
RUNNING, CLOSING, CLOSED = ConnectionState.RUNNING, ConnectionState.CLOSING, ConnectionState.CLOSED
TUNE_OK = m.ConnectionTuneOk(2047, 131072, 0)


def client_in(state: ConnectionState) -> Client:
    """A connection whose handshake has come so far."""
    client = Client(SimNode())
    if state is ConnectionState.HEADER:
        return client
    client.feed(PROTOCOL_HEADER)
    for until, method in (
        (STARTING, client.start_ok()),
        (TUNING, TUNE_OK),
        (OPENING, m.ConnectionOpen("/")),
        (RUNNING, m.ConnectionStart()),  # nothing a client may send
    ):
        if state is until:
            break
        client.send(method, channel=0)
    client.take()
    assert client.machine.state is state
    return client


# -- the way that leads there -----------------------------------------------------------------------


def test_handshake() -> None:
    client = Client(SimNode(options=ConnectionOptions(channel_max=100, frame_max=8192, heartbeat_s=7)))
    client.feed(PROTOCOL_HEADER)
    (start,) = client.take()
    assert start.method == m.ConnectionStart(0, 9, {"product": ("S", b"test")}, b"AMQPLAIN PLAIN", b"en_US")
    client.send(client.start_ok(), channel=0)
    assert [received.method for received in client.take()] == [m.ConnectionTune(100, 8192, 7)]
    client.send(m.ConnectionTuneOk(50, 4096, 3), channel=0)
    client.send(m.ConnectionOpen("/"), channel=0)
    assert [received.method for received in client.take()] == [m.ConnectionOpenOk()]
    machine = client.machine
    assert machine.running
    assert (machine.session.channel_max, machine.session.frame_max, machine.session.heartbeat_s) == (
        50,
        4096,
        3,
    )
    assert machine.user.name == "guest"
    assert machine.shared.consumer_cancel_notify


def test_handshake_octet_by_octet() -> None:
    client = Client(SimNode())
    methods = (client.start_ok(), TUNE_OK, m.ConnectionOpen("/"))
    for octet in PROTOCOL_HEADER + b"".join(m.frame(0, method) for method in methods):
        client.feed(bytes([octet]))
    assert [type(received.method) for received in client.take()] == [
        m.ConnectionStart,
        m.ConnectionTune,
        m.ConnectionOpenOk,
    ]


def test_opened_is_called_once_with_the_connection_running() -> None:
    client = client_in(OPENING)
    seen: list[bool] = []
    client.machine.on_opened = lambda: seen.append(client.machine.running)
    client.send(m.ConnectionOpen("/"), channel=0)
    assert seen == [True]


def test_heartbeats_before_the_connection_is_open() -> None:
    for state in (STARTING, TUNING, OPENING, RUNNING):
        client = client_in(state)
        client.feed(HEARTBEAT_FRAME)
        assert client.machine.state is state
        assert client.take() == []


def test_limits_of_zero_where_the_server_has_none() -> None:
    client = Client(SimNode(options=ConnectionOptions(channel_max=0, frame_max=0)))
    client.feed(PROTOCOL_HEADER)
    client.send(client.start_ok(), m.ConnectionTuneOk(0, 0, 0), m.ConnectionOpen("/"), channel=0)
    assert client.machine.running
    assert client.machine.session.frame_max == 1 << 31
    assert client.machine.session.channel_max == 65535


# -- the protocol header ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x00\x09\x00", b"AMQP\x01\x01\x0a\x00", b"GET / HTTP/1.1\r\n\r\n", bytes(8)]
)
def test_wrong_protocol_header(header: bytes) -> None:
    client = Client(SimNode())
    client.feed(header)
    assert bytes(client.wire) == PROTOCOL_HEADER
    assert client.machine.state is CLOSED
    assert client.machine.close_delay_s == 0
    client.feed(PROTOCOL_HEADER)
    assert len(client.wire) == 8


# -- login ------------------------------------------------------------------------------------------


def wrong_password(client: Client) -> m.ConnectionStartOk:
    right = client.start_ok()
    return m.ConnectionStartOk(right.client_properties, "PLAIN", b"\0guest\0wrong", "en_US")


def test_login_refused_with_a_reason() -> None:
    client = client_in(STARTING)
    client.send(wrong_password(client), channel=0)
    close = client.closed_with(errors.LoginRefused)
    assert (close.class_id, close.method_id) == (0, 0)
    assert client.machine.state is CLOSING


def test_login_refused_without_a_word() -> None:
    client = Client(SimNode(), capabilities=False)
    client.feed(PROTOCOL_HEADER)
    client.take()
    client.send(wrong_password(client), channel=0)
    assert client.take() == []
    assert client.machine.state is CLOSED
    assert client.machine.close_delay_s == SILENT_DELAY_S


def test_unknown_mechanism() -> None:
    client = client_in(STARTING)
    client.send(m.ConnectionStartOk({}, "GSSAPI", b"", "en_US"), channel=0)
    assert_closed_in_silence(client)


@pytest.mark.parametrize("capabilities", [("t", True), ("F", {"consumer_cancel_notify": ("S", b"yes")})])
def test_capabilities_that_are_none(capabilities: tuple[str, object]) -> None:
    client = client_in(STARTING)
    method = m.ConnectionStartOk({"capabilities": capabilities}, "PLAIN", b"\0guest\0guest", "en_US")
    client.send(method, channel=0)
    assert client.machine.state is TUNING
    assert not client.machine.shared.consumer_cancel_notify


@pytest.mark.parametrize("whole", [False, True])
def test_frame_too_long_before_login(whole: bool) -> None:
    client = client_in(STARTING)
    frame = raw_frame(1, 0, bytes(4097))
    client.feed(frame if whole else frame[:100])
    assert (client.machine.state, client.take()) == (CLOSED, [])


def test_frame_of_the_allowed_length_before_login() -> None:
    client = client_in(STARTING)
    client.feed(m.frame(0, client.start_ok())[:3] + (4096).to_bytes(4, "big"))
    assert client.machine.state is STARTING


# -- tuning and opening -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel_max", "frame_max"),
    [(2048, 131072), (0, 131072), (2047, 131073), (2047, FRAME_SIZE_MIN - 1), (2047, 0), (65535, 131072)],
)
def test_limits_above_the_offer(channel_max: int, frame_max: int) -> None:
    client = client_in(TUNING)
    client.send(m.ConnectionTuneOk(channel_max, frame_max, 0), channel=0)
    assert (client.machine.state, client.machine.close_delay_s) == (CLOSED, SILENT_DELAY_S)
    assert client.take() == []


def test_unknown_virtual_host() -> None:
    client = client_in(OPENING)
    client.send(m.ConnectionOpen("nope"), channel=0)
    close = client.closed_with(errors.NotAllowed)
    assert close == m.ConnectionClose(530, "NOT_ALLOWED - vhost nope not found", 10, 40)


# -- the table of states ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "cls"),
    [
        (state, cls)
        for state, cls in itertools.product((STARTING, TUNING, OPENING), METHODS.values())
        if (state, cls) not in MOVES
    ],
    ids=lambda value: value.NAME if isinstance(value, type) else value.name,
)
def test_method_that_is_not_due(state: ConnectionState, cls: type[Method]) -> None:
    client = client_in(state)
    client.send(cls(), channel=0)
    if state is OPENING:
        close = client.closed_with(errors.ChannelError)
        assert close.reply_text == "CHANNEL_ERROR - unexpected method in connection state opening"
        assert (close.class_id, close.method_id) == (cls.CLASS_ID, cls.METHOD_ID)
        assert client.machine.state is CLOSING
    else:
        assert_closed_in_silence(client)


def assert_closed_in_silence(client: Client) -> None:
    """Before it has logged in and agreed, a client is told nothing, as measured on RabbitMQ 3.10.8."""
    assert client.take() == []
    assert (client.machine.state, client.machine.close_delay_s) == (CLOSED, SILENT_DELAY_S)


@pytest.mark.parametrize("state", [STARTING, TUNING, OPENING])
@pytest.mark.parametrize("kind", [1, 2, 3, 8])
def test_frame_on_another_channel_during_the_handshake(state: ConnectionState, kind: int) -> None:
    client = client_in(state)
    client.feed(raw_frame(kind, 1, m.encode(m.ChannelOpen()) if kind != 8 else b""))
    if state is OPENING:
        client.closed_with(errors.UnexpectedFrame)
    else:
        assert_closed_in_silence(client)


@pytest.mark.parametrize("cls", METHODS.values(), ids=lambda cls: cls.NAME)
def test_method_on_channel_0_of_a_running_connection(cls: type[Method]) -> None:
    client = client_in(RUNNING)
    client.send(cls(), channel=0)
    if cls is m.ConnectionClose:
        assert client.machine.state is CLOSED
        assert [received.method for received in client.take()] == [m.ConnectionCloseOk()]
    elif cls is m.ConnectionUpdateSecret:
        assert client.machine.running
        assert [received.method for received in client.take()] == [m.ConnectionUpdateSecretOk()]
    else:
        close = client.closed_with(errors.ChannelError)
        assert close.reply_text == "CHANNEL_ERROR - unexpected method in connection state running"
        assert (close.class_id, close.method_id) == (cls.CLASS_ID, cls.METHOD_ID)


@pytest.mark.parametrize("state", [STARTING, TUNING, OPENING, RUNNING])
def test_client_closes(state: ConnectionState) -> None:
    client = client_in(state)
    client.send(m.ConnectionClose(), channel=0)
    assert [received.method for received in client.take()] == [m.ConnectionCloseOk()]
    assert client.machine.state is CLOSED
    client.feed(m.frame(0, m.ConnectionClose()))
    assert client.take() == []


@pytest.mark.parametrize("cls", METHODS.values(), ids=lambda cls: cls.NAME)
def test_method_while_the_server_closes(cls: type[Method]) -> None:
    """All is dropped but the end: close-ok, or a close that crossed ours."""
    client = client_in(RUNNING)
    client.machine.close(errors.ConnectionForced("for the test"))
    client.node.quiet()
    client.take()
    client.send(cls(), channel=0)
    client.send(cls(), channel=1)
    answers = [received.method for received in client.take()]
    if cls is m.ConnectionClose:
        assert answers == [m.ConnectionCloseOk()]
    else:
        assert answers == []
    over = cls in (m.ConnectionClose, m.ConnectionCloseOk)
    assert client.machine.state is (CLOSED if over else CLOSING)


def test_closing_twice_says_so_once() -> None:
    client = client_in(RUNNING)
    client.machine.close(errors.ConnectionForced("once"))
    client.machine.close(errors.ConnectionForced("twice"))
    client.node.quiet()
    (received,) = client.take()
    assert received.method.reply_text == "CONNECTION_FORCED - once"


def test_every_state_leads_to_the_end() -> None:
    """The table has no trap: from each state that reads frames a client can get to CLOSED."""
    for state in (STARTING, TUNING, OPENING, RUNNING, CLOSING):
        assert MOVES[state, m.ConnectionClose] is CLOSED
