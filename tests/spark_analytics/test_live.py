"""Reading while the real broker writes, in small; ``million.py`` is the same in large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import million


def test_read_while_the_broker_writes_and_is_killed(spark: Any, tmp_path: Path) -> None:
    said: list[str] = []
    million.run(spark, tmp_path / "broker", 100_000, 12_000, said.append)
    assert said
