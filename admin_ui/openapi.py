"""``GET /admin/v1/openapi.json``: an OpenAPI 3.1 document of ``/api`` and ``/admin/v1``.

It is made from the table of endpoints, so it has every path. What a body may have stands in `BODIES`; a test
sees that no path with a body is missing there. Answers are described by their status alone.

Source: OpenAPI Specification 3.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeAlias

from admin_ui.api import ENDPOINTS, OBJECTS
from admin_ui.endpoints import API, PAGES, Call, Endpoint
from admin_ui.replies import dumps
from amqp_router.version import VERSION

Schema: TypeAlias = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "maxLength": 255}
_FLAG: Schema = {"type": "boolean"}
_TABLE: Schema = {"type": "object"}
_COUNT: Schema = {"type": "integer"}
_ANY: Schema = {}


def _object(*needed: str, **properties: Schema) -> Schema:
    return {"type": "object", "required": list(needed), "properties": properties}


_POLICY: Schema = {
    "type": "object",
    "required": ["pattern", "definition"],
    "properties": {
        "pattern": _TEXT,
        "definition": _TABLE,
        "priority": _COUNT,
        "apply-to": {"type": "string", "enum": ["all", "queues", "exchanges"]},
    },
}
_NOTHING: Schema = _object()
_LIMIT = _object("value", value=_COUNT)
_DEFINITIONS: Schema = {
    "type": "object",
    "properties": {
        section: {"type": "array", "items": {"type": "object"}}
        for section in ("parameters", "policies", "queues", "exchanges", "bindings")
    },
}
#: The body of each method and path.
BODIES: dict[tuple[str, str], Schema] = {
    ("PUT", "/cluster-name"): _object("name", name=_NAME),
    ("PUT", "/feature-flags/{name}/enable"): _NOTHING,
    ("POST", "/rebalance/queues"): _NOTHING,
    ("PUT", "/vhosts/{vhost}"): _object(
        description=_TEXT,
        tags=_TEXT,
        tracing=_FLAG,
        default_queue_type={"enum": ["classic", "quorum", "stream"]},
    ),
    ("POST", "/vhosts/{vhost}/start/{node}"): _NOTHING,
    ("POST", "/users/bulk-delete"): _object("users", users={"type": "array", "items": _NAME}),
    ("PUT", "/users/{user}"): _object(
        "tags", tags=_TEXT, password=_TEXT, password_hash=_TEXT, hashing_algorithm=_TEXT
    ),
    ("PUT", "/permissions/{vhost}/{user}"): _object(
        "configure", "write", "read", configure=_TEXT, write=_TEXT, read=_TEXT
    ),
    ("POST", "/definitions"): _DEFINITIONS,
    ("POST", "/all-configuration"): _DEFINITIONS,
    ("POST", "/definitions/{vhost}"): _DEFINITIONS,
    ("PUT", "/parameters/{component}/{vhost}/{name}"): _object("value", value=_ANY),
    ("PUT", "/global-parameters/{name}"): _object("value", value=_ANY),
    ("PUT", "/vhost-limits/{vhost}/{name}"): _LIMIT,
    ("PUT", "/user-limits/{user}/{name}"): _LIMIT,
    ("PUT", "/policies/{vhost}/{name}"): _POLICY,
    ("PUT", "/operator-policies/{vhost}/{name}"): _POLICY,
    ("PUT", "/topic-permissions/{vhost}/{user}"): _object(
        "exchange", "write", "read", exchange=_NAME, write=_TEXT, read=_TEXT
    ),
    ("PUT", "/exchanges/{vhost}/{exchange}"): _object(
        type=_NAME, durable=_FLAG, auto_delete=_FLAG, internal=_FLAG, arguments=_TABLE
    ),
    ("PUT", "/queues/{vhost}/{queue}"): _object(
        durable=_FLAG, auto_delete=_FLAG, arguments=_TABLE, node=_NAME
    ),
    ("POST", "/queues/{vhost}/{queue}/actions"): _object("action", action={"enum": ["sync", "cancel_sync"]}),
    ("POST", "/exchanges/{vhost}/{exchange}/publish"): _object(
        "properties",
        "routing_key",
        "payload",
        "payload_encoding",
        properties=_TABLE,
        routing_key=_NAME,
        payload=_TEXT,
        payload_encoding={"enum": ["string", "base64"]},
    ),
    ("POST", "/queues/{vhost}/{queue}/get"): _object(
        "count",
        "ackmode",
        "encoding",
        count={"type": "integer", "minimum": 1},
        ackmode={
            "enum": ["ack_requeue_true", "reject_requeue_true", "ack_requeue_false", "reject_requeue_false"]
        },
        encoding={"enum": ["auto", "base64"]},
        truncate={"type": "integer", "minimum": 0},
    ),
    ("POST", "/queues/{vhost}/{queue}/moves"): _object(
        "to",
        to=_object(vhost=_NAME, queue=_NAME, exchange=_NAME, routing_key=_NAME),
        count={"type": ["integer", "null"], "minimum": 1},
    ),
    ("POST", "/bindings/{vhost}/e/{source}/{kind}/{destination}"): _object(
        routing_key=_NAME, arguments=_TABLE
    ),
    ("POST", "/login"): _object("username", "password", username=_NAME, password=_TEXT),
    ("POST", "/tokens"): _object(
        user=_NAME,
        name={"type": "string", "maxLength": 100},
        tags={
            "type": "array",
            "items": {"enum": ["management", "policymaker", "monitoring", "administrator"]},
        },
        read_only=_FLAG,
        valid_days={"type": ["integer", "null"], "minimum": 1, "maximum": 3650},
    ),
    ("POST", "/previews/definitions"): _DEFINITIONS,
    ("POST", "/previews/definitions/{vhost}"): _DEFINITIONS,
    ("POST", "/previews/policy"): _object(
        "vhost",
        vhost=_NAME,
        name=_NAME,
        kind={"enum": ["policy", "operator_policy"]},
        pattern=_TEXT,
        priority=_COUNT,
    ),
}
#: Paths whose body is a form, not JSON.
FORM = "application/x-www-form-urlencoded"
FORMS = frozenset({"/login"})
#: Schemas of the parameters in paths, by name; others are names of up to 255 octets.
PARTS: dict[str, Schema] = {
    "kind": {"type": "string", "enum": ["q", "e"]},
    "unit": {"type": "string", "enum": ["days", "weeks", "months", "years"]},
    "within": {"type": "integer", "minimum": 0},
    "port": {"type": "integer", "minimum": 0, "maximum": 65535},
}
EXAMPLES = {"vhost": "/", "user": "guest", "queue": "orders", "exchange": "amq.topic", "source": "amq.topic"}
#: The parameters of lists.
QUERY = ("columns", "sort", "sort_reverse", "page", "page_size", "name", "use_regex")
ANSWERS = {
    "GET": ("200", "what is asked for"),
    "PUT": ("201", "made"),
    "POST": ("200", "done"),
    "DELETE": ("204", "deleted"),
}


def document(pages: Iterable[Endpoint]) -> Schema:
    """The OpenAPI document of ``/api``, and of ``pages`` under ``/admin/v1``."""
    paths: Schema = {}
    seen: set[str] = set()
    for base, endpoints in ((API, ENDPOINTS), (PAGES, pages)):
        for endpoint in endpoints:
            path = base + plain(endpoint.path)
            if path not in seen and endpoint.handlers:
                seen.add(path)
                paths[path] = _path(base, endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "amqp-router",
            "version": VERSION,
            "description": "RabbitMQ's HTTP API, and our own.",
        },
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "an API token, or the owner's token of ctl.json",
                },
            }
        },
        "security": [{"basic": []}, {"token": []}],
        "paths": paths,
    }


def plain(path: str) -> str:
    """A path without the patterns of its parts."""
    return re.sub(r"\{(\w+):[^}]*\}", r"{\1}", path)


def _path(base: str, endpoint: Endpoint) -> Schema:
    parts = re.findall(r"\{(\w+)\}", plain(endpoint.path))
    found: Schema = {"parameters": [_part(name) for name in parts]} if parts else {}
    for method, handler in endpoint.handlers.items():
        if method != "HEAD":
            found[method.lower()] = _operation(base, endpoint, method, handler)
    return found


def _part(name: str) -> Schema:
    schema = PARTS.get(name, {"type": "string", "minLength": 1, "maxLength": 255})
    part: Schema = {"name": name, "in": "path", "required": True, "schema": schema}
    return {**part, "example": EXAMPLES[name]} if name in EXAMPLES else part


def _operation(base: str, endpoint: Endpoint, method: str, handler: Callable[[Call], Any]) -> Schema:
    status, text = ANSWERS[method]
    path = plain(endpoint.path)
    tags = endpoint.tags if method == "GET" else endpoint.write_tags
    words = re.findall(r"\w+", base + path)
    operation: Schema = {
        "operationId": "_".join([method.lower(), *words]),
        "summary": (handler.__doc__ or "").partition("\n")[0],
        "responses": {
            status: {"description": text},
            "default": {"description": "error: an object with `error` and `reason`"},
        },
    }
    if tags is None:
        operation["security"] = []
    else:
        operation["description"] = f"Needs one of the tags {', '.join(sorted(tags))}."
    if method == "GET":
        operation["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": _TEXT} for name in QUERY
        ]
    body = BODIES.get((method, path))
    if body is not None:
        operation["requestBody"] = {
            "required": bool(body.get("required")),
            "content": {FORM if path in FORMS else "application/json": {"schema": body}},
        }
    return operation


def endpoint(others: Iterable[Endpoint]) -> Endpoint:
    """The endpoint of the document: of ``others``, and of those that the pages share with ``/api``."""
    pages = [*others, *OBJECTS]

    @cache
    def text() -> bytes:
        return dumps(document(pages))

    def openapi(call: Call) -> Any:
        """This document, without a login."""
        body = call.new_body()
        body.add(text())
        return body

    return Endpoint("/openapi.json", openapi, None)
