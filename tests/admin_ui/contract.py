"""Schemathesis over our OpenAPI document: invented requests to every path; none may be a server's error.

Each operation must also succeed at least once: `each_once` does those that inventions do not reach. Before
that, where Debian's RabbitMQ is installed, every path of its API is called with users of each role on both
brokers (`live_roles`).

    make contract                          some minutes
    make contract ARGS='--examples 200'    longer

Exit code 0 if roles may do the same, no answer was a 5xx, apart from 503, which says that a health check
failed or that the broker has no room just now, and each operation succeeded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from amqp_router.ctl.client import Client, by_file
from tests.admin_ui import live_roles
from tests.admin_ui.each_once import each_once, never_done
from tests.brokers import RouterProcess

#: Names of objects that exist, by the part of a path.
KNOWN = {
    "vhost": ["/"],
    "queue": ["orders"],
    "destination": ["orders", "amq.fanout"],
    "exchange": ["amq.topic", "amq.default"],
    "source": ["amq.topic", "amq.fanout"],
    "user": ["guest"],
    "props": ["~", "a.b"],
    "component": ["policy", "vhost-limits"],
    "name": ["p", "max-queues", "max-connections"],
}
CONFIGURATION = """\
[checks]
enabled = false
not_a_server_error = {{ enabled = true, expected-statuses = ["1xx", "2xx", "3xx", "4xx", "503"] }}

[generation]
max-examples = {examples}
"""


def main() -> int:
    """Run it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make contract", description=__doc__)
    parser.add_argument(
        "--examples",
        type=int,
        default=3,
        help="invented requests to each path, besides the systematic ones (default: 3)",
    )
    parser.add_argument("--seed", type=int, help="repeats a run")
    args = parser.parse_args()
    if live_roles.main() == 1:
        return 1
    with tempfile.TemporaryDirectory() as folder:
        broker = RouterProcess(Path(folder))
        broker.start()
        try:
            code = run(broker, Path(folder), args)
        finally:
            broker.stop()
        if "unexpected error" in broker.log():
            print(broker.log()[-8000:])
            return 1
    return code


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with names of objects that exist, which half of the requests use."""
    for operations in document["paths"].values():
        for part in operations.get("parameters", []):
            if part["name"] in KNOWN:
                part["schema"] = {"anyOf": [{"enum": KNOWN[part["name"]]}, part["schema"]]}
    return document


def seed(client: Client) -> None:
    """Make the objects of `KNOWN`."""
    client.call("PUT", "/api/queues/%2F/orders", {"durable": True})
    client.call("PUT", "/api/policies/%2F/p", {"pattern": "x", "definition": {"max-length": 5}})
    client.call("POST", "/api/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "a.b"})
    for payload in ("one", "two"):
        body = {"routing_key": "orders", "payload": payload, "payload_encoding": "string", "properties": {}}
        client.call("POST", "/api/exchanges/%2F/amq.default/publish", body)


def run(broker: RouterProcess, folder: Path, args: argparse.Namespace) -> int:
    """Let Schemathesis loose on ``broker``."""
    configuration = folder / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(examples=args.examples))
    access = by_file(broker.data_dir)  # this login works whatever becomes of users
    client = Client(access)
    done = each_once(broker, client.get("/admin/v1/openapi.json"))
    seed(client)
    document = folder / "openapi.json"
    document.write_text(json.dumps(narrowed(client.get("/admin/v1/openapi.json"))))
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file",
        str(configuration),
        "run",
        str(document),
        "--url",
        access.url,
        "--header",
        f"Authorization: {access.authorization}",
        # Without the virtual host / most requests would find nothing. It is deleted at the end.
        "--exclude-operation-id",
        "delete_api_vhosts_vhost",
        "--exclude-operation-id",
        "delete_admin_v1_vhosts_vhost",
        "--report-har-path",
        str(folder / "calls.har"),
        "--phases",
        "examples,coverage,fuzzing",
        "--warnings",
        "off",
    ]
    command += ["--seed", str(args.seed)] if args.seed is not None else []
    code = subprocess.run(command, cwd=folder, check=False).returncode
    client = Client(access)  # the broker has closed the connection, which was idle meanwhile
    client.call("DELETE", "/api/vhosts/%2F")
    for path in ("/api/overview", "/api/nodes", "/api/queues", "/api/definitions", "/admin/v1/attention"):
        client.get(path)
    for each in json.loads((folder / "calls.har").read_text())["log"]["entries"]:
        asked = each["request"]
        done.append((asked["method"], asked["url"], each["response"]["status"]))
    never = never_done(json.loads(document.read_text()), done)
    print(f"operations that never succeeded: {len(never)}", *never, sep="\n    ")
    return code or int(bool(never))


if __name__ == "__main__":
    sys.exit(main())
