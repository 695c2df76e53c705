"""Every planted bug is found (``planted.py``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.model.planted import PLANTED
from tests.planting import ONCE, Garden, Planted, check_nothing_is_found, chosen_bugs
from tests.trees import copy_tree

pytestmark = ONCE
WALK = "tests.model.node.walk"
ENDINGS = "tests.model.endings.walk"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("planted") / "tree")


def walk(planted: Planted) -> Sequence[str]:
    return [planted.walk or WALK, str(planted.first), str(planted.first + (planted.seeds or 60))]


@pytest.fixture(scope="module")
def garden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garden]:
    garden = Garden(tmp_path_factory.mktemp("garden"), chosen_bugs(request), walk)
    yield garden
    garden.close()


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_planted_bug_is_found(garden: Garden, planted: Planted) -> None:
    garden.check(planted)


@pytest.mark.parametrize("walk", [[WALK, "0", "8"], [ENDINGS, "0", "4"]], ids=["world", "endings"])
def test_without_a_bug_nothing_is_found(tree: Path, walk: list[str]) -> None:
    check_nothing_is_found(tree, walk)
