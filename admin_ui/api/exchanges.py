"""Exchanges: listed, declared and deleted. The default exchange is ``amq.default`` in paths."""

from __future__ import annotations

from typing import Any

from admin_ui.documents import exchanges
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Rows
from admin_ui.ordering import add_pairs, by_name
from admin_ui.replies import Done, not_found
from admin_ui.table_octets import arguments_of
from admin_ui.writing import (
    DELETED,
    boolean,
    caller,
    change,
    created,
    flag,
    new_name,
    read_object,
    text,
)
from vhosts import declarations
from vhosts.long_lists import unwatched
from vhosts.vhost import VirtualHost

DEFAULT = "amq.default"


async def every(call: Call) -> Rows:
    """The exchanges of all virtual hosts."""
    return await _exchanges(call, call.vhosts())


async def of_vhost(call: Call) -> Rows:
    """The exchanges of one virtual host."""
    return await _exchanges(call, [call.vhost()])


async def _exchanges(call: Call, vhosts: list[VirtualHost]) -> Rows:
    stats = Stats(call.state.metrics, call.query.spans)
    found: list[tuple[str, Any]] = unwatched([])
    for vhost in vhosts:
        await add_pairs(found, vhost.name, await by_name(vhost.exchanges, call.turns), call.turns)
    return Rows(
        found,
        lambda pair: exchanges.document(pair[1], pair[0], stats),
        name=lambda pair: str(pair[1].name),
        quick={"name": lambda pair: pair[1].name, "vhost": lambda pair: pair[0]},
    )


def real_name(part: str) -> str:
    """The exchange name for a name in a path or topic."""
    return "" if part == DEFAULT else part


def find(call: Call, vhost: VirtualHost) -> Any:
    """The exchange that the path names.

    Raises:
        ApiError: there is none (404).
    """
    exchange = vhost.exchanges.get(real_name(call.part("exchange")))
    if exchange is None:
        raise not_found()
    return exchange


def one(call: Call) -> dict[str, Any]:
    """One exchange."""
    vhost = call.vhost()
    stats = Stats(call.state.metrics, call.query.spans)
    return exchanges.single(find(call, vhost), vhost.name, stats)


async def declare(call: Call) -> Done:
    """Declare the exchange: ``type``, ``durable``, ``auto_delete``, ``internal``, ``arguments``."""
    content = await read_object(call)
    type_name = text(content, "type", "direct")
    durable, auto_delete = boolean(content, "durable"), boolean(content, "auto_delete")
    internal, table = boolean(content, "internal"), await arguments_of(call, content)
    who, name = caller(call), real_name(new_name(call, "exchange"))

    def act() -> tuple[bool, int]:
        before = name in who.vhost.exchanges
        rev = declarations.declare_exchange(
            who,
            name,
            type_name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=table,
        )
        return not before, rev

    return created(await change(call, act))


async def delete(call: Call) -> Done:
    """Delete the exchange; with ``if-unused=true`` only if nothing is bound to it."""
    if_unused = flag(call, "if-unused")
    who, name = caller(call), find(call, call.vhost()).name
    await change(call, lambda: (None, declarations.delete_exchange(who, name, if_unused=if_unused)))
    return DELETED


ENDPOINTS = [
    Endpoint("/exchanges", every),
    Endpoint("/exchanges/{vhost}", of_vhost),
    Endpoint("/exchanges/{vhost}/{exchange}", one, put=declare, delete=delete),
]
