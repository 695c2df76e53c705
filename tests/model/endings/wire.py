"""What messages say on the wire, for the model: properties as bytes, and back."""

from __future__ import annotations

from typing import Any

from amqp_router.protocol.properties import decode_properties, encode_properties
from tests.model.endings.queue import Entry, ModelQueue
from tests.model.endings.says import Death, Says


def properties_of(says: Says) -> bytes:
    """The properties of a message that is published."""
    values: dict[str, Any] = {}
    if says.persistent:
        values["delivery_mode"] = 2
    if says.priority is not None:
        values["priority"] = says.priority
    if says.expiration is not None:
        values["expiration"] = says.expiration
    return encode_properties(values)


def read(properties: bytes, exchange: str, key: str) -> tuple[Says, int | None]:
    """What a delivery says, and its ``x-delivery-count``."""
    values = decode_properties(properties)
    headers = dict(values.pop("headers", {}))
    persistent = values.pop("delivery_mode", 1) == 2
    priority, expiration = values.pop("priority", None), values.pop("expiration", None)
    assert not values, f"properties that nobody has sent: {values}"
    count = headers.pop("x-delivery-count", None)
    assert count is None or count[0] == "l"
    deaths = ()
    if "x-death" in headers:
        tag, items = headers.pop("x-death")
        assert tag == "A"
        deaths = tuple(_death(item) for item in items)
    names = [f"x-first-death-{each}" for each in ("queue", "reason", "exchange")]
    found = [headers.pop(name, None) for name in names]
    first = None
    if any(each is not None for each in found):
        assert all(each is not None and each[0] == "S" for each in found), found
        first = (text(found[0]), text(found[1]), text(found[2]))
    assert not headers, f"headers that nobody has sent: {headers}"
    says = Says(exchange, key, priority, expiration, persistent, deaths, first)
    return says, None if count is None else count[1]


def _death(item: Any) -> Death:
    tag, table = item
    assert tag == "F"
    table = dict(table)
    assert table.pop("time")[0] == "T"
    tag, count = table.pop("count")
    assert tag == "l"
    tag, keys = table.pop("routing-keys")
    assert tag == "A"
    expiration = table.pop("original-expiration", None)
    death = Death(
        text(table.pop("queue")),
        text(table.pop("reason")),
        count,
        text(table.pop("exchange")),
        tuple(text(key) for key in keys),
        None if expiration is None else text(expiration),
    )
    assert not table, f"x-death has {table}"
    return death


def text(field: Any) -> str:
    tag, octets = field
    assert tag == "S", field
    return str(octets.decode())


def serial_of(body: bytes) -> int:
    return int(body.partition(b":")[0])


def check(entry: Entry, queue: ModelQueue, says: Says, count: int | None, *, is_get: bool) -> None:
    """A delivery of ``entry`` says what it must."""
    where = f"{entry.serial} in {queue.name}"
    assert says == entry.says, f"{where} says\n{says} instead of\n{entry.says}"
    expected = None
    if queue.kind.quorum and (is_get or entry.returns):
        expected = entry.returns
    assert count == expected, f"{where} has come back {count} times by its header instead of {expected}"
