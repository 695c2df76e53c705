"""Virtual hosts: listed, made, changed and deleted."""

from __future__ import annotations

from typing import Any

from admin_ui.documents import vhosts
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Rows, administered
from admin_ui.replies import Done, not_found
from admin_ui.writing import DELETED, change, created, new_name, read_object, vhost_metadata
from vhosts.vhost import VirtualHost


def every(call: Call) -> Rows:
    """The virtual hosts that the caller may name."""
    broker = call.state.broker
    names = [name for name in sorted(broker.vhosts) if call.identity.sees(name)]
    return _vhosts(call, [broker.vhosts[name] for name in names])


def _vhosts(call: Call, found: list[VirtualHost]) -> Rows:
    rows, node = call.state.metrics.now(), call.state.node
    stats = Stats(call.state.metrics, call.query.spans)
    return Rows(found, lambda vhost: vhosts.document(vhost, node, stats, rows[vhost]))


def one(call: Call) -> Any:
    """One virtual host."""
    rows = _vhosts(call, [call.vhost()])
    return rows.document(rows.things[0])


async def put(call: Call) -> Done:
    """Make the virtual host, or change what is given: ``description``, ``tags``, ``tracing``,
    ``default_queue_type``.
    """
    content = await read_object(call)
    name, broker, user = new_name(call, "vhost"), call.state.broker, call.identity.name
    metadata = vhost_metadata(content)

    def act() -> tuple[bool, int]:
        before = name in broker.vhosts
        return not before, broker.virtual_hosts.put(name, user, **metadata)

    return created(await change(call, act))


async def delete(call: Call) -> Done:
    """Delete the virtual host with all that is in it; its connections are closed."""
    broker, name, user = call.state.broker, call.part("vhost"), call.identity.name
    if name not in broker.vhosts:
        raise not_found()
    await change(call, lambda: (None, broker.virtual_hosts.delete(name, user)))
    return DELETED


def start(call: Call) -> Done:
    """Nothing to do: a virtual host of this broker always runs."""
    call.vhost()
    if call.part("node") != call.state.node:
        raise not_found()
    return DELETED


ENDPOINTS = [
    Endpoint("/vhosts", every),
    administered("/vhosts/{vhost}", one, put=put, delete=delete),
    administered("/vhosts/{vhost}/start/{node}", post=start),
]
