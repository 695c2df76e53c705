"""A short ``make chaos``, both builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers import RouterProcess
from tests.faults.chaos import Chaos


@pytest.mark.parametrize("politely", [False, True], ids=["kill9", "SIGTERM"])
@pytest.mark.parametrize("uncompiled", [False, True], ids=["compiled", "uncompiled"])
def test_nothing_confirmed_is_lost(tmp_path: Path, uncompiled: bool, politely: bool) -> None:
    broker = RouterProcess(tmp_path, uncompiled=uncompiled)
    chaos = Chaos(broker, seed=7, tell=print, politely=politely)
    try:
        ok = chaos.run(rounds=4)
    finally:
        broker.stop()
    print(chaos.report())
    assert ok, chaos.report()
    assert "Traceback" not in broker.log()
