"""kill -9 of a real process over a real disk, and a clean run of the worker thread."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amqp_router.protocol.flags import ACK
from amqp_router.protocol.message import build_message
from persistence.files import RealDisk
from persistence.log.offline.verify import find_logs, verify
from persistence.log.queue.catalog import Catalog
from persistence.log.sync.log_sync import LogSync
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from tests.persistence.log.support import NoTimer

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = LogOptions(
    segment_bytes_max=200_000, journal_logs_min=2, journal_bytes_max=100_000, descriptors_max=4
)


def start(directory: str) -> tuple[Catalog, queue.SimpleQueue[Callable[[], None]]]:
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def call_later(delay: float, callback: Callable[[], None]) -> Any:
        return NoTimer()

    disk = RealDisk()
    sync = LogSync(disk, directory, OPTIONS, post=posted.put, call_later=call_later)
    catalog = Catalog(directory, sync, OPTIONS, MemoryBudget(), disk=disk)
    catalog.start()
    return catalog, posted


def serve(directory: str) -> None:
    """Append to some logs for ever; print "log offset" once confirmed, "-log offset" once settled."""
    catalog, posted = start(directory)
    logs = [catalog.open(name, "/", name) for name in ("log0", "log1", "log2", "log3", "log4")]
    out = sys.stdout
    number = 0
    reported = [log.high_watermark for log in logs]
    pending: list[list[int]] = [[] for _ in logs]
    while True:
        for index, log in enumerate(logs):
            for _ in range(1 + index * 3):
                message = build_message(b"\x00\x01q", b"\x10\x00\x02", b"%d:%d" % (index, number) * 20)
                message.flags = 1
                log.append(message, time.time_ns() // 1000)
                pending[index].append(message.offset)
                number += 1
        catalog.sync.start_round()
        posted.get()()
        for index, log in enumerate(logs):
            reported[index] = log.high_watermark
            done = [offset for offset in pending[index] if offset < reported[index]]
            pending[index] = [offset for offset in pending[index] if offset >= reported[index]]
            for offset in done:
                out.write(f"{index} {offset}\n")
                if offset % 3:
                    log.settle(offset, 0, ACK)
                    out.write(f"-{index} {offset}\n")
        out.flush()


@pytest.mark.parametrize("delay", [0.2, 0.45, 0.7])
def test_what_is_confirmed_survives_kill_9(tmp_path: Path, delay: float) -> None:
    directory = str(tmp_path / "data")
    confirmed: list[set[int]] = [set() for _ in range(5)]
    settled: list[set[int]] = [set() for _ in range(5)]
    for _ in range(2):
        code = f"from tests.persistence.log.test_kill import serve; serve({directory!r})"
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            lines = (first + process.stdout.read()).splitlines()
        for line in lines:
            which, _, place = line.lstrip("-").partition(" ")
            if place.isdecimal():
                (settled if line.startswith("-") else confirmed)[int(which)].add(int(place))
        assert sum(map(len, confirmed)) > 20
        for path in find_logs(directory):
            problem = verify(path).problem
            assert problem is None or problem.kind == "torn tail"
        catalog, _ = start(directory)
        for index in range(5):
            log = catalog.open(f"log{index}", "/", f"log{index}")
            found, _ = log.read(0, log.end, 1 << 30, 1 << 40)
            offsets = {message.offset for message in found}
            missing = confirmed[index] - settled[index] - offsets
            assert not missing, f"log{index} lost {sorted(missing)[:10]}"
            assert all(message.flags & 2 for message in found)
            assert all(message.body().startswith(b"%d:" % index) for message in found)
            confirmed[index] = offsets
            settled[index] = set()
        catalog.quarantine_unknown([f"log{index}" for index in range(5)])
        catalog.stop()
        assert not [name for name in os.listdir(directory) if name.endswith(".journal")]


@pytest.mark.parametrize(
    ("umask", "of_directory", "of_file"),
    [(0o077, 0o700, 0o600), (0o027, 0o750, 0o640), (0o000, 0o750, 0o640)],
    ids=["broker", "group-reads", "none"],
)
def test_modes_of_files_and_directories(tmp_path: Path, umask: int, of_directory: int, of_file: int) -> None:
    before = os.umask(umask)
    try:
        write_a_log(tmp_path)
    finally:
        os.umask(before)
    for root, directories, files in os.walk(tmp_path / "data"):
        for name in directories:
            assert os.stat(os.path.join(root, name)).st_mode & 0o777 == of_directory
        for name in files:
            assert os.stat(os.path.join(root, name)).st_mode & 0o777 == of_file


def write_a_log(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    catalog, posted = start(directory)
    log = catalog.create("a", "/", "q", {"x-arg": ("S", b"\xff"), "n": ("I", 3)})
    message = build_message(b"\x00\x01q", b"\x10\x00\x02", b"x")
    log.append(message, 1)
    catalog.sync.start_round()
    posted.get()()
    assert log.high_watermark == 2
    assert catalog.sync.is_idle
    catalog.stop()
