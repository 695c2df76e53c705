"""Loads that make the broker hold memory: each may come from a single client with a login.

Each runs for ``seconds`` with a `Place` and leaves nothing behind. A broker may refuse a part of it; it may
not die, lose other clients' messages, or grow beyond its limit.
"""

from __future__ import annotations

import socket
import struct
import time

from tests.faults.duplex import Duplex
from tests.faults.loads import Outcome
from tests.faults.place import KIB, MIB, CaseLoad, Place, answers, connect, drop, hold, method, on_disk, push
from tests.interop.wire import Wire, encode_frame, encode_publish, encode_short

#: Nothing here sends more than that.
SENT_MAX = 1 << 30
#: Seconds that the broker may take for the first message of a load: it says "never".
WHOLE_S = 60.0


def unread_returns(place: Place, seconds: float) -> Outcome:
    """Mandatory messages of 2 MiB to a key without a queue; what comes back is never read."""
    begun = time.monotonic()
    wire = connect(place, receive_buffer=4096)
    message = encode_publish(1, "amq.direct", "nobody", bytes(2 * MIB), mandatory=True)
    sent = 0
    while sent < place.of(SENT_MAX) and (not sent or time.monotonic() - begun < seconds):
        # The first one is sent whole, however long the connection took.
        sent += push(wire, message, begun + seconds if sent else time.monotonic() + WHOLE_S)
    hold(begun, seconds)
    drop(wire)
    return Outcome(sent // len(message), 0, note=f"{sent // MIB} MiB sent")


def unfinished_contents(place: Place, seconds: float) -> Outcome:
    """90 channels announce 20 MiB each and send half of it."""
    begun = time.monotonic()
    wire = connect(place)
    channels = place.of(90)
    for channel in range(2, channels + 1):
        wire.send(channel, "channel.open")
    sent = 0
    body = encode_half(20 * MIB)
    for channel in range(1, channels + 1):
        start = method("basic.publish", channel, routing_key="nobody")
        header = encode_frame(2, channel, struct.pack(">HHQH", 60, 0, 20 * MIB, 0))
        frames = b"".join(encode_frame(3, channel, piece) for piece in body)
        sent += push(wire, start + header + frames, begun + seconds)
    hold(begun, seconds)
    drop(wire)
    return Outcome(channels, 0, note=f"{sent // MIB} MiB sent")


def encode_half(size: int) -> list[bytes]:
    """Body frames for half of a content."""
    step = 131_064
    return [bytes(step)] * (size // 2 // step)


def unacked_transients(place: Place, seconds: float) -> Outcome:
    """One connection publishes transient messages of 64 KiB, consumes them without prefetch, never acks."""
    begun = time.monotonic()
    wire = connect(place)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    wire.ok(1, "basic.consume", queue=queue)
    both = Duplex(wire)
    message = encode_publish(1, "", queue, bytes(64 * KIB))
    published = 0
    while (not published or time.monotonic() - begun < seconds) and not both.closed:
        if len(both.out) < MIB and published * len(message) < place.of(SENT_MAX):
            both.out += message * 8
            published += 8
        both.turn(0.02)
    drop(wire)
    return Outcome(published, both.delivered, both.closed)


def page_builders(place: Place, seconds: float) -> Outcome:
    """A fan-out of 250 KB to 2,200 queues, transient and beyond what the memory budget has."""
    begun = time.monotonic()
    wire = connect(place)
    queues = place.of(2200)
    declare(wire, [f"page-{number}" for number in range(queues)], exchange="page-all")
    sent = 0
    message = encode_publish(1, "page-all", "", bytes(10_000))
    for _ in range(25):
        sent += push(wire, message, begun + 60)
    done = answers(wire)
    hold(begun, seconds)
    forget(place, wire, "page-all")
    return Outcome(25 * queues, 0, "" if done else "the fan-out did not come to its end in 60 s")


def declare(
    wire: Wire, queues: list[str], exchange: str = "", key: str = "", *, kind: str = "fanout"
) -> None:
    """Exclusive queues, bound to an exchange if one is named. They go with the connection."""
    out = bytearray()
    if exchange:
        wire.ok(1, "exchange.declare", exchange=exchange, type=kind)
    for queue in queues:
        out += method("queue.declare", queue=queue, exclusive=True, nowait=True)
        if exchange:
            out += method("queue.bind", queue=queue, exchange=exchange, routing_key=key, nowait=True)
    wire.socket.settimeout(120)
    wire.send_bytes(bytes(out))
    assert answers(wire, 120), "the queues were not declared in two minutes"


def forget(place: Place, wire: Wire, exchange: str) -> None:
    """Be gone, and delete the exchange."""
    drop(wire)
    with connect(place) as other:
        other.ok(1, "exchange.delete", exchange=exchange)


def array_argument(octets: int) -> bytes:
    """A table with one array of as many booleans as fit."""
    items = b"t\x01" * ((octets - 60) // 2)
    pair = encode_short("x-custom") + b"A" + struct.pack(">I", len(items)) + items
    return struct.pack(">I", len(pair)) + pair


def argument_arrays(place: Place, seconds: float) -> Outcome:
    """100 queues and 100 consumers, each with an array of 128 KiB in its arguments, again and again."""
    begun = time.monotonic()
    table = array_argument(130_000)
    rounds = 0
    while not rounds or time.monotonic() - begun < seconds:
        rounds += 1
        wire = connect(place)
        for number in range(place.of(100)):
            queue = f"array-{number}"
            wire.send(1, "queue.declare", queue=queue, exclusive=True, nowait=True, arguments=table)
            wire.send(1, "basic.consume", queue=queue, tag=str(number), nowait=True, arguments=table)
        answers(wire)
        if time.monotonic() - begun < seconds:
            time.sleep(0.5)
        drop(wire)
    return Outcome(rounds * place.of(100), 0)


def unread_lists(place: Place, seconds: float) -> Outcome:
    """40 requests for the list of 10,000 queues that nobody reads, asked again as long as that is taken."""
    begun = time.monotonic()
    wire = connect(place)
    declare(wire, [f"list-{number}" for number in range(place.of(10_000))])
    request = (
        b"GET /api/queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
        b"Accept-Encoding: identity\r\n\r\n"
    )
    sockets = []
    for _ in range(40):
        asking = socket.socket()
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking.connect(("127.0.0.1", place.admin_port))
        asking.sendall(request)
        sockets.append(asking)
    hold(begun, seconds)
    for asking in sockets:
        asking.close()
    drop(wire)
    return Outcome(len(sockets), 0)


def definition_history(place: Place, seconds: float) -> Outcome:
    """A durable queue with 128 KB of arguments, declared and deleted 1,500 times."""
    begun = time.monotonic()
    wire = connect(place)
    text = bytes(128_000).replace(b"\0", b"x")
    pair = encode_short("x-custom") + b"S" + struct.pack(">I", len(text)) + text
    table = struct.pack(">I", len(pair)) + pair
    declared = 0
    while declared < place.of(1500):
        # each is stored by itself before the next
        wire.ok(1, "queue.declare", queue="history", durable=True, arguments=table)
        wire.ok(1, "queue.delete", queue="history")
        declared += 1
    hold(begun, seconds)
    wire.close()
    return Outcome(declared, 0, note=on_disk(place, "definitions.sqlite*"))


def routing_names(place: Place, seconds: float) -> Outcome:
    """1,000 queues with names of 200 control characters, and 3,000 keys with another set of queues each."""
    begun = time.monotonic()
    wire = connect(place)
    names = [f"{number:04}".ljust(200, "\x01") for number in range(place.of(1000))]
    declare(wire, names, exchange="names-all", key="#", kind="topic")
    for bit in range(12):
        declare(wire, [f"bit{bit}"], exchange="names-all", key=f"#.{bit}.#", kind="topic")
    published = 0
    while published < place.of(3000) and time.monotonic() - begun < max(seconds, 60):
        for _ in range(10):
            published += 1
            key = ".".join(str(bit) for bit in range(12) if published >> bit & 1)
            wire.send_bytes(encode_publish(1, "names-all", key, b""))
        if not answers(wire):
            break
    hold(begun, seconds)
    forget(place, wire, "names-all")
    return Outcome(published, 0, note=on_disk(place, "routing/**/*"))


HUNGRY: dict[str, CaseLoad] = {
    "A1 returns that nobody reads": unread_returns,
    "A2 unfinished contents": unfinished_contents,
    "A3 unacked transient messages": unacked_transients,
    "A4 pages of 2,200 queues": page_builders,
    "A5 arrays in arguments": argument_arrays,
    "A6 lists that nobody reads": unread_lists,
    "A7 history of definitions": definition_history,
    "A8 names in the routing log": routing_names,
}
