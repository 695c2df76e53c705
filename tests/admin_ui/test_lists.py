"""The parameters of lists: columns, order, pages, filters, samples, X-Vhost; how names stand in paths."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from aio_pika import Message

from admin_ui.documents import connections
from admin_ui.query import Page
from admin_ui.replies import WRITE_BYTES
from tests.admin_ui.world import World
from vhosts.patterns import LIMIT_S, Pattern, compile_pattern
from vhosts.vhost import VirtualHost


def declare(node: World, *names: str, vhost: str = "/") -> None:
    for name in names:
        node.broker.vhosts[vhost].declare_queue(name)


async def names(node: World, path: str, **headers: str) -> list[str]:
    found = await node.get(path, **headers)
    return [each["name"] for each in (found["items"] if isinstance(found, dict) else found)]


# -- columns ----------------------------------------------------------------------------------------


async def test_columns_of_a_list_and_of_one_object(node: World) -> None:
    declare(node, "a")
    assert await node.get("/queues?columns=name,messages_details.rate,nope") == [
        {"name": "a", "messages_details": {"rate": 0.0}}
    ]
    assert await node.get("/queues/%2F/a?columns=name,garbage_collection.minor_gcs") == {
        "name": "a",
        "garbage_collection": {"minor_gcs": 0},
    }
    found = await node.get("/overview?columns=object_totals.queues,message_stats.x,listeners.port,node")
    assert found.keys() == {"object_totals", "message_stats", "listeners", "node"}
    assert found["object_totals"].keys() == {"channels", "connections", "consumers", "exchanges", "queues"}
    assert all(each.keys() == {"port"} for each in found["listeners"])


async def test_columns_that_nothing_has(node: World) -> None:
    """RabbitMQ's encoder makes ``[]`` of an empty object."""
    declare(node, "a")
    assert await node.get("/queues?columns=nope") == [[]]
    assert await node.get("/queues/%2F/a?columns=nope.nope") == []


async def test_columns_inside_one_another(node: World) -> None:
    declare(node, "a")
    both = "messages_details,messages_details.rate"
    assert await node.get(f"/queues?columns={both}") == [{"messages_details": {"rate": 0.0}}]
    [again] = await node.get("/queues")
    assert again["messages_details"] == {"rate": 0.0}


# -- order ------------------------------------------------------------------------------------------


async def test_default_order_is_by_virtual_host_and_name(shop: World) -> None:
    declare(shop, "b", "a")
    declare(shop, "c", vhost="staging")
    assert await names(shop, "/queues") == ["a", "b", "emails", "orders.eu", "c"]
    assert await names(shop, "/queues?sort_reverse=true") == ["c", "orders.eu", "emails", "b", "a"]


@pytest.mark.parametrize("key", ["messages", "backing_queue_status.len", "message_stats.publish"])
async def test_sorted_by_a_number(node: World, key: str) -> None:
    declare(node, "one", "three", "two", "none")
    connection = await node.connect()
    channel = await connection.channel()
    import aio_pika

    for name, count in (("one", 1), ("two", 2), ("three", 3)):
        for _ in range(count):
            await channel.default_exchange.publish(aio_pika.Message(b""), name)
    assert await names(node, f"/queues?sort={key}") == ["none", "one", "two", "three"]
    assert (await names(node, f"/queues?sort={key}&sort_reverse=true"))[0] == "three"
    page = f"/queues?sort={key}&sort_reverse=true&page=2&page_size=2"
    assert await names(node, page) == ["one", "none"]


async def test_sorted_by_what_nothing_has_and_by_mixed_types(node: World) -> None:
    declare(node, "b", "a")
    assert await names(node, "/queues?sort=no.such.thing") == ["a", "b"]
    assert await names(node, "/queues?sort=arguments") == ["a", "b"]
    assert await names(node, "/exchanges?sort=durable&page=1&page_size=1") == [""]


# -- pages ------------------------------------------------------------------------------------------


async def test_page(node: World) -> None:
    declare(node, "a", "b", "c", "d", "e")
    found = await node.get("/queues?page=2&page_size=2&columns=name")
    assert found == {
        "filtered_count": 5,
        "item_count": 2,
        "items": [{"name": "c"}, {"name": "d"}],
        "page": 2,
        "page_count": 3,
        "page_size": 2,
        "total_count": 5,
    }
    assert (await node.get("/queues?page=1&page_size="))["page_size"] == 100
    assert (await node.get("/queues?page=1&pagination=false"))["item_count"] == 5
    assert isinstance(await node.get("/queues?pagination=true"), list)


async def test_page_of_nothing(node: World) -> None:
    found = await node.get("/queues?page=1")
    assert found["items"] == []
    assert (found["page_count"], found["total_count"]) == (1, 0)


async def test_filter_by_name_and_by_expression(node: World) -> None:
    declare(node, "orders.eu", "orders.us", "emails", "a+b")
    assert await names(node, "/queues?page=1&name=orders") == ["orders.eu", "orders.us"]
    assert await names(node, "/queues?page=1&name=%5Eo.*u%24&use_regex=true") == ["orders.eu"]
    assert await names(node, "/queues?page=1&name=%5Eo.*u%24&use_regex=false") == []
    assert await names(node, "/queues?page=1&name=a%2Bb") == ["a+b"]
    found = await node.get("/queues?page=1&name=orders&page_size=1")
    assert (found["total_count"], found["filtered_count"], found["page_count"]) == (4, 2, 2)
    # Without a page there is no filter.
    assert len(await names(node, "/queues?name=orders")) == 4


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ("page=0", "invalid_pagination_parameters", "page number 0, page size undefined"),
        ("page=1&page_size=501", "invalid_pagination_parameters", "page number 1, page size 501"),
        ("page=99&page_size=2", "page_out_of_range", "Page out of range, page: 99 page size: 2, len: 1"),
        ("page=one", "bad_request", "Pagination parameters are invalid"),
        ("page=1&page_size=x", "bad_request", "Pagination parameters are invalid"),
        (
            "page=1&name=(&use_regex=true",
            "bad_request",
            "Pagination parameters are invalid: '(' is not a regular expression: missing closing parenthesis",
        ),
        ("page=1&name=" + "x" * 1001, "bad_request", "Pagination parameters are invalid"),
    ],
)
async def test_wrong_page(node: World, query: str, error: str, reason: str) -> None:
    declare(node, "a")
    reply = await node.call("GET", f"/api/queues?{query}")
    assert reply.status == 400
    assert reply.json["error"] == error
    assert reason in reply.json["reason"]


@pytest.mark.parametrize(
    "path",
    [
        "/exchanges",
        "/vhosts",
        "/connections",
        "/channels",
        "/bindings",
        "/users",
        "/permissions",
        "/consumers",
    ],
)
async def test_every_list_has_pages(node: World, path: str) -> None:
    assert "items" in await node.get(f"{path}?page=1&page_size=5")


# -- cheap lists, samples, virtual hosts ------------------------------------------------------------


async def test_lists_without_stats(node: World) -> None:
    declare(node, "a")
    [cheap] = await node.get("/queues?disable_stats=true")
    assert sorted(cheap) == [
        "arguments", "auto_delete", "durable", "exclusive", "name", "node", "state", "type", "vhost"
    ]  # fmt: skip
    [totals] = await node.get("/queues?disable_stats=true&enable_queue_totals=true")
    assert set(totals) - set(cheap) == {"messages", "messages_ready", "messages_unacknowledged"}


async def test_samples_only_if_both_of_a_pair_are_numbers(node: World) -> None:
    declare(node, "a")
    node.sample()
    for query in (
        "lengths_age=60",
        "lengths_incr=5",
        "lengths_age=x&lengths_incr=5",
    ):
        [queue] = await node.get(f"/queues?{query}")
        assert queue["messages_details"] == {"rate": 0.0}, query
    [queue] = await node.get("/queues?lengths_age=60&lengths_incr=5")
    assert sorted(queue["messages_details"]) == ["avg", "avg_rate", "rate", "samples"]


@pytest.mark.parametrize(("age", "incr"), [(0, 5), (-60, 5), (60, 0), (60, -5), (2505, 5), (10**30, 1)])
async def test_wrong_range(node: World, age: int, incr: int) -> None:
    reply = await node.call("GET", f"/api/overview?msg_rates_age={age}&msg_rates_incr={incr}")
    assert (reply.status, reply.json["error"]) == (400, "bad_request")
    assert reply.json["reason"] == f"Invalid range parameters: age {age}, incr {incr}"


async def test_longest_range(node: World) -> None:
    await node.get("/overview?lengths_age=2504&lengths_incr=5&msg_rates_age=2504&msg_rates_incr=5")


async def test_churn_has_samples_if_lengths_and_rates_are_asked_for(node: World) -> None:
    both = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"
    for query, samples in ((both, True), (both[:30], False), ("data_rates_age=60&data_rates_incr=5", False)):
        churn = (await node.get(f"/overview?{query}"))["churn_rates"]
        for name in ("queue_created", "connection_created"):
            assert ("samples" in churn[f"{name}_details"]) == samples


async def test_one_queue_without_statistics(node: World) -> None:
    declare(node, "a")
    for query in ("disable_stats=true", "disable_stats=true&enable_queue_totals=true"):
        assert [await node.get(f"/queues/%2F/a?{query}")] == await node.get(f"/queues?{query}")


async def test_header_picks_a_virtual_host(shop: World) -> None:
    declare(shop, "a")
    headers = {"X-Vhost": "shop"}
    assert await names(shop, "/queues", **headers) == ["emails", "orders.eu"]
    assert {each["vhost"] for each in await shop.get("/exchanges", **headers)} == {"shop"}
    assert {each["vhost"] for each in await shop.get("/bindings", **headers)} == {"shop"}
    assert (await shop.get("/overview", **headers))["object_totals"]["queues"] == 2


async def test_large_list_is_whole_and_compressed_if_asked_for(node: World) -> None:
    declare(node, *(f"q{number:04}" for number in range(1500)))
    plain = await node.call("GET", "/api/queues", **{"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(plain.body) > WRITE_BYTES
    assert plain.headers["transfer-encoding"] == "chunked"
    short = await node.call("GET", "/api/queues?page=1&page_size=5", **{"Accept-Encoding": "identity"})
    assert int(short.headers["content-length"]) == len(short.body)
    assert [each["name"] for each in plain.json] == [f"q{number:04}" for number in range(1500)]
    packed = await node.call("GET", "/api/queues", **{"Accept-Encoding": "gzip, deflate"})
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body)) == plain.json
    assert len(packed.body) < len(plain.body) / 8
    for refusal in ("gzip;q=0", "GZIP ; Q=0.000", "br, gzip;q=0, *"):
        plain = await node.call("GET", "/api/queues", **{"Accept-Encoding": refusal})
        assert "content-encoding" not in plain.headers
    for encoding in ("identity", "gzip"):
        head = await node.call("HEAD", "/api/queues", **{"Accept-Encoding": encoding})
        assert (head.status, head.body) == (200, b"")


# -- paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "a%2Fb"),
        ("50%", "50%25"),
        ("a b", "a%20b"),
        ("a+b", "a+b"),
        ("#:->", "%23:-%3E"),
        ("grüße", "gr%C3%BC%C3%9Fe"),
        ("a+b", "a%2Bb"),
    ],
)
async def test_names_in_paths(node: World, name: str, path: str) -> None:
    declare(node, name)
    assert (await node.get(f"/queues/%2F/{path}"))["name"] == name
    [binding] = await node.get(f"/queues/%2F/{path}/bindings")
    key = binding["properties_key"].replace("%", "%25")
    assert (await node.get(f"/bindings/%2F/e/amq.default/q/{path}/{key}"))["routing_key"] == name


async def test_plus_is_no_space(node: World) -> None:
    declare(node, "a b")
    assert (await node.call("GET", "/api/queues/%2F/a+b")).status == 404


async def test_slash_at_the_end(shop: World) -> None:
    for path in ("/users/", "/queues/", "/exchanges/shop/", "/bindings/", "/permissions/", "/overview/"):
        assert await shop.get(path), path


async def test_default_exchange_in_paths(shop: World) -> None:
    assert (await shop.get("/exchanges/shop/amq.default"))["name"] == ""
    for source in ("amq.default", ""):
        [binding] = await shop.get(f"/bindings/shop/e/{source}/q/emails")
        assert binding["routing_key"] == "emails"
    found = await shop.get("/exchanges/shop/amq.default/bindings/source")
    assert [each["destination"] for each in found] == ["emails", "orders.eu"]
    assert await shop.get("/exchanges/shop/amq.default/bindings/destination") == []


async def test_bindings_between_two_objects(shop: World) -> None:
    vhost = shop.broker.vhosts["shop"]
    vhost.bind_queue("orders.eu", "orders", "", {"x-a": ("S", b"b")}, None)
    vhost.bind_exchange("amq.fanout", "orders", "~", {})
    keys = [each["properties_key"] for each in await shop.get("/bindings/shop/e/orders/q/orders.eu")]
    assert keys[0] == "eu.%23"
    assert keys[1].startswith("~")
    assert keys[1] == "~OfANRw"
    one = await shop.get(f"/bindings/shop/e/orders/q/orders.eu/{keys[1]}")
    assert one["arguments"] == {"x-a": "b"}
    assert (await shop.get("/bindings/shop/e/orders/e/amq.fanout/%257E"))["routing_key"] == "~"
    assert await shop.get("/bindings/shop/e/orders/q/nosuch") == []
    for path in ("e/orders/q/orders.eu/nope", "e/orders/x/orders.eu"):
        assert (await shop.call("GET", f"/api/bindings/shop/{path}")).status == 404


async def test_name_that_is_no_utf8(node: World) -> None:
    declare(node, "caf\udce9")
    connection = await node.connect()
    await connection.channel()
    found = await names(node, "/queues")
    assert found == ["Not UTF-8, base64 is: Y2Fm6Q=="]


async def test_arguments_of_every_type(node: World) -> None:
    arguments: dict[str, Any] = {
        "x-text": ("S", "ü".encode()),
        "x-octets": ("S", b"\xff"),
        "x-int": ("l", 2**40),
        "x-list": ("A", [("t", True), ("V", None)]),
        "x-table": ("F", {"d": ("D", (2, 125))}),
        "x-time": ("T", 1700000000),
        "x-double": ("d", 0.5),
        "x-huge": ("L", 2**63 - 1),
    }
    node.broker.vhosts["/"].declare_exchange("e", "headers", arguments=arguments)
    assert (await node.get("/exchanges/%2F/e"))["arguments"] == {
        "x-text": "ü",
        "x-octets": "Not UTF-8, base64 is: /w==",
        "x-int": 2**40,
        "x-list": [True, "undefined"],
        "x-table": {"d": 1.25},
        "x-time": 1700000000,
        "x-double": 0.5,
        "x-huge": 2**63 - 1,
    }


@pytest.mark.parametrize("name", ["{braces}", "%2F", "a/b", "a b", "%", "é?#&=+", "<img>"])
async def test_names_of_any_letters_have_a_path(node: World, name: str) -> None:
    node.broker.vhosts["/"].declare_queue(name)
    found = await node.get(f"/queues/%2F/{quote(name, safe='')}")
    assert found["name"] == name


async def test_filters_ignore_case(node: World) -> None:
    for name in ("Orders", "ORDERS.eu", "mails"):
        node.broker.vhosts["/"].declare_queue(name)
    for wanted in ("name=orders", "name=ORD", "use_regex=true&name=^orders", "use_regex=true&name=^(?!m)"):
        found = await node.get(f"/queues?page=1&columns=name&{wanted}")
        assert [each["name"] for each in found["items"]] == ["ORDERS.eu", "Orders"]


async def test_filters_know_posix_classes(node: World) -> None:
    for name in ("abc", "ab1"):
        node.broker.vhosts["/"].declare_queue(name)
    found = await node.get("/queues?page=1&use_regex=true&name=^[[:alpha:]]%2B$")
    assert [each["name"] for each in found["items"]] == ["abc"]
    reply = await node.call("GET", "/api/queues?page=1&use_regex=true&name=[:alpha:]")
    assert reply.status == 400
    assert "only within a class" in reply.json["reason"]


def test_a_busy_machine_makes_no_filter_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Pattern.matches

    def starved(pattern: Pattern, name: str, limit_s: float = LIMIT_S) -> bool:
        time.sleep(2 * LIMIT_S)
        return plain(pattern, name, limit_s)

    monkeypatch.setattr(Pattern, "matches", starved)
    page = Page(1, 100, "", compile_pattern("^a", ignore_case=True))
    assert page.admits(["ab", "ba"]) == [True, False]


async def test_list_with_an_exponential_filter(node: World) -> None:
    node.broker.vhosts["/"].declare_queue("a" * 60 + "b")
    assert (await node.get("/queues?page=1&use_regex=true&name=(a%2B)%2B%24"))["items"] == []  # linear in RE2
    reply = await node.call("GET", "/api/queues?page=1&use_regex=true&name=(%3F%3D(a|a)%2B%24)(a%2B)%2B\\1$")
    assert reply.status == 400
    assert reply.json == {"error": "bad_request", "reason": "The regular expression takes too long to match"}
    assert len((await node.get("/queues?page=1&use_regex=true&name=b%24"))["items"]) == 1


async def test_queue_whose_connection_is_gone_is_listed_until_it_goes_too(
    node: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await node.connect()
    channel = await connection.channel()
    await channel.declare_queue("mine", exclusive=True)
    [transport] = [each for each in node.broker.registry if each.machine.user.name == "guest"][-1:]
    with monkeypatch.context() as patch:
        patch.setattr(VirtualHost, "remove_exclusive_queues", lambda *_: True)  # it has more to do
        transport.abort()
        while transport in list(node.broker.registry):
            await asyncio.sleep(0.01)
        [found] = [each for each in await node.get("/queues") if each["name"] == "mine"]
        assert found["owner_pid_details"]["name"] == connections.name(transport)
        assert (await node.get("/queues/%2F/mine"))["owner_pid_details"]["peer_host"] == "127.0.0.1"
    while "mine" in node.broker.vhosts["/"].queues:
        await asyncio.sleep(0.01)


# -- as measured with RabbitMQ 3.10.8 ----------------------------------------------------------------


async def test_a_part_of_what_rabbitmq_does_not_look_into_is_the_whole(shop: World) -> None:
    connection = await shop.connect("shop")
    try:
        channel = await connection.channel()
        queue = await channel.get_queue("orders.eu")
        tag = await queue.consume(lambda message: None)
        path = "/queues/shop/orders.eu?columns="
        assert await shop.get(path + "name.x,consumer_details.consumer_tag,nope.x") == {
            "name": "orders.eu",
            "consumer_details": [{"consumer_tag": tag}],
        }
        assert await shop.get(path + "messages_details.x") == {"messages_details": []}
        assert len((await shop.get(path + "backing_queue_status.len"))["backing_queue_status"]) > 5
        [about] = await shop.get("/connections?columns=name,client_properties.x")
        assert about["client_properties"]["product"]
        for one in (f"/connections/{quote(about['name'])}", f"/channels/{quote(about['name'])}%20(1)"):
            assert {"name", "node", "state"} <= (await shop.get(one + "?columns=nope")).keys()
    finally:
        await connection.close()


#: Arguments in JSON, and the hash of their properties key.
HASHES = [
    ({"a": 1}, "Ajat_Q"),
    ({"b": "x", "a": "y"}, "NGAmOw"),
    ({"x": True, "z": 1.5, "w": -1, "big": 5000000000, "neg": -5000000000}, None),
    ({"é": "ü"}, "nrpYYg"),
    ({"x-match": "all", "n": 255, "m": 256, "h": 2147483648}, "_6MuQg"),
    ({"s": "x" * 300}, "vRpVXQ"),
    ({"e": [], "o": {}}, "WykbBQ"),
    ({"x": True, "z": 1.5, "l": [1, "a", [True]], "t": {"k": "v", "a": 2}}, None),
]


@pytest.mark.parametrize(("arguments", "key"), HASHES)
async def test_properties_keys_are_those_of_rabbitmq(shop: World, arguments: Any, key: str | None) -> None:
    body = json.dumps({"routing_key": "k /é", "arguments": arguments})
    path = "/api/bindings/shop/e/orders/q/emails"
    reply = await shop.call("POST", path, body=body, Origin=shop.base)
    assert reply.status == 201
    location = reply.headers["Location"]
    assert location.startswith("emails/k%2B%252F%25C3%25A9~"), "quoted twice, as it stands in a path"
    if key is not None:
        assert location.endswith(f"~{key}")
    for one in (f"{path}/{location.partition('/')[2]}",):
        assert (await shop.call("GET", one)).json["arguments"] == arguments
        assert (await shop.call("DELETE", one)).status == 204


async def test_no_component_has_no_parameters(shop: World) -> None:
    assert await shop.get("/parameters/nosuch") == await shop.get("/parameters/nosuch/shop") == []
    for path in ("/parameters/nosuch/nosuch", "/parameters/nosuch/shop/name"):
        assert (await shop.call("GET", f"/api{path}")).status == 404


async def test_octets_and_consumers_of_a_queue(node: World) -> None:
    declare(node, "q")
    vhost = node.broker.vhosts["/"]
    about = (
        "message_bytes",
        "message_bytes_ready",
        "message_bytes_unacknowledged",
        "message_bytes_persistent",
    )
    connection = await node.connect("/")
    try:
        channel = await connection.channel()
        raft = await channel.declare_queue("r", durable=True, arguments={"x-queue-type": "quorum"})
        for size in (10, 20, 30):
            await channel.default_exchange.publish(Message(b"x" * size, delivery_mode=2), "r")
        await raft.get()
        found = await node.get("/queues/%2F/r")
        assert [found[name] for name in about] == [60, 50, 10, 60]
        assert found["consumers"] == 1, "who has unsettled messages of a quorum queue counts"
        assert (found["consumer_capacity"], found["consumer_details"]) == (0, [])
    finally:
        await connection.close()
    found = await node.get("/queues/%2F/r")
    assert [found[name] for name in about] == [60, 60, 0, 60]
    assert vhost.queues["r"].unacked_bytes == 0
