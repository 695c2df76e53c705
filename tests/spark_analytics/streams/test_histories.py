"""Streams over any history of a log: each row comes once."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from spark_analytics import following
from tests.spark_analytics.encoder import LogFiles, queue_log, stamp, write_marks
from tests.spark_analytics.queries import Checkpoint, Crash, Query
from tests.spark_analytics.streams.growing import drop, send

steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "roll", "mark", "batch", "logged", "read", "restart", "new", "drop"]),
        st.integers(1, 60),
    ),
    max_size=30,
)


def play(directory: Path, story: list[tuple[str, int]], limit: int) -> None:
    """A queue or two live through a story while a stream with restarts and crashes reads them."""
    data = directory / "data"
    shutil.rmtree(data, ignore_errors=True)
    stamp(data)
    logs = [queue_log(data, "/", "q0", f"{0:032x}")]
    sent: list[tuple[str, int]] = []
    checkpoint = Checkpoint()
    options = {"table": "messages", "maxOffsetsPerTrigger": limit, "splitBytes": 1 << 16}
    write_marks(data, logs)
    query = Query(data, checkpoint, **options)
    for what, number in [*story, ("mark", 0)]:
        log = logs[number % len(logs)]
        if what == "send":
            sent += [(f"q{logs.index(log)}", log.end + n) for n in range(number)]
            send(log, number)
        elif what == "roll" and log.position:
            log.roll()
        elif what == "mark":
            write_marks(data, logs)
        elif what == "new":
            logs.append(queue_log(data, "/", f"q{len(logs)}", f"{len(logs):032x}"))
        elif what == "drop" and log.end:
            done = _read_up_to(checkpoint, log)
            bases = sorted(int(path.stem) for path in log.directory.glob("*.log"))
            old = [base for base, end in pairwise(bases) if end <= done]
            drop(log, *old)
            write_marks(data, logs)
        elif what in ("logged", "read"):
            try:
                query.step(crash=what)
            except Crash:
                query = Query(data, checkpoint, **options)
        elif what == "batch":
            query.step()
        elif what == "restart":
            query = Query(data, checkpoint, **options)
    query.all()
    assert all(len(batch) <= limit for batch in checkpoint.sink), "more rows than the limit"
    assert sorted(checkpoint.rows()) == sorted(sent), "not every row once"


def _read_up_to(checkpoint: Checkpoint, log: LogFiles) -> int:
    """How far the committed batches have read a log."""
    if not checkpoint.committed:
        return 0
    found = json.loads(checkpoint.ends[checkpoint.committed - 1])["offsets"]
    for name_, partitions in found.items():
        if name_.endswith(log.directory.parent.name):
            return int(partitions["0"])
    return 0


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(3, 80))
def test_any_history(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[str, int]], limit: int
) -> None:
    play(tmp_path_factory.mktemp("story"), story, limit)


@pytest.mark.parametrize("bug", ["the last offset of a range is left out", "a range begins one too early"])
def test_planted_bugs_in_planning_are_found(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    real = following.plan_ranges

    def bad(ranges: Any, *rest: Any) -> Any:
        moved = (0, -1) if "last" in bug else (-1, 0)
        return real([(log, max(low + moved[0], 0), high + moved[1]) for log, low, high in ranges], *rest)

    monkeypatch.setattr(following, "plan_ranges", bad)

    @settings(
        max_examples=200, deadline=None, database=None, phases=[Phase.generate], report_multiple_bugs=False
    )
    @given(steps, st.integers(3, 80))
    def walk(story: list[tuple[str, int]], limit: int) -> None:
        play(tmp_path_factory.mktemp("planted"), story, limit)

    with pytest.raises(AssertionError, match=r"not every row once|more rows than the limit"):
        walk()
