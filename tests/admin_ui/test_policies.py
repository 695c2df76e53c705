"""Policies and operator policies over HTTP: answers as recorded of RabbitMQ 3.10.8, and who obeys them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from amqp_router.broker import Broker
from tests.admin_ui.world import World
from tests.test_durable_queues import running, until

NO_OBJECT = {"error": "Object Not Found", "reason": "Not Found"}


def failed(problem: str) -> dict[str, Any]:
    return {"error": "bad_request", "reason": f"Validation failed\n\n{problem}\n"}


#: Path below /api, body, and the JSON of a reply with status 400.
REFUSED: list[tuple[str, str, Any]] = [
    (
        "/policies/shop/p1",
        '{"pattern":"x"}',
        {"error": "bad_request", "reason": "[{key_missing,definition}]"},
    ),
    (
        "/policies/shop/p1",
        '{"pattern":"(","definition":{"max-length":5}}',
        failed('pattern should be regular expression but is invalid: {"missing )",1}'),
    ),
    (
        "/policies/shop/p1",
        '{"pattern":null,"definition":{"max-length":5}}',
        failed("pattern should be a binary but was null"),
    ),
    (
        "/policies/shop/p1",
        '{"pattern":5,"definition":{"max-length":5}}',
        failed("pattern should be a binary but was 5"),
    ),
    ("/policies/shop/p1", '{"pattern":"x","definition":{}}', failed("no policy provided")),
    (
        "/policies/shop/p1",
        '{"pattern":"x","definition":{"bogus-key":1}}',
        failed('[{<<"bogus-key">>,1}] are not recognised policy settings'),
    ),
    (
        "/policies/shop/p1",
        '{"pattern":"x","definition":{"max-length":"abc"}}',
        failed('<<"abc">> is not a valid maximum length'),
    ),
    (
        "/policies/shop/p1",
        '{"pattern":"x","definition":{"max-length":5},"apply-to":"bogus"}',
        failed("apply-to 'bogus' unrecognised; should be 'queues', 'exchanges' or 'all'"),
    ),
    (
        "/policies/shop/p1",
        '{"pattern":"x","definition":{"max-length":5},"priority":"high"}',
        failed('priority should be a number, actually was <<"high">>'),
    ),
    (
        "/operator-policies/shop/p1",
        '{"pattern":"x","definition":{"dead-letter-exchange":"a"}}',
        failed('[{<<"dead-letter-exchange">>,<<"a">>}] are not recognised policy settings'),
    ),
]


@pytest.mark.parametrize(("path", "body", "answer"), REFUSED)
async def test_what_is_refused(shop: World, path: str, body: str, answer: Any) -> None:
    reply = await shop.call("PUT", "/api" + path, body=body)
    assert (reply.status, reply.json) == (400, answer)
    assert await shop.get("/policies") == []


async def test_set_listed_and_removed(shop: World) -> None:
    definition = '{"ha-mode":"exactly","ha-params":2,"ha-sync-mode":"automatic"}'
    body = f'{{"pattern":"^nomatch$","definition":{definition},"priority":3}}'
    assert (await shop.call("PUT", "/api/policies/shop/p1", body=body))[::2] == (201, b"")
    policy = {
        "vhost": "shop",
        "name": "p1",
        "pattern": "^nomatch$",
        "apply-to": "all",
        "definition": {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"},
        "priority": 3,
    }
    for path, found in (
        ("/policies/shop/p1", policy),
        ("/policies/shop", [policy]),
        ("/policies", [policy]),
        ("/policies/staging", []),
        ("/operator-policies", []),
    ):
        assert await shop.get(path) == found
    assert (await shop.call("PUT", "/api/policies/shop/p1", body=body)).status == 204
    assert (await shop.call("DELETE", "/api/policies/shop/p1"))[::2] == (204, b"")
    gone = await shop.call("DELETE", "/api/policies/shop/p1")
    assert (gone.status, gone.json) == (404, NO_OBJECT)
    no_vhost = await shop.call("PUT", "/api/policies/nope/p1", body=body)
    assert (no_vhost.status, no_vhost.json) == (404, {"error": "not_found", "reason": "vhost_not_found"})


async def test_who_may(shop: World) -> None:
    body = '{"pattern":"x","definition":{"max-length":5}}'
    for user, path, reason in (
        ("alice", "/policies/shop/p1", "User not authorised to access object"),
        ("bob", "/policies/shop/p1", "User not authorised to access object"),
        ("carol", "/operator-policies/shop/p1", "Not administrator user"),
        ("carol", "/policies/staging/p1", "User not authorised to access object"),
    ):
        reply = await shop.call("PUT", "/api" + path, user, body=body)
        assert (reply.status, reply.json) == (401, {"error": "not_authorised", "reason": reason})
    assert (await shop.call("PUT", "/api/policies/shop/p1", "carol", body=body)).status == 201
    assert len(await shop.get("/policies", "alice")) == 1
    assert (await shop.call("GET", "/api/operator-policies/shop/p1", "carol")).status == 401
    assert (await shop.call("DELETE", "/api/policies/shop/p1", "carol")).status == 204


async def test_queues_show_what_applies(shop: World) -> None:
    """Of two numbers the smaller one counts; a queue's own argument does not show."""
    own = {
        "pattern": "^pa",
        "definition": {"max-length": 5, "message-ttl": 60000, "overflow": "reject-publish"},
    }
    operator = {"pattern": "^pa", "definition": {"max-length": 3}, "apply-to": "queues", "priority": 0}
    await shop.call("PUT", "/api/policies/shop/pa", body=json.dumps(own))
    await shop.call("PUT", "/api/operator-policies/shop/op", body=json.dumps(operator))
    await shop.call("PUT", "/api/queues/shop/pa.q", body='{"arguments":{"x-message-ttl":100}}')
    queue = await shop.get("/queues/shop/pa.q")
    assert (queue["policy"], queue["operator_policy"]) == ("pa", "op")
    assert queue["effective_policy_definition"] == {
        "max-length": 3,
        "message-ttl": 60000,
        "overflow": "reject-publish",
    }
    other = next(each for each in await shop.get("/queues/shop") if not each["name"].startswith("pa"))
    assert (other["policy"], other["operator_policy"], other["effective_policy_definition"]) == (
        None,
        None,
        {},
    )
    await shop.call("DELETE", "/api/policies/shop/pa")
    queue = await shop.get("/queues/shop/pa.q")
    assert (queue["policy"], queue["effective_policy_definition"]) == (None, {"max-length": 3})


async def test_a_queue_obeys(node: World) -> None:
    """A message that is published under a policy with a TTL goes; RabbitMQ's rule for those that wait."""
    body = '{"pattern":"^q$","definition":{"message-ttl":0},"apply-to":"queues"}'
    await node.call("PUT", "/api/queues/%2F/q", body="{}")
    queue: Any = node.broker.vhosts["/"].queues["q"]
    await node.call("PUT", "/api/policies/%2F/ttl", body=body)
    assert queue.settings.message_ttl_ms == 0
    await node.call("DELETE", "/api/policies/%2F/ttl")
    assert queue.settings.message_ttl_ms is None


async def test_an_alternate_exchange(node: World) -> None:
    body = '{"pattern":"^x$","definition":{"alternate-exchange":"amq.fanout"},"apply-to":"exchanges"}'
    await node.call("PUT", "/api/exchanges/%2F/x", body="{}")
    await node.call("PUT", "/api/queues/%2F/q", body="{}")
    await node.call("POST", "/api/bindings/%2F/e/amq.fanout/q/q", body="{}")
    assert "policy" not in await node.get("/exchanges/%2F/x")
    await node.call("PUT", "/api/policies/%2F/ae", body=body)
    assert (await node.get("/exchanges/%2F/x"))["policy"] == "ae"
    connection = await node.connect()
    channel = await connection.channel()
    exchange = await channel.get_exchange("x")

    await exchange.publish(aio_pika.Message(b"m"), "nowhere")
    queue = await channel.get_queue("q")
    message = await queue.get()
    assert (message.exchange, message.routing_key) == ("x", "nowhere")
    await connection.close()


async def test_definitions_have_them(shop: World) -> None:
    await shop.call("PUT", "/api/policies/shop/p", body='{"pattern":"x","definition":{"max-length":5}}')
    await shop.call("PUT", "/api/operator-policies/shop/o", body='{"pattern":"x","definition":{"expires":5}}')
    found = await shop.get("/definitions")
    policy = {
        "name": "p",
        "pattern": "x",
        "apply-to": "all",
        "definition": {"max-length": 5},
        "priority": 0,
    }
    parameter = {
        "component": "operator_policy",
        "name": "o",
        "value": {"pattern": "x", "apply-to": "all", "definition": {"expires": 5}, "priority": 0},
    }
    assert found["policies"] == [{"vhost": "shop", **policy}]
    assert found["parameters"] == [{"vhost": "shop", **parameter}]
    found = await shop.get("/definitions/shop")
    assert (found["policies"], found["parameters"]) == ([policy], [parameter])


def test_they_are_stored_and_go_with_their_virtual_host(tmp_path: Path) -> None:
    async def stored(broker: Broker, rev: int) -> None:
        await until(lambda: broker.commits.committed >= rev)

    def settings(broker: Broker, vhost: str) -> Any:
        queue: Any = broker.vhosts[vhost].queues["q"]
        return queue.settings.message_ttl_ms, queue.settings.expires_ms

    async def live() -> None:
        async with running(tmp_path) as broker:
            broker.virtual_hosts.put("v")
            for name in ("/", "v"):
                vhost = broker.vhosts[name]
                definition = {"message-ttl": 7}
                broker.parameters.put(vhost, "policy", "p", {"pattern": ".*", "definition": definition})
                limits = {"pattern": ".*", "definition": {"expires": 100_000}}
                broker.parameters.put(vhost, "operator_policy", "o", limits)
                vhost.declare_queue("q", durable=True)
                assert settings(broker, name) == (7, 100_000)
            broker.parameters.put_global("note", {"a": [1]})
            await stored(broker, broker.virtual_hosts.delete("v"))
            assert [key[0] for key in broker.parameters.values] == ["/", "/", ""]
        async with running(tmp_path) as broker:
            assert settings(broker, "/") == (7, 100_000)
            assert broker.parameters.values["", "", "note"] == {"a": [1]}
            rev = broker.parameters.delete(broker.vhosts["/"], "policy", "p")
            await stored(broker, rev)
            assert settings(broker, "/") == (None, 100_000)
            broker.virtual_hosts.put("v")
            broker.vhosts["v"].declare_queue("q")
            assert settings(broker, "v") == (None, None)
        async with running(tmp_path) as broker:
            assert settings(broker, "/") == (None, 100_000)

    asyncio.run(live())
