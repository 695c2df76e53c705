"""Loads of clients as nobody writes them: odd frames, floods of methods, and what operators do meanwhile.

As those of `costly`: others must not notice. Each runs at least once, whatever its time.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tests.faults.costly import SETUP_S
from tests.faults.crowds import BLOCK, counted, fill
from tests.faults.duplex import Duplex
from tests.faults.graphs import send_all
from tests.faults.loads import Outcome
from tests.faults.operators import Http
from tests.faults.place import CaseLoad, Place, answers, connect, drop, method, push, swallow
from tests.interop.wire import Wire, encode_frame, encode_publish

MIB = 1 << 20
HEARTBEAT = encode_frame(8, 0, b"")
#: What `timeouts` of a consumer with very many deliveries are, in ms.
TIMEOUT_MS = 2000
#: Ways of a policy for all queues, one after the other.
DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"max-length": 1000},
    {"message-ttl": 600_000, "dead-letter-exchange": "amq.fanout"},
    {"max-length": 1000, "overflow": "reject-publish"},
    {"delivery-limit": 5, "max-length-bytes": 10_000_000},
    {"expires": 3_600_000},
)


def ask(place: Place, verb: str, path: str, body: Any = None) -> bytes:
    """One request on a connection of its own: one that is idle for long is closed."""
    client = Http(place)
    try:
        return client.ask(verb, path, body)
    finally:
        client.close()


def drips(place: Place, seconds: float) -> Outcome:
    """50 clients with a heartbeat of a second read one octet a second of what they consume."""
    begun = time.monotonic()
    wire = connect(place)
    queue = wire.ok(1, "queue.declare", exclusive=False, queue="drips").queue
    problem = fill(wire, "", queue, place.of(50_000) // BLOCK * BLOCK or BLOCK)
    slow = [Wire(place.port, heartbeat=1, receive_buffer=2048) for _ in range(place.of(50))]
    for each in slow:
        each.send_bytes(method("channel.open") + method("basic.consume", queue=queue, no_ack=True))
    lost = 0
    while time.monotonic() - begun < max(seconds, 4.0):
        for each in list(slow):
            try:
                each.send_bytes(HEARTBEAT)
                each.socket.recv(1)
            except OSError:
                slow.remove(each)
                lost += 1
        time.sleep(1.0)
    drop(*slow)
    wire.ok(1, "queue.delete", queue=queue)
    wire.close()
    problem = problem or (f"{lost} clients were closed" if lost else "")
    return Outcome(place.of(50_000), len(slow), problem)


def small_frames(place: Place, seconds: float) -> Outcome:
    """Frames of at most 4,096 octets: headers of 4,000, and bodies whose frames have one octet each."""
    begun, sent, problem = time.monotonic(), 0, ""
    wire = Wire(place.port, frame_max=4096)
    wire.open_channel(1)
    wire.socket.settimeout(SETUP_S)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    size = place.of(20_000)
    whole = encode_publish(1, "", queue, b"", headers={"x": "y" * 3950})
    start, header = whole[: whole.index(b"\xce\x02") + 1], whole[whole.index(b"\xce\x02") + 1 :]
    header = header[:11] + size.to_bytes(8, "big") + header[19:]
    message = start + header + encode_frame(3, 1, b"z") * size
    while not problem and (not sent or time.monotonic() - begun < seconds):
        wire.send_bytes(message * 5)
        sent += 5
        if not answers(wire, SETUP_S):
            problem = "the messages were not taken"
        for _ in range(5 if not problem else 0):
            got = wire.get(queue)
            if got is None or got.body != b"z" * size:
                problem = "a body did not come back"
    drop(wire)
    return Outcome(sent, sent, problem, f"{sent * size:,} frames of one octet")


def transactions_that_end(place: Place, seconds: float) -> Outcome:
    """2,047 channels publish 1,000 messages each in a transaction, and the connection is killed."""
    begun, rounds, problem = time.monotonic(), 0, ""
    other = connect(place)
    other.ok(1, "queue.declare", queue="never-committed", durable=True)
    channels, each = place.of(2047), place.of(1000)
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = Wire(place.port)
        wire.socket.settimeout(SETUP_S)
        for number in range(1, channels + 1):
            publish = encode_publish(number, "", "never-committed", b"x", delivery_mode=2)
            wire.send_bytes(method("channel.open", number) + method("tx.select", number) + publish * each)
        problem = "" if answers(wire, SETUP_S) else "the transactions were not taken"
        drop(wire)
        problem = problem or counted(other, "never-committed", 0)
    other.ok(1, "queue.delete", queue="never-committed")
    other.close()
    return Outcome(rounds * channels * each, rounds, problem)


def hops(place: Place, seconds: float, *, mode: int) -> Outcome:
    """100 messages expire in 1,000 queues, one after the other; each adds to ``x-death``."""
    begun, rounds, problem = time.monotonic(), 0, ""
    count, messages = place.of(1000), place.of(100)
    names = [f"hop-{number}" for number in range(count)]
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = connect(place)
        wire.socket.settimeout(SETUP_S)
        made = []
        for number, name in enumerate(names):
            following = {"x-dead-letter-routing-key": names[number + 1]} if number + 1 < count else {}
            arguments = {"x-message-ttl": 0, "x-dead-letter-exchange": "", **following} if following else {}
            made.append(
                method("queue.declare", queue=name, durable=mode == 2, nowait=True, arguments=arguments)
            )
        problem = send_all(wire, made)
        wire.socket.settimeout(SETUP_S)
        for _ in range(messages):
            wire.publish(1, "", names[0], b"x", delivery_mode=mode)
        problem = problem or counted(wire, names[-1], messages)
        last = wire.get(names[-1])
        died = len(last.properties["headers"]["x-death"]) if last and count > 1 else count - 1
        if not problem and died != count - 1:
            problem = f"{died} deaths of {count - 1}"
        problem = problem or send_all(wire, [method("queue.delete", queue=n, nowait=True) for n in names])
        drop(wire)
    return Outcome(rounds * count * messages, rounds, problem)


def timeouts(place: Place, seconds: float) -> Outcome:
    """A channel with 100,000 deliveries reaches its timeout."""
    begun, rounds, problem, count = time.monotonic(), 0, "", place.of(100_000)
    other = connect(place)
    other.ok(1, "queue.declare", queue="out-of-time", durable=True)
    problem = fill(other, "", "out-of-time", count, delivery_mode=2)
    count = count // BLOCK * BLOCK or count
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = connect(place)
        arguments = {"x-consumer-timeout": TIMEOUT_MS}
        wire.send_bytes(method("basic.consume", queue="out-of-time", arguments=arguments))
        holder = Duplex(wire)
        holder.until(lambda: "timed out" in holder.closed, SETUP_S)  # noqa: B023
        if "timed out" not in holder.closed:
            problem = f"no timeout: {holder.closed}"
        problem = problem or counted(other, "out-of-time", count)
        drop(wire)
    other.ok(1, "queue.delete", queue="out-of-time")
    other.close()
    return Outcome(rounds * count, rounds, problem)


def secrets(place: Place, seconds: float) -> Outcome:
    """A client sends connection.update-secret as fast as it can, another one never reads the answers."""
    begun, count = time.monotonic(), 0
    wire, deaf = connect(place), connect(place, receive_buffer=4096)
    block = method("connection.update-secret", 0, secret="s" * 1000, reason="r" * 200) * place.of(1000)
    both = Duplex(wire)
    while not count or time.monotonic() - begun < seconds:
        if len(both.out) < MIB:
            both.out += block
            count += place.of(1000)
        both.turn(0.02)
        push(deaf, block, time.monotonic() + 0.01)
        if both.closed:
            break
    problem = both.closed
    if not problem and not both.until(lambda: both.others[(10, 71)] >= count, SETUP_S):
        problem = f"{both.others[(10, 71)]} answers of {count}"
    drop(wire, deaf)
    return Outcome(count, both.others[(10, 71)], problem)


def channels_come_and_go(place: Place, seconds: float, *, mode: str) -> Outcome:
    """100,000 channels open, set a limit and a mode, and close, one after the other."""
    begun, count, problem = time.monotonic(), 0, ""
    wire = connect(place)
    numbers = range(2, 2 + place.of(1000))
    block = b"".join(
        method("channel.open", number)
        + method(f"{mode}.select", number)
        + method("basic.qos", number, count=7)
        + method("basic.qos", number, count=9, is_global=True)
        + method("channel.close", number, code=200, text="bye")
        for number in numbers
    )
    both = Duplex(wire)
    while not both.closed and (not count or (time.monotonic() - begun < seconds and count < 100_000)):
        if len(both.out) < MIB:
            both.out += block
            count += len(numbers)
        both.turn(0.02)
    if not both.closed and not both.until(lambda: both.others[(20, 41)] >= count, SETUP_S):
        problem = f"{both.others[(20, 41)]} of {count} were closed"
    drop(wire)
    return Outcome(count, both.others[(20, 41)], problem or both.closed)


def server_named(place: Place, seconds: float, *, politely: bool) -> Outcome:
    """A connection declares 10,000 queues whose names the server gives, and is gone or closes."""
    begun, rounds, problem, count = time.monotonic(), 0, "", place.of(10_000)
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        wire = connect(place)
        both = Duplex(wire)
        both.out += method("queue.declare", exclusive=True, durable=rounds % 2 == 0) * count
        wanted = count if politely else count // 2
        if not both.until(lambda: both.others[(50, 11)] >= wanted, SETUP_S):  # noqa: B023
            problem = f"{both.others[(50, 11)]} queues of {wanted}: {both.closed}"
        if politely:
            both.out += method("connection.close", 0, code=200, text="bye")
            if not both.until(lambda: both.others[(10, 51)] > 0, SETUP_S):  # noqa: B023
                problem = problem or f"not closed: {both.closed}"
        drop(wire)
        end = time.monotonic() + SETUP_S
        while b"amq.gen" in ask(place, "GET", "/api/queues?columns=name") and not problem:
            if time.monotonic() > end:
                problem = "queues are left"
            time.sleep(0.1)
    return Outcome(rounds * count, rounds, problem)


def consume_and_cancel(place: Place, seconds: float, *, limit: int) -> Outcome:
    """Consumers of a queue with 10,000 messages come and go; what they got returns after each round."""
    begun, rounds, problem = time.monotonic(), 0, ""
    wire = connect(place)
    wire.socket.settimeout(SETUP_S)
    queue = wire.ok(1, "queue.declare", exclusive=True).queue
    count = place.of(10_000)
    problem = fill(wire, "", queue, count)
    wire.ok(1, "basic.qos", count=limit)
    turns = place.of(1000)
    block = b"".join(
        method("basic.consume", queue=queue, tag=str(number), nowait=True)
        + method("basic.cancel", tag=str(number), nowait=True)
        for number in range(turns)
    ) + method("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    both = Duplex(wire)
    while not both.closed and not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        both.out += block + method("queue.declare", queue=queue, passive=True)
        if not both.until(lambda: both.others[(50, 11)] >= rounds, SETUP_S):  # noqa: B023
            problem = f"no answer in round {rounds}: {both.closed}"
    if not problem:
        with connect(place) as other:
            got = other.call(1, "queue.declare", queue=queue, passive=True)
            problem = "" if got.name == "channel.close" else f"another client got {got}"
    drop(wire)
    return Outcome(rounds * turns, both.delivered, problem)


def policies(place: Place, seconds: float) -> Outcome:
    """A policy of 1,000 durable queues with 100 messages each is another one every 100 ms."""
    begun, sets = time.monotonic(), 0
    wire = connect(place)
    names = [f"obeys-{number}" for number in range(place.of(1000))]
    problem = send_all(
        wire, [method("queue.declare", queue=name, durable=True, nowait=True) for name in names]
    )
    each = [encode_publish(1, "", name, b"x" * 100, delivery_mode=2) * 100 for name in names]
    problem = problem or send_all(wire, each)
    while not sets or time.monotonic() - begun < seconds:
        for definition in DEFINITIONS:
            ask(
                place,
                "PUT",
                "/api/policies/%2F/odd",
                {"pattern": "^obeys-", "definition": definition, "priority": 9},
            )
            sets += 1
            time.sleep(0.1)
    ask(place, "DELETE", "/api/policies/%2F/odd")
    for name in names:
        wire.socket.settimeout(SETUP_S)
        problem = problem or counted(wire, name, 100)
    problem = problem or send_all(wire, [method("queue.delete", queue=name, nowait=True) for name in names])
    drop(wire)
    return Outcome(len(names) * 100, sets, problem, f"{sets} policies")


def users(place: Place, seconds: float) -> Outcome:
    """500 clients of a user publish while its permissions change; then it is deleted, again and again."""
    begun, rounds, sent, problem = time.monotonic(), 0, 0, ""
    other = connect(place)
    other.ok(1, "queue.declare", queue="of-user", durable=True)
    block = encode_publish(1, "", "of-user", b"x", delivery_mode=2) * 20
    reopened = method("channel.close-ok") + method("channel.open")
    while not problem and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        ask(place, "PUT", "/api/users/flooder", {"password": "flooding", "tags": ""})
        allowed = {"configure": "", "write": ".*", "read": ""}
        ask(place, "PUT", "/api/permissions/%2F/flooder", allowed)
        wires = [Wire(place.port, user="flooder", password="flooding") for _ in range(place.of(500))]
        flooders = [Duplex(wire) for wire in wires]
        for each in flooders:
            each.out += method("channel.open")
        for turn in range(10):
            for each in flooders:
                if "ACCESS" in each.closed:
                    each.out += reopened
                    each.closed = ""
                each.out += block if len(each.out) < 10_000 else b""
                each.turn(0)
                sent += 20
            ask(place, "PUT", "/api/permissions/%2F/flooder", {**allowed, "write": ".*" if turn % 2 else "x"})
        ask(place, "DELETE", "/api/users/flooder")
        end = time.monotonic() + SETUP_S
        while any("deleted" not in each.closed and "broker" not in each.closed for each in flooders):
            for each in flooders:
                if "ACCESS" in each.closed:
                    each.closed = ""
                each.turn(0)
            if time.monotonic() > end:
                problem = f"a client of a deleted user is there: {[each.closed for each in flooders][:3]}"
                break
        drop(*wires)
    other.socket.settimeout(SETUP_S)
    other.ok(1, "queue.delete", queue="of-user")
    other.close()
    return Outcome(sent, rounds, problem)


def traced(place: Place, seconds: float) -> Outcome:
    """Bodies of 100 MiB while their copies go to a slow reader, to one that never reads, and to a queue."""
    size = place.of(100) * MIB
    begun, rounds, problem = time.monotonic(), 0, ""
    wire = connect(place, confirm=True)
    wire.socket.settimeout(SETUP_S)
    queue = wire.ok(1, "queue.declare", queue="large-traced", durable=True).queue
    ask(place, "PUT", "/api/vhosts/%2F", {"tracing": True})
    readers = [connect(place, receive_buffer=65536) for _ in range(2)]
    for reader in readers:
        copies = reader.ok(1, "queue.declare", exclusive=True).queue
        reader.ok(1, "queue.bind", queue=copies, exchange="amq.rabbitmq.trace", routing_key="#")
        reader.send_bytes(method("basic.consume", queue=copies, no_ack=True))
    body = bytes(size)
    longest = after = 0.0
    while not problem and rounds < 20 and (not rounds or time.monotonic() - begun < seconds):
        rounds += 1
        before = time.monotonic()
        problem = once(wire, queue, body)
        longest = max(longest, time.monotonic() - before)
        swallow(readers[0], 0.2)
    ask(place, "PUT", "/api/vhosts/%2F", {"tracing": False})
    if not problem:
        before = time.monotonic()
        problem = once(wire, queue, body)
        after = time.monotonic() - before
    drop(*readers)
    wire.ok(1, "queue.delete", queue=queue)
    drop(wire)
    note = f"{size // MIB} MiB took up to {longest:.1f} s, {after:.1f} s without the trace"
    return Outcome(rounds, rounds, problem, note)


def once(wire: Wire, queue: str, body: bytes) -> str:
    """Publish, get the confirm, and get the message back; what went wrong."""
    wire.publish(1, "", queue, body, delivery_mode=2)
    got = wire.receive(SETUP_S)
    if got.name != "basic.ack":
        return f"{got.name} instead of a confirm"
    wire.send(1, "basic.get", queue=queue, no_ack=True)
    message = wire.receive(SETUP_S)
    return "" if message.name == "basic.get-ok" and message.body == body else f"{message.name} was not it"


ODD: dict[str, CaseLoad] = {
    "G1 an octet a second": drips,
    "G2 frames of one octet": small_frames,
    "G3 transactions of 2,047 channels end": transactions_that_end,
    "G4 1,000 deaths": partial(hops, mode=1),
    "G4 1,000 deaths, durable": partial(hops, mode=2),
    "G5 a timeout of 100,000": timeouts,
    "G6 update-secret": secrets,
    "G7 channels with confirms come and go": partial(channels_come_and_go, mode="confirm"),
    "G7 channels with transactions come and go": partial(channels_come_and_go, mode="tx"),
    "G8 10,000 server-named queues": partial(server_named, politely=False),
    "G8 10,000 server-named queues, closed": partial(server_named, politely=True),
    "G9 consume and cancel": partial(consume_and_cancel, limit=10),
    "G9 consume and cancel without a limit": partial(consume_and_cancel, limit=0),
    "G10 policies of 1,000 queues": policies,
    "G11 a user of 500 clients": users,
    "G12 a trace of 100 MiB": traced,
}
