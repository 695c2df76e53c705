"""What messages say that die one after the other: noted anew, or put between the octets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import Table
from amqp_router.protocol.message import Message, build_message
from amqp_router.protocol.properties import PROPERTIES, decode_properties, encode_properties, with_fields
from vhosts.queues.death import DEATHS_MAX, EXPIRED, REJECTED, Death

TIME_S = 1_700_000_000
texts = st.text(max_size=4)
#: The names that decide whether a death has to be noted anew stand beside others.
names = st.sampled_from(["a", "CC", "BCC", "x-death", "x-first-death-queue", "x-deaths", "xCC"])
fields = st.one_of(
    st.tuples(st.just("S"), st.binary(max_size=6)),
    st.tuples(st.just("I"), st.integers(-5, 5)),
    st.tuples(st.just("A"), st.lists(st.tuples(st.just("S"), st.binary(max_size=3)), max_size=2)),
    st.tuples(st.just("F"), st.dictionaries(texts, st.tuples(st.just("V"), st.none()), max_size=2)),
)
known = {
    name: texts if kind == "s" else st.integers(0, 255)
    for name, (_, kind) in PROPERTIES.items()
    if kind != "t"
}
known["expiration"] = st.sampled_from(["", "1", "60000"])
known["delivery_mode"] = st.sampled_from([1, 2])
properties = st.fixed_dictionaries(
    {}, optional={**known, "headers": st.dictionaries(names, fields, max_size=3)}
)
#: Octets that may be such a name; a value with them is noted anew as well.
SIGNS = (b"-death", b"\x02CC", b"\x03BCC")
plain_properties = st.fixed_dictionaries(
    {}, optional={**known, "headers": st.dictionaries(st.sampled_from(["a", "b"]), fields, max_size=2)}
).filter(lambda values: not any(sign in encode_properties(values) for sign in SIGNS))


def message_with(values: dict[str, Any]) -> Message:
    return build_message(b"\x01e\x03key", encode_properties(values), b"body")


def noted(message: Message, reason: str = EXPIRED, *, keeps_keys: bool = True) -> Death:
    death = Death()
    death.note(message, "q", reason, TIME_S, keeps_keys)
    return death


def says(death: Death, message: Message) -> tuple[Any, ...]:
    letter = death.message(message)
    return (
        death.encoded(),
        letter.properties(),
        letter.body(),
        letter.flags,
        death.has_further_keys(),
        death.cycles(),
        death.exchange,
        death.routing_key,
    )


@given(properties, properties, st.sampled_from([EXPIRED, REJECTED]), st.booleans())
def test_the_same_death_again_is_as_one_noted_anew(
    first: dict[str, Any], second: dict[str, Any], reason: str, keeps_keys: bool
) -> None:
    death = noted(message_with(first), reason, keeps_keys=keeps_keys)
    message = message_with(second)
    again = death.again(message)
    if again is not None:
        assert says(again, message) == says(noted(message, reason, keeps_keys=keeps_keys), message)
        assert again.is_of(message, "q", reason, TIME_S, keeps_keys)
        assert again.has_properties_of(message)


@given(plain_properties, plain_properties)
def test_first_deaths_are_not_noted_anew(first: dict[str, Any], second: dict[str, Any]) -> None:
    message = message_with(second)
    again = noted(message_with(first)).again(message)
    assert (again is not None) == (first.get("expiration") == second.get("expiration"))
    if again is not None:
        assert again.again(message_with(first)) is not None
        assert says(again, message) == says(noted(message), message)


def test_a_value_that_looks_like_such_a_name_is_noted_anew() -> None:
    assert noted(message_with({})).again(message_with({"content_type": "CC"})) is None


@pytest.mark.parametrize("name", ["CC", "BCC", "x-death", "x-first-death-reason"])
def test_a_message_with_such_a_header_dies_anew(name: str) -> None:
    special, plain = message_with({"headers": {name: ("A", [])}}), message_with({})
    assert noted(plain).again(special) is None
    assert noted(special).again(plain) is None
    assert noted(plain).again(message_with({"headers": {"x": ("A", [])}})) is not None


@given(plain_properties, st.data())
def test_malformed_properties_are_left_to_who_decodes(values: dict[str, Any], data: st.DataObject) -> None:
    octets = encode_properties(values)
    if data.draw(st.booleans()):
        octets = octets[: data.draw(st.integers(0, len(octets)))]
    else:
        at = data.draw(st.integers(0, len(octets) - 1))
        octets = octets[:at] + bytes([data.draw(st.integers(0, 255))]) + octets[at + 1 :]
    try:
        expected: dict[str, Any] | None = decode_properties(octets)
    except FieldError:
        expected = None
    expiration = (expected or {}).get("expiration")
    text = b"" if expiration is None else expiration.encode("utf-8", "surrogateescape")
    found = with_fields(octets, b"\x01zV", b"" if expiration is None else b"%c%b" % (len(text), text))
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        headers: Table = {**expected.pop("headers", {})}
        headers.setdefault("z", ("V", None))
        expected.pop("expiration", None)
        assert decode_properties(found[0]) == {**expected, "headers": headers}
        assert found[1] == expected.get("delivery_mode", 0)


def test_of_very_many_deaths_only_the_first_become_values() -> None:
    """The others stay the octets they were, but for the one of this kind, wherever it stands."""
    others = [("F", {"queue": ("S", b"other"), "n": ("I", number)}) for number in range(2 * DEATHS_MAX)]
    own = ("F", {"queue": ("S", b"q"), "reason": ("S", b"expired"), "count": ("l", 6)})
    for place in (1, DEATHS_MAX + 10, None):
        came = list(others)
        if place is not None:
            came.insert(place, own)
        death = noted(message_with({"headers": {"x-death": ("A", came)}}))
        kept = death.properties["headers"]["x-death"][1]
        assert isinstance(kept, bytes), "an array of values"
        first, *rest = decode_properties(death.encoded())["headers"]["x-death"][1]
        assert rest == others
        assert first[1]["count"] == ("l", 1 if place is None else 7)
        assert death.cycles() == {"q", "other"}


def table_of(queue: str, reason: str) -> Any:
    return ("F", {"queue": ("S", queue.encode()), "reason": ("S", reason.encode()), "count": ("l", 1)})


@pytest.mark.parametrize("count", [0, 1, 16, 17, 60, 511, 512, 700])
@pytest.mark.parametrize("queue", ["q", "q1", "q59", "q600"])
@pytest.mark.parametrize("rejected", [-1, 0, 30])
def test_of_very_many_deaths_the_same_is_said(count: int, queue: str, rejected: int) -> None:
    """Neither a set of all queues is made, nor a value of each death: that took 7 ms for a letter."""
    deaths = [
        table_of(f"q{number}", REJECTED if number == rejected else EXPIRED) for number in range(1, count)
    ]
    message = message_with({"headers": {"x-death": ("A", deaths)}})
    death = Death()
    death.note(message, queue, EXPIRED, TIME_S, True)
    said = decode_properties(death.encoded())["headers"]["x-death"][1]
    assert said[0][1]["queue"] == ("S", queue.encode())
    others = [each for each in deaths if each[1]["queue"] != ("S", queue.encode())]
    assert said[1:] == others
    asked = ["q", "q1", "q29", "q30", "q31", "q59", "q400", "q600", "none"]
    found = [death.comes_round(each) for each in asked]
    assert found == [each in death.cycles() for each in asked]
    assert ("x-first-death-queue" in decode_properties(death.encoded())["headers"]) == (not deaths)
