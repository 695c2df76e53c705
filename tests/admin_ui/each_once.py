"""Each operation of the HTTP API with success: those that invented requests do not reach, in an order that
works.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import pika

from tests.brokers import RouterProcess

RIGHTS = dict.fromkeys(("configure", "write", "read"), ".*")
POLICY = {"pattern": "^none$", "definition": {"max-length": 5}}
DELAYED = {"type": "x-delayed-message", "durable": True, "arguments": {"x-delayed-type": "direct"}}
LATER = {
    "routing_key": "k",
    "properties": {"headers": {"x-delay": 3_600_000}},
    "payload": "x",
    "payload_encoding": "string",
}
#: Method, path below the base, body. NODE, CONNECTION and so on are what the broker has.
CALLS: list[tuple[str, str, Any]] = [
    ("PUT", "/queues/%2F/once", {"durable": True}),
    ("POST", "/bindings/%2F/e/amq.topic/q/once", {"routing_key": "k"}),
    ("GET", "/bindings/%2F/e/amq.topic/q/once/k", None),
    ("DELETE", "/bindings/%2F/e/amq.topic/q/once/k", None),
    ("DELETE", "/queues/%2F/once", None),
    ("PUT", "/exchanges/%2F/once", {"type": "direct"}),
    ("DELETE", "/exchanges/%2F/once", None),
    *[
        (method, f"/{kind}/%2F/once", POLICY if method == "PUT" else None)
        for kind in ("policies", "operator-policies")
        for method in ("PUT", "GET", "DELETE")
    ],
    ("PUT", "/parameters/operator_policy/%2F/once", {"value": POLICY | {"apply-to": "queues"}}),
    ("GET", "/parameters/operator_policy/%2F/once", None),
    ("DELETE", "/parameters/operator_policy/%2F/once", None),
    ("PUT", "/global-parameters/once", {"value": "once"}),
    ("GET", "/global-parameters/once", None),
    ("DELETE", "/global-parameters/once", None),
    ("PUT", "/users/once", {"password": "once", "tags": ""}),
    ("PUT", "/permissions/%2F/once", RIGHTS),
    ("GET", "/permissions/%2F/once", None),
    ("PUT", "/topic-permissions/%2F/once", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
    ("GET", "/topic-permissions/%2F/once", None),
    ("DELETE", "/topic-permissions/%2F/once/amq.topic", None),
    ("PUT", "/topic-permissions/%2F/once", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
    ("DELETE", "/topic-permissions/%2F/once", None),
    ("PUT", "/user-limits/once/max-connections", {"value": 5}),
    ("DELETE", "/user-limits/once/max-connections", None),
    ("DELETE", "/permissions/%2F/once", None),
    ("DELETE", "/users/once", None),
    ("PUT", "/vhosts/once", {}),
    ("DELETE", "/vhosts/once", None),
    ("PUT", "/feature-flags/FLAG/enable", {}),
    ("GET", "/health/checks/port-listener/PORT", None),
    ("GET", "/channels/CHANNEL", None),
    ("GET", "/connections/CONNECTION/channels", None),
    ("GET", "/connections/CONNECTION", None),
    ("DELETE", "/connections/CONNECTION", None),
]
#: Below ``/admin/v1`` alone, before the connection is closed.
OURS: list[tuple[str, str, Any]] = [
    ("DELETE", "/queues/%2F/watched/consumers/once", None),
    ("PUT", "/exchanges/%2F/later", DELAYED),
    ("POST", "/exchanges/%2F/later/publish", LATER),
    ("POST", "/exchanges/%2F/later/publish", LATER),
    ("GET", "/exchanges/%2F/later/delayed", None),
    ("DELETE", "/exchanges/%2F/later/delayed/DELAYED", None),
    ("DELETE", "/exchanges/%2F/later/delayed", None),
    ("DELETE", "/exchanges/%2F/later", None),
    ("PUT", "/queues/%2F/there", {"durable": True}),
    ("POST", "/queues/%2F/watched/moves", {"to": {"queue": "there"}, "count": 1}),
    ("GET", "/queues/%2F/there/moves", None),
    ("GET", "/moves", None),
    ("GET", "/moves/1", None),
    ("DELETE", "/moves/1", None),
    ("DELETE", "/queues/%2F/there", None),
    ("POST", "/tokens", {"name": "once"}),
    ("DELETE", "/tokens/TOKEN", None),
]
Done = list[tuple[str, str, int]]


class _Calls:
    """Calls as guest; notes method, path and status of each."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.done: Done = []

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The content of the answer.

        Raises:
            AssertionError: the call did not succeed.
        """
        headers = {
            "Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}",
            "Content-Type": kind,
        }
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        self._connection.request(method, path, data, headers)
        reply = self._connection.getresponse()
        content = reply.read()
        self.done.append((method, path, reply.status))
        assert reply.status // 100 == 2, f"{method} {path}: {reply.status} {content[:300]!r}"
        return json.loads(content) if content else None


@contextmanager
def _client(port: int) -> Iterator[None]:
    """A connection with a consumer ``once`` of queue ``watched``; the broker may close it."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.queue_declare("watched", durable=True)
    channel.basic_consume("watched", lambda *_: None, consumer_tag="once")
    ending = threading.Event()

    def serve() -> None:
        try:
            while not ending.is_set():
                connection.process_data_events(0.1)
        except pika.exceptions.AMQPError:
            pass  # it was closed, as it should be

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    ending.set()
    thread.join()


def each_once(broker: RouterProcess, document: dict[str, Any]) -> Done:
    """Call those of the OpenAPI document; returns method, path and status of each call.

    Raises:
        AssertionError: a call did not succeed.
    """
    calls = _Calls(broker.admin_port)
    forms = _forms(document)
    served = {
        (method, base + path)
        for base in ("/admin/v1", "/api")
        for method, path, _ in OURS + CALLS
        for known, form in forms.items()
        if form.fullmatch(base + path) and method.lower() in document["paths"][known]
    }
    calls.ask("POST", "/api/login", "username=guest&password=guest", "application/x-www-form-urlencoded")
    for base, wanted in (("/admin/v1", OURS + CALLS), ("/api", CALLS)):
        with _client(broker.port):
            said: Any = None
            for method, path, body in wanted:
                if (method, base + path) in served:
                    said = calls.ask(method, base + _filled(calls, path, said, broker.port), body) or said
    return calls.done


def _filled(calls: _Calls, path: str, said: Any, port: int) -> str:
    """The path with what the broker has. ``said`` is the newest answer with a content."""
    if "FLAG" in path:
        path = path.replace("FLAG", calls.ask("GET", "/api/feature-flags")[0]["name"])
    for word, kind in (("CHANNEL", "channels"), ("CONNECTION", "connections")):
        if word in path:
            path = path.replace(word, quote(calls.ask("GET", f"/api/{kind}")[0]["name"], safe=""))
    if "DELAYED" in path:
        path = path.replace("DELAYED", said["first"][0]["id"])
    if "TOKEN" in path:
        path = path.replace("TOKEN", said["id"])
    return path.replace("PORT", str(port))


def _forms(document: dict[str, Any]) -> dict[str, re.Pattern[str]]:
    """An expression for the paths of each operation."""
    return {
        path: re.compile(re.sub(r"\\{\w+\\}", "[^/]*", re.escape(path)) + "/?") for path in document["paths"]
    }


def never_done(document: dict[str, Any], calls: Iterable[tuple[str, str, int]]) -> list[str]:
    """Operations of an OpenAPI document that none of ``calls`` (method, address, status) did with success."""
    forms = _forms(document)
    done = set()
    for method, address, status in calls:
        if status // 100 == 2:
            path = urlsplit(address).path
            done |= {(method.upper(), known) for known, form in forms.items() if form.fullmatch(path)}
    return sorted(
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
        if method != "parameters" and (method.upper(), path) not in done
    )
