"""The node as a whole: overview, the caller, and a page that lists the endpoints."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from admin_ui.auth import ADMINISTRATOR, MONITORING
from admin_ui.documents import node, overview
from admin_ui.documents.stats import Stats
from admin_ui.endpoints import Call, Endpoint, Rows, administered
from admin_ui.replies import Done, bad_request, not_found
from admin_ui.writing import change, read_object, required
from amqp_router.auth import Count
from amqp_router.parameters import CLUSTER_NAME

INDEX = "/api/index.html"


def whoami(call: Call) -> dict[str, Any]:
    """The caller's name and tags."""
    return {"name": call.identity.name, "tags": list(call.identity.tags)}


def cluster_name(call: Call) -> dict[str, Any]:
    """The name of the cluster."""
    return {"name": call.state.cluster_name}


async def name_cluster(call: Call) -> Done:
    """Set the name of the cluster."""
    content = await read_object(call)
    required(content, "name")
    name = content["name"]
    if not isinstance(name, str):
        raise bad_request("name is not a string")
    parameters = call.state.broker.parameters
    await change(call, lambda: (None, parameters.put_global(CLUSTER_NAME, name)))
    return Done(204)


def attempts(call: Call) -> list[dict[str, Any]]:
    """Logins of a node by protocol."""
    _check_node(call)
    found = call.state.broker.logins.attempts.by_protocol
    return [{"protocol": protocol, **_counted(count)} for protocol, count in found.items()]


def attempts_by_source(call: Call) -> list[dict[str, Any]]:
    """Logins of a node by the client's address."""
    _check_node(call)
    found = call.state.broker.logins.attempts.by_source
    return [
        {"remote_address": address, "username": "", "protocol": protocol, **_counted(count)}
        for (address, protocol), count in found.items()
    ]


def _counted(count: Count) -> dict[str, int]:
    return {
        "auth_attempts": count.succeeded + count.failed,
        "auth_attempts_failed": count.failed,
        "auth_attempts_succeeded": count.succeeded,
    }


def forget_attempts(call: Call) -> Done:
    """Count the logins of a node anew."""
    _check_node(call)
    call.state.broker.logins.attempts.forget()
    return Done(204)


def reset(call: Call) -> Done:
    """Forget the histories of all objects. Counters go on."""
    call.state.metrics.reset()
    return Done(204)


def reset_node(call: Call) -> Done:
    """Forget the histories of a node's objects."""
    _check_node(call)
    return reset(call)


def rebalance(call: Call) -> Done:
    """Spread the leaders of queues over the nodes. A single node has them all."""
    return Done(204)


def enable_feature(call: Call) -> Done:
    """Enable a feature flag; those there are always are."""
    if call.part("name") not in node.FEATURES:
        raise bad_request("unsupported")
    return Done(204)


def auth(call: Call) -> dict[str, Any]:
    """The settings of logins by OAuth, which is not supported."""
    return {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


def nodes(call: Call) -> list[dict[str, Any]]:
    """All nodes."""
    return [_node(call)]


def _node(call: Call) -> dict[str, Any]:
    found = node.document(call.state, Stats(call.state.metrics, call.query.spans))
    if call.request.query.get("memory") == "true":
        found["memory"] = node.memory(call.state)
    if call.request.query.get("binary") == "true":
        found["binary"] = node.binary(call.state)
    return found


def _check_node(call: Call) -> None:
    if call.part("node") != call.state.node:
        raise not_found()


def one_node(call: Call) -> dict[str, Any]:
    """One node."""
    _check_node(call)
    return _node(call)


def node_memory(call: Call) -> dict[str, Any]:
    """The memory of a node, by use."""
    _check_node(call)
    return {"memory": node.memory(call.state)}


def node_memory_relative(call: Call) -> dict[str, Any]:
    """The memory of a node, by use, in hundredths of all of it."""
    _check_node(call)
    found = node.memory(call.state)
    whole = max(1, found["total"]["rss"])
    parts = {name: -(-found[name] * 100 // whole) for name in node.MEMORY_PARTS}
    return {"memory": {"total": 100, **parts}}


def extensions(call: Call) -> list[Any]:
    """Plug-ins of RabbitMQ's pages; these pages have none."""
    return []


def feature_flags(call: Call) -> Rows:
    """RabbitMQ's feature flags for features that this broker has."""
    return Rows(node.feature_flags(), dict, name=lambda flag: str(flag["name"]))


ENDPOINTS = [
    Endpoint("/overview", overview.document),
    Endpoint("/cluster-name", cluster_name, put=name_cluster, write_tags=ADMINISTRATOR),
    Endpoint("/whoami", whoami),
    Endpoint("/auth", auth, None),
    Endpoint("/nodes", nodes, MONITORING),
    Endpoint("/nodes/{node}", one_node, MONITORING),
    Endpoint("/nodes/{node}/memory", node_memory, MONITORING),
    Endpoint("/nodes/{node}/memory/relative", node_memory_relative, MONITORING),
    Endpoint("/extensions", extensions),
    Endpoint("/feature-flags", feature_flags, ADMINISTRATOR),
    administered("/feature-flags/{name}/enable", put=enable_feature),
    administered("/rebalance/queues", post=rebalance),
    administered("/reset", delete=reset),
    administered("/reset/{node}", delete=reset_node),
    Endpoint("/auth/attempts/{node}", attempts, MONITORING, delete=forget_attempts, write_tags=MONITORING),
    Endpoint(
        "/auth/attempts/{node}/source",
        attempts_by_source,
        MONITORING,
        delete=forget_attempts,
        write_tags=MONITORING,
    ),
]


def _said(endpoint: Endpoint) -> Iterable[str]:
    """The first line of the docstring of each handler of a path."""
    for handler in dict.fromkeys(endpoint.handlers.values()):
        yield (handler.__doc__ or "").partition("\n")[0]


def add_index(app: web.Application, endpoints: Iterable[Endpoint]) -> None:
    """Serve the list of all parts of the API, to anybody."""
    rows = "\n".join(
        f"<tr><td><code>/api{html.escape(endpoint.path)}</code></td><td>{endpoint.allow}</td>"
        f"<td>{html.escape(' '.join(_said(endpoint)))}</td></tr>"
        for endpoint in endpoints
        if endpoint.handlers
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>HTTP API</title></head><body>\n'
        "<h1>HTTP API</h1>\n<p>RabbitMQ's HTTP API, as far as it is served here.</p>\n"
        f"<table>\n<tr><th>path</th><th>methods</th><th>what</th></tr>\n{rows}\n</table>\n</body></html>\n"
    )

    async def index(request: web.Request) -> web.Response:
        return web.Response(text=page, content_type="text/html")

    async def to_index(request: web.Request) -> web.Response:
        raise web.HTTPMovedPermanently(INDEX)

    app.router.add_get(INDEX, index)
    for path in ("/api", "/api/", "/doc/stats.html"):
        app.router.add_get(path, to_index)
