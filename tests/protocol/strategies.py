"""Hypothesis strategies for what travels in AMQP frames."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from amqp_router.protocol.fields import Field, Table
from amqp_router.protocol.properties import PROPERTIES


def short_texts() -> st.SearchStrategy[str]:
    """Any short string: text, and octets that are no UTF-8."""
    octets = st.binary(max_size=255).map(lambda data: data.decode("utf-8", "surrogateescape"))
    return st.text(max_size=20) | st.sampled_from(["", "x" * 255, "queue"]) | octets


def integers(octets: int, *, signed: bool) -> st.SearchStrategy[int]:
    bits = 8 * octets
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def _tagged(tag: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Field]:
    return values.map(lambda value: (tag, value))


#: By tag, every type that holds no others. Not-a-number is left out: it does not equal itself.
SCALARS: dict[str, st.SearchStrategy[Field]] = {
    tag: _tagged(tag, values)
    for tag, values in {
        "t": st.booleans(),
        "b": integers(1, signed=True),
        "B": integers(1, signed=False),
        "s": integers(2, signed=True),
        "u": integers(2, signed=False),
        "I": integers(4, signed=True),
        "i": integers(4, signed=False),
        "l": integers(8, signed=True),
        "L": integers(8, signed=True),
        "T": integers(8, signed=False),
        "f": st.floats(width=32, allow_nan=False),
        "d": st.floats(allow_nan=False),
        "D": st.tuples(integers(1, signed=False), integers(4, signed=True)),
        "S": st.binary(max_size=20),
        "x": st.binary(max_size=20),
        "V": st.none(),
    }.items()
}


def fields() -> st.SearchStrategy[Field]:
    return st.recursive(
        st.one_of(*SCALARS.values()),
        lambda inner: (
            _tagged("A", st.lists(inner, max_size=4))
            | _tagged("F", st.dictionaries(short_texts(), inner, max_size=4))
        ),
        max_leaves=8,
    )


def tables() -> st.SearchStrategy[Table]:
    return st.dictionaries(short_texts(), fields(), max_size=5)


#: By kind of property.
PROPERTY_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "s": short_texts(),
    "t": tables(),
    "1": integers(1, signed=False),
    "8": integers(8, signed=False),
}


def property_lists() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={name: PROPERTY_VALUES[kind] for name, (_, kind) in PROPERTIES.items()}
    )
