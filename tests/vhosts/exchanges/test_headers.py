import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_router.protocol import kept_table
from amqp_router.protocol.errors import PreconditionFailed
from amqp_router.protocol.fields import decode_table, encode_plain, encode_table
from amqp_router.protocol.kept_table import KeptTable
from tests.vhosts.fakes import FakeQueue
from vhosts.exchanges.exchange import Binding, Routable
from vhosts.exchanges.headers import HeadersExchange, criteria, match_mode

LONG_ONE = ("l", 1)


def table(values):
    typed = {name: value for name, value in values.items() if isinstance(value, tuple)}
    plain = {name: value for name, value in values.items() if name not in typed}
    return {**decode_table(encode_plain(plain), 0)[0], **typed}


def bound(arguments):
    exchange = HeadersExchange("x", "headers")
    binding = Binding(exchange, FakeQueue(), "", arguments)
    exchange.bind(binding)
    return exchange, binding


def carrying(headers):
    if headers is None:
        return Routable(["k"], b"\0\0")
    return Routable(["k"], b"\x20\0" + encode_table(headers))


def found_by(exchange, message):
    """The bindings that match, each once; what the exchange tells of its work is left out."""
    return list(dict.fromkeys(each for each in exchange.route(message) if not isinstance(each, int)))


def work(exchange, message):
    """How much was compared."""
    return sum(each for each in exchange.route(message) if isinstance(each, int))


# Measured on RabbitMQ 3.10.8: binding arguments, message headers, matches.
MEASURED = [
    ({"x-match": "all", "a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 2}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": LONG_ONE}, True),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": True}, {"a": 1}, False),
    ({"a": "1"}, {"a": b"1"}, True),
    ({"a": None}, {"a": "anything"}, True),
    ({"a": None}, {}, False),
    ({"a": None}, None, False),
    ({}, {}, True),
    ({"x-match": "all"}, {}, True),
    ({"x-match": "any"}, {}, False),
    ({"x-match": "any"}, {"a": 1}, False),
    ({}, None, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
    ({"x-match": "any", "a": None}, {"a": 3}, True),
    ({"x-match": "all", "x-foo": 1, "a": 1}, {"a": 1}, True),
    ({"x-match": "all-with-x", "x-foo": 1, "a": 1}, {"a": 1}, False),
    ({"x-match": "all-with-x", "x-foo": 1, "a": 1}, {"a": 1, "x-foo": 1}, True),
    ({"x-match": "any", "x-foo": 1}, {"x-foo": 1}, False),
    ({"x-match": "any-with-x", "x-foo": 1}, {"x-foo": 1}, True),
    ({"x-match": "all", "x-foo": 1}, {"z": 1}, True),
    ({"a": [1, 2]}, {"a": [1, 2]}, True),
    ({"a": {"b": 1}}, {"a": {"b": 1}}, True),
    ({"a": "x"}, {"a": "x", "b": 2}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 2}}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, False),
    ({"a": [{"b": 1, "c": 2}]}, {"a": [{"c": 2, "b": 1}]}, False),
    # Not measured: inside arrays and tables the types count, as Erlang compares whole terms there.
    ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ({"a": [1]}, {"a": ("A", [LONG_ONE])}, False),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
    ({"a": True}, {"a": True}, True),
    ({"a": True}, {"a": "true"}, False),
    ({"a": False}, {"a": 0}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": 1}, {"a": None}, False),
]


@pytest.mark.parametrize(("arguments", "headers", "expected"), MEASURED)
def test_table_measured_on_rabbitmq(arguments, headers, expected):
    exchange, binding = bound(table(arguments))
    message = carrying(None if headers is None else table(headers))
    assert found_by(exchange, message) == ([binding] if expected else [])
    exchange.unbind(binding)
    assert found_by(exchange, message) == []


@pytest.mark.parametrize(
    ("x_match", "text"),
    [
        (
            ("S", b"foo"),
            'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x',
        ),
        (("I", 1), "Invalid x-match field type signedint (value 1); expected longstr"),
        (("t", True), "Invalid x-match field type bool (value true); expected longstr"),
    ],
)
def test_bad_x_match(x_match, text):
    with pytest.raises(PreconditionFailed) as error:
        bound({"x-match": x_match})
    assert error.value.text == text


def equal(one, other):
    """Erlang's ``==`` on two values without their types."""
    (tag, value), (other_tag, other_value) = one, other
    if (tag == "t") != (other_tag == "t"):
        return False
    if tag == other_tag == "F":
        return list(value.items()) == list(other_value.items())  # their order counts
    if tag in "AF" or other_tag in "AF":
        return one == other
    return value == other_value


def matches(arguments, headers):
    """The rule as documented, one criterion after the other."""
    mode = match_mode(arguments)
    wanted = criteria(arguments, mode)
    met = [
        name in headers and (field[0] == "V" or equal(field, headers[name])) for name, field in wanted.items()
    ]
    return all(met) if mode.startswith("all") else any(met)


scalars = st.one_of(
    st.tuples(st.sampled_from("bsIl"), st.integers(-1, 2)),
    st.tuples(st.just("d"), st.sampled_from([0.0, 1.0, 1.5])),
    st.tuples(st.sampled_from("Sx"), st.sampled_from([b"", b"1", b"true"])),
    st.tuples(st.just("t"), st.booleans()),
    st.just(("V", None)),
)
fields = st.one_of(
    scalars,
    st.tuples(st.just("A"), st.lists(scalars, max_size=2)),
    st.tuples(st.just("F"), st.dictionaries(st.sampled_from("pq"), scalars, max_size=2)),
)
names = st.sampled_from(["a", "b", "c", "x-a", "x-b"])
tables = st.dictionaries(names, fields, max_size=4)
modes = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


@st.composite
def binding_arguments(draw):
    arguments = draw(tables)
    mode = draw(modes)
    return arguments if mode is None else {**arguments, "x-match": ("S", mode.encode())}


@given(st.lists(binding_arguments(), max_size=8), st.lists(tables, min_size=1, max_size=5), st.data())
def test_index_matches_as_the_rule_says(all_arguments, messages, data):
    exchange = HeadersExchange("x", "headers")
    bindings = [Binding(exchange, FakeQueue(), "", arguments) for arguments in all_arguments]
    for binding in bindings:
        exchange.bind(binding)
    for headers in messages:
        found = found_by(exchange, carrying(headers))
        assert len(found) == len(set(found))
        assert set(found) == {each for each in bindings if matches(each.arguments, headers)}
        if bindings:
            exchange.unbind(bindings.pop(data.draw(st.integers(0, len(bindings) - 1))))


FILLER = {f"f{number}": ("I", number) for number in range(300)}


@given(
    st.lists(binding_arguments(), max_size=4),
    st.lists(st.tuples(tables, st.sampled_from([0, 299, 300])), min_size=1, max_size=4),
    st.data(),
)
@settings(max_examples=60)
def test_bindings_with_very_many_criteria_match_as_the_rule_says(all_arguments, messages, data):
    exchange = HeadersExchange("x", "headers")
    bindings = [Binding(exchange, FakeQueue(), "", {**FILLER, **arguments}) for arguments in all_arguments]
    for binding in bindings:
        exchange.bind(binding)
    for headers, filled in messages:
        all_headers = {**dict(list(FILLER.items())[:filled]), **headers}
        found = [each for each in exchange.route(carrying(all_headers)) if not isinstance(each, int)]
        assert len(found) == len(set(found)), "each comes once, however many criteria are met"
        assert set(found) == {each for each in bindings if matches(each.arguments, all_headers)}
        if bindings:
            exchange.unbind(bindings.pop(data.draw(st.integers(0, len(bindings) - 1))))


@pytest.mark.parametrize("mode", [b"any", b"all"])
def test_a_bind_decodes_a_large_table_once_and_a_match_tells_of_its_work(mode, monkeypatch):
    binding = Binding(
        HeadersExchange("x", "headers"),
        FakeQueue(),
        "",
        {**{f"n{number}": ("I", number) for number in range(5000)}, "x-match": ("S", mode)},
    )
    decoded = []
    outer_table = kept_table.outer_table
    monkeypatch.setattr(
        kept_table, "outer_table", lambda *octets: decoded.append(octets) or outer_table(*octets)
    )
    monkeypatch.setattr(KeptTable, "table", None)
    binding.source.bind(binding)
    assert len(decoded) == 1
    message = carrying({f"n{number}": ("I", number) for number in range(1, 5001)})
    told = [each for each in binding.source.route(message) if isinstance(each, int)]
    assert max(told) <= 70
    assert sum(told) <= 5100 + len(message.properties) // 8  # the headers are decoded, too


@pytest.mark.parametrize("tag", ["A", "F"])
def test_a_large_nested_value_is_compared_and_not_decoded(tag, monkeypatch):
    """One of 60,000 booleans took 43 ms at a bind, and at each publish with such a header."""

    def many(last):
        items = [*[("t", True)] * 2000, ("t", last)]
        return tag, items if tag == "A" else {f"{number}": item for number, item in enumerate(items)}

    binding = Binding(HeadersExchange("x", "headers"), FakeQueue(), "", {"a": many(True)})
    assert isinstance(binding.arguments, KeptTable)
    monkeypatch.setattr(KeptTable, "table", None)
    binding.source.bind(binding)
    assert found_by(binding.source, carrying({"a": many(True)})) == [binding]
    assert found_by(binding.source, carrying({"a": many(False)})) == []


def test_decimal_and_float():
    exchange, binding = bound({"a": ("D", (1, 15))})
    assert found_by(exchange, carrying({"a": ("D", (1, 15))})) == [binding]
    assert found_by(exchange, carrying({"a": ("d", 1.5)})) == []


def test_not_a_number_equals_nothing():
    nan = struct.unpack(">d", b"\x7f\xf8\0\0\0\0\0\0")[0]
    exchange, binding = bound({"a": ("d", nan)})
    assert found_by(exchange, carrying({"a": ("d", nan)})) == []
    exchange.unbind(binding)


def test_a_match_costs_what_it_hits():
    exchange = HeadersExchange("x", "headers")
    for number in range(2000):
        # All have one criterion in common, and one of their own.
        arguments = table({"common": 1, "own": number, "v": None})
        exchange.bind(Binding(exchange, FakeQueue(), "", arguments))
    message = carrying(table({"common": 1, "own": 7, "v": 0, "z": 1}))
    assert len(found_by(exchange, message)) == 1
    assert work(exchange, message) <= 20


def test_a_match_tells_of_its_work_while_it_works():
    exchange = HeadersExchange("x", "headers")
    for number in range(1000):
        exchange.bind(Binding(exchange, FakeQueue(), "", table({"a": 1, "b": number % 5, "c": number % 7})))
    told = [each for each in exchange.route(carrying(table({"a": 1, "b": 3}))) if isinstance(each, int)]
    assert max(told) <= 70
    assert sum(told) >= 100


def test_two_matches_at_a_time_do_not_disturb_each_other():
    exchange = HeadersExchange("x", "headers")
    for number in range(40):
        exchange.bind(Binding(exchange, FakeQueue(), "", table({"a": number % 2, "b": number % 3})))
    one, other = carrying(table({"a": 1, "b": 2})), carrying(table({"a": 1, "b": 0}))
    expected = [found_by(exchange, one), found_by(exchange, other)]
    both = list(zip(exchange.route(one), exchange.route(other), strict=False))
    found = [[each for each in side if not isinstance(each, int)] for side in zip(*both, strict=True)]
    assert found[0] == expected[0][: len(found[0])]
    assert found[1] == expected[1][: len(found[1])]


@pytest.mark.parametrize(("mode", "count"), [("all", 1), ("all", 299), ("any", 299)])
def test_large_values_are_more_work(mode, count):
    """A table is compared item by item: some thousand bindings held the loop for 40 ms."""
    deep = {"deep": ("F", {"d": ("A", [("I", number) for number in range(200)])})}
    few, many = table({"a": 1}), table({f"n{number}": number for number in range(count)})
    headers = {**few, **deep, **many} if mode == "all" else {**deep, **few, **many}
    exchange = HeadersExchange("x", "headers")
    for _ in range(100):
        exchange.bind(Binding(exchange, FakeQueue(), "", table({"x-match": mode, **headers})))
    each = len(encode_table(deep)) >> 5
    if mode == "all":
        each += count
    assert work(exchange, carrying(headers)) > 100 * each
