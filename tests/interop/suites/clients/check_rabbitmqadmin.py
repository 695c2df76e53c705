"""rabbitmqadmin, RabbitMQ's command for the HTTP API, from the copy whose path is the first argument."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import ADMIN_PORT, ARGUMENTS, HOST, check, main

SCRIPT = ARGUMENTS[0]
VHOST = f"interop-{os.getpid()}"
USER = f"u-{VHOST}"
FILE = Path(tempfile.gettempdir()) / "definitions.json"


def admin(*arguments: str, vhost: str = "", password: str = "guest") -> str:
    command = [sys.executable, SCRIPT, "-H", HOST, "-P", str(ADMIN_PORT), "-u", "guest", "-p", password]
    command += ["-V", vhost] if vhost else []
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=30, check=False)
    return (done.stdout + done.stderr).strip()


def says(text: str, *arguments: str, vhost: str = VHOST, password: str = "guest") -> None:
    """The command prints just ``text``."""
    found = admin(*arguments, vhost=vhost, password=password)
    assert found == text, found[:300]


def has(text: str, *arguments: str, vhost: str = VHOST, password: str = "guest") -> None:
    """The command prints ``text`` among other things."""
    found = admin(*arguments, vhost=vhost, password=password)
    assert text in found, found[:300]


def shows(name: str, text: str, *arguments: str, exact: bool = False, vhost: str = VHOST) -> None:
    """Register a check of one command, in the order of the calls."""

    def function() -> None:
        (says if exact else has)(text, *arguments, vhost=vhost)

    function.__name__ = name
    check(function)


def prints(name: str, text: str, *arguments: str, vhost: str = VHOST) -> None:
    shows(name, text, *arguments, exact=True, vhost=vhost)


CONFLICT = (
    f"inequivalent arg 'type' for exchange 'ex' in vhost '{VHOST}': received 'fanout' but current is 'topic'"
)
PERMISSION = ("configure=.*", "write=.*", "read=.*")
POLICY = ("name=pol", "pattern=^q", 'definition={"max-length":5}', "apply-to=queues", "priority=1")
PROPERTIES = 'properties={"delivery_mode":2,"headers":{"x":1},"priority":3}'

shows("overview as JSON", "management_version", "-f", "raw_json", "show", "overview", vhost="")
shows("overview as a table", "rabbitmq_version", "show", "overview", vhost="")
prints("declare vhost", "vhost declared", "declare", "vhost", f"name={VHOST}", vhost="")
prints(
    "declare permission",
    "permission declared",
    "declare",
    "permission",
    f"vhost={VHOST}",
    "user=guest",
    *PERMISSION,
    vhost="",
)
prints(
    "declare user",
    "user declared",
    "declare",
    "user",
    f"name={USER}",
    "password=p",
    "tags=monitoring",
    vhost="",
)
shows("list users", USER, "list", "users", "name", "tags", vhost="")
prints("declare exchange", "exchange declared", "declare", "exchange", "name=ex", "type=topic")
prints("declare exchange again", "exchange declared", "declare", "exchange", "name=ex", "type=topic")
shows("declare exchange otherwise", CONFLICT, "declare", "exchange", "name=ex", "type=fanout")
prints(
    "declare queue",
    "queue declared",
    "declare",
    "queue",
    "name=q",
    "durable=true",
    'arguments={"x-max-length": 100}',
)
prints(
    "declare binding",
    "binding declared",
    "declare",
    "binding",
    "source=ex",
    "destination=q",
    "routing_key=a.#",
)
prints("publish", "Message published", "publish", "exchange=ex", "routing_key=a.b", "payload=hello")
prints(
    "publish to nowhere",
    "Message published but NOT routed",
    "publish",
    "exchange=ex",
    "routing_key=z",
    "payload=hello",
)
shows("get and requeue", "hello", "get", "queue=q", "ackmode=ack_requeue_true")
shows("get as columns", "hello", "-f", "tsv", "get", "queue=q", "count=1", "ackmode=ack_requeue_false")
prints("get nothing", "No items", "get", "queue=q")
shows(
    "publish properties",
    "Message published",
    "publish",
    "exchange=amq.default",
    "routing_key=q",
    "payload=p",
    PROPERTIES,
)
shows("get as JSON", '"delivery_mode":2', "-f", "raw_json", "get", "queue=q", "ackmode=ack_requeue_true")
prints("purge", "queue purged", "purge", "queue", "name=q")
prints("declare policy", "policy declared", "declare", "policy", *POLICY)
shows("list policies", "pol", "list", "policies")
prints(
    "declare limit",
    "vhost_limit declared",
    "declare",
    "vhost_limit",
    f"vhost={VHOST}",
    "name=max-queues",
    "value=10",
    vhost="",
)
shows("list queues", "x-max-length", "-f", "pretty_json", "list", "queues")
shows("list columns of queues", "| q", "list", "queues", "name", "durable")
shows("list exchanges", "amq.topic", "list", "exchanges", "name", "type")
shows("list bindings", "a.#", "list", "bindings")
shows("list nodes", "@", "list", "nodes", "name", vhost="")
shows("export", "Exported definitions for", "export", str(FILE), vhost="")


@check
def the_export_has_definitions() -> None:
    found = json.loads(FILE.read_text())
    assert "rabbit_version" in found
    assert VHOST in [each["name"] for each in found["vhosts"]]


prints(
    "delete binding",
    "binding deleted",
    "delete",
    "binding",
    "source=ex",
    "destination=q",
    "destination_type=queue",
    "properties_key=a.%23",
)
prints("delete policy", "policy deleted", "delete", "policy", "name=pol")
prints("delete queue", "queue deleted", "delete", "queue", "name=q")
shows("delete a missing queue", f"Not found: /api/queues/{VHOST}/q", "delete", "queue", "name=q")
prints("delete exchange", "exchange deleted", "delete", "exchange", "name=ex")
shows("import", "Uploaded definitions from", "import", str(FILE), vhost="")
prints("delete user", "user deleted", "delete", "user", f"name={USER}", vhost="")
prints("delete vhost", "vhost deleted", "delete", "vhost", f"name={VHOST}", vhost="")


@check
def a_wrong_password_is_refused() -> None:
    has("Access refused", "list", "queues", vhost="", password="wrong")


main()
