"""A minute of the four fuzzers together: the same cases every time. ``make fuzz`` runs others for hours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.amqp import Amqp
from tests.fuzz.core import Target, fuzz
from tests.fuzz.files import Files
from tests.fuzz.http import Http
from tests.fuzz.tls import Tls

SEED = 1


@pytest.mark.parametrize(("make", "cases"), [(Amqp, 300), (Tls, 200), (Http, 150), (Files, 40)])
def test_nothing_is_found(make: Callable[[], Target], cases: int, tmp_path: Path) -> None:
    report = fuzz(make(), SEED, cases=cases, directory=tmp_path)
    assert report.cases == cases
    assert not report.findings, report.text()
