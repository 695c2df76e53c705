"""The verbs that declare and delete exchanges, queues and bindings, and publish and get messages."""

from __future__ import annotations

import argparse
import base64
import sys
from typing import Any

from amqp_router.ctl.changes import NAME, delete, read_json
from amqp_router.ctl.client import USAGE, Client, CtlError, part
from amqp_router.ctl.output import rows_text, show
from amqp_router.ctl.verb import VHOST, Verb, argument

ARGUMENTS = argument(
    "--arguments", metavar="JSON", default="{}", help="JSON object like '{\"x-max-length\": 1000}'"
)
TRANSIENT = argument("--transient", action="store_true", help="not durable: gone with the next start")
AUTO_DELETE = argument("--auto-delete", action="store_true", help="deleted when it is no longer used")
IF_UNUSED = argument("--if-unused", action="store_true", help="only if it is not used")
KEY = argument("--routing-key", metavar="KEY", default="", help="routing key (default: empty)")
MESSAGE_COLUMNS = ("routing_key", "exchange", "message_count", "payload", "payload_bytes", "redelivered")


def _exchange(name: str) -> str:
    return part(name or "amq.default")


def declare_queue(client: Client, args: argparse.Namespace) -> int:
    """Declare a queue."""
    body = {
        "durable": not args.transient,
        "auto_delete": args.auto_delete,
        "arguments": read_json(args.arguments, "--arguments"),
    }
    client.call("PUT", f"/api/queues/{part(args.vhost)}/{part(args.name)}", body)
    return 0


def declare_exchange(client: Client, args: argparse.Namespace) -> int:
    """Declare an exchange."""
    body = {
        "type": args.type,
        "durable": not args.transient,
        "auto_delete": args.auto_delete,
        "internal": args.internal,
        "arguments": read_json(args.arguments, "--arguments"),
    }
    client.call("PUT", f"/api/exchanges/{part(args.vhost)}/{part(args.name)}", body)
    return 0


def _ends(args: argparse.Namespace) -> str:
    kind = args.destination_type[0]
    return f"/api/bindings/{part(args.vhost)}/e/{_exchange(args.source)}/{kind}/{part(args.destination)}"


def declare_binding(client: Client, args: argparse.Namespace) -> int:
    """Bind."""
    body = {"routing_key": args.routing_key, "arguments": read_json(args.arguments, "--arguments")}
    client.call("POST", _ends(args), body)
    return 0


def delete_binding(client: Client, args: argparse.Namespace) -> int:
    """Unbind."""
    arguments = read_json(args.arguments, "--arguments")
    found = [
        binding["properties_key"]
        for binding in client.get(_ends(args))
        if binding["routing_key"] == args.routing_key and binding["arguments"] == arguments
    ]
    if not found:
        raise CtlError("there is no such binding")
    for key in found:
        client.call("DELETE", f"{_ends(args)}/{part(key)}")
    return 0


def delete_queue(client: Client, args: argparse.Namespace) -> int:
    """Delete a queue."""
    query = {"if-empty": "true"} if args.if_empty else {}
    query |= {"if-unused": "true"} if args.if_unused else {}
    client.call("DELETE", f"/api/queues/{part(args.vhost)}/{part(args.name)}", query=query)
    return 0


def delete_exchange(client: Client, args: argparse.Namespace) -> int:
    """Delete an exchange."""
    query = {"if-unused": "true"} if args.if_unused else {}
    client.call("DELETE", f"/api/exchanges/{part(args.vhost)}/{part(args.name)}", query=query)
    return 0


def publish(client: Client, args: argparse.Namespace) -> int:
    """Publish one message; 1 if it reached no queue."""
    payload = (
        sys.stdin.buffer.read() if args.payload is None else args.payload.encode(errors="surrogateescape")
    )
    properties = read_json(args.properties, "--properties")
    if not args.transient:
        properties.setdefault("delivery_mode", 2)
    body = {
        "properties": properties,
        "routing_key": args.routing_key,
        "payload": base64.b64encode(payload).decode(),
        "payload_encoding": "base64",
    }
    path = f"/api/exchanges/{part(args.vhost)}/{_exchange(args.exchange)}/publish"
    if not client.call("POST", path, body)["routed"]:
        raise CtlError("the message reached no queue")
    return 0


def get(client: Client, args: argparse.Namespace) -> int:
    """Take messages out of a queue, or look at them."""
    if args.count < 1:
        raise CtlError(f"--count: {args.count} is not above 0", USAGE)
    body: dict[str, Any] = {"count": args.count, "ackmode": args.ackmode, "encoding": "auto"}
    found = client.call("POST", f"/api/queues/{part(args.vhost)}/{part(args.name)}/get", body)
    columns = (
        MESSAGE_COLUMNS if args.format != "json" else (*MESSAGE_COLUMNS, "payload_encoding", "properties")
    )
    show(rows_text(found, columns, args.format))
    return 0


_ENDS = (
    argument("source", metavar="EXCHANGE", help="where messages come from"),
    argument("destination", metavar="DESTINATION", help="queue or exchange that gets them"),
    argument(
        "--destination-type",
        choices=("queue", "exchange"),
        default="queue",
        help="what it is (default: queue)",
    ),
    KEY,
    ARGUMENTS,
    VHOST,
)

VERBS = (
    Verb(
        "declare_queue",
        "declare a durable queue",
        declare_queue,
        (NAME, TRANSIENT, AUTO_DELETE, ARGUMENTS, VHOST),
        (
            "amqp-router ctl declare_queue orders",
            "amqp-router ctl declare_queue jobs --arguments '{\"x-max-priority\": 10}' --vhost shop",
        ),
    ),
    Verb(
        "declare_exchange",
        "declare a durable exchange",
        declare_exchange,
        (
            NAME,
            argument("--type", default="direct", metavar="TYPE", help="direct, fanout, topic or headers"),
            TRANSIENT,
            AUTO_DELETE,
            argument("--internal", action="store_true", help="only exchanges may publish to it"),
            ARGUMENTS,
            VHOST,
        ),
        ("amqp-router ctl declare_exchange events --type topic",),
    ),
    Verb(
        "declare_binding",
        "bind a queue or an exchange to an exchange",
        declare_binding,
        _ENDS,
        ("amqp-router ctl declare_binding events orders --routing-key 'order.#'",),
    ),
    Verb(
        "delete_queue",
        "delete a queue with its messages",
        delete_queue,
        (
            NAME,
            argument("--if-empty", action="store_true", help="only if it has no messages"),
            IF_UNUSED,
            VHOST,
        ),
        ("amqp-router ctl delete_queue orders --if-empty",),
    ),
    Verb(
        "delete_exchange",
        "delete an exchange",
        delete_exchange,
        (NAME, IF_UNUSED, VHOST),
        ("amqp-router ctl delete_exchange events --if-unused",),
    ),
    Verb(
        "delete_binding",
        "delete a binding",
        delete_binding,
        _ENDS,
        ("amqp-router ctl delete_binding events orders --routing-key 'order.#'",),
    ),
    Verb(
        "purge_queue",
        "delete the messages of a queue that are ready",
        delete("/api/queues/{vhost}/{name}/contents"),
        (NAME, VHOST),
        ("amqp-router ctl purge_queue orders",),
    ),
    Verb(
        "publish",
        "publish one message, by default persistent; exit code 1 if it reaches no queue",
        publish,
        (
            argument("payload", metavar="PAYLOAD", nargs="?", help="by default standard input is read"),
            argument(
                "--exchange", metavar="NAME", default="", help="exchange (default: the default exchange)"
            ),
            KEY,
            argument(
                "--properties", metavar="JSON", default="{}", help="JSON object like '{\"priority\": 5}'"
            ),
            argument("--transient", action="store_true", help="not persistent"),
            VHOST,
        ),
        (
            "amqp-router ctl publish hello --routing-key orders",
            "amqp-router ctl publish --exchange events --routing-key order.new < order.json",
        ),
    ),
    Verb(
        "get",
        "get messages of a queue; by default they go back and are marked as redelivered",
        get,
        (
            NAME,
            argument("--count", type=int, default=1, metavar="N", help="messages (default: 1)"),
            argument(
                "--ackmode",
                choices=(
                    "ack_requeue_true",
                    "ack_requeue_false",
                    "reject_requeue_true",
                    "reject_requeue_false",
                ),
                default="ack_requeue_true",
                help="what becomes of them; ..._requeue_false takes them out",
            ),
            VHOST,
        ),
        ("amqp-router ctl get orders --count 10 --format json",),
    ),
)
