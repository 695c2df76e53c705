"""The headers of events as messages: names, types and texts as RabbitMQ 3.10.8 has them.

Whoever tells an event gives plain values, which must not change later (``Facts``). They become typed fields
when the event is sent: texts are long strings, integers are signed 64 bits, values of JSON tables and arrays.
AMQP tables come as RabbitMQ prints them, an array with a text for each entry. A large one is left out, since
to decode and print it takes long.

Source: RabbitMQ, "Event Exchange Plugin"; headers as measured with 3.10.8.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from amqp_router.protocol.errors import FieldError, erlang_binary
from amqp_router.protocol.fields import TYPE_NAMES, Field, Table
from amqp_router.protocol.kept_table import Arguments, KeptTable
from amqp_router.protocol.properties import encode_properties

#: Octets of properties; arguments, values and definitions beyond that are left out.
PROPERTIES_BYTES_MAX = 100_000
#: Octets of an AMQP table; a larger one is left out. To decode and print it takes up to 4 ms.
TABLE_BYTES_MAX = 16 << 10
LEFT_OUT = ("arguments", "client_properties", "value", "definition", "metadata")
PROTOCOL, PROTOCOL_0_8 = "{0,9,1}", "{8,0,0}"


@dataclass(frozen=True, slots=True)
class Printed:
    """An AMQP table that is printed in Erlang's notation."""

    table: Arguments

    @property
    def size(self) -> int:
        """Octets of a table that is not small, for which it would be decoded."""
        return len(self.table.octets) if isinstance(self.table, KeptTable) else 0


class _TooLongError(Exception):
    """The text of a table is longer than properties may be."""


#: A value of a header.
Fact: TypeAlias = Union[str, int, float, Printed, Sequence["Fact"], Mapping[str, "Fact"], None]  # noqa: UP007
#: The headers of one event.
Facts: TypeAlias = dict[str, Fact]


def properties_of(facts: Facts, time_us: int) -> bytes:
    """The properties of an event that happened at ``time_us``, in µs of the wall clock."""
    headers: Table = {}
    for name, value in facts.items():
        try:
            headers[name] = _field(value)
        except _TooLongError:
            continue
    headers["timestamp_in_ms"] = ("l", time_us // 1000)
    properties = {"headers": headers, "delivery_mode": 2, "timestamp": time_us // 1_000_000}
    try:
        encoded = encode_properties(properties)
        if len(encoded) <= PROPERTIES_BYTES_MAX:
            return encoded
    except FieldError:
        pass  # nested deeper than fields may be
    properties["headers"] = {name: field for name, field in headers.items() if name not in LEFT_OUT}
    return encode_properties(properties)


def address(host: str) -> str:
    """An IP address as Erlang prints it: ``{127,0,0,1}``."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    width = 1 if found.version == 4 else 2
    packed = found.packed
    parts = [int.from_bytes(packed[at : at + width], "big") for at in range(0, len(packed), width)]
    return "{" + ",".join(map(str, parts)) + "}"


def metadata_of(description: str, tags: Sequence[str]) -> str:
    """The description and tags of a virtual host as Erlang prints them."""
    return f"#{{description => {erlang_binary(_octets(description))},tags => [{','.join(tags)}]}}"


def _field(value: Fact) -> Field:
    if isinstance(value, bool):
        return ("t", value)
    if isinstance(value, int):
        return ("l", value) if -(1 << 63) <= value < 1 << 63 else ("S", str(value).encode())
    if isinstance(value, str):
        return ("S", _octets(value))
    if isinstance(value, float):
        return ("d", value)
    if value is None:
        return ("S", b"undefined")
    if isinstance(value, Printed):
        left = [PROPERTIES_BYTES_MAX]
        entries = value.table.items()
        return ("A", [("S", _octets(f"{{{_entry(name, field, left)}}}")) for name, field in entries])
    if isinstance(value, Mapping):
        table: Table = {name[:127]: _field(each) for name, each in value.items()}
        return ("F", table)
    return ("A", [_field(each) for each in value])


def _entry(name: str, field: Field, left: list[int]) -> str:
    """``left`` has how much longer the whole text may become.

    Raises:
        _TooLongError: it is too long.
    """
    return f"{erlang_binary(_octets(name))},{_typed(field, left)}"


def _typed(field: Field, left: list[int]) -> str:
    tag, value = field
    name = TYPE_NAMES[tag]
    left[0] -= len(name)
    return f"{name},{_printed(tag, value, left)}"


def _printed(tag: str, value: object, left: list[int]) -> str:
    """A value as Erlang prints it."""
    if tag == "F" and isinstance(value, Mapping):
        return "[" + ",".join([f"{{{_entry(name, each, left)}}}" for name, each in value.items()]) + "]"
    if tag == "A" and isinstance(value, Sequence):
        return "[" + ",".join([f"{{{_typed(each, left)}}}" for each in value]) + "]"
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, bytes):
        text = erlang_binary(value)
    else:
        text = "undefined" if value is None else str(value)
    left[0] -= len(text)
    if left[0] < 0:
        raise _TooLongError
    return text


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
