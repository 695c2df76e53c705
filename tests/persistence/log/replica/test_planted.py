"""Every bug planted into replication is found (``planted.py``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.persistence.log.replica.planted import PLANTED
from tests.planting import ONCE, Garden, Planted, Plot, chosen_bugs

pytestmark = ONCE


def walk(planted: Planted) -> Sequence[str]:
    last = planted.first + (planted.seeds or 40)
    return ["tests.persistence.log.replica.walk", str(planted.first), str(last)]


@pytest.fixture(scope="module")
def garden(request: pytest.FixtureRequest, plots: list[Plot]) -> Iterator[Garden]:
    garden = Garden(plots, chosen_bugs(request), walk)
    yield garden
    garden.close()


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_planted_bug_is_found(garden: Garden, planted: Planted) -> None:
    garden.check(planted)
