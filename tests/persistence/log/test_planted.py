"""Every planted bug is found (``planted.py``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.persistence.log.planted import PLANTED
from tests.planting import ONCE, Garden, Planted, Plot, chosen_bugs

pytestmark = ONCE
WALK = "tests.persistence.log.model.walk"


def walk(planted: Planted) -> Sequence[str]:
    return [WALK, str(planted.first), str(planted.first + (planted.seeds or 200)), str(planted.mix)]


@pytest.fixture(scope="module")
def garden(request: pytest.FixtureRequest, plots: list[Plot]) -> Iterator[Garden]:
    garden = Garden(plots, chosen_bugs(request), walk)
    yield garden
    garden.close()


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_planted_bug_is_found(garden: Garden, planted: Planted) -> None:
    garden.check(planted)


def test_without_a_bug_nothing_is_found(garden: Garden) -> None:
    garden.check_nothing_is_found([WALK, "0", "25", "-1"])
