"""A broker as a walk uses it: its connections, and its HTTP API."""

from __future__ import annotations

import base64
import json
import re
import select
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.interop.differential.operations import ADDRESS_IN
from tests.interop.differential.state import Channel, Step
from tests.interop.differential.vocabulary import (
    ALL_QUEUES,
    EXCHANGES,
    FEATURE_QUEUES,
    FEATURES,
    KEYS,
    LAZY,
    QUEUES,
    QUORUM_FEATURES,
    QUORUM_QUEUES,
    REPLY_TO,
)
from tests.interop.wire import (
    FRAME_METHOD,
    Received,
    Wire,
    encode_frame,
    encode_method,
    encode_publish,
)

#: A step is over when both brokers have been silent for so long.
QUIET_S = 0.03
#: How long RabbitMQ takes at most until a policy that was set applies.
POLICY_S = 0.15
#: A queue that is to expire does after this many ms, and both have so many seconds for it.
EXPIRY_MS = 150
EXPIRY_S = 0.6


#: A quorum queue that only `Side.await_quorum` uses.
BARRIER = "barrier"
NEVER_BACK = ("x-delivery-count", 0)
#: What a direct reply goes to: a name that the broker makes.
ADDRESS = re.compile(r"amq\.rabbitmq\.reply-to\.(?!nobody)[\w+/=.-]+")


class Place(NamedTuple):
    """Where a broker serves, and what it is called in a report."""

    name: str
    port: int
    admin_port: int


class Side:
    """The connections to one broker, in a virtual host of their own."""

    def __init__(self, place: Place, vhost: str) -> None:
        self.place = place
        self.vhost = vhost
        self.wires: dict[int, Wire] = {}
        self.confirmed: dict[Channel, set[int]] = {}
        #: The address of the direct reply that a message asks for, by its body.
        self.addresses: dict[str, str] = {}
        #: A connection beside those of the walk.
        self.watch: Wire | None = None

    def begin(self) -> None:
        """Make the virtual host, with all that a walk begins with."""
        path = f"vhosts/{quote(self.vhost, safe='')}"
        self.call("PUT", path, {})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.call("PUT", f"permissions/{quote(self.vhost, safe='')}/guest", everything)
        with Wire(self.place.port, vhost=self.vhost) as wire:
            furnish(wire)
        self.watch = Wire(self.place.port, vhost=self.vhost)
        self.watch.open_channel(1, confirm=True)
        self.watch.ok(
            1,
            "queue.declare",
            queue=BARRIER,
            durable=True,
            arguments={"x-queue-type": "quorum", "x-max-length": 1},
        )

    def await_quorum(self) -> None:
        """Wait until the quorum queues have done what was asked of them before.

        RabbitMQ writes all of them to one log, and confirms when that is on disk.
        """
        assert self.watch is not None
        self.watch.publish(1, "", BARRIER, "")
        assert self.watch.receive().name == "basic.ack"

    def end(self) -> None:
        for connection in list(self.wires):
            self.drop(connection)
        if self.watch is not None:
            self.watch.close()
        self.call("DELETE", f"vhosts/{quote(self.vhost, safe='')}")

    def wire(self, connection: int) -> Wire:
        if connection not in self.wires:
            self.wires[connection] = Wire(self.place.port, vhost=self.vhost)
        return self.wires[connection]

    def drop(self, connection: int) -> None:
        if connection in self.wires:
            self.wires.pop(connection).close()
        self.confirmed = {key: tags for key, tags in self.confirmed.items() if key[0] != connection}

    def do(self, step: Step) -> None:
        """Begin a step; `wait_for` has the seconds that it takes beyond that."""
        step = self.addressed(step)
        if step.name == "close":
            self.drop(step.connection)
        elif step.name == "policy":
            self.set_policy(**step.fields)
        elif step.name == "expire":
            definition = {"expires": EXPIRY_MS}
            pattern = f"^{step.fields['queue']}$"
            self.set_policy("expiry", {"pattern": pattern, "definition": definition, "priority": 9})
        elif step.name == "publish":
            self.wire(step.connection).publish(step.channel, **step.fields)
        elif step.name == "burst":
            calls = step.fields["calls"]
            self.wire(step.connection).send_bytes(b"".join(encode(step.channel, *call) for call in calls))
        elif step.name == "frame":
            self.wire(step.connection).frame(channel=step.channel, **step.fields)
        else:
            self.wire(step.connection).send(step.channel, step.name, **step.fields)

    def addressed(self, step: Step) -> Step:
        """The step with this broker's address of a direct reply."""
        for field in ("routing_key", "queue"):
            value = step.fields.get(field, "")
            if value.startswith(ADDRESS_IN):
                address = self.addresses.get(value.removeprefix(ADDRESS_IN), value)
                return step._replace(fields={**step.fields, field: address})
        return step

    def set_policy(self, name: str, policy: dict[str, Any] | None, kind: str = "policies") -> None:
        """Set the policy of that name, or clear it."""
        vhost = quote(self.vhost, safe="")
        path = f"{kind}/{vhost}/{name}"
        if policy is None:
            self.call("DELETE", path)
            return
        given = dict(policy)
        if queue := given.pop("purges", ""):
            self.call("DELETE", f"queues/{vhost}/{queue}/contents")
        self.call("PUT", path, given)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        """A request to the HTTP API. What it is about may be missing."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.place.admin_port}/api/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def take(self, connection: int) -> list[tuple[Channel, Received]]:
        """What has arrived on a readable connection; a channel.close is answered at once."""
        wire = self.wires[connection]
        result: list[tuple[Channel, Received]] = []
        while (received := wire.receive_within(0)) is not None:
            key = (connection, received.channel)
            result.append((key, received))
            if received.properties.get("reply_to", "").startswith(f"{REPLY_TO}."):
                self.addresses[received.body.decode()] = received.properties["reply_to"]
            if received.name == "channel.close":
                wire.send(received.channel, "channel.close-ok")
            if received.name in ("connection.close", "eof", "reset"):
                self.drop(connection)
                break
            if not wire.buffer:
                break
        return result

    def shown(self, answers: Iterable[tuple[Channel, Received]]) -> dict[Channel, list[str]]:
        """By channel and comparable: confirms as the tags that they settle, names of their own levelled."""
        result: dict[Channel, list[str]] = {}
        for key, received in answers:
            lines = result.setdefault(key, [])
            if received.name in ("channel.close", "channel.open-ok"):
                self.confirmed.pop(key, None)
            if received.name in ("connection.close", "eof", "reset"):
                self.confirmed = {other: tags for other, tags in self.confirmed.items() if other[0] != key[0]}
            if received.name in ("basic.ack", "basic.nack"):
                word = "confirm" if received.name == "basic.ack" else "refuse"
                settled = self.confirmed.setdefault(key, set())
                tag = received.delivery_tag
                new = set(range(1, tag + 1)) - settled if received.multiple else {tag}
                settled |= new
                lines += [f"{word} {number}" for number in new]
            else:
                text = f"{received.name} {received.fields} {_timeless(received.properties)} {received.body!r}"
                text = re.sub(r"amq\.gen-[\w-]{22}", "amq.gen-", text).replace(self.vhost, "(vhost)")
                lines.append(ADDRESS.sub("(address)", text))
        return {key: in_comparable_order(lines) for key, lines in result.items()}

    def contents(self) -> dict[str, list[Received]]:
        """Takes all ready messages out of the queues, by queue. A queue of another connection shows none."""
        found: dict[str, list[Received]] = {}
        for queue in ALL_QUEUES:
            with Wire(self.place.port, vhost=self.vhost) as wire:
                wire.open_channel(1)
                reply = wire.call(1, "basic.get", queue=queue, no_ack=True)
                while reply.name == "basic.get-ok":
                    found.setdefault(queue, []).append(reply)
                    reply = wire.call(1, "basic.get", queue=queue, no_ack=True)
        return found


def encode(channel: int, name: str, fields: dict[str, Any]) -> bytes:
    """All frames of a publish, or the one of another method."""
    if name == "publish":
        return encode_publish(channel, **{**fields, "body": fields["body"].encode()})
    return encode_frame(FRAME_METHOD, channel, encode_method(name, **fields))


def wait_for(step: Step, sides: Sequence[Side]) -> None:
    """Wait until what HTTP asked for, or what goes to disk first, has had its effect."""
    if step.name == "policy":
        time.sleep(POLICY_S)
    elif step.name == "expire":
        time.sleep(POLICY_S + EXPIRY_S)
        for side in sides:
            side.set_policy("expiry", None)
        time.sleep(POLICY_S)
    for side in sides:
        side.await_quorum()


def answers(sides: Sequence[Side], quiet_s: float = QUIET_S) -> list[list[tuple[Channel, Received]]]:
    """All that comes on each side until nothing does on any of them for a while."""
    result: list[list[tuple[Channel, Received]]] = [[] for _ in sides]
    end = time.monotonic() + quiet_s
    while True:
        sockets = {
            wire.socket: (number, connection)
            for number, side in enumerate(sides)
            for connection, wire in side.wires.items()
        }
        left = end - time.monotonic()
        readable = select.select(list(sockets), [], [], max(0.0, left))[0]
        for each in readable:
            number, connection = sockets[each]
            if connection in sides[number].wires:
                result[number] += sides[number].take(connection)
        if readable:
            end = time.monotonic() + quiet_s
        elif left <= 0:
            return result


def _timeless(value: Any, name: str = "") -> Any:
    """Tables in the order of their names, which is the brokers' own business; without times of death.

    Of the deaths, the last comes first. RabbitMQ 3.10 reverses the others with each death.
    """
    if isinstance(value, dict):
        left_out: tuple[str, ...] = ("time",) if "routing-keys" in value else ()
        if value.get("queue") == LAZY:
            left_out += ("original-expiration",)
        return {name: _timeless(value[name], name) for name in sorted(value) if name not in left_out}
    if not isinstance(value, list):
        return value
    items = [_timeless(each) for each in value]
    return items[:1] + sorted(items[1:], key=repr) if name == "x-death" else items


def in_comparable_order(lines: list[str]) -> list[str]:
    """Deliveries keep their order; what comes between them may come a little sooner or later."""
    deliveries = [line for line in lines if line.startswith("basic.deliver")]
    return deliveries + sorted(line for line in lines if not line.startswith("basic.deliver"))


def message(received: Received) -> str:
    """A message in a queue as text: without what tells of its delivery."""
    fields = {name: received.fields[name] for name in ("exchange", "routing_key")}
    properties = dict(received.properties)
    # Only basic.get shows that a message of a quorum queue has never come back.
    headers = {name: v for name, v in properties.pop("headers", {}).items() if (name, v) != NEVER_BACK}
    if headers:
        properties["headers"] = headers
    return ADDRESS.sub("(address)", f"{fields} {_timeless(properties)} {received.body!r}")


def furnish(wire: Wire) -> None:
    """All queues and exchanges, bound, and nothing in them."""
    wire.open_channel(1)
    for queue, arguments in zip(FEATURE_QUEUES, FEATURES, strict=True):
        wire.ok(1, "queue.declare", queue=queue, durable=queue in FEATURE_QUEUES[::2], arguments=arguments)
    for queue, arguments in zip(QUORUM_QUEUES, QUORUM_FEATURES, strict=True):
        typed = {"x-queue-type": "quorum", **arguments}
        wire.ok(1, "queue.declare", queue=queue, durable=True, arguments=typed)
    for queue in QUEUES:
        wire.ok(1, "queue.declare", queue=queue, durable=queue in QUEUES[:2])
    for number, (exchange, kind) in enumerate(EXCHANGES.items()):
        wire.ok(1, "exchange.declare", exchange=exchange, type=kind, durable=number % 2 == 0)
    for number, queue in enumerate(QUEUES):
        wire.ok(1, "queue.bind", queue=queue, exchange="x-direct", routing_key=KEYS[number % 2])
        wire.ok(
            1,
            "queue.bind",
            queue=queue,
            exchange="x-topic",
            routing_key=("a.*", "#", "a.b", "*.c")[number],
        )
        wire.ok(1, "queue.bind", queue=queue, exchange="x-headers", arguments={"h": number % 2 + 1})
    for queue in QUEUES[1::2]:
        wire.ok(1, "queue.bind", queue=queue, exchange="x-fanout")
    for queue in (*FEATURE_QUEUES[:4], "g1", "g3"):
        wire.ok(1, "queue.bind", queue=queue, exchange="x-fanout")
    # Many letters go to x-fanout, and their order is a race, which here would decide what is dropped.
    for number, queue in enumerate(("g2", "g4", "g5")):
        wire.ok(1, "queue.bind", queue=queue, exchange="x-headers", arguments={"h": number % 2 + 1})
