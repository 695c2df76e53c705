"""x-consistent-hash, x-modulus-hash and x-random: one binding for each message. Errors as RabbitMQ 3.10.8."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import decode_table, encode_plain
from amqp_router.protocol.properties import encode_properties
from tests.vhosts.fakes import FakeQueue, new_vhost, publish_args
from vhosts.exchanges.consistent_hash import ConsistentHashExchange
from vhosts.exchanges.exchange import Binding, Exchange, Routable
from vhosts.exchanges.modulus_hash import ModulusHashExchange
from vhosts.exchanges.random import RandomExchange
from vhosts.exchanges.router import RouteCache
from vhosts.vhost import VirtualHost


def typed(**values: Any) -> Any:
    return decode_table(encode_plain({name.replace("_", "-"): value for name, value in values.items()}), 0)[0]


def queue(name: str) -> FakeQueue:
    made = FakeQueue()
    made.name = name
    return made


def bind(exchange: Exchange, *weights: tuple[str, str]) -> list[Binding]:
    made = [Binding(exchange, queue(name), weight, {}) for name, weight in weights]
    for binding in made:
        exchange.bind(binding)
    return made


def chosen(exchange: Exchange, *keys: str, properties: bytes = b"\0\0") -> str | None:
    found = [each for each in exchange.route(Routable(list(keys), properties)) if not isinstance(each, int)]
    assert len(found) <= 1
    return found[0].destination.name if found else None


def shares(exchange: Exchange, count: int = 6000) -> Counter[str | None]:
    return Counter(chosen(exchange, f"key {number}") for number in range(count))


def consistent(**arguments: Any) -> ConsistentHashExchange:
    return ConsistentHashExchange("x", "x-consistent-hash", arguments=typed(**arguments))


KNOWN_CONSISTENT = ["q1", "q3", "q2", "q4", "q1", "q2"]
KNOWN_MODULUS = ["q1", "q3", "q3", "q0", "q3", "q2"]

# -- x-consistent-hash ------------------------------------------------------------------------------


def test_weights_are_shares() -> None:
    exchange = consistent()
    bind(exchange, ("a", "1"), ("b", "2"), ("c", "+3"), ("d", "06"))
    found = shares(exchange)
    for name, weight in (("a", 1), ("b", 2), ("c", 3), ("d", 6)):
        assert 0.85 < found[name] / (6000 * weight / 12) < 1.15, found


def test_a_huge_weight_takes_no_memory() -> None:
    exchange = consistent()
    bind(exchange, ("a", "1"), ("b", "9" * 255))
    assert shares(exchange, 100) == {"b": 100}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_only_what_must_move_moves(weights: list[int], data: st.DataObject) -> None:
    """A binding that goes gives its keys away, and the others keep theirs; so also when it comes."""
    exchange = consistent()
    bindings = bind(exchange, *((f"q{number}", str(weight)) for number, weight in enumerate(weights)))
    gone = data.draw(st.sampled_from(bindings))
    keys = [f"key {number}" for number in range(200)]
    before = {key: chosen(exchange, key) for key in keys}
    exchange.unbind(gone)
    after = {key: chosen(exchange, key) for key in keys}
    for key in keys:
        assert before[key] == after[key] or before[key] == gone.destination.name
        assert after[key] != gone.destination.name
    exchange.bind(gone)
    assert before == {key: chosen(exchange, key) for key in keys}


def test_the_choice_is_the_same_for_ever() -> None:
    """Known results: another release that chose otherwise would send a key to another queue."""
    exchange = consistent()
    bind(exchange, *((f"q{number}", "1") for number in range(5)))
    assert [chosen(exchange, key) for key in ("", "a", "b", "c", "a.b.c", "\udcff")] == KNOWN_CONSISTENT
    other = ModulusHashExchange("x", "x-modulus-hash")
    bind(other, *((f"q{number}", "") for number in (4, 2, 0, 1, 3)))
    assert [chosen(other, key) for key in ("", "a", "b", "c", "a.b.c", "\udcff")] == KNOWN_MODULUS


def test_an_end_bound_twice_has_its_first_weight() -> None:
    exchange = consistent()
    first, other = bind(exchange, ("a", "1"), ("b", "1"))
    second = Binding(exchange, first.destination, "9", {})
    exchange.bind(second)
    assert 0.4 < shares(exchange, 1000)["a"] / 1000 < 0.6
    exchange.unbind(first)
    assert 0.85 < shares(exchange, 1000)["a"] / 1000 < 0.95
    exchange.unbind(second)
    assert shares(exchange, 100) == {"b": 100}
    exchange.unbind(other)
    assert chosen(exchange, "k") is None


def test_a_deleted_queue_takes_no_share() -> None:
    exchange = consistent()
    gone, _ = bind(exchange, ("a", "1"), ("b", "1"))
    gone.destination.deleted = True
    assert shares(exchange, 100) == {"b": 100}


def test_keys_of_cc_count_as_part_of_the_key() -> None:
    exchange = consistent()
    bind(exchange, *((f"q{number}", "1") for number in range(50)))
    assert chosen(exchange, "a", "b") != chosen(exchange, "a")
    assert chosen(exchange, "a", "b") == chosen(exchange, "a", "b")
    assert chosen(exchange, "ab", "c") != chosen(exchange, "a", "bc")


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_hash_property(name: str) -> None:
    exchange = consistent(hash_property=name)
    bind(exchange, ("a", "1"), ("b", "1"))

    def of(value: int, key: str) -> str | None:
        properties = encode_properties({name: value if name == "timestamp" else str(value)})
        return chosen(exchange, key, properties=properties)

    assert {of(value, "k") for value in range(30)} == {"a", "b"}
    assert len({of(1, str(key)) for key in range(30)}) == 1
    assert len({chosen(exchange, str(key)) for key in range(30)}) == 1  # without it all go one way


def test_hash_header() -> None:
    exchange = consistent(hash_header="h")
    bind(exchange, ("a", "1"), ("b", "1"))

    def of(field: Any, key: str = "k") -> str | None:
        return chosen(exchange, key, properties=encode_properties({"headers": {"h": field}}))

    assert {of(("S", b"%d" % value)) for value in range(30)} == {"a", "b"}
    assert {of(("I", 7), str(key)) for key in range(30)} == {of(("l", 7))}
    assert of(("S", b"x")) == of(("x", b"x"))
    assert len({chosen(exchange, str(key)) for key in range(30)}) == 1


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("", "The binding key must be an integer: <<>>"),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("1\n", 'The binding key must be an integer: <<"1\\n">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_wrong_weights(key: str, text: str) -> None:
    exchange = consistent()
    with pytest.raises(PreconditionFailed) as caught:
        exchange.bind(Binding(exchange, queue("q"), key, {}))
    assert caught.value.reply_text.endswith(text)
    assert chosen(exchange, "k") is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "foo"}, "Unsupported property: foo"),
        ({"hash-property": ""}, "Unsupported property: "),
        ({"hash-property": 1}, "invalid type 'signedint' for arg 'hash-property' in exchange 'x'"),
        ({"hash-header": True}, "invalid type 'bool' for arg 'hash-header' in exchange 'x'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], text: str) -> None:
    vhost = new_vhost()
    with pytest.raises(PreconditionFailed) as caught:
        vhost.declare_exchange("x", "x-consistent-hash", arguments=typed(**arguments))
    assert caught.value.reply_text.endswith(text)
    assert "x" not in vhost.exchanges


def test_a_search_among_very_many_goes_in_slices() -> None:
    exchange = consistent()
    bind(exchange, *((f"q{number}", "1") for number in range(3000)))
    looks = [each for each in exchange.route(Routable(["k"])) if isinstance(each, int)]
    assert sum(looks) >= 4 * 2900
    assert max(looks) <= 256


# -- x-modulus-hash and x-random --------------------------------------------------------------------


def test_modulus_hash_is_the_same_for_the_same_bindings() -> None:
    forth, back = (ModulusHashExchange("x", "x-modulus-hash") for _ in range(2))
    names = [f"q{number}" for number in range(7)]
    bind(forth, *((name, "") for name in names))
    bind(back, *((name, "") for name in reversed(names)))
    keys = [f"key {number}" for number in range(700)]
    assert [chosen(forth, key) for key in keys] == [chosen(back, key) for key in keys]
    assert set(map(str, (chosen(forth, key) for key in keys))) == set(names)


@pytest.mark.parametrize("cls", [ModulusHashExchange, RandomExchange])
def test_what_is_deleted_is_passed_over(cls: type[Exchange]) -> None:
    exchange = cls("x", "x")
    bindings = bind(exchange, *((f"q{number:04}", "") for number in range(1500)))
    for binding in bindings[:-1]:
        binding.destination.deleted = True
    assert shares(exchange, 20) == {"q1499": 20}
    assert any(isinstance(each, int) for _ in range(20) for each in exchange.route(Routable(["k"])))
    bindings[-1].destination.deleted = True
    assert chosen(exchange, "k") is None
    # a queue of the same name may be there before the bindings of the deleted one are gone
    again = Binding(exchange, queue("q1499"), "", {})
    exchange.bind(again)
    exchange.unbind(bindings[-1])
    assert chosen(exchange, "k") == "q1499"
    for binding in [*bindings[:-1], again]:
        exchange.unbind(binding)
    assert chosen(exchange, "k") is None


def test_random_gives_each_binding_its_share() -> None:
    exchange = RandomExchange("x", "x-random")
    bind(exchange, ("a", "1"), ("b", "1"), ("c", "1"))
    again = [chosen(exchange, "the same") for _ in range(3000)]
    assert all(900 < again.count(name) < 1100 for name in "abc")
    assert len(set(pairwise(again))) == 9


# -- in a virtual host ------------------------------------------------------------------------------


def routed(
    vhost: VirtualHost, cache: RouteCache, exchange: str, key: str, properties: bytes = b"\0\0"
) -> list[str]:
    args = publish_args(exchange, key)
    route = cache.find(args) or cache.resolve(args, properties)
    assert route is not None
    assert not route.cacheable
    return [each.name for each in route.queues]


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-random", "x-modulus-hash"])
def test_routes_are_not_remembered(kind: str) -> None:
    """Behind a fanout exchange, and before one: the message decides anew each time."""
    vhost = new_vhost()
    cache = RouteCache(vhost.table, None)
    vhost.declare_exchange("x", kind, arguments=typed(hash_property="message_id"))
    vhost.bind_exchange("x", "amq.fanout", "", {})
    for name in ("a", "b"):
        vhost.declare_queue(name)
        vhost.bind_queue(name, "x", "1", {}, None)
    seen = set()
    for number in range(40):
        key = str(number) if kind == "x-modulus-hash" else "k"
        found = routed(vhost, cache, "amq.fanout", key, encode_properties({"message_id": str(number)}))
        assert len(found) == 1
        seen.add(*found)
    assert seen == {"a", "b"}


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-random", "x-modulus-hash", "x-recent-history"])
def test_alternate_exchange_takes_what_no_binding_takes(kind: str) -> None:
    vhost = new_vhost()
    cache = RouteCache(vhost.table, None)
    vhost.declare_exchange("x", kind, arguments=typed(alternate_exchange="amq.fanout"))
    vhost.declare_queue("spare")
    vhost.bind_queue("spare", "amq.fanout", "", {}, None)
    assert routed(vhost, cache, "x", "k") == ["spare"]
    vhost.declare_queue("q")
    vhost.bind_queue("q", "x", "1", {}, None)
    assert routed(vhost, cache, "x", "k") == ["q"]
    vhost.delete_queue("q")
    assert routed(vhost, cache, "x", "k") == ["spare"]
