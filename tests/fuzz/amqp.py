"""AMQP cases: sessions by the grammar with fields, sizes, types and frames gone wrong; mutated recordings."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from tests.fuzz.core import Case
from tests.fuzz.fields import KEYS, NUMBERS_LIKED, QUEUES, SETTLES, TAGS, USUAL, fields, properties
from tests.fuzz.sockets import play
from tests.fuzz.watched import Watched
from tests.interop.wire import CAPABILITIES, METHODS, encode_frame, encode_method


def content(random: Random, channel: int) -> list[bytes]:
    """Header and body frames, sometimes not those that were announced."""
    body = random.randbytes(random.choice((0, 1, 10, 100, 100, 1000, 5000)))
    if random.random() < 0.02:
        body = bytes(random.choice((70_000, 131_064, 131_065, 300_000, 1_500_000)))
    size = len(body)
    if random.random() < 0.01:
        size = random.choice((0, size + 1, max(0, size - 1), 2**27, 2**27 + 1, 2**63, 2**64 - 1))
    class_id = 60 if random.random() < 0.997 else random.choice((0, 10, 50, 65535))
    header = struct.pack(">HHQ", class_id, 0, size) + properties(random)
    frames = [encode_frame(2, channel, header)]
    step = random.choice((131_064, 131_064, 1 + len(body) // 3, 100_000))
    frames += [encode_frame(3, channel, body[at : at + step]) for at in range(0, len(body), step)]
    if random.random() < 0.01:
        frames.insert(random.randrange(len(frames) + 1), encode_frame(3, channel, b""))
    return frames


def method_frames(random: Random, channel: int, name: str) -> list[bytes]:
    frames = [encode_frame(1, channel, encode_method(name, **fields(random, name)))]
    if name == "basic.publish" and random.random() < 0.995:
        frames += content(random, channel)
    return frames


def handshake(random: Random) -> list[bytes]:
    """Header, start-ok, tune-ok, open."""
    if random.random() < 0.85:
        return [
            b"AMQP\x00\x00\x09\x01",
            method(
                0,
                "connection.start-ok",
                properties={"capabilities": dict(CAPABILITIES)},
                mechanism="PLAIN",
                response="\0guest\0guest",
                locale="en_US",
            ),
            method(0, "connection.tune-ok", channel_max=2047, frame_max=131_072, heartbeat=0),
            method(0, "connection.open", vhost="/"),
        ]
    client = {"product": "fuzz", "capabilities": dict(CAPABILITIES)} if random.random() < 0.8 else {}
    response = (
        "\0guest\0guest"
        if random.random() < 0.95
        else random.choice(("", "\0guest\0no", "\0" * 5, "x" * 3000))
    )
    frame_max = 131_072 if random.random() < 0.8 else random.choice((0, 4096, 4095, 8192, 2**32 - 1))
    heartbeat = random.choice((0, 0, 0, 1, 60, 65535))
    mechanism = "PLAIN" if random.random() < 0.95 else random.choice(("AMQPLAIN", "EXTERNAL", "", "é"))
    parts = [
        b"AMQP\x00\x00\x09\x01"
        if random.random() < 0.98
        else random.choice((b"AMQP\x01\x01\x00\x09", b"GET / HT")),
        method(
            0,
            "connection.start-ok",
            properties=client,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        ),
        method(
            0,
            "connection.tune-ok",
            channel_max=random.choice((2047, 2047, 0, 5)),
            frame_max=frame_max,
            heartbeat=heartbeat,
        ),
        method(
            0, "connection.open", vhost="/" if random.random() < 0.98 else random.choice(("", "nope", "é"))
        ),
    ]
    if random.random() < 0.03:
        random.shuffle(parts)
    return parts


def method(channel: int, name: str, **values: Any) -> bytes:
    return encode_frame(1, channel, encode_method(name, **values))


def opened(random: Random, channel: int) -> list[bytes]:
    """A channel with something on it: a queue, a binding, a consumer, confirms or a transaction."""
    queue = random.choice(QUEUES[:5])
    out = [method(channel, "channel.open")]
    if random.random() < 0.6:
        out.append(method(channel, "queue.declare", queue=queue, durable=queue in ("fz-0", "fz-1")))
        out.append(
            method(channel, "queue.bind", queue=queue, exchange="amq.topic", routing_key=random.choice(KEYS))
        )
    if random.random() < 0.4:
        out.append(
            method(channel, "basic.qos", count=random.choice((0, 1, 5)), is_global=random.random() < 0.3)
        )
        out.append(
            method(
                channel, "basic.consume", queue=queue, tag=random.choice(TAGS), no_ack=random.random() < 0.3
            )
        )
    if random.random() < 0.5:
        out.append(method(channel, "confirm.select" if random.random() < 0.95 else "tx.select"))
    return out


def session(random: Random) -> list[bytes]:
    """Frames of one connection. A frame goes wrong now and then."""
    wrong = random.choice((0.0, 0.0, 0.0, 0.01, 0.05, 0.2))
    frames = handshake(random)
    channels = random.sample([1, 2, 3, 4, 5, 2047], random.choice((1, 1, 2, 3, 5)))
    if random.random() < 0.03:
        channels.append(random.choice((0, 2048, 65535)))
    for channel in channels:
        frames += opened(random, channel)
    pending: list[list[bytes]] = []
    for _ in range(random.choice((3, 10, 30, 80))):
        channel = random.choice(channels) if random.random() < 0.995 else random.choice((0, 7, 100))
        roll = random.random()
        if roll < 0.88:
            pending.append(method_frames(random, channel, random.choice(USUAL)))
        elif roll < 0.92:
            pending.append(closing(random, channel))
        elif roll < 0.95:
            pending.append([encode_frame(8, 0, b"")])
        elif roll < 0.985:
            pending.append([method(channel, "basic.ack", delivery_tag=0, multiple=True)])
        else:
            pending.append(method_frames(random, channel, random.choice(list(METHODS))))
    frames += interleaved(random, pending)
    if random.random() < 0.5:
        frames.append(method(0, "connection.close", code=200, text="bye"))
        if random.random() < 0.3:
            frames += method_frames(random, channels[0], "basic.publish")
            frames.append(method(0, random.choice(("connection.close-ok", "connection.close"))))
    if random.random() < 0.06:
        frames = [as_0_8(random, frame) for frame in frames]
    return [mutated_frame(random, frame) if random.random() < wrong else frame for frame in frames]


def as_0_8(random: Random, frame: bytes) -> bytes:
    """The frame of 0-9-1 as 0-8 has it, most of the time."""
    if frame.startswith(b"AMQP"):
        return random.choice((b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01"))
    kind, channel, payload = frame[0], int.from_bytes(frame[1:3], "big"), frame[7:-1]
    if kind != 1 or random.random() < 0.02:
        return frame
    if payload[:4] in (b"\0\x0a\0\x32", b"\0\x0a\0\x33"):
        payload = payload[:3] + bytes([payload[3] + 10]) + payload[4:]
    elif payload[:4] == b"\0\x3c\0\x14":
        tag = 7 + payload[6]
        payload = payload[: tag + payload[tag] + 2]
    elif random.random() < 0.02:  # a class that only 0-8 has, or that it does not have
        payload = bytes([0, random.choice((70, 80, 85, 100, 110, 120)), 0, 10]) + payload[4:]
    return encode_frame(kind, channel, payload)


def closing(random: Random, channel: int) -> list[bytes]:
    """Closes that cross: more behind one, closed twice, opened again at once, close-ok that nobody asked."""
    close = method(channel, "channel.close", code=200, text="bye")
    again = method(channel, "channel.open")
    return random.choice(
        (
            [close, again],
            [close, *method_frames(random, channel, "basic.publish"), again],
            [close, close, again],
            [method(channel, "channel.close-ok")],
            [again],
            [*method_frames(random, channel, "basic.publish")[:2], close, again],
            [
                method(channel, "queue.declare", queue="fz-none", passive=True),
                method(channel, "channel.close-ok"),
                again,
            ],
            [method(channel, "queue.declare", queue="fz-none", passive=True), close, again],
        )
    )


def interleaved(random: Random, pending: list[list[bytes]]) -> list[bytes]:
    """Mostly one after the other; sometimes the frames of different channels' contents mixed."""
    if random.random() < 0.85:
        return [frame for frames in pending for frame in frames]
    out: list[bytes] = []
    queues = [list(frames) for frames in pending]
    while queues:
        frames = queues[min(len(queues) - 1, random.choice((0, 0, 0, 1)))]
        out.append(frames.pop(0))
        queues = [frames for frames in queues if frames]
    return out


def mutated_frame(random: Random, frame: bytes) -> bytes:
    """Type, channel, size, end or payload not as they must be."""
    data = bytearray(frame)
    match random.randrange(9):
        case 0:
            data[0] = random.choice((0, 1, 2, 3, 4, 8, 9, 255))
        case 1:
            data[1:3] = struct.pack(">H", random.choice((0, 1, 2, 3, 65535)))
        case 2 if len(data) >= 8:
            size = len(data) - 8
            data[3:7] = struct.pack(
                ">I", max(0, random.choice((0, size - 1, size + 1, 131_065, 2**31, 2**32 - 1)))
            )
        case 3:
            data[-1] ^= 1 << random.randrange(8)
        case 4:
            return frame + frame
        case 5:
            return frame[: random.randrange(len(frame))]
        case _:
            return mutated(random, frame)
    return bytes(data)


def mutated(random: Random, data: bytes, most: int = 4) -> bytes:
    """A few octets changed, left out, put in, repeated."""
    out = bytearray(data)
    for _ in range(random.randint(1, most)):
        if not out:
            break
        at = random.randrange(len(out))
        match random.randrange(6):
            case 0:
                out[at] ^= 1 << random.randrange(8)
            case 1:
                out[at] = random.choice((0, 1, 127, 128, 254, 255))
            case 2:
                del out[at : at + random.choice((1, 2, 4, 20))]
            case 3:
                out[at:at] = random.randbytes(random.choice((1, 2, 4, 20)))
            case 4:
                out[at:at] = out[at : at + random.choice((4, 20, 200))]
            case 5 if len(out) >= at + 4:
                out[at : at + 4] = struct.pack(">I", random.choice(NUMBERS_LIKED) & 0xFFFFFFFF)
    return bytes(out)


def written(random: Random, number: int, frames: list[bytes]) -> Case:
    """Frames as writes: one each, all in one, or cut anywhere."""
    style = random.randrange(4)
    if style == 0:
        pieces = frames
    elif style == 1:
        pieces = [b"".join(frames)]
    else:
        data = b"".join(frames)
        cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((1, 3, 10))))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        if style == 3 and len(frames) > 4:
            # the handshake as a client does it, the rest in pieces
            data = b"".join(frames[4:])
            pieces = frames[:4] + [data[at : at + 700] for at in range(0, min(len(data), 20_000), 700)]
    steps: Case = []
    for piece in pieces:
        if piece:
            steps.append([number, "write", piece.decode("latin-1")])
        if random.random() < 0.1:
            steps.append([number, "wait", random.choice((1, 1, 3, 20))])
        if random.random() < 0.1:
            steps.append([number, "settle", random.choice(SETTLES), random.choice((1, 1, 5, 1000))])
    return steps


def connection(random: Random, number: int) -> Case:
    frames = session(random)
    roll = random.random()
    if roll < 0.2:  # a recording with a few octets changed
        data = mutated(random, b"".join(frames[4:]), 8)
        frames = [*frames[:4], data]
    elif roll < 0.24:
        frames = [mutated(random, b"".join(frames), 8)]
    elif roll < 0.26:
        frames = [*frames[: random.randrange(5)], random.randbytes(random.choice((8, 100, 5000)))]
    steps: Case = [[number, "amqp"], *written(random, number, frames)]
    if random.random() < 0.7:
        steps.insert(1, [number, "polite"])
    if random.random() < 0.05:
        steps.insert(random.randrange(1, len(steps) + 1), [number, "deaf"])
    if random.random() < 0.8:
        steps.append([number, "wait", random.choice((1, 3, 10, 30))])
        steps.append([number, "settle", random.choice(SETTLES), 1000])
        steps.append([number, "wait", random.choice((1, 3, 10))])
    steps.append([number, random.choice(("close", "close", "close", "reset", "end"))])
    return steps


def make(random: Random) -> Case:
    """One to four connections whose steps are mixed."""
    left = [connection(random, number) for number in range(random.choice((1, 1, 1, 2, 2, 4)))]
    case: Case = []
    while left:
        steps = random.choice(left)
        count = random.choice((1, 1, 3, 20))
        case += steps[:count]
        del steps[:count]
        left = [steps for steps in left if steps]
    return case


class Amqp:
    """Every check restarts the broker on what the cases left in its data directory."""

    name = "amqp"
    #: A new data directory after so many restarts: what cases leave is not to grow for ever.
    RESTARTS = 5

    def __init__(self) -> None:
        self.watched = Watched(("--log-level", "warning"))
        self.restarts = 0

    def make(self, random: Random) -> Case:
        return make(random)

    def run(self, case: Case) -> str:
        broker = self.watched.broker
        assert broker is not None
        found = play(case, {"amqp": broker.port})
        return self.watched.look_for(found) if found else self.watched.look()

    def facts(self) -> str:
        return self.watched.facts()

    def checkpoint(self) -> str:
        self.restarts += 1
        problem = self.watched.restart()
        if not problem and self.restarts % self.RESTARTS == 0:
            self.watched.fresh()
        return problem

    def fresh(self) -> None:
        self.watched.fresh()

    def close(self) -> None:
        self.watched.close()
