"""Starting where one cannot start: one clear line that names the thing, and an exit code that is not 0."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.brokers import ENTRY, RouterProcess

pytestmark = pytest.mark.ours_only


def refused(directory: Path, *options: str, port: int = 0, entry: str = ENTRY) -> tuple[int, str]:
    """Exit code and output of a broker that cannot start."""
    broker = RouterProcess(directory, options=options, port=port, entry=entry)
    directory.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(
        broker.command(),
        cwd=broker.tree,
        env=broker.environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def assert_one_clear_line(code: int, output: str, *named: str) -> None:
    assert code != 0
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if line.strip()]
    assert 1 <= len(lines) <= 4, output
    for name in named:
        assert name in output


def test_port_in_use(own_broker: RouterProcess, tmp_path: Path) -> None:
    code, output = refused(tmp_path / "second", port=own_broker.port)
    assert_one_clear_line(code, output, str(own_broker.port))


def test_second_broker_on_the_same_data_directory(own_broker: RouterProcess) -> None:
    code, output = refused(own_broker.directory)
    assert_one_clear_line(code, output, str(own_broker.data_dir))


def test_data_directory_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    code, output = refused(tmp_path)
    assert_one_clear_line(code, output, str(tmp_path / "data"))


def test_foreign_data_directory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious.txt").write_text("not a broker's")
    code, output = refused(tmp_path)
    assert_one_clear_line(code, output, str(tmp_path / "data"))
    assert (tmp_path / "data" / "precious.txt").read_text() == "not a broker's"


@pytest.mark.parametrize("name", ["boots.json", "definitions.sqlite"])
def test_damaged_file_in_the_data_directory(tmp_path: Path, name: str) -> None:
    broker = RouterProcess(tmp_path)
    broker.start()
    broker.stop()
    (broker.data_dir / name).write_bytes(b"?" * 5000)
    code, output = refused(tmp_path)
    assert code == 3
    assert_one_clear_line(code, output, str(broker.data_dir / name))
    assert (broker.data_dir / name).read_bytes() == b"?" * 5000


def test_data_directory_on_a_full_disk(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: the definitions are the first that do not fit."""
    broker = RouterProcess(tmp_path)
    broker.start()
    broker.stop()
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000)); "
    code, output = refused(tmp_path, entry=small + ENTRY)
    assert code == 3
    assert_one_clear_line(code, output, str(broker.data_dir), "definitions.sqlite", "restart")
    assert "tried again" not in output


def test_file_of_the_marks_cannot_be_written(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path)
    broker.start()
    broker.stop()
    (broker.data_dir / "synced.tmp").mkdir()
    code, output = refused(tmp_path)
    assert code == 3
    assert_one_clear_line(code, output, str(broker.data_dir), "synced.tmp", "start again")


def test_unknown_option_in_the_configuration(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("no_such_option = 1\n")
    code, output = refused(tmp_path, "--config", str(config))
    assert_one_clear_line(code, output, "no_such_option", str(config))


def test_data_directory_is_private(own_broker: RouterProcess) -> None:
    own_broker.kill9()  # no file goes while they are looked at
    for path in [own_broker.data_dir, *own_broker.data_dir.rglob("*")]:
        if path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    assert os.access(own_broker.ready_file, os.R_OK)
