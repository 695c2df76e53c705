"""Events as messages: what they cost, and how they are bounded.

``tests/oracle/test_events.py`` has their headers.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from amqp_router import events
from amqp_router.auth.users import ADMINISTRATOR, Users
from amqp_router.event_headers import PROPERTIES_BYTES_MAX, Printed, address, properties_of
from amqp_router.protocol import methods as m
from amqp_router.protocol.errors import AccessRefused
from amqp_router.protocol.properties import decode_properties
from tests.auth.tags import give_tags
from tests.nodes import Client, SimNode

EXCHANGE = events.EXCHANGE


def bound(node: SimNode, key: str = "#") -> Client:
    client = Client(node).open(1)
    client.declare("ear")
    client.call(m.QueueBind("ear", EXCHANGE, key), m.QueueBindOk)
    node.settle()
    client.call(m.QueuePurge("ear"), m.QueuePurgeOk)
    return client


def heard(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Routing keys and headers, and the queue is empty."""
    client.node.settle()
    found = []
    while (message := client.node.queue("ear").take(True)) is not None:
        assert message.body() == b""
        headers = decode_properties(message.properties())["headers"]
        found.append((message.route[message.route[0] + 2 :].decode(), headers))
    return found


def test_nothing_is_noted_while_nothing_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before the first binding nor after the last one."""
    node = SimNode()

    def noted(*_: object) -> None:
        raise AssertionError("an event was made for nobody")

    with monkeypatch.context() as patch:
        patch.setattr(events.Events, "_note", noted)
        client = Client(node).open(1, 2)
        client.declare("a", durable=True)
        client.send(m.QueueDelete("a"))
        node.settle()
        client.drop()
    client = bound(node)
    client.declare("b")
    assert [key for key, _ in heard(client)] == ["queue.created"]
    client.call(m.QueueUnbind("ear", EXCHANGE, "#"), m.QueueUnbindOk)
    node.settle()
    monkeypatch.setattr(events.Events, "_note", noted)
    client.declare("c")
    assert not node.feed.on


def test_a_binding_is_there_after_a_start() -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.declare("ear", durable=True)
    client.send(m.QueueBind("ear", EXCHANGE, "queue.*"))
    node.settle()
    node.stop()
    node = SimNode(node.disk, node.definitions, boot=2)
    assert node.feed.on
    client = Client(node).open(1)
    assert heard(client) == []  # what is loaded is not told
    client.declare("q")
    assert [key for key, _ in heard(client)] == ["queue.created"]


def test_events_are_persistent_messages() -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.declare("ear", durable=True)
    client.send(m.QueueBind("ear", EXCHANGE, "queue.created"))
    node.settle()
    client.take()
    client.declare("q")
    node.settle()
    node.stop()
    node = SimNode(node.disk, node.definitions, boot=2)
    assert [headers["name"] for _, headers in heard(Client(node).open(1))] == [("S", b"q")]


def test_very_many_go_in_slices_and_their_causer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that declares without end: no more events wait than a turn of it adds to the bound."""
    monkeypatch.setattr(events, "BEHIND", 20)
    monkeypatch.setattr(events, "SLICE", 5)
    node = SimNode()
    client = bound(node, "queue.created")
    sent = []
    pass_on = node.vhost.topology.passing.pass_on
    most = 0

    def passed_on(exchange: Any, messages: Any) -> None:
        nonlocal most
        most = max(most, len(node.feed._waiting) + len(messages))
        sent.append(len(messages))
        pass_on(exchange, messages)

    monkeypatch.setattr(node.vhost.topology.passing, "pass_on", passed_on)
    held = node.budget.held
    client.send(*[m.QueueDeclare(f"q{number}", nowait=True) for number in range(500)])
    assert len(heard(client)) == 500
    assert max(sent) == 5
    assert most <= 30
    assert node.budget.held == held


def test_a_virtual_host_with_very_many_queues_is_deleted_in_step_with_its_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "BEHIND", 50)
    node = SimNode()
    client = bound(node, "queue.deleted")
    node.core.virtual_hosts.put("many")
    many = node.vhosts["many"]
    for number in range(3000):
        many.declare_queue(f"q{number}")
    node.settle()
    most = 0
    note = node.feed._note

    def noted(*args: Any, **named: Any) -> None:
        nonlocal most
        note(*args, **named)
        most = max(most, len(node.feed._waiting))

    monkeypatch.setattr(node.feed, "_note", noted)
    node.core.virtual_hosts.delete("many")
    names = [headers["name"][1].decode() for _, headers in heard(client)]
    assert sorted(names) == sorted(f"q{number}" for number in range(3000))
    assert most <= 50 + 400 + 64  # a slice of the removal, and one of events


def test_too_many_are_dropped_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS_MAX", 10)
    node = SimNode()
    client = bound(node, "alarm.*")
    for number in range(15):
        node.feed.alarm("memory", number % 2 == 0)
    assert len(heard(client)) == 10
    assert ("events dropped, too many at a time", {"count": 5}) in node.events


def test_the_home_of_the_exchange_is_deleted_and_made_again() -> None:
    node = SimNode()
    bound(node)
    node.core.virtual_hosts.delete("/")
    assert not node.feed.on
    node.settle()
    node.core.virtual_hosts.put("/")
    node.settle()
    node.vhost = node.vhosts["/"]
    client = bound(node)
    client.declare("q")
    assert [key for key, _ in heard(client)] == ["queue.created"]


def test_no_exchange_without_a_virtual_host_for_it() -> None:
    node = SimNode()
    users, budget = node.core.users, node.budget
    other = events.Events(
        "", "n", users, budget, in_slices=node.in_slices, wall_us=node.wall_us, event=node.event
    )
    node.core.virtual_hosts.on_made = other.adopt
    node.core.virtual_hosts.put("v")
    assert EXCHANGE not in node.vhosts["v"].exchanges


def test_no_secret_is_told() -> None:
    node = SimNode()
    client = bound(node)
    users = node.core.users = Users(node.definitions, os.urandom)
    users.put_user("bob", b"secret-word")
    hashed = node.core.users.users["bob"].password_hash
    node.core.parameters.put_global("note", {"password": "secret-word"})
    found = heard(client)
    assert [key for key, _ in found] == ["user.created", "user.tags.set", "parameter.set"]
    told = str(found)
    assert "secret-word" not in told
    assert hashed not in told


def test_only_those_who_see_all_may_bind_to_it() -> None:
    """As over HTTP: it tells of all virtual hosts."""
    node = SimNode()
    users = Users(node.definitions, os.urandom)
    users.load([], [])
    for name, tags in (
        ("root", (ADMINISTRATOR,)),
        ("eye", ("monitoring",)),
        ("any", ("management",)),
        ("none", ()),
    ):
        users.put_user(name, b"pw", tags)
        users.set_permission(name, "/", configure=".*", write=".*", read=".*")
        permissions = users.permissions_of(name, "/")
        assert permissions is not None
        permissions.check("read", "exchange", "amq.topic")
        permissions.check("read", "queue", EXCHANGE)
        if tags and tags[0] != "management":
            permissions.check("read", "exchange", EXCHANGE)
            give_tags(users, name, ())
        with pytest.raises(AccessRefused) as refused:
            permissions.check("read", "exchange", EXCHANGE)
        assert refused.value.text == f"access to exchange '{EXCHANGE}' in vhost '/' refused for user '{name}'"


def test_large_values_are_left_out() -> None:
    argument = ("S", b"x" * PROPERTIES_BYTES_MAX)
    headers = decode_properties(
        properties_of({"name": "q", "arguments": Printed({"a": argument})}, 5_000_000)
    )
    assert headers["headers"] == {"name": ("S", b"q"), "timestamp_in_ms": ("l", 5000)}
    assert headers["timestamp"] == 5


def many(octets: int) -> dict[str, Any]:
    """Arguments that take so many octets and a much longer text."""
    return {"a": ("A", [("V", None)] * octets)}


def test_a_long_text_is_given_up_before_it_is_whole() -> None:
    printed = []

    class Counted(list[Any]):
        def __iter__(self) -> Any:
            for each in super().__iter__():
                printed.append(each)
                yield each

    table = {"a": ("A", Counted([("V", None)] * 50_000))}
    found = decode_properties(properties_of({"name": "q", "arguments": Printed(table)}, 5_000_000))
    assert found["headers"] == {"name": ("S", b"q"), "timestamp_in_ms": ("l", 5000)}
    assert len(printed) <= PROPERTIES_BYTES_MAX / len("voidundefined") + 1


def test_large_arguments_are_not_kept_and_middling_ones_are_counted_and_go_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One client's arguments of 100 KiB, of which 64 in a turn took a second."""
    node = SimNode()
    client = bound(node, "binding.created")
    client.declare("q")
    node.settle()
    sent = []
    most = 0
    pass_on = node.vhost.topology.passing.pass_on

    def passed_on(exchange: Any, messages: Any) -> None:
        nonlocal most
        sent.append(len(messages))
        most = max(most, node.budget.held)
        pass_on(exchange, messages)

    monkeypatch.setattr(node.vhost.topology.passing, "pass_on", passed_on)
    before = node.budget.held
    large, middling = many(events.TABLE_BYTES_MAX), many(events.SLICE_BYTES)
    client.send(*[m.QueueBind("q", "amq.direct", str(key), True, large) for key in range(6)])
    found = heard(client)
    assert [headers["routing_key"] for _, headers in found] == [("S", b"%d" % key) for key in range(6)]
    assert not any("arguments" in headers for _, headers in found)
    assert most - before < 6 * events.EVENT_BYTES + events.TABLE_BYTES_MAX
    sent.clear()
    client.send(*[m.QueueBind("q", "amq.fanout", str(key), True, middling) for key in range(6)])
    assert len(heard(client)) == 6
    assert sent == [1] * 6
    assert most - before > 4 * events.SLICE_BYTES
    assert node.budget.held == before


@pytest.mark.parametrize(
    ("host", "printed"),
    [
        ("127.0.0.1", "{127,0,0,1}"),
        ("::1", "{0,0,0,0,0,0,0,1}"),
        ("fe80::1%eth0", "{65152,0,0,0,0,0,0,1}"),
        ("?", "?"),
    ],
)
def test_addresses_as_erlang_prints_them(host: str, printed: str) -> None:
    assert address(host) == printed


def test_an_updated_virtual_host() -> None:
    node = SimNode()
    client = bound(node, "vhost.*")
    node.core.virtual_hosts.put("v", description="one")
    node.core.virtual_hosts.put("v", description="two")
    told = [(key, headers["description"][1]) for key, headers in heard(client)]
    assert told == [("vhost.created", b"one"), ("vhost.updated", b"two")]
