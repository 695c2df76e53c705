"""Routes of the router: what they say, the default exchange, other exchanges, and errors."""

from __future__ import annotations

import pytest

from amqp_router.protocol import errors
from tests.vhosts.exchanges.houses import NO_PROPERTIES, OWNER, House
from tests.vhosts.fakes import publish_args


@pytest.fixture
def house() -> House:
    return House()


# -- what a route says --------------------------------------------------------------------------------


def test_route_of_a_direct_exchange(house: House) -> None:
    house.queue("kept", durable=True)
    house.bind("kept", "amq.direct", "k")
    house.bind("lost", "amq.direct", "k")
    route = house.route("amq.direct", "k", mandatory=True)
    assert [queue.name for queue in route.queues] == ["kept", "lost"]
    assert [queue.name for queue in route.durable_queues] == ["kept"]
    assert route.single is None
    assert route.route == b"\x0aamq.direct\x01k"
    assert (route.exchange, route.routing_key) == ("amq.direct", "k")
    assert route.mandatory
    assert route.cacheable
    assert not route.has_bcc
    assert route.generation == house.vhost.generation
    assert not house.route("amq.direct", "k").mandatory


def test_route_to_one_queue(house: House) -> None:
    house.bind("q", "amq.fanout")
    assert house.route("amq.fanout", "k").single is house.vhost.queues["q"]


def test_unroutable_is_remembered_too(house: House) -> None:
    args = publish_args("amq.direct", "nobody", mandatory=True)
    route = house.cache.resolve(args, NO_PROPERTIES)
    assert route.queues == []
    assert route.single is None
    assert house.cache.find(args) is route


@pytest.mark.parametrize("name", ["q", "é" * 100, "\udcff\udc80", "k" * 255])
def test_names_of_any_octets(house: House, name: str) -> None:
    house.exchange(name)
    house.bind(name, name, name)
    assert house.queues(name, name) == [name]
    assert house.route(name, name).route == publish_args(name, name)[2:-1]
    assert house.queues("", name) == [name]
    assert house.route("", name).route == publish_args("", name)[2:-1]


# -- the default exchange -----------------------------------------------------------------------------


def test_default_exchange(house: House) -> None:
    queue = house.queue("q", durable=True)
    args = publish_args("", "q", mandatory=True)
    assert house.cache.find(args) is None  # nobody has asked for the permission yet
    route = house.cache.resolve(args, NO_PROPERTIES)
    assert house.cache.find(args) is route
    assert route.single is queue
    assert list(route.durable_queues) == [queue]
    assert route.route == b"\0\x01q"
    assert house.asked == [""]


def test_default_exchange_without_such_a_queue(house: House) -> None:
    route = house.route("", "q", mandatory=True)
    assert route.queues == []
    assert route.mandatory
    assert not route.cacheable
    house.queue("q")
    assert house.queues("", "q") == ["q"]


def test_a_remembered_route_dies_with_its_queue(house: House) -> None:
    house.queue("other")
    house.queue("q")
    house.route("", "q")
    remembered = house.route("", "q")
    before = house.vhost.generation
    assert remembered.generation == before
    house.vhost.delete_queue("q", owner=OWNER)
    assert house.vhost.generation == before  # nothing else has to be found anew
    assert remembered.generation == 0
    assert house.queues("", "q") == []
    house.queue("q")
    assert house.route("", "q") is not remembered


def test_default_route_is_good_again_after_other_changes(house: House) -> None:
    house.queue("q")
    house.route("", "q")
    house.exchange("x")
    assert house.route("", "q").generation == house.vhost.generation


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "q"])
@pytest.mark.parametrize("exchange", ["", "amq.direct"])
def test_immediate(house: House, exchange: str, key: str) -> None:
    house.queue("q")
    house.route(exchange, key)
    with pytest.raises(errors.NotImplementedByServer) as error:
        house.route(exchange, key, immediate=True)
    assert error.value.reply_text == "NOT_IMPLEMENTED - immediate=true"


def test_no_such_exchange(house: House) -> None:
    with pytest.raises(errors.NotFound) as error:
        house.route("nope", "a")
    assert error.value.reply_text == "NOT_FOUND - no exchange 'nope' in vhost '/'"


def test_internal_exchange(house: House) -> None:
    house.vhost.declare_exchange("x.int", "fanout", internal=True)
    with pytest.raises(errors.AccessRefused) as error:
        house.route("x.int", "a")
    text = "ACCESS_REFUSED - cannot publish to internal exchange 'x.int' in vhost '/'"
    assert error.value.reply_text == text


@pytest.mark.parametrize("exchange", ["", "amq.direct"])
def test_permission_is_asked_once_and_again_after_a_change(house: House, exchange: str) -> None:
    house.bind("q", "amq.direct", "q")
    house.queues(exchange, "q")
    house.queues(exchange, "q")
    assert house.asked == [exchange]
    house.refused = {exchange}
    house.vhost.forget_routes()
    for _ in range(2):
        with pytest.raises(errors.AccessRefused):
            house.route(exchange, "q")


def test_permission_is_refused_before_the_exchange_is_missed(house: House) -> None:
    house.refused = {"nope"}
    with pytest.raises(errors.AccessRefused):
        house.route("nope")


@pytest.mark.parametrize(
    "args", [b"", b"\0\0", b"\0\0\0\0", b"\0\0\x05ab\0\0", b"\0\0\0\x05q\0", b"\0\0\0\x01q\0\0"]
)
def test_malformed_arguments(house: House, args: bytes) -> None:
    house.queue("q")
    house.route("", "q")
    assert house.cache.find(args) is None
    with pytest.raises(errors.FrameError) as error:
        house.cache.resolve(args, NO_PROPERTIES)
    assert (error.value.class_id, error.value.method_id) == (60, 40)


def test_malformed_headers(house: House) -> None:
    for properties in (b"\x20\0\0\0\0\x03\x02CC", b"\x20\0\0\0\0\xff"):
        with pytest.raises(errors.FrameError):
            house.route("amq.direct", "k", properties)


# -- between exchanges --------------------------------------------------------------------------------


def test_one_copy_over_all_paths(house: House) -> None:
    house.exchange("a", "fanout")
    house.exchange("b", "topic")
    house.bind("q", "a")
    for pattern in ("k", "*", "#"):
        house.bind("q", "b", pattern)
    house.bind("r", "b", "k")
    house.vhost.bind_exchange("b", "a", "", {})
    assert house.queues("a", "k") == ["q", "r"]
    assert set(house.queues("b", "k")) == {"q", "r"}


def test_cycles_end(house: House) -> None:
    house.exchange("a", "fanout")
    house.exchange("b", "fanout")
    house.vhost.bind_exchange("a", "b", "", {})
    house.vhost.bind_exchange("b", "a", "", {})
    house.vhost.bind_exchange("a", "a", "", {})
    house.bind("q", "a")
    assert house.queues("b", "k") == ["q"]


def test_internal_exchange_takes_from_others(house: House) -> None:
    house.vhost.declare_exchange("x.int", "fanout", internal=True)
    house.vhost.bind_exchange("x.int", "amq.fanout", "", {})
    house.bind("q", "x.int")
    assert house.queues("amq.fanout") == ["q"]


def test_alternate_exchange(house: House) -> None:
    house.exchange("x", "direct", alternate="amq.fanout")
    house.bind("other", "amq.fanout")
    house.bind("own", "x", "k")
    assert house.queues("x", "k") == ["own"]
    assert house.queues("x", "else") == ["other"]
    assert house.route("x", "else").exchange == "x"


def test_alternate_exchange_comes_and_goes(house: House) -> None:
    house.exchange("x", "direct", alternate="late")
    assert house.queues("x", "k") == []
    house.exchange("late", "fanout")
    house.bind("q", "late")
    assert house.queues("x", "k") == ["q"]
    house.vhost.delete_exchange("late")
    assert house.queues("x", "k") == []


def test_alternate_exchanges_in_a_circle(house: House) -> None:
    house.exchange("ca", "direct", alternate="cb")
    house.exchange("cb", "direct", alternate="ca")
    assert house.queues("ca", "k") == []


def test_alternate_exchange_is_for_no_binding_at_all(house: House) -> None:
    """As RabbitMQ: a binding to an exchange that leads nowhere counts as a match."""
    house.exchange("x", "fanout", alternate="amq.fanout")
    house.exchange("nowhere", "fanout")
    house.bind("q", "amq.fanout")
    house.vhost.bind_exchange("nowhere", "x", "", {})
    assert house.queues("x", "k") == []


def test_default_exchange_is_no_alternate(house: House) -> None:
    """Measured on RabbitMQ 3.10.8: a queue of that name gets nothing."""
    house.queue("q")
    house.exchange("x", "direct", alternate="")
    assert house.queues("x", "q") == []
