"""The command as a user runs it: what it prints, what it returns, how it starts and stops."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest

from amqp_router import log_cli, log_inspect
from amqp_router.auth.throttle import DELAY_MAX_S
from amqp_router.main import EXIT_CODES, main
from amqp_router.protocol import methods as m
from amqp_router.protocol.constants import PROTOCOL_HEADER
from amqp_router.protocol.fields import Table
from amqp_router.version import VERSION
from tests.brokers import RouterProcess, logged


def command(*arguments: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "amqp_router", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def refused(*arguments: str, code: int) -> str:
    """The one line a failing command prints."""
    result = command(*arguments)
    assert result.returncode == code, result.stderr
    [line] = result.stderr.splitlines()
    assert line.startswith("amqp-router: ")
    assert result.stdout == ""
    return line


def eventually(check: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "did not come true"
        time.sleep(0.02)


def test_version_tells_python_and_build() -> None:
    result = command("--version")
    assert result.stdout.startswith(f"amqp-router {VERSION}, Python {sys.version.split()[0]}, ")
    assert "compiled" in result.stdout


def test_help_has_examples_and_exit_codes() -> None:
    text = command("--help").stdout
    assert "amqp-router serve --amqp-port 0" in text
    for code, meaning in EXIT_CODES.items():
        assert f"  {code}  {meaning}" in text


def test_nothing_to_do_prints_help() -> None:
    result = command()
    assert result.returncode == 2
    assert "examples:" in result.stdout


def test_options_as_text_and_markdown() -> None:
    assert "amqp_port" in command("options").stdout
    assert command("options", "--markdown").stdout.startswith("# Configuration")


def test_output_cut_short() -> None:
    line = f"{sys.executable} -m amqp_router options | head -n 1"
    result = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("Node\n", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["ctl", "--data-dir", "data", "list_queues"],
            "--data-dir stands before the command; options come behind it; see `amqp-router ctl --help`",
        ),
        (
            ["--amqp-port=1", "serve"],
            "--amqp-port stands before the command; options come behind it; see `amqp-router --help`",
        ),
        (
            ["serve", "--memory-limit", "5x"],
            "a number of bytes, or one with KiB, MiB or GiB, or a share of the memory like 40%",
        ),
        (["bogus"], "unknown command: bogus (there are serve, options, log, analytics, ctl); see"),
        (
            ["log", "inspct", "d"],
            "unknown command: inspct (did you mean inspect?); see `amqp-router log --help`",
        ),
        (["log"], "a command is missing; see `amqp-router log --help`"),
        (["log", "inspect", "/no/such"], "/no/such: is not a directory; name the folder given to"),
        (["serve", "--admin", "flase"], "--admin: 'flase' is not valid: should be true or false; "),
        (["serve", "--nope"], "--nope; see `amqp-router serve --help`"),
        (["serve", "--datadir", "d"], "--datadir (did you mean --data-dir?)"),
        (["serve", "data"], "unknown argument: data"),
        (["serve", "--amqp"], "--amqp"),
        (["serve", "--amqp-port", "70000"], "--amqp-port: '70000'"),
        (["serve", "--config", "/no/such.toml"], "/no/such.toml"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main(arguments)
    except SystemExit as ended:  # from the parser
        code = ended.code
    told = capsys.readouterr()
    [line] = told.err.splitlines()
    assert (code, told.out) == (2, "")
    assert line.startswith("amqp-router: ")
    assert says in line


def test_what_sqlalchemy_costs_is_paid_by_those_who_need_it() -> None:
    """It was imported for the help of any command."""
    code = """
import sys
from amqp_router.main import main
assert main(["options"]) == 0
for command in (["--help"], ["ctl", "--help"], ["log", "--help"]):
    try:
        main(command)
    except SystemExit as ended:
        assert ended.code == 0
sys.exit("sqlalchemy" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_orders_of_logs() -> None:
    assert tuple(sorted(log_inspect.ORDERS)) == log_cli.ORDERS


def test_wrong_key_in_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("heartbeat = 10\n")
    assert f"{file}: unknown option 'heartbeat'; did you mean heartbeat_s?" in refused(
        "serve", "--config", str(file), code=2
    )


def test_foreign_data_directory(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    line = refused("serve", "--amqp-port", "0", "--data-dir", str(tmp_path), code=3)
    assert "thesis.txt" in line
    assert str(tmp_path) in line


def test_unwritable_data_directory() -> None:
    assert "/proc/data" in refused("serve", "--amqp-port", "0", "--data-dir", "/proc/data", code=3)


def test_ready_file_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "none" / "ready.json"
    options = ["--amqp-port", "0", "--admin-port", "0", "--data-dir", str(tmp_path / "d")]
    line = refused("serve", *options, "--ready-file", str(file), code=2)
    assert f"ready_file: {file} cannot be written (No such file or directory)" in line


def test_ready_file_of_a_killed_broker_goes_before_the_next_serves(tmp_path: Path) -> None:
    """Here the next cannot serve at all; whoever waits for the file must not take the old one for its."""
    stale = tmp_path / "ready.json"
    stale.write_text("{}")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        options = ["--amqp-port", port, "--admin-port", "0", "--data-dir", str(tmp_path / "d")]
        refused("serve", *options, "--ready-file", str(stale), code=3)
    assert not stale.exists()


def test_interrupted_before_it_serves() -> None:
    code = """
import signal, sys
from amqp_router import log_inspect, main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
log_inspect.inspect = lambda _: signal.raise_signal(signal.SIGINT)
sys.exit(main.main(["log", "inspect", "data"]))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        line = refused(
            "serve", "--amqp-port", port, "--admin-port", "0", "--data-dir", str(tmp_path / "d"), code=3
        )
    assert f"port {port} on 127.0.0.1 is in use" in line
    assert "--amqp-port" in line


def test_admin_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        options = ["--amqp-port", "0", "--admin-port", port, "--data-dir", str(tmp_path / "d")]
        line = refused("serve", *options, code=3)
    assert f"port {port} on 127.0.0.1 is in use" in line
    assert "--admin-port" in line


def test_wrong_admin_address(tmp_path: Path) -> None:
    options = ["--amqp-port", "0", "--admin-bind", "192.0.2.1", "--data-dir", str(tmp_path / "d")]
    assert "--admin-bind" in refused("serve", *options, code=3)


def test_without_admin(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--admin", "false"])
    broker.start()
    assert "admin" not in json.loads(broker.ready_file.read_text())
    logged(broker, "admin=off")
    assert broker.stop() == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RouterProcess]:
    process = RouterProcess(tmp_path)
    process.start()
    yield process
    process.kill9()


def connect(broker: RouterProcess, **parameters: object) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, **parameters))


def test_ready_file_and_modes(broker: RouterProcess) -> None:
    ready = json.loads(broker.ready_file.read_text())
    assert ready["pid"] == broker.pid
    assert ready["data_dir"] == str(broker.data_dir)
    assert ready["amqp"] == {"host": "127.0.0.1", "port": broker.port}
    assert ready["admin"] == {"host": "127.0.0.1", "port": broker.admin_port}
    assert isinstance(ready["compiled"], bool)
    assert "To try" not in logged(broker, "open_files=")
    broker.kill9()  # no file goes while they are looked at
    for path in [broker.data_dir, *broker.data_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_banner_at_a_terminal(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path)
    terminal, its_end = pty.openpty()
    with subprocess.Popen(
        broker.command(), env=broker.environment, stdout=its_end, stderr=subprocess.DEVNULL
    ) as process:
        os.close(its_end)
        shown = b""
        while b"Ctrl-C stops the broker" not in shown:
            shown += os.read(terminal, 4096)
        process.terminate()
        assert process.wait(60) == 0
    os.close(terminal)
    assert b"amqp://guest:guest@127.0.0.1:" in shown
    assert b"http://127.0.0.1:" in shown


def test_group_reads_logs_and_no_secrets(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--data-group-reads", "true"])
    broker.start()
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
    connection.close()
    broker.kill9()  # no file goes while they are looked at
    closed = {path.name for path in broker.data_dir.rglob("*") if not path.stat().st_mode & 0o040}
    assert {"definitions.sqlite", "lock"} <= closed
    secrets = {
        "definitions.sqlite",
        "definitions.sqlite-wal",
        "definitions.sqlite-shm",
        "lock",
        "ctl.json",
        "incidents.json",
    }
    assert closed <= secrets | {"reserve"}  # which holds nothing
    for path in [broker.data_dir, *broker.data_dir.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o027 == 0, path


def test_second_broker_on_the_same_directory(broker: RouterProcess) -> None:
    line = refused("serve", "--amqp-port", "0", "--data-dir", str(broker.data_dir), code=3)
    assert f"in use by another broker (process {broker.pid})" in line
    connect(broker).close()


def test_sigterm_says_good_bye_and_keeps_confirmed_messages(broker: RouterProcess) -> None:
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True)
    channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    channel.queue_declare("other")
    channel.basic_consume("other", lambda *_: None)
    os.kill(broker.pid, signal.SIGTERM)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.start_consuming()
    assert closed.value.reply_code == 320
    assert closed.value.reply_text == (
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    )
    assert broker.process is not None
    assert broker.process.wait(60) == 0
    assert not broker.ready_file.exists()
    assert "stopped" in broker.log().splitlines()[-1]
    broker.start()
    method, _, body = connect(broker).channel().basic_get("kept", auto_ack=True)
    assert body == b"x"
    assert not method.redelivered


def test_sigint_stops_too(broker: RouterProcess) -> None:
    os.kill(broker.pid, signal.SIGINT)
    assert broker.process is not None
    assert broker.process.wait(60) == 0


def test_second_signal_does_not_wait(broker: RouterProcess) -> None:
    """A client that never answers connection.close holds a drain up."""
    with socket.create_connection((broker.host, broker.port)) as silent:
        silent.sendall(b"AMQP\x00\x00\x09\x01")
        silent.recv(10)
        os.kill(broker.pid, signal.SIGTERM)
        # Sent at once, the two could reach two threads, and the second be heard first.
        eventually(lambda: "stopping  signal=SIGTERM" in broker.log())
        os.kill(broker.pid, signal.SIGINT)
        assert broker.process is not None
        assert broker.process.wait(60) == 1
    assert "stopping at once" in broker.log()


def test_log_tells_connections_with_peer_and_reason(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--log-format", "json"])
    broker.start()
    connection = connect(broker)
    connection.close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, credentials=pika.PlainCredentials("guest", "wrong"))
    with socket.create_connection((broker.host, broker.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b"AMQP\x00\x00\x09\x01"
    assert broker.stop() == 0
    lines = [json.loads(line) for line in broker.log().splitlines() if line.startswith("{")]
    events = [line["event"] for line in lines]
    assert events.index("connection opened") < events.index("connection closed")
    opened = lines[events.index("connection opened")]
    assert opened["peer"].startswith("127.0.0.1:")
    assert (opened["user"], opened["vhost"]) == ("guest", "/")
    refusals = [line for line in lines if line["event"].endswith("refused")]
    assert [line["event"] for line in refusals] == ["login refused", "connection refused"]
    assert events.count("connection error") == 0
    for line in refusals:
        assert line["peer"].startswith("127.0.0.1:")
        assert line["reason"]


def test_clients_at_the_stop_are_told_in_one_line(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path)
    broker.start()
    connections = [connect(broker) for _ in range(5)]
    os.kill(broker.pid, signal.SIGTERM)
    for connection in connections:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.sleep(60)
    assert broker.stop() == 0
    stopping = broker.log().partition("stopping  signal=SIGTERM")[2]
    assert "closing connections  count=5 reason=shutdown" in stopping
    assert "WARNING" not in stopping
    assert stopping.count("connection") == stopping.count("closing connections") == 1


def test_wrong_passwords_from_an_address_do_not_hold_up_right_ones(broker: RouterProcess) -> None:
    """30 programs with a wrong user try again and again, 100 others log in from there meanwhile."""
    capabilities: Table = {"authentication_failure_close": ("t", True)}

    def guess(number: int) -> socket.socket:
        client = socket.create_connection((broker.host, broker.port))
        response = f"\0user{number}\0wrong".encode()
        start_ok = m.ConnectionStartOk({"capabilities": ("F", capabilities)}, "PLAIN", response, "en_US")
        client.sendall(PROTOCOL_HEADER)
        assert b"cluster_name" in client.recv(4096)  # connection.start
        client.sendall(m.frame(0, start_ok))
        return client

    for number in range(30):
        guess(number).close()
    eventually(lambda: broker.log().count("login refused") == 30)
    answered = 0
    for number in range(100):
        began = time.monotonic()
        with guess(number % 30) as guessing:
            connect(broker).close()
            # Whoever guesses waits for an answer, and a login that began later has got one, if it was quicker
            # than that wait. After 30 failures it is the longest one.
            is_answered = bool(select.select([guessing], [], [], 0)[0])
            answered += is_answered and time.monotonic() - began < DELAY_MAX_S
    assert answered == 0
    assert broker.log().count("login refused") == 30, "the same guess again is told once a minute"


def test_sighup_reads_the_log_level_again(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('log_level = "warning"\n')
    broker = RouterProcess(tmp_path, options=["--config", str(file)])
    broker.start()
    connect(broker).close()
    assert "connection opened" not in broker.log()
    file.write_text('log_level = "info"\n')
    os.kill(broker.pid, signal.SIGHUP)
    eventually(lambda: "configuration reloaded  log_level=info" in broker.log())
    connect(broker).close()
    eventually(lambda: "connection opened" in broker.log())
    file.write_text('log_level = "loud"\n')
    os.kill(broker.pid, signal.SIGHUP)
    eventually(lambda: "configuration not reloaded" in broker.log())
    connect(broker).close()
    assert broker.stop() == 0


def test_one_line_tells_what_recovery_found(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path)
    broker.start()
    assert "queues recovered" not in broker.log()
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("empty", durable=True)
    for _ in range(3):
        channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    broker.kill9()
    [path] = broker.data_dir.glob("queues/*/0/*.log")
    with path.open("ab") as file:
        file.write(b"torn")
    broker.start()
    [line] = [line for line in logged(broker, "queues recovered").splitlines() if "queues recovered" in line]
    assert 'after="a crash" queues=2 messages=3' in line
    assert "torn_bytes_cut=4" in line
    broker.stop()
    broker.start()
    logged(broker, 'after="a clean stop" queues=2 messages=3')
    broker.stop()


def test_sighup_tells_what_waits_for_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    broker = RouterProcess(tmp_path, options=["--config", str(file)])
    file.write_text("heartbeat_s = 30\n")
    broker.start()
    file.write_text('log_level = "debug"\nheartbeat_s = 31\nframe_max = 8192\n')
    os.kill(broker.pid, signal.SIGHUP)
    line = 'configuration reloaded  log_level=debug not_taken_before_a_restart="frame_max, heartbeat_s"'
    eventually(lambda: line in broker.log())
    assert broker.stop() == 0


def test_no_banner_for_machines(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--log-format", "json"])
    broker.start()
    assert broker.stop() == 0
    assert [json.loads(line)["event"] for line in broker.log().splitlines()][-1] == "stopped"


def test_log_that_nobody_reads_does_not_hold_up_the_broker(tmp_path: Path) -> None:
    """A pipe has room for some hundred lines; each connection makes two."""
    options = ["--log-level", "debug", "--ready-file", str(tmp_path / "ready.json")]
    ports = ["--amqp-port", "0", "--admin-port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp_router", "serve", *ports, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        eventually((tmp_path / "ready.json").exists)
        port = json.loads((tmp_path / "ready.json").read_text())["amqp"]["port"]
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(60)
            client.sendall(b"AMQP\x00\x00\x09\x01")
            assert client.recv(1)
            for _ in range(200):  # each leaves a line of its own
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.settimeout(60)
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    assert stranger.recv(8) == b"AMQP\x00\x00\x09\x01"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0, "the end waits for no reader"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_connection_cap(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--connections-max", "1"])
    broker.start()
    first = connect(broker)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker)
    eventually(lambda: "1 connections are open, which is the most allowed" in broker.log())
    first.close()
    connect(broker).close()
    assert broker.stop() == 0


def test_slow_handshake_is_cut(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path, options=["--handshake-timeout-s", "0.3"])
    broker.start()
    begin = time.monotonic()
    with socket.create_connection((broker.host, broker.port)) as slow:
        slow.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""
        assert time.monotonic() - begin > 0.2, "the broker has not waited for it"
    assert broker.stop() == 0
