"""The verbs about the node: status, options, definitions, connections, and what needs attention."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from amqp_router.ctl.client import LONG_S, USAGE, Client, CtlError, own_part, part
from amqp_router.ctl.findings import sentence
from amqp_router.ctl.output import pairs_text, rows_text, show, text, waiting
from amqp_router.ctl.tokens import utc
from amqp_router.ctl.verb import VHOST, Verb, argument

#: Columns of the preview of an import: items that are new, change, differ and stay, or cannot be here.
DIFFERENCES = ("section", "added", "changed", "kept", "same", "left_out")
NOTHING = "Nothing needs attention."
FINDINGS = 1


def doctor(client: Client, args: argparse.Namespace) -> int:
    """Say what needs attention; 1 if anything does."""
    found = client.get("/admin/v1/attention")
    rows = [{**each, "finding": sentence(each)} for each in found["findings"]]
    for name in _alarms(client.get("/api/nodes")[0]):
        rows.insert(0, {"kind": "alarm", "finding": f"alarm {name}: publishers wait"})
    if args.format == "json":
        show(json.dumps(rows, indent=1, ensure_ascii=False))
    elif rows or args.format == "csv":
        show(rows_text(rows, ("kind", "finding"), args.format))
    else:
        show(NOTHING)
    if len(found["findings"]) < found["total"]:
        print(f"{found['total'] - len(found['findings'])} more are not shown", file=sys.stderr)
    return FINDINGS if rows else 0


def list_incidents(client: Client, args: argparse.Namespace) -> int:
    """When what needed attention began and ended."""
    rows = [
        {
            **each,
            "finding": sentence(each),
            "began": utc(each["began"], ""),
            "ended": utc(each["ended"], ""),
        }
        for each in client.get("/admin/v1/incidents")
    ]
    show(rows_text(rows, ("began", "ended", "kind", "finding"), args.format))
    return 0


def _alarms(node: dict[str, Any]) -> list[str]:
    return [name for name, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node[key]]


def status(client: Client, args: argparse.Namespace) -> int:
    """Versions, totals and resources of the node."""
    overview, node = client.get("/api/overview"), client.get("/api/nodes")[0]
    totals, queued = overview["object_totals"], overview["queue_totals"]
    found = {
        "node": node["name"],
        "cluster_name": overview["cluster_name"],
        "version": overview["product_version"],
        "runtime": overview["erlang_full_version"],
        "pid": node["os_pid"],
        "uptime_s": node["uptime"] // 1000,
        "data_dir": node["db_dir"],
        "listeners": [
            f"{each['protocol']} {each['ip_address']}:{each['port']}" for each in overview["listeners"]
        ],
        "alarms": _alarms(node),
        "connections": totals["connections"],
        "channels": totals["channels"],
        "queues": totals["queues"],
        "exchanges": totals["exchanges"],
        "consumers": totals["consumers"],
        "messages_ready": queued["messages_ready"],
        "messages_unacknowledged": queued["messages_unacknowledged"],
        "mem_used": node["mem_used"],
        "mem_limit": node["mem_limit"],
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "fd_used": node["fd_used"],
        "fd_total": node["fd_total"],
        "loop_lag_ms": node["loop_lag_ms"],
    }
    show(pairs_text(found, args.format))
    return 0


def set_cluster_name(client: Client, args: argparse.Namespace) -> int:
    """Name the cluster."""
    client.call("PUT", "/api/cluster-name", {"name": args.name})
    return 0


def environment(client: Client, args: argparse.Namespace) -> int:
    """The options that the broker runs with."""
    show(pairs_text(client.get("/admin/v1/environment"), args.format))
    return 0


def close_connection(client: Client, args: argparse.Namespace) -> int:
    """Close a connection."""
    client.call("DELETE", f"/api/connections/{part(args.name)}", headers={"X-Reason": args.reason})
    return 0


def close_consumer(client: Client, args: argparse.Namespace) -> int:
    """Close a consumer, and say how many messages went back to its queue."""
    names = [own_part(name) for name in (args.vhost, args.queue, args.tag)]
    path = "/admin/v1/queues/{}/{}/consumers/{}".format(*names)
    query = {"channel": args.channel} if args.channel is not None else {}
    answer = client.call("DELETE", path, headers={"X-Reason": args.reason}, query=query)
    show(pairs_text(answer, args.format))
    return 0


def close_user_connections(client: Client, args: argparse.Namespace) -> int:
    """Close all connections of a user."""
    client.call("DELETE", f"/api/connections/username/{part(args.user)}", headers={"X-Reason": args.reason})
    return 0


def export_definitions(client: Client, args: argparse.Namespace) -> int:
    """Write the definitions to a file."""
    path = "/api/definitions" if args.vhost is None else f"/api/definitions/{part(args.vhost)}"
    with waiting("exporting"):
        found = client.call("GET", path, timeout_s=LONG_S)
    shown = json.dumps(found, indent=1, ensure_ascii=False)
    if str(args.file) == "-":
        show(shown)
        return 0
    try:
        # It has the hashes of passwords.
        with open(os.open(args.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(shown + "\n")
    except OSError as error:
        raise CtlError(f"{args.file}: cannot be written ({error.strerror})", USAGE) from None
    return 0


def import_definitions(client: Client, args: argparse.Namespace) -> int:
    """Import a file of definitions; says what this broker left out."""
    where = "" if args.vhost is None else f"/{part(args.vhost)}"
    try:
        found = json.loads(sys.stdin.read() if str(args.file) == "-" else args.file.read_text())
    except OSError as error:
        raise CtlError(f"{args.file}: cannot be read ({error.strerror})", USAGE) from None
    except ValueError as error:
        raise CtlError(f"{args.file}: is not JSON ({error})", USAGE) from None
    items = (
        sum(len(each) for each in found.values() if isinstance(each, list)) if isinstance(found, dict) else 0
    )
    if args.dry_run:
        with waiting(f"comparing {items:,} items"):
            rows = client.call("POST", f"/admin/v1/previews/definitions{where}", found, timeout_s=LONG_S)
        show(rows_text([_difference(row) for row in rows], DIFFERENCES, args.format))
        for row in rows:
            for name, differs in zip(
                row["changed"]["names"], row["changed"].get("differs", ()), strict=False
            ):
                print(f"changes of {row['section']} {text(name)}: {', '.join(differs)}", file=sys.stderr)
            for name, reason in zip(row["left_out"]["names"], row["left_out"]["reasons"], strict=True):
                print(f"would be left out of {row['section']}: {text(name)}: {text(reason)}", file=sys.stderr)
        return 0
    query = {"strict": "true"} if args.strict else None
    with waiting(f"importing {items:,} items"):
        answer = client.call("POST", f"/api/definitions{where}", found, query=query, timeout_s=LONG_S)
    for each in (answer or {}).get("left_out", ()):
        print(f"left out: {text(each)}", file=sys.stderr)
    return 0


def _difference(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the preview, with numbers for the lists of names."""
    return {name: each["total"] if isinstance(each, dict) else each for name, each in row.items()}


_FILE = argument("file", metavar="FILE", type=Path, help="the file; - for standard output or input")
_OF_VHOST = argument("-p", "--vhost", metavar="NAME", help="only of this virtual host (default: all)")
_REASON = argument(
    "reason", metavar="REASON", nargs="?", default="Closed via management plugin", help="text for the client"
)

VERBS = (
    Verb(
        "status",
        "versions, totals and resources",
        status,
        (),
        ("amqp-router ctl status", "amqp-router ctl status --format json | jq .uptime_s"),
    ),
    Verb(
        "environment",
        "the options that the broker runs with",
        environment,
        (),
        ("amqp-router ctl environment",),
    ),
    Verb(
        "set_cluster_name",
        "name the cluster; clients are told it when they connect",
        set_cluster_name,
        (argument("name", metavar="NAME", help="its name"),),
        ("amqp-router ctl set_cluster_name shop",),
    ),
    Verb(
        "doctor",
        'what the pages list under "Needs attention", and alarms; exit code 1 if there is anything',
        doctor,
        (),
        (
            "amqp-router ctl doctor",
            "*/5 * * * *  amqp-router ctl doctor --data-dir /var/lib/amqp-router --quiet || ...   (cron)",
        ),
    ),
    Verb(
        "list_incidents",
        "when what needed attention began and ended, also before the last restart",
        list_incidents,
        (),
        ("amqp-router ctl list_incidents --format csv",),
    ),
    Verb(
        "close_connection",
        "close a connection; its client gets 320 with the reason",
        close_connection,
        (argument("name", metavar="CONNECTION", help="its name, as in list_connections"), _REASON),
        ("amqp-router ctl close_connection '127.0.0.1:40000 -> 127.0.0.1:5672' maintenance",),
    ),
    Verb(
        "close_consumer",
        "close a consumer; its messages go back to the queue, its connection stays",
        close_consumer,
        (
            argument("queue", metavar="QUEUE", help="name of the queue"),
            argument("tag", metavar="TAG", help="its consumer tag, as in list_consumers"),
            argument(
                "reason",
                metavar="REASON",
                nargs="?",
                default="Closed via management plugin",
                help="text for the log",
            ),
            argument(
                "--channel",
                metavar="NAME",
                help="its channel, as in list_channels; needed if several consumers have the tag",
            ),
            VHOST,
        ),
        ("amqp-router ctl close_consumer emails ctag1.5f3a 'hangs since noon' --vhost shop",),
    ),
    Verb(
        "close_all_user_connections",
        "close all connections of a user",
        close_user_connections,
        (argument("user", metavar="USER", help="name of the user"), _REASON),
        ("amqp-router ctl close_all_user_connections alice maintenance",),
    ),
    Verb(
        "export_definitions",
        "write users, virtual hosts, permissions, policies, exchanges, queues and bindings to a file",
        export_definitions,
        (_FILE, _OF_VHOST),
        ("amqp-router ctl export_definitions definitions.json",),
    ),
    Verb(
        "import_definitions",
        "import a file of definitions, also RabbitMQ's; queues and exchanges that exist stay",
        import_definitions,
        (
            _FILE,
            _OF_VHOST,
            argument("--strict", action="store_true", help="refuse what this broker does not have"),
            argument(
                "--dry-run",
                action="store_true",
                help="change nothing; count what is new, changes, stays, is the same, or is left out",
            ),
        ),
        (
            "amqp-router ctl import_definitions definitions.json",
            "amqp-router ctl import_definitions definitions.json --dry-run",
        ),
    ),
)
