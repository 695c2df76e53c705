"""An open connection: its channels, its errors, and chunks cut anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.connection.ports import ConnectionOptions
from amqp_router.connection.states import ConnectionState
from amqp_router.protocol import errors
from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from amqp_router.protocol.errors import AMQPError
from tests.nodes import (
    PERSISTENT,
    TRANSIENT,
    Client,
    SimNode,
    content_frames,
    content_header,
    publish_frames,
    raw_frame,
    split_frames,
)

CLOSED, CLOSING = ConnectionState.CLOSED, ConnectionState.CLOSING


@pytest.fixture
def client() -> Client:
    return Client(SimNode()).open(1)


def names(client: Client) -> list[str]:
    """What came, by name."""
    client.node.quiet()
    return [received.method.NAME for received in client.take()]


# -- wrong frames: 501 and 505 as in RabbitMQ ---------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (
            raw_frame(1, 1, b"abcd")[:-1] + b"\0",
            errors.FrameError,
            'type 1, all octets = <<"abcd">>: {invalid_frame_end_marker,0}',
        ),
        (raw_frame(9, 0, b"x"), errors.FrameError, 'type 9, all octets = <<"x">>: unknown_frame'),
        (raw_frame(4, 1, b""), errors.FrameError, "type 4, all octets = <<>>: unknown_frame"),
        (
            b"\x01\0\x01\x00\x03\x0d\x40" + b"y" * 20,
            errors.FrameError,
            "type 1, all octets = <<>>: {frame_too_large,200000,131064}",
        ),
        (
            b"\x03\0\x01\xff\xff\xff\xff",
            errors.FrameError,
            "type 3, all octets = <<>>: {frame_too_large,4294967295,131064}",
        ),
        (raw_frame(8, 0, b"x"), errors.FrameError, 'type 8, all octets = <<"x">>: unknown_frame'),
        (raw_frame(8, 1, b""), errors.UnexpectedFrame, "type 8, all octets = <<>>"),
        (raw_frame(2, 0, b""), errors.UnexpectedFrame, "type 2, all octets = <<>>"),
        (raw_frame(3, 0, b""), errors.UnexpectedFrame, "type 3, all octets = <<>>"),
        (raw_frame(2, 1, bytes(14)), errors.UnexpectedFrame, errors.EXPECTED_METHOD),
        (raw_frame(3, 1, b"body"), errors.UnexpectedFrame, errors.EXPECTED_METHOD),
        (raw_frame(1, 1, b""), errors.FrameError, "type 1, all octets = <<>>: unknown_frame"),
        (raw_frame(1, 1, b"\0\x3c\0"), errors.FrameError, "type 1, all octets = <<0,60,0>>: unknown_frame"),
        (raw_frame(1, 1, b"\0\x3c\x03\xe8"), errors.CommandInvalid, "unknown method 60.1000"),
        (raw_frame(1, 1, b"\0\x3c\0\x46\0"), errors.FrameError, "cannot decode <<0>>"),
        (m.frame(1, m.ConnectionOpen("/")), errors.CommandInvalid, "unimplemented method"),
        (m.frame(2, m.ConnectionOpen("/")), errors.CommandInvalid, "unimplemented method"),
        (m.frame(1, m.BasicAck(1, False))[:-2] + b"\xce\xce", errors.PreconditionFailed, ""),
        (m.frame(1, m.ConfirmSelectOk()), errors.CommandInvalid, "unimplemented method"),
        (m.frame(1, m.ChannelOpen()), errors.ChannelError, "second 'channel.open' seen"),
        (m.frame(2, m.ChannelClose()), errors.ChannelError, "expected 'channel.open'"),
        (m.frame(2, m.ChannelCloseOk()), errors.ChannelError, "expected 'channel.open'"),
        (raw_frame(2, 2, bytes(14)), errors.UnexpectedFrame, errors.EXPECTED_METHOD),
        (raw_frame(3, 2, b""), errors.UnexpectedFrame, errors.EXPECTED_METHOD),
        (m.frame(1, m.ChannelCloseOk()), errors.CommandInvalid, "unimplemented method"),
        (m.frame(1, m.QueuePurge("\udcff")), errors.FrameError, errors.MALFORMED_TEXT),
        (m.frame(1, m.BasicConsume("", "\udcc3(")), errors.FrameError, errors.MALFORMED_TEXT),
    ],
)
def test_wrong_frame(client: Client, data: bytes, error: type[AMQPError], text: str) -> None:
    client.feed(data)
    close = client.closed_with(error)
    if text:
        assert close.reply_text == f"{error.name} - {text}"
    assert not client.node.faults


NO_HEADER = "expected content header for class 60, got non content header frame instead"
WRONG_CLASS = "expected content header for class 60, got one for class 50 instead"
TOO_MUCH = "content body of 4 octets exceeds the announced 3"


@pytest.mark.parametrize(
    ("frames", "error", "text"),
    [
        ([m.frame(1, m.BasicGet())], errors.UnexpectedFrame, NO_HEADER),
        ([raw_frame(3, 1, b"x")], errors.UnexpectedFrame, NO_HEADER),
        ([raw_frame(2, 1, b"\0\x32" + bytes(12))], errors.UnexpectedFrame, WRONG_CLASS),
        ([raw_frame(2, 1, b"\0\x3c")], errors.FrameError, "type 2, all octets = <<0,60>>: unknown_frame"),
        ([content_header(1, 3), content_header(1, 3)], errors.UnexpectedFrame, errors.EXPECTED_BODY),
        ([content_header(1, 3), m.frame(1, m.BasicGet())], errors.UnexpectedFrame, errors.EXPECTED_BODY),
        ([content_header(1, 3), raw_frame(3, 1, b"four")], errors.FrameError, TOO_MUCH),
        ([content_header(1, 3), raw_frame(3, 1, b"ab"), raw_frame(3, 1, b"cd")], errors.FrameError, TOO_MUCH),
        ([content_header(1, 0), raw_frame(3, 1, b"")], errors.UnexpectedFrame, errors.EXPECTED_METHOD),
        (
            [content_header(1, 0, b"\x10\0")],
            errors.FrameError,
            "type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,16,0>>: malformed property list",
        ),
        ([raw_frame(2, 1, b"\0\x3c\0\1" + bytes(10))], errors.UnexpectedFrame, NO_HEADER),
    ],
)
def test_wrong_content(client: Client, frames: list[bytes], error: type[AMQPError], text: str) -> None:
    """In one chunk and frame by frame."""
    frames = [m.frame(1, m.BasicPublish("", "q")), *frames]
    other = Client(client.node).open(1)
    client.feed(b"".join(frames))
    for frame in frames:
        other.feed(frame)
    for each in (client, other):
        assert each.closed_with(error).reply_text == f"{error.name} - {text}"
    assert not client.node.faults


def test_frames_of_the_largest_size_and_one_octet_more() -> None:
    """8 octets more than agreed pass, as in RabbitMQ. The fast way must not let more through."""
    for size, is_refused in ((4088, False), (4096, False), (4097, True)):
        client = Client(SimNode(), frame_max=4096).open(1)
        queue = client.declare("q")
        client.publish(bytes(size), "q")  # cut by the client
        publish = m.frame(1, m.BasicPublish("", "q"))
        client.feed(b"".join([publish, *content_frames(1, TRANSIENT, bytes(size), 1 << 20)]))
        client.node.quiet()
        assert queue.message_count() == (1 if is_refused else 2)
        if is_refused:
            close = client.closed_with(errors.FrameError)
            assert close.reply_text.endswith("{frame_too_large,4097,4088}")


def test_heartbeat_between_the_frames_of_a_content(client: Client) -> None:
    queue = client.declare("q")
    frames = publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"body", 2)
    client.feed(HEARTBEAT_FRAME.join(frames))
    client.node.quiet()
    assert queue.message_count() == 1


def test_error_of_ours_ends_this_connection_alone(client: Client) -> None:
    other = Client(client.node).open(1)
    client.machine.channels[1].content.args = 5  # nothing a peer could do
    client.feed(content_header(1, 0))
    client.closed_with(errors.InternalError)
    assert len(client.node.faults) == 1
    assert other.call(m.BasicGet("q"), m.ChannelClose).reply_code == 404


def test_nothing_is_read_after_an_error(client: Client) -> None:
    queue = client.declare("q")
    publish = b"".join(publish_frames(1, m.BasicPublish("", "q"), TRANSIENT, b"x"))
    client.feed(publish + raw_frame(9, 0, b"") + publish)
    client.feed(publish)
    client.node.quiet()
    assert client.machine.state is CLOSING
    assert queue.message_count() == 1
    client.feed(m.frame(0, m.ConnectionCloseOk()))
    assert client.machine.state is CLOSED


# -- channels ---------------------------------------------------------------------------------------


def test_channel_error_leaves_the_others() -> None:
    client = Client(SimNode()).open(1, 7)
    client.declare("q", channel=7)
    client.send(m.BasicAck(1))
    client.publish(b"x", "q", channel=7)
    client.node.quiet()
    received = client.take()[-1]
    assert received.channel == 1
    assert received.method == m.ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80)
    assert client.node.queue("q").message_count() == 1


def test_closing_channel_drops_everything_until_close_ok(client: Client) -> None:
    client.declare("q")
    client.send(m.BasicAck(1))
    client.publish(b"lost", "q")
    client.feed(m.frame(1, m.BasicPublish("", "q")) + content_header(1, 9) + m.frame(1, m.QueuePurge("q")))
    assert names(client) == ["channel.close"]
    client.send(m.ChannelCloseOk())
    client.send(m.ChannelOpen())
    assert names(client) == ["channel.open-ok"]
    assert client.call(m.BasicGet("q"), m.BasicGetEmpty)


def test_closes_that_cross(client: Client) -> None:
    client.send(m.BasicAck(1))
    client.send(m.ChannelClose(), m.ChannelCloseOk(), m.ChannelOpen())
    assert names(client) == ["channel.close", "channel.close-ok", "channel.open-ok"]


def test_reopening_before_close_ok(client: Client) -> None:
    client.send(m.BasicAck(1), m.ChannelOpen())
    assert client.closed_with(errors.ChannelError).reply_text.endswith("second 'channel.open' seen")


def test_channel_number_used_again_knows_nothing(client: Client) -> None:
    client.declare("q")
    client.publish(b"x", "q")
    client.send(m.ConfirmSelect(), m.BasicQos(0, 1), m.BasicGet("q"), m.ChannelClose(), m.ChannelOpen())
    client.send(m.BasicGet("q"))
    client.node.quiet()
    received = client.take()[-1].method
    assert isinstance(received, m.BasicGetOk)
    assert (received.delivery_tag, received.redelivered) == (1, True)
    channel = client.machine.channels[1]
    assert channel.confirms is None
    assert channel.prefetch == 0
    assert channel.last_queue == ""


def test_too_many_channels() -> None:
    client = Client(SimNode(options=ConnectionOptions(channel_max=3)))
    client.feed(PROTOCOL_HEADER)
    client.send(client.start_ok(), m.ConnectionTuneOk(3, 131072, 0), m.ConnectionOpen("/"), channel=0)
    for number in (1, 2000, 65535):
        client.send(m.ChannelOpen(), channel=number)
    client.take()
    client.send(m.ChannelOpen(), channel=2)
    close = client.closed_with(errors.NotAllowed)
    assert close.reply_text == (
        "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    )
    assert (close.class_id, close.method_id) == (0, 0)


def test_message_above_the_largest_allowed() -> None:
    client = Client(SimNode(options=ConnectionOptions(message_bytes_max=100))).open(1, 2)
    queue = client.declare("q")
    client.publish(bytes(100), "q")
    client.publish(bytes(101), "q")
    client.publish(b"more", "q", channel=2)
    client.node.quiet()
    close = client.take()[0]
    assert close.channel == 1
    assert close.method == m.ChannelClose(
        406, "PRECONDITION_FAILED - message size 101 is larger than configured max size 100", 60, 40
    )
    assert queue.message_count() == 2
    assert client.machine.dispatch.assembling == 0


def test_lost_connection_gives_back_what_it_holds(client: Client) -> None:
    other = Client(client.node).open(1)
    queue = client.declare("q")
    client.send(m.QueueDeclare("mine", exclusive=True), m.BasicConsume("q", "t"))
    client.publish(b"1", "q")
    client.publish(b"2", "q")
    client.node.quiet()
    client.take()
    assert (queue.message_count(), queue.unacked_count, len(queue.consumers)) == (0, 2, 1)
    client.drop()
    client.drop()
    client.node.quiet()
    assert (queue.message_count(), queue.unacked_count, len(queue.consumers)) == (2, 0, 0)
    assert list(client.node.vhost.queues) == ["q"]
    assert other.call(m.BasicGet("q"), m.BasicGetOk).redelivered
    client.publish(b"3", "q")
    assert queue.message_count() == 1


def test_late_events_of_a_lost_connection() -> None:
    """Syncs and commits that end after the client has gone find nobody, and that is fine."""
    node = SimNode()
    client = Client(node).open(1)
    client.send(m.ConfirmSelect(), m.QueueDeclare("q", durable=True))
    client.publish(b"x", "q", properties=PERSISTENT)
    client.drop()
    node.settle()
    assert not node.faults
    assert client.machine.inflow.unsynced == 0
    assert node.queue("q").message_count() == 1


# -- chunks cut anywhere ----------------------------------------------------------------------------


def in_pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[start:end] for start, end in pairwise(places)]


def outcome(pieces: list[bytes], frame_max: int) -> tuple[bytes, list[object]]:
    """What a client gets that sends these pieces before the loop turns, and what is in the queues then."""
    node = SimNode(options=ConnectionOptions(message_bytes_max=6000))
    client = Client(node, frame_max=frame_max).open(1)
    client.declare("q")
    client.declare("d", durable=True)
    start = len(client.wire)
    node.busy = True
    for piece in pieces:
        client.feed(piece)
    node.busy = False
    node.settle()
    assert not node.faults
    state: list[object] = []
    for name in ("q", "d"):
        queue = node.queue(name)
        state += [queue.message_count(), queue.unacked_count, queue.publish_total]
        while message := queue.take(True):
            state.append((message.route, message.flags & ~2, message.properties(), message.body()))
    return bytes(client.wire[start:]), [*state, client.machine.state]


def requests() -> st.SearchStrategy[bytes]:
    """Frames of a client that does not do everything right, on three channels."""
    numbers = st.integers(1, 3)
    publish = st.builds(
        lambda channel, key, properties, size, payload_max: b"".join(
            publish_frames(channel, m.BasicPublish("", key, True), properties, b"b" * size, payload_max)
        ),
        numbers,
        st.sampled_from(["q", "d", "nowhere"]),
        st.sampled_from([TRANSIENT, PERSISTENT, b"\x10\0"]),
        st.sampled_from([0, 1, 5, 300, 4088, 4089, 6000, 6001]),
        st.sampled_from([3, 4088, 9000]),
    )
    method = st.builds(
        m.frame,
        numbers,
        st.sampled_from(
            [
                m.ChannelOpen(),
                m.ChannelOpen(),
                m.ChannelClose(),
                m.ChannelCloseOk(),
                m.ConfirmSelect(),
                m.BasicGet("q"),
                m.BasicGet("d", True),
                m.BasicConsume("q", "t", nowait=True),
                m.BasicAck(1),
                m.BasicAck(0, True),
                m.BasicNack(2, True, True),
                m.BasicReject(1, True),
                m.BasicRecover(True),
                m.QueuePurge("d"),
            ]
        ),
    )
    other = st.sampled_from([HEARTBEAT_FRAME, raw_frame(3, 1, b""), m.frame(0, m.ConnectionClose())])
    return st.lists(publish | publish | method | other, max_size=12).map(b"".join)


@settings(deadline=None, max_examples=300)
@given(
    data=requests(),
    tail=st.sampled_from([b"", raw_frame(9, 0, b""), raw_frame(1, 1, b"abcd")[:-1] + b"\0", b"\x01\0"]),
    cuts=st.lists(st.integers(1, 2000), max_size=12),
    frame_max=st.sampled_from([4096, 131072]),
)
def test_any_split_of_the_bytes_gives_the_same(
    data: bytes, tail: bytes, cuts: list[int], frame_max: int
) -> None:
    whole = outcome([data + tail], frame_max)
    assert outcome(in_pieces(data + tail, cuts), frame_max) == whole
    split_frames(whole[0])


@settings(deadline=None, max_examples=15)
@given(requests())
def test_octet_by_octet_gives_the_same(data: bytes) -> None:
    data = data[:1500]
    assert outcome([bytes([octet]) for octet in data], 4096) == outcome([data], 4096)


# -- any bytes at all -------------------------------------------------------------------------------


def garbled() -> st.SearchStrategy[bytes]:
    """Bytes that are frames at first sight, or were before some octets were changed, cut out or put in."""
    frames = st.builds(
        raw_frame,
        st.sampled_from([1, 1, 1, 2, 3, 8, 9]),
        st.integers(0, 3),
        st.binary(max_size=30)
        | st.builds(
            lambda ids, rest: b"%b%b" % (b"".join(number.to_bytes(2, "big") for number in ids), rest),
            st.sampled_from(sorted(m.METHODS)),
            st.binary(max_size=30),
        ),
    )
    changes = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.binary(max_size=3)), max_size=4)
    return st.builds(_garble, requests() | st.lists(frames, max_size=6).map(b"".join), changes) | st.binary()


def _garble(data: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for where, cut, put in changes:
        at = int(where * len(data))
        data = data[:at] + put + data[at + cut :]
    return data


@settings(deadline=None, max_examples=300)
@given(pieces=st.lists(garbled(), min_size=1, max_size=3))
def test_any_bytes_on_an_open_connection(pieces: list[bytes]) -> None:
    node = SimNode()
    client = Client(node).open(1, 2)
    client.declare("q")
    client.declare("d", durable=True)
    for piece in pieces:
        client.feed(piece)
        node.quiet()
    node.settle()
    assert not node.faults
    client.take()
    client.drop()
    node.settle()
    for queue in node.vhost.queues.values():
        queue.empty()
    assert node.budget.used == 0


@settings(deadline=None, max_examples=300)
@given(
    pieces=st.lists(garbled(), min_size=1, max_size=3),
    good=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_any_bytes_during_the_handshake(pieces: list[bytes], good: list[bool]) -> None:
    node = SimNode()
    client = Client(node)
    steps = [
        PROTOCOL_HEADER,
        *(
            m.frame(0, method)
            for method in (client.start_ok(), m.ConnectionTuneOk(10, 4096), m.ConnectionOpen("/"))
        ),
    ]
    for step, is_sent in zip(steps, good, strict=True):
        if not is_sent:
            break
        client.feed(step)
    for piece in pieces:
        client.feed(piece)
    node.settle()
    assert not node.faults
    if bytes(client.wire) != PROTOCOL_HEADER:
        client.take()


def test_very_many_channels_are_opened_in_slices() -> None:
    """2,000 opened by one write held the event loop for 9 ms."""
    client = Client(SimNode()).open()
    opens = b"".join([raw_frame(1, number, b"\x00\x14\x00\x0a\x00") for number in range(1, 2001)])
    client.feed(opens)
    assert 0 < len(client.machine.channels) < 100
    client.node.settle()
    assert len(client.machine.channels) == 2000
