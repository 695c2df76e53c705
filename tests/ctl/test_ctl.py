"""``amqp-router ctl`` against a running broker."""

from __future__ import annotations

import csv
import io
import json
import shlex
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pika
import pytest

from admin_ui.live.attention import ORDER
from amqp_router.ctl import moves
from amqp_router.ctl.completion import SHELLS, script
from amqp_router.ctl.findings import FULL, SENTENCES, sentence
from amqp_router.ctl.verbs import VERBS
from amqp_router.main import _parser, main
from tests.brokers import RouterProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    found = RouterProcess(tmp_path_factory.mktemp("ctl"))
    found.start()
    yield found
    found.stop()


Run = Callable[..., Any]


@pytest.fixture
def ctl(broker: RouterProcess, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb; returns the output, parsed if it is JSON. ``code`` is the exit code that is expected."""

    def run(*words: str, code: int = 0) -> Any:
        assert main(["ctl", *words, "--data-dir", str(broker.data_dir)]) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        if code and not out:
            return err
        return json.loads(out) if "json" in words else out

    return run


def login(broker: RouterProcess, user: str, password: str, vhost: str = "/") -> None:
    credentials = pika.PlainCredentials(user, password)
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, vhost, credentials)
    pika.BlockingConnection(parameters).close()


def test_the_file_is_its_owners_alone(broker: RouterProcess) -> None:
    file = broker.data_dir / "ctl.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = json.loads(file.read_text())["token"]
    request = urllib.request.Request(f"http://127.0.0.1:{broker.admin_port}/api/users")
    for given in (f"{token}x", token[:-1], "\u00e9"):  # a fourth wrong one would have to wait
        request.add_header("Authorization", f"Bearer {given}")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request)
    request.add_header("Authorization", f"Bearer {token}")
    urllib.request.urlopen(request).close()


def test_users(ctl: Run, broker: RouterProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("first\n"))
    ctl("add_user", "alice")
    assert "exists" in ctl("add_user", "alice", "again", code=1)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        login(broker, "alice", "first")
    ctl("set_permissions", "alice", "^a", ".*", ".*")
    login(broker, "alice", "first")
    ctl("set_user_tags", "alice", "monitoring", "ops")
    ctl("change_password", "alice", "second")
    ctl("authenticate_user", "alice", "second")
    assert "Login failed" in ctl("authenticate_user", "alice", "first", code=1)
    users = {row["user"]: row for row in ctl("list_users", "--format", "json")}
    assert users["alice"]["tags"] == ["monitoring", "ops"]
    assert ctl("list_permissions", "--format", "csv").splitlines()[:2] == [
        "user,configure,write,read",
        "alice,^a,.*,.*",
    ]
    assert "alice" not in ctl("list_user_permissions", "alice", "vhost", "read")
    ctl("set_topic_permissions", "alice", "amq.topic", "^eu", ".*")
    assert "amq.topic" in ctl("list_topic_permissions")
    ctl("clear_topic_permissions", "alice")
    ctl("set_user_limits", "alice", '{"max-connections": 0}')
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        login(broker, "alice", "second")
    ctl("clear_user_limits", "alice")
    login(broker, "alice", "second")
    ctl("clear_permissions", "alice")
    ctl("clear_password", "alice")
    ctl("authenticate_user", "alice", "second", code=1)
    ctl("delete_user", "alice")
    assert "there is no user 'alice' (404)" in ctl("delete_user", "alice", code=1)


def test_objects_and_messages(ctl: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ctl("add_vhost", "shop", "--description", "orders")
    assert "exists" in ctl("add_vhost", "shop", code=1)
    shop = ("--vhost", "shop")
    ctl("declare_queue", "orders", "--arguments", '{"x-max-length": 100}', *shop)
    ctl("declare_exchange", "events", "--type", "topic", *shop)
    ctl("declare_binding", "events", "orders", "--routing-key", "order.#", *shop)
    ctl("publish", "hello", "--exchange", "events", "--routing-key", "order.new", *shop)
    assert "reached no queue" in ctl("publish", "x", "--exchange", "events", *shop, code=1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\x00")))
    ctl("publish", "--routing-key", "orders", *shop)
    assert ctl("list_queues", "name", "messages", *shop) == "name    messages\norders  2\n"
    first, second = ctl("get", "orders", "--count", "5", "--format", "json", *shop)
    assert (first["payload"], first["properties"]) == ("hello", {"delivery_mode": 2})
    assert second["payload_encoding"] == "base64"
    ctl("purge_queue", "orders", *shop)
    assert ctl("list_queues", "messages", *shop, "--format", "json") == [{"messages": 0}]
    assert ctl("list_exchanges", "name", "type", *shop, "--format", "csv").splitlines()[-1] == "events,topic"
    rows = ctl("list_bindings", *shop, "--format", "json")
    assert [row["routing_key"] for row in rows] == ["orders", "order.#"]
    ctl("set_policy", "limited", "^orders", '{"max-length": 5}', "--apply-to", "queues", *shop)
    assert ctl("list_queues", "policy", *shop, "--format", "json") == [{"policy": "limited"}]
    assert "limited" in ctl("list_policies", *shop)
    ctl("clear_policy", "limited", *shop)
    ctl("set_operator_policy", "all", ".*", '{"max-length": 9}', *shop)
    assert "all" in ctl("list_operator_policies", *shop)
    ctl("clear_operator_policy", "all", *shop)
    ctl("set_vhost_limits", '{"max-queues": 1}', *shop)
    assert ctl("list_vhost_limits", "--format", "json") == [{"vhost": "shop", "value": {"max-queues": 1}}]
    ctl("declare_queue", "more", *shop, code=1)
    ctl("clear_vhost_limits", *shop)
    ctl("delete_binding", "events", "orders", "--routing-key", "order.#", *shop)
    assert "no such binding" in ctl("delete_binding", "events", "orders", *shop, code=1)
    ctl("delete_queue", "orders", "--if-empty", *shop)
    ctl("delete_exchange", "events", *shop)
    ctl("delete_vhost", "shop")
    assert "shop" not in ctl("list_vhosts")


def test_tokens(ctl: Run, broker: RouterProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = ctl(
        "add_token", "guest", "prometheus", "--tags", "monitoring", "--read-only", "--days", "7"
    ).strip()
    file = tmp_path / "token"
    file.write_text(token + "\n")
    access = ["--url", f"http://127.0.0.1:{broker.admin_port}", "--token-file", str(file)]
    assert main(["ctl", "list_vhosts", *access]) == 0
    assert main(["ctl", "add_vhost", "no", *access]) == 1
    assert "this token may only read (401)" in capsys.readouterr().err
    assert main(["ctl", "list_vhosts", *access, "--user", "guest"]) == 2
    assert main(["ctl", "list_vhosts", "--token-file", str(file)]) == 2
    capsys.readouterr()
    [row] = ctl("list_tokens", "--format", "json")
    assert (row["name"], row["user"], row["tags"], row["read_only"]) == (
        "prometheus",
        "guest",
        ["monitoring"],
        True,
    )
    assert row["id"] in token
    assert token[-43:] not in broker.log()
    ctl("delete_token", row["id"])
    assert main(["ctl", "list_vhosts", *access]) == 1
    assert "Login failed" in capsys.readouterr().err
    forever = ctl("add_token", "guest", "--forever", "--format", "json")
    assert forever["expires"] is None
    ctl("delete_token", forever["id"])


def test_delayed_messages(ctl: Run, broker: RouterProcess) -> None:
    ctl(
        "declare_exchange",
        "later",
        "--type",
        "x-delayed-message",
        "--arguments",
        '{"x-delayed-type": "direct"}',
    )
    for delay in (3_000_000, 1_000_000):
        ctl(
            "publish", "x", "--exchange", "later", "--properties", json.dumps({"headers": {"x-delay": delay}})
        )
    rows = ctl("list_delayed", "later", "--format", "json")
    assert [row["properties"]["headers"]["x-delay"] for row in rows] == [1_000_000, 3_000_000]
    assert rows[0]["due"] < rows[1]["due"]
    assert len(ctl("list_delayed", "later", "--count", "1").splitlines()) == 2
    ctl("cancel_delayed", "later", rows[0]["id"])
    assert "there is no such object" in ctl("cancel_delayed", "later", rows[0]["id"], code=1)
    assert "give the ID of one message, or --all" in ctl("cancel_delayed", "later", code=2)
    ctl("cancel_delayed", "later", "--all")
    assert ctl("list_delayed", "later", "--format", "json") == []
    ctl("delete_exchange", "later")


def test_messages_are_moved(ctl: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("from", "there", "third"):
        ctl("declare_queue", name)
    for number in range(6):
        ctl("publish", str(number), "--routing-key", "from")
    assert ctl("move_messages", "from", "there", "--count", "2") == "2 moved\n"
    found = ctl(
        "move_messages",
        "from",
        "--exchange",
        "",
        "--routing-key",
        "there",
        "--count",
        "1",
        "--format",
        "json",
    )
    assert (found["state"], found["moved"], found["target"]) == ("done", 1, "exchange amq.default key there")
    number = ctl("move_messages", "from", "third", "--no-wait").strip()
    ctl("stop_move", number)
    rows = ctl("list_moves", "--format", "json")
    assert [row["target"] for row in rows] == ["queue third", "exchange amq.default key there", "queue there"]
    assert str(rows[0]["id"]) == number
    assert len(ctl("list_moves").splitlines()) == 4
    assert "there is no such object" in ctl("stop_move", "99", code=1)
    ctl("declare_queue", "small", "--arguments", '{"x-max-length": 1}')
    failed = ctl("move_messages", "there", "small", code=1)
    assert "1 moved, 2 left: queue 'small' in vhost '/' is full" in failed
    for line, said in (
        ("from", "give the TARGET queue, or --exchange NAME"),
        ("from there --exchange x", "give the TARGET queue, or --exchange NAME"),
        ("from there --routing-key k", "--routing-key needs --exchange"),
        ("from there --count 0", "--count: 0 is not above 0"),
    ):
        assert said in ctl("move_messages", *line.split(), code=2)
    assert "no queue 'theer' in vhost '/'; did you mean 'there'?" in ctl(
        "move_messages", "from", "theer", code=1
    )
    assert "there is no queue 'form' in virtual host '/'; did you mean 'from'?" in ctl(
        "move_messages", "form", "there", code=1
    )
    for name in ("from", "there", "third", "small"):
        ctl("delete_queue", name)


def test_a_move_is_waited_for_with_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    move: dict[str, Any] = {
        "id": 1,
        "state": "running",
        "count": 4000,
        "moved": 0,
        "left": 4000,
        "rate": 0,
        "ended": None,
    }
    steps = [
        {**move, "moved": 1000, "left": 3000, "rate": 500.0},
        {**move, "moved": 2000, "left": 2000, "state": "blocked"},
        {**move, "moved": 4000, "left": 0, "state": "done", "ended": 1},
    ]
    client = SimpleNamespace(get=lambda path: steps.pop(0))
    monkeypatch.setattr(moves, "LOOK_S", 0)
    assert moves._waited(client, move, moves._bar)["state"] == "done"  # type: ignore[arg-type]
    drawn = capsys.readouterr().err.split("\r")
    assert [each.removesuffix("\x1b[K") for each in drawn] == [
        "",
        "[..............................] 0 of 4,000",
        "[#######.......................] 1,000 of 4,000, 500/s, 6 s left",
        "[###############...............] 2,000 of 4,000, waits: the node has an alarm",
        "",
    ]


def test_a_consumer_is_closed(ctl: Run, broker: RouterProcess) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    channel = connection.channel()
    channel.queue_declare("~.", exclusive=True)
    channel.basic_publish("", "~.", b"x")
    channel.basic_consume("~.", lambda *_: None, consumer_tag="hangs")
    connection.process_data_events(0.2)
    assert ctl("close_consumer", "~.", "hangs", "for a test", "--format", "json") == {"returned": 1}
    assert ctl("list_queues", "messages", "consumers", "--format", "json") == [
        {"messages": 1, "consumers": 0}
    ]
    assert "there is no such object" in ctl("close_consumer", "~.", "hangs", code=1)
    connection.close()


def test_connections(ctl: Run, broker: RouterProcess) -> None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.port, client_properties={"connection_name": "me"}
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("q", exclusive=True)
    channel.basic_consume("q", lambda *_: None, consumer_tag="tag")
    [row] = ctl("list_connections", "name", "client", "state", "--format", "json")
    assert (row["client"], row["state"]) == ("me", "running")
    assert len(ctl("list_channels", "--format", "json")) == 1
    [consumer] = ctl("list_consumers", "--format", "json")
    assert (consumer["queue_name"], consumer["consumer_tag"]) == ("q", "tag")
    ctl("close_connection", row["name"], "maintenance")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        connection.process_data_events(5)
    other = pika.BlockingConnection(parameters)
    ctl("close_all_user_connections", "guest", "all out")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="all out"):
        other.process_data_events(5)


def test_the_node(ctl: Run, broker: RouterProcess, tmp_path: Path) -> None:
    ctl("set_cluster_name", "shop")
    assert ctl("status", "--format", "json")["cluster_name"] == "shop"
    status = ctl("status", "--format", "json")
    assert status["pid"] == str(broker.pid)
    assert status["alarms"] == []
    options = ctl("environment", "--format", "json")
    assert options["data_dir"] == str(broker.data_dir)
    ctl("declare_queue", "kept")
    file = tmp_path / "definitions.json"
    ctl("export_definitions", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ctl("delete_queue", "kept")
    definitions = json.loads(file.read_text())
    stream = {"name": "stream", "arguments": {"x-queue-type": "stream"}}
    definitions["queues"].append({**definitions["queues"][0], **stream})
    wider = tmp_path / "wider.json"
    wider.write_text(json.dumps(definitions))
    rows = ctl("import_definitions", str(wider), "--dry-run", "--format", "json")
    assert {row["section"]: row["added"] for row in rows if row["added"]} == {"queues": 1}
    assert {row["section"]: row["left_out"] for row in rows if row["left_out"]} == {"queues": 1}
    assert "kept" not in ctl("list_queues", "name")
    ctl("import_definitions", str(file))
    assert "kept" in ctl("list_queues", "name")
    assert "is not JSON" in ctl("import_definitions", __file__, code=2)


def test_doctor(ctl: Run) -> None:
    ctl("declare_queue", "left")
    ctl("publish", "x", "--routing-key", "left")
    for _ in range(100):  # it looks every few seconds
        if main(["ctl", "doctor", "--quiet", *_dir(ctl)]) == 1:
            break
    found = ctl("doctor", "--format", "json", code=1)
    assert {"kind": "no_consumers", "name": "left", "ready": 1}.items() <= found[-1].items()
    assert ctl("doctor", code=1).splitlines()[-1].startswith("no_consumers  nobody consumes queue left in /")
    assert SENTENCES.keys() == set(ORDER)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "purge_queue nearbi",
            "there is no queue 'nearbi' in virtual host '/'; did you mean 'nearby'? (404)",
        ),
        ("get nearbi", "did you mean 'nearby'?"),
        ("delete_exchange amq.topik", "there is no exchange 'amq.topik'"),
        ("publish x --exchange amq.topik", "did you mean 'amq.topic'?"),
        ("list_queues --vhost nowhere", "there is no virtual host 'nowhere' (404)"),
        ("set_permissions gest .* .* .*", "there is no user 'gest'; did you mean 'guest'? (400)"),
        ("set_permissions guest .* .* .* --vhost nowhere", "there is no virtual host 'nowhere' (400)"),
        ("set_user_tags gest administrator", "there is no user 'gest'; did you mean 'guest'? (404)"),
        ("clear_policy none", "there is no policy 'none' in virtual host '/' (404)"),
        ("close_connection none", "there is no connection 'none' (404)"),
        ("close_consumer nearbi tag", "there is no queue 'nearbi' in virtual host '/'; did you mean"),
        ('set_policy p x {"max-lenght":3}', 'policies have no key "max-lenght" (400)'),
        ('set_policy p ( {"max-length":3}', "should be regular expression but is invalid"),
    ],
)
def test_a_wrong_name_is_said_with_the_nearest(ctl: Run, line: str, said: str) -> None:
    ctl("declare_queue", "nearby")
    told = ctl(*line.split(), code=1)
    assert said in told
    assert told.count("\n") == 1, told


def test_a_tag_that_gives_no_rights_is_mentioned(
    ctl: Run, broker: RouterProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    ctl("add_user", "boss", "secret")
    assert main(["ctl", "set_user_tags", "boss", "admin", "team-a", "--data-dir", str(broker.data_dir)]) == 0
    told = capsys.readouterr().err
    assert "the tag admin gives no rights; did you mean administrator?" in told
    assert "team-a" not in told
    ctl("delete_user", "boss")


def test_findings_name_a_command_for_the_shell_and_sizes_for_people() -> None:
    stuck = {"kind": "stuck", "vhost": "shop", "name": "my mails", "tag": "t'1", "cancels": True}
    assert "`amqp-router ctl close_consumer 'my mails' 't'\"'\"'1' --vhost shop` gives" in sentence(stuck)
    stuck |= {"cancels": False, "connection": "127.0.0.1:1 -> 127.0.0.1:2"}
    assert "`amqp-router ctl close_connection '127.0.0.1:1 -> 127.0.0.1:2'` gives" in sentence(stuck)
    stuck |= {"cancels": True, "tag": "t"}
    assert "`amqp-router ctl move_messages 'my mails' OTHER --vhost shop` brings the ready" in sentence(stuck)
    letters = {
        "kind": "letters_wait",
        "vhost": "/",
        "name": "from",
        "target": "to",
        "letters": 2,
        "reason": FULL,
    }
    assert sentence(letters).endswith(
        "wait for queue to: it is full; `amqp-router ctl move_messages to OTHER` makes room there"
    )
    assert sentence(letters | {"reason": "its log cannot be written"}).endswith("its log cannot be written")
    for kind in ("growing", "no_consumers"):
        finding = {"kind": kind, "vhost": "/", "name": "left", "ready": 3}
        assert "`amqp-router ctl move_messages left OTHER` brings them elsewhere" in sentence(finding)
    filling = {"kind": "filling", "free": 3 << 30, "seconds": 9248}
    assert sentence(filling) == "the disk will be full in 2 h 34 min at the present rate: 3.0 GiB free"


def test_a_killed_broker_is_said_to_be_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ctl.json").write_text('{"url": "http://127.0.0.1:1", "token": "x"}')
    assert main(["ctl", "status", "--data-dir", str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert f"no broker runs on {tmp_path}" in told
    assert f"`amqp-router serve --data-dir {tmp_path}`" in told


def _dir(ctl: Run) -> list[str]:
    return ["--data-dir", str(ctl.__closure__[0].cell_contents.data_dir)]


def test_as_a_user(broker: RouterProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    password = tmp_path / "password"
    password.write_text("guest\n")
    url = f"http://127.0.0.1:{broker.admin_port}"
    access = ["--url", url, "--user", "guest", "--password-file", str(password)]
    assert main(["ctl", "list_vhosts", *access]) == 0
    assert capsys.readouterr().out == "name\n/\n"
    password.write_text("wrong\n")
    assert main(["ctl", "list_vhosts", *access]) == 1
    assert "Login failed (401)" in capsys.readouterr().err
    assert main(["ctl", "list_vhosts", "--url", "http://127.0.0.1:1", *access[2:]]) == 3
    assert main(["ctl", "list_vhosts", "--url", url]) == 2
    assert main(["ctl", "list_vhosts", "--data-dir", str(tmp_path)]) == 3
    assert "no broker with an admin port runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("list_queus", "did you mean list_queues?"),
        ("list_queues nam", "unknown column: nam; did you mean name?"),
        ("list_queues --vhots /", "did you mean --vhost?"),
        ("declare_queue q --arguments []", "is not a JSON object"),
        ("set_policy p x {", "is not JSON"),
        ("get q --count 0", "is not above 0"),
    ],
)
def test_wrong_command_lines(
    broker: RouterProcess, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    try:
        code = main(["ctl", *line.split(), "--data-dir", str(broker.data_dir)])
    except SystemExit as left:
        code = int(str(left.code))
    assert (code, said in capsys.readouterr().err) == (2, True)


def test_every_example_is_a_command_line() -> None:
    for verb in VERBS.values():
        assert verb.examples, verb.name
        for example in verb.examples:
            words = shlex.split(
                example.partition("||")[0].partition("|")[0].partition("<")[0].removeprefix("*/5 * * * *")
            )
            assert words[:3] == ["amqp-router", "ctl", verb.name]
            _parser().parse_args(words[1:])


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_all(shell: str) -> None:
    found = script(shell, _parser())
    for word in (*VERBS, "serve", "amqp-port" if shell == "fish" else "--amqp-port", "messages_ready"):
        assert word in found


def test_bash_completes(tmp_path: Path) -> None:
    file = tmp_path / "completion"
    file.write_text(script("bash", _parser()))

    def complete(*words: str) -> set[str]:
        line = " ".join(map(shlex.quote, words))
        text = f". {file}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _amqp_router"
        text += '; echo "${COMPREPLY[@]}"'
        return set(
            subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True).stdout.split()
        )

    assert complete("amqp-router", "ct") == {"ctl"}
    assert complete("amqp-router", "ctl", "list_q") == {"list_queues"}
    assert complete("amqp-router", "ctl", "list_queues", "--vhost", "/", "messages_r") == {
        "messages_ready",
        "messages_ram",
    }
    assert complete("amqp-router", "serve", "--amqp-") == {"--amqp-port"}


def test_csv_quotes(ctl: Run) -> None:
    ctl("declare_queue", 'a,"b')
    rows = list(csv.reader(io.StringIO(ctl("list_queues", "name", "--format", "csv"))))
    assert ['a,"b'] in rows


def test_as_a_process(broker: RouterProcess) -> None:
    command = [sys.executable, "-m", "amqp_router", "ctl", "list_vhosts", "--data-dir", str(broker.data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "name\n/\n")
