"""Replies have the keys and JSON types that RabbitMQ's have.

``shapes.json`` was derived from replies of RabbitMQ 3.10.8: for each request the shape of its reply. ``key?``
may be missing, ``a|b`` is one of two types, ``object`` is any object, a list names the shape of its elements.
Keys of ours may come on top.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aio_pika
import aiormq
import pytest

from tests.admin_ui.world import NODE, World

SHAPES: dict[str, Any] = json.loads(Path(__file__).with_name("shapes.json").read_text())


def differences(value: Any, shape: Any, where: str) -> list[str]:
    """What of ``value`` is not as ``shape`` says."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no object"]
        found = []
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if name in value:
                found += differences(value[name], inner, f"{where}.{name}")
            elif not key.endswith("?"):
                found.append(f"{where}.{name} is missing")
        return found
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [
            each for item in value for each in differences(item, shape[0] if shape else "any", f"{where}[]")
        ]
    kinds = shape.split("|")
    if "any" in kinds or "null" in kinds or (kind_of(value) in kinds):
        return []
    if kind_of(value) == "integer" and "number" in kinds:
        return []
    return [f"{where}: {value!r} is {kind_of(value)}, not {shape}"]


def kind_of(value: Any) -> str:
    for kind, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
    ):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object"


async def busy(node: World) -> dict[str, str]:
    """Make everything happen once; returns the names that paths need."""
    connection = await node.connect(client_properties={"connection_name": "checkout-api"})
    confirming = await connection.channel(publisher_confirms=True)
    plain = await connection.channel(publisher_confirms=False)
    orders = await confirming.declare_exchange("orders", "topic", durable=True)
    queue = await confirming.declare_queue("orders.eu", durable=True)
    await confirming.declare_queue("orders.us")
    exclusive = await plain.declare_queue(exclusive=True)
    await queue.bind(orders, "eu.#")
    for _ in range(4):
        await orders.publish(aio_pika.Message(b"x", delivery_mode=2), "eu.1")
    with contextlib.suppress(aio_pika.exceptions.DeliveryError, aiormq.exceptions.DeliveryError):
        await orders.publish(aio_pika.Message(b"x"), "nowhere", mandatory=True)
    await orders.publish(aio_pika.Message(b"x"), "nowhere", mandatory=False)
    consuming = await connection.channel(publisher_confirms=False)
    await consuming.set_qos(20)
    taken: asyncio.Queue[Any] = asyncio.Queue()
    consumed = await consuming.get_queue("orders.eu")
    await (await consumed.get(no_ack=False)).reject(requeue=True)
    await consumed.get(no_ack=True)
    await consumed.consume(taken.put)
    await (await taken.get()).ack()
    empty = await consuming.get_queue("orders.us")
    assert await empty.get(fail=False) is None
    await empty.consume(taken.put, no_ack=True)
    await consuming.default_exchange.publish(aio_pika.Message(b"x"), "orders.us")
    await taken.get()
    node.sample()
    node.sample()
    channels = await node.get("/channels")
    [publisher] = [each["name"] for each in channels if each["confirm"]]
    [consumer] = [each["name"] for each in channels if each["consumer_count"]]
    [name] = [each["name"] for each in await node.get("/connections")]
    names = {"CONNECTION": name, "PUBLISHER": publisher, "CONSUMER": consumer}
    names |= {"EXCLUSIVE": exclusive.name, "NODE": NODE}
    return {key: quote(value, safe="") for key, value in names.items()}


async def test_every_reply_has_the_shape_of_rabbitmqs(node: World) -> None:
    names = await busy(node)
    wrong: list[str] = []
    empty: list[str] = []
    for sample, expected in SHAPES.items():
        path = expected["path"]
        for name, value in names.items():
            path = path.replace(name, value)
        found = await node.get(path)
        wrong += differences(found, expected["shape"], sample)
        if found == []:
            empty.append(sample)
    assert "\n".join(wrong) == ""
    # A list without elements has any shape; these are the things that there are none of.
    assert empty == [
        "extensions",
        "operator_policies",
        "parameters",
        "policies",
        "topic_permissions",
        "user_limits",
        "vhost_limits",
    ]


@pytest.mark.parametrize(
    ("value", "shape", "says"),
    [
        ({}, {"a": "integer"}, "x.a is missing"),
        ({}, {"a?": "integer"}, ""),
        ({"a": 1.5}, {"a": "integer"}, "x.a: 1.5 is number, not integer"),
        ({"a": 1}, {"a": "number"}, ""),
        ([{"a": "1"}], [{"a": "integer"}], "x[].a: '1' is string, not integer"),
        ({"a": True}, {"a": "integer|string"}, "x.a: True is boolean, not integer|string"),
        ([], {"a": "integer"}, "x: [] is no object"),
    ],
)
def test_what_the_comparison_sees(value: Any, shape: Any, says: str) -> None:
    assert "; ".join(differences(value, shape, "x")) == says
