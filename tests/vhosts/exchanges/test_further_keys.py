"""Further routing keys of a message: CC and BCC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from amqp_router.protocol import errors
from amqp_router.protocol.fields import encode_table
from amqp_router.protocol.properties import headers_of
from amqp_router.protocol.shown import without_bcc
from tests.vhosts.exchanges.houses import House, carrying, typed
from tests.vhosts.fakes import publish_args
from vhosts.exchanges.router import Permits, RouteCache
from vhosts.exchanges.walk import LOOKS_MAX


@pytest.fixture
def house() -> House:
    return House()


def test_further_keys(house: House) -> None:
    for name in ("h", "h2", "h3"):
        house.queue(name)
    properties = carrying(CC=["h2", "h"], BCC=["h3"], z=1)
    route = house.route("", "h", properties)
    assert [queue.name for queue in route.queues] == ["h", "h2", "h3"]
    assert route.routing_key == "h"
    assert route.has_bcc
    assert headers_of(without_bcc(properties)) == typed(CC=["h2", "h"], z=1)
    assert house.queues("", "h") == ["h"]  # and the route without is another


class Topics(Permits):
    """Notes the keys it is asked for, and refuses one."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.asked: list[list[str]] = []

    def topic(self, exchange: str, keys: Sequence[str]) -> None:
        self.asked.append(list(keys))
        if self.refused in keys:
            raise errors.AccessRefused(f"access to topic '{self.refused}' refused")


@pytest.mark.parametrize("refused", ["", "key.19999"])
def test_very_many_further_keys_are_permitted_in_slices(house: House, refused: str) -> None:
    """A publisher's 20,000 keys held the event loop for 0.09 s."""
    house.exchange("t", "topic")
    house.bind("a", "t", "key.19999")
    permits = Topics(refused)
    cache = RouteCache(house.vhost.table, permits)
    keys = [f"key.{number}" for number in range(20_000)]
    properties = carrying(CC=[1, *keys[:10_000], None, {"a": [1]}], BCC=keys[10_000:])
    args = publish_args("t", "first")
    walk = route = None
    try:
        while route is None:
            asked = len(permits.asked)
            route = cache.resolve(args, properties, walk)
            walk = cache.take_unfinished()
            assert len(permits.asked) <= asked + 1
    except errors.AccessRefused:
        assert refused
    else:
        assert not refused
        assert [queue.name for queue in route.queues] == ["a"]
    assert max(map(len, permits.asked)) <= 512
    assert [key for some in permits.asked for key in some] == ["first", *keys]


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.topic"])
def test_very_many_further_keys_are_looked_up_in_slices(house: House, exchange: str) -> None:
    """12,000 keys by which nobody is bound held the event loop for 14 ms."""
    for name in ("amq.direct", "amq.topic"):
        house.bind("a", name, "a")
    properties = carrying(CC=[*[f"key.{number}" for number in range(3 * LOOKS_MAX)], "a"])
    cache = RouteCache(house.vhost.table, None)
    units = []
    route = walk = None
    while route is None:
        route = cache.resolve(publish_args(exchange, "first"), properties, walk)
        walk = cache.take_unfinished()
        units.append(cache.units)
    assert [queue.name for queue in route.queues] == ["a"]
    assert len(units) > 3
    assert max(units) <= LOOKS_MAX // 3


def test_further_keys_through_every_type(house: House) -> None:
    house.exchange("t", "topic")
    house.vhost.bind_exchange("amq.direct", "t", "#", {})
    house.bind("a", "amq.direct", "a")
    house.bind("b", "t", "*.b")
    house.bind("f", "amq.fanout")
    assert set(house.queues("t", "x.b", carrying(CC=["a"]))) == {"a", "b"}
    assert house.queues("t", "x", carrying(BCC=["x.b"])) == ["b"]
    assert house.queues("amq.fanout", "x", carrying(CC=["y"])) == ["f"]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"CC": "a"}, 'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
        ({"BCC": 1}, 'invalid message: {unacceptable_type_in_header,"BCC",signedint}'),
    ],
)
def test_further_keys_that_are_no_array(house: House, headers: dict[str, Any], text: str) -> None:
    house.queue("q")
    house.route("", "q")
    with pytest.raises(errors.PreconditionFailed) as error:
        house.route("", "q", carrying(**headers))
    assert error.value.text == text


def test_items_that_are_no_text_are_passed_over(house: House) -> None:
    house.queue("q")
    house.queue("r")
    assert house.queues("", "q", carrying(CC=[1, "r", b"x", None])) == ["q", "r"]


def test_empty_bcc_is_taken_out_too(house: House) -> None:
    house.bind("q", "amq.direct", "k")
    assert house.route("amq.direct", "k", carrying(BCC=[])).has_bcc
    assert not house.route("amq.direct", "k").has_bcc
    assert house.route("amq.direct", "k", carrying(BCC=[])).has_bcc


def test_text_that_looks_like_cc_is_none(house: House) -> None:
    house.bind("q", "amq.direct", "k")
    plain = house.route("amq.direct", "k")
    assert house.route("amq.direct", "k", carrying(a="\x02CC", b={"CC": ["x"]})) is plain


def test_properties_before_and_after_the_headers_stay(house: House) -> None:
    table = encode_table({"BCC": ("A", []), "a": ("L", 5)})
    properties = b"\xf0\0\x02ab\x01c" + table + b"\x02"
    assert without_bcc(properties) == b"\xf0\0\x02ab\x01c" + encode_table({"a": ("L", 5)}) + b"\x02"
