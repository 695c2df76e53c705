"""Every planted bug is found (``planted.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.planted import PLANTED
from tests.planting import ONCE, Planted, check_is_found, check_nothing_is_found
from tests.trees import copy_tree

pytestmark = ONCE
WALK = ["tests.model.world", "0"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_tree(tmp_path_factory.mktemp("planted") / "tree")


@pytest.mark.parametrize("planted", PLANTED, ids=[planted.name for planted in PLANTED])
def test_planted_bug_is_found(tree: Path, planted: Planted) -> None:
    check_is_found(tree, planted, [*WALK, str(planted.seeds or 60)])


def test_without_a_bug_nothing_is_found(tree: Path) -> None:
    check_nothing_is_found(tree, [*WALK, "8"])
