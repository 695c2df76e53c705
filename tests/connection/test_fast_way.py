"""The fast way through the machine does what the slow one does, byte for byte.

Fast: a chunk is scanned, contents that are whole in it go straight to ``publishing``, acks to ``delivery``.
Slow: every frame by itself through ``Machine._frame``, as if it were none of the plain ones. Both get the
same frames, and what leaves and what is left must not differ by an octet: the output, the queues, the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp_router.connection.failing import failed_channel
from amqp_router.connection.machine import Machine
from amqp_router.connection.ports import ConnectionOptions
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import ChannelException, ConnectionException
from amqp_router.protocol.properties import encode_properties
from persistence.options import LogOptions
from tests.nodes import (
    PERSISTENT,
    TRANSIENT,
    Client,
    SimNode,
    content_header,
    publish_frames,
    raw_frame,
    split_frames,
)

SIZES = [0, 1, 7, 8, 200, 4087, 4088, 4089, 131063, 131064, 131065, (1 << 18) - 30, (1 << 18) + 30, 300 << 10]
MESSAGE_BYTES_MAX = 300 << 10
CHANNELS = (1, 2, 3)


def take_slowly(machine: Machine, frame: bytes) -> None:
    """Hand one frame to the machine by the way that takes anything."""
    frames = machine.frames
    frames.add(frame)
    try:
        found = frames.next()
        if found < 0:
            machine._refuse_frame(found)
        else:
            machine._frame(frames.kind, frames.number, frames.payload())
    except ChannelException as error:
        machine._close_channel(error)
    except ConnectionException as error:
        failed = failed_channel(machine.dispatch, error)
        machine.close(error, frames.class_id, frames.method_id, failed)
    for publisher in machine.open_runs:
        publisher.close_run()
    machine.open_runs.clear()


class Side:
    """One node with one client, and the queues that both sides have."""

    def __init__(self, frame_max: int) -> None:
        options = ConnectionOptions(message_bytes_max=MESSAGE_BYTES_MAX, channel_max=5)
        self.node = SimNode(
            options=options, log_options=LogOptions(batch_bytes_max=2000, segment_bytes_max=9000)
        )
        self.client = Client(self.node, frame_max=frame_max)
        # Three queues through exchanges, so that runs wait for several logs.
        vhost = self.node.vhost
        for name, durable in (("q", False), ("d", True), ("e", True)):
            vhost.declare_queue(name, durable=durable)
            vhost.bind_queue(name, "amq.fanout", "", {}, None)
        vhost.bind_queue("d", "amq.topic", "*.one", {}, None)
        vhost.bind_queue("d", "amq.headers", "", {"x-match": ("S", b"all"), "a": ("I", 1)}, None)
        self.node.settle()
        self.client.feed(b"AMQP\0\0\x09\1")
        tune = m.ConnectionTuneOk(5, frame_max, 0)
        self.client.send(self.client.start_ok(), tune, m.ConnectionOpen("/"), channel=0)
        for number in CHANNELS:
            self.client.send(m.ChannelOpen(), channel=number)

    def fast(self, pieces: Sequence[bytes]) -> None:
        self.node.busy = True  # the agenda runs behind the last piece, as on the other side
        for piece in pieces:
            self.client.feed(piece)
        self.node.busy = False
        self.node.quiet()

    def slow(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            take_slowly(self.client.machine, frame)
        self.node.quiet()

    def state(self) -> dict[str, Any]:
        """Everything that can be seen from outside, and what waits inside."""
        machine = self.client.machine
        found: dict[str, Any] = {
            "machine": (
                machine.state,
                machine.dispatch.assembling,
                machine.inflow.unsynced,
                sorted(machine.channels),
            ),
            "memory": self.node.budget.used,
            "events": self.node.events,
            "faults": self.node.faults,
            "files": {
                name: None if inode is None else bytes(inode.now)
                for name, inode in self.node.disk.names.items()
            },
        }
        # Which of two channels hears first of what one sync made durable may differ.
        for frame in split_frames(bytes(self.client.wire)):
            found.setdefault(f"output of channel {int.from_bytes(frame[1:3], 'big')}", []).append(frame)
        for name in ("q", "d", "e"):
            queue = self.node.queue(name)
            found[name] = [
                queue.message_count(),
                queue.unacked_count,
                queue.publish_total,
                queue.deliver_total,
                queue.ack_total,
                len(queue.receipts.runs) > 0,
            ]
        for number, channel in machine.channels.items():
            delivery, publishing = channel.delivery, channel.publishing
            found[f"channel {number}"] = [
                channel.state,
                channel.content.args,
                delivery.base,
                delivery.next_tag,
                delivery.outstanding,
                publishing.next_sequence,
                publishing.publish_total,
                publishing.return_total,
            ]
        return found

    def contents(self) -> list[object]:
        """What the queues hold, frames as they came."""
        found: list[object] = []
        for name in ("q", "d", "e"):
            queue = self.node.queue(name)
            while message := queue.take(True):
                found.append((name, message.flags, message.route, message.channel, message.content))
        return found


class Publish(NamedTuple):
    """A publish and its content; ``twist`` says what is odd about it."""

    channel: int
    method: m.BasicPublish
    properties: bytes = PERSISTENT
    size: int = 0
    payload_max: int = 131064
    twist: str = ""

    def frames(self) -> list[bytes]:
        channel, size = self.channel, self.size
        frames = publish_frames(channel, self.method, self.properties, b"\xce" * size, self.payload_max)
        if self.twist == "empty frame":
            frames.insert(2, raw_frame(3, channel, b""))
        elif self.twist == "one more frame":
            frames[1] = content_header(channel, size + 5, self.properties)
            frames.append(raw_frame(3, channel, b"55555"))
        elif self.twist == "method within":
            frames.insert(2, m.frame(channel, m.BasicAck(1, True)))
        elif self.twist == "too much":
            frames.append(raw_frame(3, channel, b"1"))
        elif self.twist == "body elsewhere" and size:
            frames[-1] = raw_frame(3, channel + 1, b"\xce" * size)
        return frames


class Other(NamedTuple):
    """One frame of another method."""

    channel: int
    method: m.Method | None

    def frames(self) -> list[bytes]:
        return [raw_frame(8, 0, b"") if self.method is None else m.frame(self.channel, self.method)]


Turn = Sequence[Publish | Other]


def publishes() -> st.SearchStrategy[Publish]:
    """Some break a rule."""
    properties = st.sampled_from(
        [
            TRANSIENT,
            PERSISTENT,
            PERSISTENT,
            encode_properties({"headers": {"a": ("I", 1)}, "delivery_mode": 2}),
            encode_properties({"headers": {"CC": ("A", [("S", b"e"), ("S", b"q")])}, "delivery_mode": 2}),
            encode_properties({"headers": {"BCC": ("A", [("S", b"d")]), "x": ("V", None)}}),
            encode_properties({"content_type": "text/plain", "priority": 3, "user_id": "guest"}),
            encode_properties({"user_id": "somebody else"}),
            encode_properties({"expiration": "100"}),
            b"\x10\x00",
            b"\x20\x00\x00\x00\x00\x09",
        ]
    )
    method = st.builds(
        m.BasicPublish,
        st.sampled_from(["", "", "", "amq.fanout", "amq.topic", "amq.headers", "nope", "amq.rabbitmq.trace"]),
        st.sampled_from(["q", "d", "d", "e", "a.one", "missing"]),
        st.booleans(),
        st.sampled_from([False] * 9 + [True]),
    )
    return st.builds(
        Publish,
        st.sampled_from([1, 1, 1, 2, 3]),
        method,
        properties,
        st.sampled_from(SIZES[:8] * 4 + SIZES),
        st.sampled_from([1 << 20, 1 << 20, 4088, 2044]),
        st.sampled_from(
            [""] * 5 + ["empty frame", "one more frame", "too much", "method within", "body elsewhere"]
        ),
    )


def others() -> st.SearchStrategy[Other]:
    tags = st.integers(0, 12)
    method = st.one_of(
        st.builds(m.BasicAck, tags, st.booleans()),
        st.builds(m.BasicAck, tags, st.booleans()),
        st.builds(m.BasicAck, st.sampled_from([1 << 32, (1 << 64) - 1, 1 << 63]), st.booleans()),
        st.builds(m.BasicNack, tags, st.booleans(), st.booleans()),
        st.builds(m.BasicReject, tags, st.booleans()),
        st.builds(m.BasicGet, st.sampled_from(["q", "d", "e"]), st.booleans()),
        st.builds(
            m.BasicConsume, st.sampled_from(["q", "d"]), st.sampled_from(["s", "t"]), no_ack=st.booleans()
        ),
        st.builds(m.BasicCancel, st.sampled_from(["s", "t"])),
        st.builds(m.BasicQos, st.just(0), st.integers(0, 3), st.booleans()),
        st.sampled_from([m.ConfirmSelect(), m.ConfirmSelect(), m.BasicRecover(True), m.QueuePurge("d")]),
        st.sampled_from([m.ChannelClose(), m.ChannelCloseOk(), m.ChannelOpen()]),
        st.builds(m.QueueBind, st.sampled_from(["q", "e"]), st.just("amq.topic"), st.just("a.*")),
        st.none(),
    )
    return st.builds(Other, st.sampled_from([1, 1, 1, 2, 3]), method)


def turns_of_the_loop() -> st.SearchStrategy[list[list[Publish | Other]]]:
    return st.lists(st.lists(publishes() | publishes() | others(), max_size=14), min_size=1, max_size=4)


def mixed(requests: Turn, random: Random) -> list[bytes]:
    """The frames of all requests; those of different channels in any order, as a client may send them."""
    lanes: dict[bytes, list[bytes]] = {}
    for request in requests:
        frames = request.frames()
        lanes.setdefault(frames[0][1:3], []).extend(frames)
    merged = []
    while lanes:
        lane = random.choice(sorted(lanes))
        merged.append(lanes[lane].pop(0))
        if not lanes[lane]:
            del lanes[lane]
    return merged


def chunked(data: bytes, random: Random) -> list[bytes]:
    pieces = []
    while data:
        size = random.choice((1, 9, 300, 5000, 1 << 17, 1 << 18, 1 << 20))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def assert_same(fast: Side, slow: Side) -> None:
    left, right = fast.state(), slow.state()
    differing = [name for name in {**left, **right} if left.get(name) != right.get(name)]
    if differing:
        shown = {name: (str(left.get(name))[-300:], str(right.get(name))[-300:]) for name in differing}
        raise AssertionError(f"the two ways differ: {shown}")


def compare(turns: Sequence[Turn], frame_max: int, mix: bool, seed: int) -> None:
    random = Random(seed)
    fast, slow = Side(frame_max), Side(frame_max)
    for turn in [[Other(1, m.ConfirmSelect()), Other(2, m.ConfirmSelect())], *turns]:
        frames = mixed(turn, random) if mix else [frame for request in turn for frame in request.frames()]
        data = b"".join(frames)
        fast.fast(chunked(data, random))
        slow.slow(split_frames(data))
        assert_same(fast, slow)
        if random.random() < 0.7:
            for side in (fast, slow):
                side.node.sync_once()
            assert_same(fast, slow)
    for side in (fast, slow):
        side.node.settle()
        side.node.sleep(1)
        side.node.settle()
    assert_same(fast, slow)
    assert not fast.node.faults
    assert fast.contents() == slow.contents()


@settings(deadline=None, max_examples=150)
@given(
    turns=turns_of_the_loop(),
    frame_max=st.sampled_from([4096, 131072]),
    mix=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
@example([[Publish(1, m.BasicPublish("", "d"), size=300 << 10)] * 3], 131072, False, 1)
@example([[Publish(1, m.BasicPublish("", "d"), PERSISTENT, 300 << 10, 4088, "empty frame")]], 4096, False, 2)
@example([[Publish(1, m.BasicPublish("", "d"), PERSISTENT, 300, 100)]], 4096, False, 2)
@example([[Publish(1, m.BasicPublish("", "d"), PERSISTENT, 300, 100, "method within")]], 4096, False, 2)
@example(
    [[Publish(n, m.BasicPublish("amq.fanout"), PERSISTENT, 9000, 4088) for n in CHANNELS]], 4096, True, 3
)
def test_fast_and_slow_way_have_the_same_effects(
    turns: list[list[Publish | Other]], frame_max: int, mix: bool, seed: int
) -> None:
    compare(turns, frame_max, mix, seed)


def ordinary_turns(random: Random) -> list[Turn]:
    """What well-behaved clients send: publishes and acknowledgements, many of each."""
    turns: list[Turn] = [[Other(3, m.BasicConsume("d", "t")), Other(3, m.BasicConsume("q", "s"))]]
    tag = 0
    delivered = 0
    for _ in range(12):
        publishes = [
            Publish(
                random.choice((1, 2)),
                m.BasicPublish("", random.choice("qde")),
                random.choice((TRANSIENT, PERSISTENT)),
                random.choice(SIZES[:6]),
            )
            for _ in range(random.randint(1, 30))
        ]
        delivered += sum(publish.method.routing_key != "e" for publish in publishes)
        acks = []
        while tag < delivered and random.random() < 0.7:
            tag = random.randint(tag + 1, min(delivered, tag + 4))
            acks.append(Other(3, m.BasicAck(tag, random.random() < 0.5)))
        turns += [publishes, acks]
    return turns


def test_ordinary_traffic_has_the_same_effects() -> None:
    for seed in range(12):
        random = Random(seed)
        compare(ordinary_turns(random), 131072, random.random() < 0.5, seed)
