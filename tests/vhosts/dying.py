"""Messages that become dead letters, and what the letters say."""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.flags import PERSISTENT as PERSISTENT_FLAG
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import decode_properties, encode_properties
from persistence.options import LogOptions
from tests.nodes import SimNode
from vhosts.queues.queue import Queue

OPTIONS = LogOptions(batch_bytes_max=4000)
TO_DEAD: dict[str, Any] = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


def made(body: bytes = b"m", *, persistent: bool = True, **properties: Any) -> Message:
    headers = properties.pop("headers", None)
    if headers is not None:
        properties["headers"] = headers
    if persistent:
        properties["delivery_mode"] = 2
    built = build_message(b"\x00\x01q", encode_properties(properties), body)
    built.flags = PERSISTENT_FLAG if persistent else 0
    return built


def publish(node: SimNode, queue: Queue, *messages: Message) -> None:
    name = queue.name.encode()
    for each in messages:
        each.route = b"\x00%c%b" % (len(name), name)
        node.enter(queue.publish, each)
    node.settle()


def reject(node: SimNode, queue: Queue) -> None:
    taken = queue.take(False)
    assert taken is not None
    taken.content = None if taken.flags & 4 else taken.content  # as a channel does
    node.enter(queue.settle, taken, 2)
    node.settle()


def letter(queue: Queue) -> tuple[Message, dict[str, Any]]:
    found = queue.take(True)
    assert found is not None, "no dead letter"
    return found, decode_properties(found.properties())


def deaths(properties: dict[str, Any]) -> list[dict[str, Any]]:
    tag, items = properties["headers"]["x-death"]
    assert tag == "A"
    return [dict(item[1]) for item in items]


def plain(entry: dict[str, Any]) -> dict[str, Any]:
    entry = dict(entry)
    assert entry.pop("time")[0] == "T"
    keys = entry.pop("routing-keys")
    shown = {name: value.decode() if tag == "S" else (tag, value) for name, (tag, value) in entry.items()}
    shown["routing-keys"] = [value.decode() for _, value in keys[1]]
    return shown
