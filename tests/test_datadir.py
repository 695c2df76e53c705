"""The data directory: made, locked, stamped, and refused when it is not ours to use."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from amqp_router.datadir import LAYOUT, LOCK, STAMP, DataDirectory, DataDirError
from persistence.files import RealDisk


def refusal(path: Path) -> str:
    with pytest.raises(DataDirError) as caught:
        DataDirectory.open(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_made_with_parents_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    directory = DataDirectory.open(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / STAMP).stat().st_mode) & 0o007 == 0
    assert stat.S_IMODE((path / LOCK).stat().st_mode) == 0o600
    assert directory.warnings == []
    directory.close()


def test_every_name_on_the_way_is_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(RealDisk, "sync_directory", lambda disk, path: synced.append(path))
    DataDirectory.open(tmp_path / "a" / "b" / "c").close()
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= set(synced)


def test_store_id_stays(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path / "d")
    first.close()
    second = DataDirectory.open(tmp_path / "d")
    second.close()
    assert first.store_id == second.store_id
    other = DataDirectory.open(tmp_path / "e")
    other.close()
    assert other.store_id != first.store_id


def test_empty_directory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.mkdir(mode=0o700)
    directory = DataDirectory.open(path)
    assert directory.warnings == []
    directory.close()


def test_mode_of_a_directory_that_is_there_is_told_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(0o755)
    for _ in range(2):  # new, and in use
        directory = DataDirectory.open(path)
        assert directory.warnings == [
            f"its mode 0755 lets others in; `chmod 700 {path}` keeps them out",
        ]
        directory.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_another_owner_is_told_and_no_reason_to_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    directory = DataDirectory.open(tmp_path)
    assert directory.warnings == [f"it belongs to user {owner}, the broker runs as user {owner + 1}"]
    directory.close()


def test_group_may_be_let_read_the_logs_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "d"
    DataDirectory.open(path).close()
    log = path / "queues" / "x" / "0" / "1.log"
    secret = path / "definitions.sqlite"
    log.parent.mkdir(parents=True, mode=0o700)
    for file in (log, secret):
        file.touch(mode=0o600)
    directory = DataDirectory.open(path, group_reads=True)
    assert directory.warnings == []
    directory.close()
    for name in (path, *log.parents[:3]):
        assert stat.S_IMODE(name.stat().st_mode) == 0o750
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_second_broker_is_told_the_first_ones_process(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path / "d")
    text = refusal(tmp_path / "d")
    assert f"in use by another broker (process {os.getpid()})" in text
    assert "--data-dir" in text
    first.close()
    DataDirectory.open(tmp_path / "d").close()


def test_killed_broker_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from amqp_router.datadir import DataDirectory\n"
        "DataDirectory.open(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "d")], check=False)
    assert (tmp_path / "d" / LOCK).exists()
    DataDirectory.open(tmp_path / "d").close()


def test_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    assert "letters.txt" in refusal(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["letters.txt"]


def test_crash_before_the_stamp_leaves_a_usable_directory(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    (tmp_path / (STAMP + ".tmp")).write_text("{")
    DataDirectory.open(tmp_path).close()
    assert json.loads((tmp_path / STAMP).read_text())["layout"] == LAYOUT


def test_newer_layout_is_refused(tmp_path: Path) -> None:
    stamp = {"layout": LAYOUT + 1, "store_id": "x", "made_by": "amqp-router 9.9"}
    (tmp_path / STAMP).write_text(json.dumps(stamp))
    assert "amqp-router 9.9" in refusal(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"layout": "x", "store_id": "y"}'])
def test_damaged_stamp_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / STAMP).write_text(content)
    assert "backup" in refusal(tmp_path)
    assert (tmp_path / STAMP).read_text() == content


def test_file_in_place_of_directory(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("")
    assert "is not a directory" in refusal(tmp_path / "d")


def test_unwritable_directory() -> None:
    """/proc takes no new entries, not even from root."""
    text = refusal(Path("/proc/amqp-router-data"))
    assert "--data-dir" in text


def test_directory_without_permission() -> None:
    code = (
        "import os; from pathlib import Path; from amqp_router.datadir import DataDirectory, DataDirError\n"
        "os.geteuid() or os.setuid(65534)\n"
        "try: DataDirectory.open(Path('/amqp-router-data'))\n"
        "except DataDirError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == (
        "data directory /amqp-router-data: permission denied; choose another with --data-dir\n"
    )
