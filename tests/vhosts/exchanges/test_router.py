from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule

from amqp_router.protocol import errors
from amqp_router.protocol.fields import Table, decode_table, encode_plain, encode_table
from amqp_router.protocol.properties import headers_of
from amqp_router.protocol.shown import without_bcc
from tests.vhosts.exchanges.test_headers import matches as headers_match
from tests.vhosts.exchanges.test_topic import matches as topic_matches
from tests.vhosts.fakes import FakeQueue, new_vhost, publish_args
from vhosts.exchanges.exchange import NOT_REPEATABLE, Exchange
from vhosts.exchanges.route import Route
from vhosts.exchanges.router import HEADERS_BYTES_MAX, ROUTES_MAX, Permits, RouteCache, may_select
from vhosts.exchanges.types import EXCHANGE_TYPES, register_exchange_type
from vhosts.exchanges.walk import LOOKS_MAX

NO_PROPERTIES = b"\0\0"
OWNER = object()


def carrying(**headers: Any) -> bytes:
    return b"\x20\0" + encode_plain(headers)


def typed(**values: Any) -> Table:
    return decode_table(encode_plain(values), 0)[0]


class Asked(Permits):
    """Asks a function."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self.ask = ask

    def publish(self, exchange: str) -> None:
        self.ask(exchange)


class House:
    """A virtual host with short words for what the tests do to it."""

    def __init__(self) -> None:
        self.vhost = new_vhost()
        self.refused: set[str] = set()
        self.asked: list[str] = []
        self.cache = RouteCache(self.vhost.table, Asked(self.permits))

    def permits(self, exchange: str) -> None:
        self.asked.append(exchange)
        if exchange in self.refused:
            raise errors.AccessRefused(f"access to exchange '{exchange}' refused")

    def exchange(self, name: str, type_name: str = "direct", alternate: str | None = None) -> None:
        arguments = {} if alternate is None else typed(**{"alternate-exchange": alternate})
        self.vhost.declare_exchange(name, type_name, arguments=arguments)

    def queue(self, name: str, **flags: bool) -> FakeQueue:
        queue, _ = self.vhost.declare_queue(name, owner=OWNER, **flags)
        assert isinstance(queue, FakeQueue)
        return queue

    def bind(self, queue: str, exchange: str, key: str = "", **arguments: Any) -> None:
        if queue not in self.vhost.queues:
            self.queue(queue)
        self.vhost.bind_queue(queue, exchange, key, typed(**arguments), OWNER)

    def route(self, exchange: str, key: str = "", properties: bytes = NO_PROPERTIES, **flags: bool) -> Route:
        args = publish_args(exchange, key, **flags)
        route = None if may_select(properties) else self.cache.find(args)
        return self.cache.resolve(args, properties) if route is None else route

    def queues(self, *args: Any, **kwargs: Any) -> list[str]:
        return [queue.name for queue in self.route(*args, **kwargs).queues]


@pytest.fixture
def house() -> House:
    return House()


# -- what a route says ------------------------------------------------------------------------------


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


# -- the default exchange ---------------------------------------------------------------------------


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


# -- errors -----------------------------------------------------------------------------------------


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


# -- between exchanges ------------------------------------------------------------------------------


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


# -- CC and BCC -------------------------------------------------------------------------------------


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


# -- what is remembered -----------------------------------------------------------------------------


def test_headers_exchange_is_remembered_by_its_headers(house: House) -> None:
    house.bind("q", "amq.headers", a=1)
    one, other = carrying(a=1), carrying(a=2)
    args = publish_args("amq.headers", "k")
    first = house.cache.resolve(args, one)
    assert [queue.name for queue in first.queues] == ["q"]
    assert not first.cacheable
    assert house.cache.find(args) is None
    assert house.cache.resolve(args, one) is first
    assert house.queues("amq.headers", "k", other) == []
    assert house.queues("amq.headers", "k") == []
    house.bind("r", "amq.headers", a=1)
    assert house.queues("amq.headers", "k", one) == ["q", "r"]


def test_headers_on_the_way_decide_all_the_way(house: House) -> None:
    """The last exchange visited looks at the key alone, but whether it is reached depends on headers."""
    house.exchange("h", "headers")
    house.vhost.bind_exchange("amq.direct", "h", "", typed(a=1))
    house.bind("q", "amq.direct", "k")
    assert house.queues("h", "k", carrying(a=1)) == ["q"]
    assert house.queues("h", "k", carrying(a=2)) == []


def test_large_headers_are_not_remembered(house: House) -> None:
    house.bind("q", "amq.headers", a=1)
    properties = carrying(a=1, filler="x" * HEADERS_BYTES_MAX)
    args = publish_args("amq.headers", "k")
    first = house.cache.resolve(args, properties)
    second = house.cache.resolve(args, properties)
    assert first is not second
    assert list(first.queues) == list(second.queues)


def test_headers_that_do_not_decide_are_not_looked_at(house: House) -> None:
    house.bind("q", "amq.direct", "k")
    assert house.queues("amq.direct", "k", b"\x20\0\0\0\0\x01\xff") == ["q"]


def test_cache_is_bounded(house: House) -> None:
    house.exchange("x", "fanout")
    first = publish_args("x", "first")
    house.cache.resolve(first, NO_PROPERTIES)
    for number in range(ROUTES_MAX - 1):
        house.cache.resolve(publish_args("x", str(number)), NO_PROPERTIES)
    assert house.cache.find(first) is not None
    house.cache.resolve(publish_args("x", "one too many"), NO_PROPERTIES)
    assert house.cache.find(first) is None


def test_third_party_type() -> None:
    class Alternating(Exchange):
        """Each message to the next binding."""

        decided_by = NOT_REPEATABLE

        def __init__(self, name: str, type_name: str, **options: Any) -> None:
            super().__init__(name, type_name, **options)
            self.held: list[Any] = []

        def bind(self, binding: Any) -> None:
            self.held.append(binding)

        def unbind(self, binding: Any) -> None:
            self.held.remove(binding)

        def route(self, message: Any) -> list[Any]:
            self.held.append(self.held.pop(0))
            return self.held[-1:]

    register_exchange_type("x-alternating", Alternating)
    try:
        with pytest.raises(ValueError, match="registered already"):
            register_exchange_type("x-alternating", Alternating)
        house = House()
        house.exchange("x", "x-alternating")
        house.vhost.bind_exchange("x", "amq.fanout", "", {})
        house.bind("q", "x")
        house.bind("r", "x")
        assert [house.queues("amq.fanout", "k") for _ in range(4)] == [["q"], ["r"], ["q"], ["r"]]
    finally:
        del EXCHANGE_TYPES["x-alternating"]


# -- against a model --------------------------------------------------------------------------------

X_NAMES = ["d", "f", "t", "h", "auto"]
TYPES = {"d": "direct", "f": "fanout", "t": "topic", "h": "headers", "auto": "topic"}
KEYS = st.sampled_from(["", "a", "a.b", "#", "*", "a.*", "q1", "q2"])
TABLES = st.sampled_from(
    [{}, {"a": 1}, {"a": 1, "b": 2}, {"x-match": "any", "a": 1, "b": 2}, {"x-match": "any"}, {"a": None}]
)
HEADERS = st.sampled_from(
    [
        None,
        {},
        {"a": 1},
        {"b": 2},
        {"a": 1, "b": 2},
        {"CC": ["a.b"]},
        {"CC": ["q1"], "BCC": ["a"]},
        {"BCC": ["q2"]},
        {"x": "CC"},
    ]
)


class Model:
    """Routing as the rules say it, over plain lists."""

    def __init__(self) -> None:
        self.queues: dict[str, None] = {}
        self.exchanges: dict[str, tuple[str, str | None, bool]] = {}
        #: source, destination kind and name, key, arguments
        self.bindings: list[tuple[str, str, str, str, Table]] = []

    def matches(self, binding: tuple[str, str, str, str, Table], keys: list[str], headers: Table) -> bool:
        source, _, _, key, arguments = binding
        kind = self.exchanges[source][0]
        if kind == "direct":
            return key in keys
        if kind == "topic":
            return any(topic_matches(key, each) for each in keys)
        return kind == "fanout" or headers_match(arguments, headers)

    def visit(self, exchange: str, keys: list[str], headers: Table, seen: set[str], found: set[str]) -> None:
        if exchange in seen or (exchange and exchange not in self.exchanges):
            return
        seen.add(exchange)
        if exchange == "":
            found.update(set(keys) & self.queues.keys())
            return
        taken = [each for each in self.bindings if each[0] == exchange and self.matches(each, keys, headers)]
        for _, kind, name, _, _ in taken:
            if kind == "queue":
                found.add(name)
            else:
                self.visit(name, keys, headers, seen, found)
        alternate = self.exchanges[exchange][1]
        if not taken and alternate:
            self.visit(alternate, keys, headers, seen, found)

    def route(self, exchange: str, key: str, headers: dict[str, Any] | None) -> set[str]:
        given = headers or {}
        found: set[str] = set()
        keys = [key, *given.get("CC", []), *given.get("BCC", [])]
        self.visit(exchange, keys, typed(**given), set(), found)
        return found

    def drop_bindings(self, doomed: Iterable[tuple[str, str, str, str, Table]]) -> None:
        for binding in list(doomed):
            if binding not in self.bindings:
                continue
            self.bindings.remove(binding)
            source = binding[0]
            if self.exchanges[source][2] and not any(each[0] == source for each in self.bindings):
                self.drop_exchange(source)

    def drop_exchange(self, name: str) -> None:
        self.bindings = [each for each in self.bindings if each[0] != name]
        kind, alternate, _ = self.exchanges[name]
        self.exchanges[name] = (kind, alternate, False)
        incoming = [each for each in self.bindings if each[1:3] == ("exchange", name)]
        self.drop_bindings(incoming)
        del self.exchanges[name]


class RoutingMachine(RuleBasedStateMachine):
    """Whatever is declared, bound, unbound and deleted, the cache says what the rules say."""

    bound = Bundle("bound")

    @initialize()
    def start(self) -> None:
        self.house = House()
        self.other_cache = RouteCache(self.house.vhost.table, Permits())
        self.model = Model()

    @rule(name=st.sampled_from(X_NAMES), alternate=st.sampled_from([None, "", "f", "t", "d"]))
    def declare_exchange(self, name: str, alternate: str | None) -> None:
        if name in self.model.exchanges:
            return
        arguments = {} if alternate is None else typed(**{"alternate-exchange": alternate})
        is_auto = name == "auto"
        self.house.vhost.declare_exchange(name, TYPES[name], auto_delete=is_auto, arguments=arguments)
        self.model.exchanges[name] = (TYPES[name], alternate, is_auto)

    @rule(name=st.sampled_from(X_NAMES))
    def delete_exchange(self, name: str) -> None:
        self.house.vhost.delete_exchange(name)
        if name in self.model.exchanges:
            self.model.drop_exchange(name)

    @rule(name=st.sampled_from(["q1", "q2"]))
    def declare_queue(self, name: str) -> None:
        self.house.queue(name)
        self.model.queues[name] = None

    @rule(name=st.sampled_from(["q1", "q2"]))
    def delete_queue(self, name: str) -> None:
        self.house.vhost.delete_queue(name, owner=OWNER)
        if name in self.model.queues:
            del self.model.queues[name]
            self.model.drop_bindings([each for each in self.model.bindings if each[1:3] == ("queue", name)])

    @rule(
        target=bound,
        source=st.sampled_from(X_NAMES),
        destination=st.sampled_from(["q1", "q2", *X_NAMES]),
        key=KEYS,
        arguments=TABLES,
    )
    def bind(self, source: str, destination: str, key: str, arguments: dict[str, Any]) -> Any:
        kind = "queue" if destination.startswith("q") else "exchange"
        ends = self.model.queues if kind == "queue" else self.model.exchanges
        if source not in self.model.exchanges or destination not in ends:
            return multiple()
        table = typed(**arguments)
        if kind == "queue":
            self.house.vhost.bind_queue(destination, source, key, table, OWNER)
        else:
            self.house.vhost.bind_exchange(destination, source, key, table)
        binding = (source, kind, destination, key, table)
        if binding not in self.model.bindings:
            self.model.bindings.append(binding)
        return binding

    @rule(binding=consumes(bound))
    def unbind(self, binding: tuple[str, str, str, str, Table]) -> None:
        source, kind, destination, key, table = binding
        if kind == "queue":
            self.house.vhost.unbind_queue(destination, source, key, table, OWNER)
        else:
            self.house.vhost.unbind_exchange(destination, source, key, table)
        self.model.drop_bindings([binding])

    @rule(exchange=st.sampled_from(["", *X_NAMES]), key=KEYS, headers=HEADERS)
    def publish(self, exchange: str, key: str, headers: dict[str, Any] | None) -> None:
        properties = NO_PROPERTIES if headers is None else carrying(**headers)
        if exchange and exchange not in self.model.exchanges:
            with pytest.raises(errors.NotFound):
                self.house.route(exchange, key, properties)
            return
        expected = self.model.route(exchange, key, headers)
        for _ in range(2):
            route = self.house.route(exchange, key, properties)
            names = [queue.name for queue in route.queues]
            assert len(names) == len(set(names))
            assert set(names) == expected
            assert route.has_bcc == ("BCC" in (headers or {}))
            assert route.generation == self.house.vhost.generation
            assert all(self.house.vhost.queues[queue.name] is queue for queue in route.queues)
        fresh = RouteCache(self.house.vhost.table, Permits())
        slow = fresh.resolve(publish_args(exchange, key), properties)
        assert [queue.name for queue in slow.queues] == names
        assert (slow.route, slow.exchange, slow.routing_key) == (
            route.route,
            route.exchange,
            route.routing_key,
        )


TestRouting = RoutingMachine.TestCase
TestRouting.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_what_a_walk_has_found_grows_by_small_steps(house: House) -> None:
    """The dict of 100,000 queues that it had found held the event loop for 6 to 12 ms when it grew."""
    names = [f"q{number}" for number in range(25_000)]
    for name in names:
        house.bind(name, "amq.fanout")
        house.bind(name, "amq.fanout", "again")
    cache = RouteCache(house.vhost.table, None)
    args = publish_args("amq.fanout", "k")
    growths: list[int] = []
    route = walk = None
    while route is None:
        tracemalloc.start()
        route = cache.resolve(args, NO_PROPERTIES, walk)
        growths.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        walk = cache.take_unfinished()
    assert sorted(queue.name for queue in route.queues) == sorted(names)
    assert len(growths) > 2 * 25_000 // LOOKS_MAX
    assert max(growths) < 1_000_000
