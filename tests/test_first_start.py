"""What a first start makes, definitions imported at a start, and the files of ``packaging``."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import subprocess
import tomllib
from pathlib import Path

import pika
import pytest

from amqp_router import config, config_text
from amqp_router.main import _parser
from tests.brokers import RouterProcess, logged

PACKAGING = Path(__file__).parents[1] / "packaging"


def connect(broker: RouterProcess, user: str, password: str, vhost: str = "/") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, vhost, credentials))


def refused(tmp_path: Path, *options: str) -> str:
    """The line with which a start ends that is the operator's mistake."""
    broker = RouterProcess(tmp_path, options=options)
    broker.launch()
    assert broker.process is not None
    assert broker.process.wait(60) == 2
    [line] = [line for line in broker.log().splitlines() if line.startswith("amqp-router: ")]
    return line


def test_first_administrator(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("s3cret pass\nmore\n")
    options = ["--default-user", "admin", "--default-password-file", str(password), "--default-vhost", "shop"]
    broker = RouterProcess(tmp_path / "b", options=options)
    broker.start()
    connect(broker, "admin", "s3cret pass", "shop").close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "guest", "guest", "shop")
    broker.stop()
    password.write_text("another\n")  # a later start changes nothing
    broker.start()
    connect(broker, "admin", "s3cret pass", "shop").close()
    broker.stop()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--default-user", "admin"], "default_user: 'admin' needs a password"),
        (["--default-password-file", "/no/such"], "default_password_file: /no/such cannot be read"),
        (["--default-password-file", os.devnull], "begins with an empty line"),
    ],
)
def test_first_administrator_refused(tmp_path: Path, options: list[str], said: str) -> None:
    assert said in refused(tmp_path, *options)


def test_definitions(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queue = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    user = {"name": "alice", "password": "first", "tags": "management"}
    permission = {"user": "alice", "vhost": "/", "configure": "", "write": ".*", "read": ".*"}
    shovel = {"component": "shovel", "vhost": "/", "name": "s", "value": {}}
    content = {"queues": [queue], "users": [user], "permissions": [permission], "parameters": [shovel]}
    file.write_text(json.dumps(content))
    broker = RouterProcess(tmp_path / "b", options=["--definitions", str(file)])
    broker.start()
    connection = connect(broker, "alice", "first")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"x", pika.BasicProperties(delivery_mode=2))
    connection.close()
    assert "shovel" in logged(broker, "definition left out")
    content["users"][0]["password"] = "second"
    file.write_text(json.dumps(content))
    broker.restart()
    connection = connect(broker, "alice", "second")
    assert connection.channel().queue_declare("orders", passive=True).method.message_count == 1
    connection.close()
    broker.stop()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"queues": 5}', "queues is not a list of objects"),
        (
            '{"permissions": [{"user": "x", "vhost": "/", "configure": "", "write": "", "read": ""}]}',
            "no_such_user x",
        ),
    ],
)
def test_definitions_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(content)
    line = refused(tmp_path / "b", "--definitions", str(file))
    assert said in line
    assert str(file) in line


def test_strict_definitions(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text('{"parameters": [{"component": "shovel", "vhost": "/", "name": "s", "value": {}}]}')
    options = ["--definitions", str(file), "--definitions-strict", "true"]
    line = refused(tmp_path / "b", *options)
    assert "component shovel not found" in line
    assert str(file) in line
    file.write_text('{"vhosts": [{"name": "shop"}]}')
    broker = RouterProcess(tmp_path / "b", options=options)
    broker.start()
    assert "definitions imported" in logged(broker, "definitions imported")
    broker.stop()


def test_sample_configuration_has_every_option() -> None:
    text = (PACKAGING / "amqp-router.toml").read_text()
    assert text == config_text.sample_toml(), "`amqp-router options --toml` makes it"
    wanted = [line[1:] for line in text.splitlines() if line.startswith("#") and not line.startswith("# ")]
    found = tomllib.loads("\n".join(wanted))
    assert found.keys() == config.Settings.model_fields.keys()
    given = {name: value for name, value in found.items() if value != ""}
    assert config.changed(config.Settings(**given), config.Settings()) in ([], ["metrics_port"])


def test_unit_starts_what_there_is() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(PACKAGING / "amqp-router.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert _parser().parse_args(words[1:]).data_dir == "/var/lib/" + unit["Service"]["StateDirectory"]


def test_image_reads_rabbitmqs_variables(tmp_path: Path) -> None:
    fake = tmp_path / "amqp-router"
    fake.write_text(
        '#!/bin/sh\nenv\necho "ARGUMENTS=$*"\ncat "${AMQP_ROUTER_DEFAULT_PASSWORD_FILE:-/dev/null}"\n'
    )
    fake.chmod(0o755)

    def start(**variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), **variables}
        command = ["sh", str(PACKAGING / "docker-entrypoint.sh"), "serve", "--log-format", "json"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    done = start(RABBITMQ_DEFAULT_USER="admin", RABBITMQ_DEFAULT_PASS="s3cret", RABBITMQ_DEFAULT_VHOST="shop")
    lines = done.stdout.splitlines()
    assert {"AMQP_ROUTER_DEFAULT_USER=admin", "AMQP_ROUTER_DEFAULT_VHOST=shop", "s3cret"} <= set(lines)
    assert "ARGUMENTS=serve --log-format json" in lines
    assert not any(line.startswith("RABBITMQ_DEFAULT_PASS") for line in lines)
    assert "AMQP_ROUTER_DEFAULT" not in start().stdout
    assert start(RABBITMQ_DEFAULT_USER="admin").returncode == 2


def test_image_names_options_that_exist() -> None:
    text = (PACKAGING / "Dockerfile").read_text() + (PACKAGING / "docker-entrypoint.sh").read_text()
    known = {config.env_name(name) for name in config.Settings.model_fields} | config.BUILD_VARIABLES
    names = {
        word
        for word in text.replace("=", " ").replace('"', " ").replace("{", " ").split()
        if word.startswith("AMQP_ROUTER_")
    }
    assert {name.partition(":")[0] for name in names} <= known
