"""Messages with very many values in their headers: a frame has room for 60,000, which take 10 ms to decode.

Whoever looks at one header decodes that one alone, and what reads them all is charged by their octets.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from amqp_router.protocol import methods as m
from amqp_router.protocol.fields import encode_table
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import (
    decode_properties,
    encode_properties,
    headers_named,
    headers_of,
    outer_headers,
    with_header,
)
from tests.nodes import Client, SimNode
from tests.vhosts.queues.local import declared
from vhosts.exchanges.exchange import Routable
from vhosts.exchanges.taps import Actor
from vhosts.exchanges.types import EXCHANGE_TYPES
from vhosts.queues.death import Death
from vhosts.queues.delayed import released

MANY = {"x-values": ("A", [("t", True)] * 40_000)}
ROUTE = b"\x01x\x01k"
CC = {"CC": ("A", [("S", b"one"), ("S", b"two")])}


def properties(headers: dict[str, Any], **others: Any) -> bytes:
    return encode_properties({"headers": headers, **others})


def peak(act: Callable[[], object]) -> int:
    """Octets allocated at most."""
    tracemalloc.start()
    act()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def message(headers: dict[str, Any]) -> Message:
    return build_message(ROUTE, properties(headers), b"body")


def exchange(kind: str, **arguments: Any) -> Any:
    return EXCHANGE_TYPES[kind]("x", kind, arguments=arguments)


DELAYED = {"x-delayed-type": ("S", b"fanout")}


@pytest.mark.parametrize(
    "look",
    [
        lambda found: list(exchange("x-delayed-message", **DELAYED).route(found)),
        lambda found: list(exchange("x-consistent-hash", **{"hash-header": ("S", b"x-other")}).route(found)),
        lambda found: list(
            exchange("x-consistent-hash", **{"hash-property": ("S", b"message_id")}).route(found)
        ),
        lambda found: list(exchange("headers").route(found)),
    ],
)
def test_a_route_is_found_without_decoding_them(look: Callable[[Routable], object]) -> None:
    found = Routable(["k"], properties({"a": ("I", 1), **MANY}))
    assert peak(lambda: look(found)) < 10 * len(found.properties)


def test_a_delay_is_read_and_negated_without_decoding_them() -> None:
    made = message({**MANY, "x-delay": ("I", 5000), "z": ("I", 1)})
    copies: list[Message] = []
    assert peak(lambda: copies.append(released(made))) < 10 * made.size()
    headers = headers_of(copies[0].properties())
    assert headers == {**MANY, "x-delay": ("I", -5000), "z": ("I", 1)}
    assert list(headers or ()) == ["x-values", "x-delay", "z"]


def test_the_history_keeps_a_message_without_decoding_them() -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.call(m.ExchangeDeclare("h", "x-recent-history"), m.ExchangeDeclareOk)
    keeper = node.vhost.exchanges["h"]
    made = message(MANY)
    assert peak(lambda: keeper.keep(made)) < 10 * made.size()
    keeper.keep(message({**MANY, "x-recent-history-no-store": ("t", True)}))
    assert len(keeper.history) == 1  # type: ignore[attr-defined]


def test_a_copy_for_the_firehose_is_made_without_decoding_them() -> None:
    node = SimNode()
    client = Client(node).open(1)
    client.declare("copies")
    client.call(m.QueueBind("copies", "amq.rabbitmq.trace", "#"), m.QueueBindOk)
    node.core.virtual_hosts.put("/", tracing=True)
    node.settle()
    (tap,) = node.vhost.table.taps
    client.declare("q")
    route = node.vhost.table.default_routes[b"q"]
    made = message({**MANY, **CC})
    assert peak(lambda: tap.on_publish(route, made, Actor("c", 1, "guest"))) < 20 * made.size()
    copy = node.queue("copies").take(True)
    assert copy is not None
    found = headers_of(copy.properties()) or {}
    assert found["routing_keys"] == ("A", [("S", b"k"), ("S", b"one"), ("S", b"two")])
    assert found["properties"][1]["headers"][1].keys() == {"x-values", "CC"}


# -- single headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"a": ("I", 1)},
        {**MANY, "a": ("S", b"x")},
        {"aa": ("I", 1), "a": ("F", {"b": ("A", [("V", None)])})},
    ],
)
def test_named_headers_are_those_of_all(headers: dict[str, Any]) -> None:
    octets = properties(headers, content_type="text", message_id="id")
    outer = outer_headers(octets)
    assert list(outer) == list(headers)
    for name in ("a", "aa", "none", "x-values"):
        assert headers_named(octets, name) == ({name: outer[name]} if name in headers else {})
    assert encode_table(outer) == encode_table(headers)
    assert headers_named(encode_properties({"message_id": "id"}), "a") == {}


def test_the_first_of_two_with_one_name_counts() -> None:
    entries = b"\x01aI\0\0\0\1" + b"\x01aI\0\0\0\2"
    octets = b"\x20\0" + struct.pack(">I", len(entries)) + entries
    assert headers_named(octets, "a") == {"a": ("I", 1)}


def test_a_header_is_replaced_in_its_place() -> None:
    octets = properties({"a": ("I", 1), "b": ("S", b"long"), "c": ("V", None)}, message_id="id")
    changed = with_header(octets, "b", {"b": ("I", 7)})
    assert decode_properties(changed) == {
        "headers": {"a": ("I", 1), "b": ("I", 7), "c": ("V", None)},
        "message_id": "id",
    }


def test_headers_as_octets() -> None:
    octets = properties({**MANY, **CC}, message_id="id", delivery_mode=2)
    found = decode_properties(octets, True)
    assert found["headers"] == encode_table({**MANY, **CC})
    assert encode_properties(found) == octets


# -- dead letters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x-death", "x-values"])
def test_few_letters_with_very_many_values_are_made_in_one_turn(name: str) -> None:
    node = SimNode()
    declared(node, "dead", durable=False)
    queue = declared(node, "q", durable=False, dead_letter_exchange="", dead_letter_routing_key="dead")
    value = ("F", {}) if name == "x-death" else ("t", True)
    for number in range(20):
        octets = properties({name: ("A", [value] * 20_000)}, message_id=str(number))
        node.enter(queue.publish, build_message(b"\0\1q", octets, b"%d" % number))
    taken = [queue.take(False) for _ in range(20)]
    node.enter(lambda: [queue.settle(each, 2) for each in taken if each is not None])
    most = before = node.queue("dead").message_count()
    for _ in range(100):
        node.turn()
        count = node.queue("dead").message_count()
        most, before = max(most, count - before), count
    assert before == 20
    assert most <= (3 if name == "x-death" else 20)


def test_the_deaths_of_a_message_are_passed_over_undecoded() -> None:
    """24,000 of them took 55 ms, most of it to make their values and to encode them again."""
    known = {"queue": ("S", b"q"), "reason": ("S", b"rejected"), "count": ("l", 6)}
    others = [("F", {"queue": ("S", b"other"), "n": ("I", number)}) for number in range(3000)]
    made = message({"x-death": ("A", [*others, ("F", known)])})
    death = Death()
    assert peak(lambda: death.note(made, "q", "rejected", 1, True)) < 12 * made.size()
    (first, *rest) = (headers_of(death.encoded()) or {})["x-death"][1]
    assert first == ("F", {**known, "count": ("l", 7)})
    assert rest == others
