"""Prints what the model tests have done, so that one sees what they no longer reach."""

from __future__ import annotations

from collections import Counter

import pytest

#: Moves made by all model tests of this process.
MOVES = pytest.StashKey[Counter[str]]()


@pytest.fixture
def moves(request: pytest.FixtureRequest) -> Counter[str]:
    """The histogram to add to."""
    return request.config.stash.setdefault(MOVES, Counter())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    total = config.stash.get(MOVES, None)
    if total is None:
        return
    terminalreporter.section("moves of the model")
    lines = [f"{count:7} {move}" for move, count in sorted(total.items())]
    half = (len(lines) + 1) // 2
    for left, right in zip(lines[:half], [*lines[half:], ""], strict=False):
        terminalreporter.write_line(f"{left:66}{right}")
