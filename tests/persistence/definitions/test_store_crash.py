"""A real process killed while it commits: what it said was committed is there, and no half of anything."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from persistence.definitions import Row
from tests.persistence.definitions.crashing_store import changes_of
from tests.persistence.definitions.support import Loop, applied, started

ROOT = Path(__file__).parents[3]


def run_and_kill(path: Path, in_flight: int, after_s: float) -> int:
    """The last rev that the process said was committed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.persistence.definitions.crashing_store", str(path), str(in_flight)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(after_s)
    process.kill()
    rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    lines = (first + rest).decode().splitlines()
    if not (first + rest).endswith(b"\n"):
        lines.pop()
    return int(lines[-1])


@pytest.mark.parametrize("in_flight", [1, 300])
def test_what_was_committed_survives_a_kill(tmp_path: Path, in_flight: int) -> None:
    path = tmp_path / "definitions.db"
    rows: dict[object, Row] = {}
    done = 0
    for _ in range(8):
        committed = run_and_kill(path, in_flight, random.uniform(0, 0.15))
        loop = Loop()
        store = started(path, loop)
        snapshot = store.snapshot()
        assert snapshot.rev == store.rev
        assert done < committed <= snapshot.rev
        for rev in range(done + 1, snapshot.rev + 1):
            for change in changes_of(rev):
                applied(rows, change)
        assert {(row.kind, row.key): row for row in snapshot.rows()} == rows
        kept = max(done, snapshot.rev - 5000)
        assert store.since(kept) == [
            (rev, tuple(changes_of(rev))) for rev in range(kept + 1, snapshot.rev + 1)
        ]
        done = snapshot.rev
        store.flush_and_stop()
