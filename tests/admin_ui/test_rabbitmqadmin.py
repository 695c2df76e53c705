"""The served ``rabbitmqadmin``, run as a program."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers import RouterProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    found = RouterProcess(tmp_path_factory.mktemp("rabbitmqadmin"))
    found.start()
    yield found
    found.stop()


Run = Callable[..., str]


@pytest.fixture(scope="module")
def admin(broker: RouterProcess, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the downloaded file; returns what it printed. ``code`` is the exit code that is expected."""
    script = tmp_path_factory.mktemp("cli") / "rabbitmqadmin"
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/cli/rabbitmqadmin") as reply:
        script.write_bytes(reply.read())

    def run(*words: str, code: int = 0, input: str = "") -> str:
        command = [sys.executable, str(script), "-H", "127.0.0.1", "-P", str(broker.admin_port), *words]
        environment = {"HOME": str(script.parent)}
        done = subprocess.run(
            command, input=input, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done
        return done.stdout + done.stderr

    return run


def test_objects(admin: Run) -> None:
    assert admin("declare", "queue", "name=orders", "durable=false") == "queue declared\n"
    assert admin("declare", "exchange", "name=events", "type=topic") == "exchange declared\n"
    assert (
        admin("declare", "binding", "source=events", "destination=orders", "routing_key=a.#")
        == "binding declared\n"
    )
    assert admin("list", "queues") == (
        "+--------+----------+\n|  name  | messages |\n+--------+----------+\n"
        "| orders | 0        |\n+--------+----------+\n"
    )
    rows = json.loads(admin("-f", "raw_json", "list", "bindings"))
    assert [row["properties_key"] for row in rows] == ["orders", "a.%23"]
    assert admin("-f", "tsv", "list", "queues", "name", "durable") == "name\tdurable\norders\tFalse\n"
    assert admin("-f", "kvp", "list", "queues", "name", "arguments") == 'name="orders" arguments=""\n'
    assert admin("-f", "bash", "list", "queues") == "orders\n"
    assert "   name: orders" in admin("-f", "long", "list", "queues", "name", "durable")
    deleted = ("destination_type=queue", "destination=orders", "properties_key=a.%23")
    assert admin("delete", "binding", "source=events", *deleted) == "binding deleted\n"
    assert admin("-q", "delete", "exchange", "name=events") == ""
    assert "amq.topic" in admin("-V", "/", "list", "exchanges")


def test_messages(admin: Run, tmp_path: Path) -> None:
    admin("declare", "queue", "name=mails")
    assert admin("publish", "routing_key=mails", "payload=hello") == "Message published\n"
    assert admin("publish", "routing_key=nosuch", "payload=x") == "Message published but NOT routed\n"
    admin("publish", "routing_key=mails", 'properties={"priority":3}', input="from a pipe")
    first, second = json.loads(admin("-f", "raw_json", "get", "queue=mails", "count=5"))
    assert (first["payload"], second["payload"], second["properties"]) == (
        "hello",
        "from a pipe",
        {"priority": 3},
    )
    file = tmp_path / "payload"
    admin("get", "queue=mails", "ackmode=ack_requeue_false", f"payload_file={file}")
    assert file.read_text() == "hello"
    assert admin("purge", "queue", "name=mails") == "queue purged\n"
    assert admin("get", "queue=mails") == "No items\n"


def test_users_and_virtual_hosts(admin: Run) -> None:
    admin("declare", "vhost", "name=shop")
    admin("declare", "user", "name=alice", "password=secret", "tags=management")
    admin("declare", "permission", "vhost=shop", "user=alice", "configure=.*", "write=.*", "read=.*")
    admin(
        "-V",
        "shop",
        "declare",
        "policy",
        "name=p",
        "pattern=x",
        'definition={"max-length":5}',
        "apply-to=queues",
    )
    admin("declare", "vhost_limit", "vhost=shop", "name=max-queues", "value=50")
    admin("declare", "operator_policy", "name=o", "pattern=x", 'definition={"max-length":9}')
    assert '{"max-length": 5}' in admin("list", "policies")
    assert '{"max-queues": 50}' in admin("list", "vhost_limits")
    assert "alice" in admin(
        "-u", "alice", "-p", "secret", "-f", "tsv", "show", "overview", "rabbitmq_version"
    ) + admin("list", "users")
    for words in (
        ("operator_policy", "name=o"),
        ("vhost_limit", "vhost=shop", "name=max-queues"),
        ("permission", "vhost=shop", "user=alice"),
        ("user", "name=alice"),
        ("vhost", "name=shop"),
    ):
        assert admin("delete", *words) == f"{words[0]} deleted\n"


def test_definitions(admin: Run, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    admin("declare", "queue", "name=kept")
    admin("export", str(file))
    admin("delete", "queue", "name=kept")
    admin("import", str(file))
    assert "kept" in admin("list", "queues", "name")


def test_configuration_file(admin: Run, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("[default]\nusername = guest\npassword = wrong\n[right]\npassword = guest\n")
    assert "Access refused" in admin("-c", str(file), "list", "vhosts", code=1)
    assert "| / " in admin("-c", str(file), "-N", "right", "list", "vhosts")
    assert "did you mean right?" in admin("-c", str(file), "-N", "rihgt", "list", "vhosts", code=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frob", "Action frob not understood"),
        ("lst queues", "did you mean list?"),
        ("list quees", "Don't know how to list quees (did you mean queues?)"),
        ("declare queue", 'mandatory argument "name" is required'),
        ("declare queue name=x durabel=true", 'Argument "durabel" is not recognised (did you mean durable?)'),
        ("declare queue name=x arguments={", "Could not parse JSON"),
        ("delete queue name=nosuch", "*** Not found: /api/queues/%2F/nosuch"),
        ("declare exchange name=x type=nosuch", "***"),
        ("import /no/such", "No such file"),
    ],
)
def test_errors(admin: Run, words: str, said: str) -> None:
    assert said in admin(*words.split(), code=1)


def test_help(admin: Run) -> None:
    assert "declare queue name=..." in admin("help", "subcommands")
    assert "username" in admin("help", "config")
    assert "complete -F" in admin("--bash-completion")
    assert "--vhost" in admin("--help")
