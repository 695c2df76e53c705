"""``amqp-router ctl`` with an admin port that speaks TLS, and one that wants certificates of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_router.main import main
from tests.brokers import RouterProcess
from tests.sockets.authority import Authority, server_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return server_authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    files = authority.directory
    options = ["--admin-certificate", str(files / "server.pem"), "--admin-key", str(files / "server.key")]
    process = RouterProcess(tmp_path_factory.mktemp("broker"), options=options)
    process.start()
    yield process
    process.stop()


def test_the_owner_needs_no_certificate(broker: RouterProcess, capsys: pytest.CaptureFixture[str]) -> None:
    access = ["--data-dir", str(broker.data_dir)]
    assert main(["ctl", "list_vhosts", *access]) == 0
    assert capsys.readouterr().out == "name\n/\n"
    assert main(["ctl", "authenticate_user", "guest", "guest", *access]) == 0
    assert main(["ctl", "authenticate_user", "guest", "wrong", *access]) == 1


def test_a_user_trusts_only_what_is_named(
    broker: RouterProcess, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = tmp_path / "password"
    password.write_text("guest\n")
    access = ["--url", f"https://localhost:{broker.admin_port}", "--user", "guest"]
    access += ["--password-file", str(password)]
    assert main(["ctl", "list_vhosts", *access]) == 3
    assert "its certificate is not trusted" in capsys.readouterr().err
    assert main(["ctl", "list_vhosts", *access, "--cacert", str(authority.directory / "ca.pem")]) == 0
    assert main(["ctl", "list_vhosts", *access, "--cacert", str(password)]) == 2


@pytest.fixture(scope="module")
def strict_broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    """A broker whose admin port wants a certificate of each client."""
    files = authority.directory
    authority.make("operator", "/CN=operator")
    options = ["--admin-certificate", str(files / "server.pem"), "--admin-key", str(files / "server.key")]
    options += ["--admin-ca", str(files / "ca.pem"), "--admin-verify", "peer"]
    options += ["--admin-require-certificate", "true"]
    process = RouterProcess(tmp_path_factory.mktemp("strict"), options=options)
    process.start()
    yield process
    process.stop()


def test_a_port_that_wants_a_certificate(
    strict_broker: RouterProcess, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = authority.directory
    owner = ["--data-dir", str(strict_broker.data_dir)]
    assert main(["ctl", "list_vhosts", *owner]) == 3
    assert "the port asks clients for a certificate; --cert names one" in capsys.readouterr().err
    own = ["--cert", str(files / "operator.pem"), "--key", str(files / "operator.key")]
    assert main(["ctl", "list_vhosts", *owner, *own]) == 0
    both = tmp_path / "both.pem"
    both.write_text((files / "operator.pem").read_text() + (files / "operator.key").read_text())
    password = tmp_path / "password"
    password.write_text("guest\n")
    access = ["--url", f"https://localhost:{strict_broker.admin_port}", "--user", "guest"]
    access += ["--password-file", str(password), "--cacert", str(files / "ca.pem")]
    assert main(["ctl", "list_vhosts", *access, "--cert", str(both)]) == 0
    capsys.readouterr()
    assert main(["ctl", "list_vhosts", *access, "--cert", str(files / "operator.pem")]) == 2
    assert f"--cert: {files / 'operator.pem'} cannot be used" in capsys.readouterr().err
    assert main(["ctl", "list_vhosts", *access, "--key", str(both)]) == 2
