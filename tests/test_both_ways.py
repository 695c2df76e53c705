"""What ``tools/test_both_ways.sh`` leaves out from source: tests of modules that are not compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_router import compiled
from tests.trees import ROOT

SCRIPT = (ROOT / "tools" / "test_both_ways.sh").read_text()
#: A counter of bytes. Tests that run both ways have it beside all that counts in it.
COUNTER = {"persistence.memory"}


def once() -> list[str]:
    (found,) = re.findall(r'^once="([^"]+)"', SCRIPT, re.MULTILINE)
    return str(found).split()


def source_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py", path.with_suffix(".pyx"))
    return next((each for each in files if each.exists()), None)


def imported(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, by their own names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if source_of(inner) else node.module


def reached(path: Path) -> set[str]:
    """The modules that a file imports, and what they import in turn."""
    found: set[str] = set()
    to_visit = list(imported(path))
    while to_visit:
        module = to_visit.pop()
        source = source_of(module)
        if source is not None and module not in found:
            found.add(module)
            to_visit += imported(source) if source.suffix == ".py" else []
    return found


def compiled_modules() -> set[str]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in compiled.PACKAGES
        for path in (ROOT / package).rglob("*.p[xy][dx]")
    }


@pytest.mark.parametrize("name", once())
def test_what_runs_once_has_nothing_compiled(name: str) -> None:
    path = ROOT / name
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files
    for file in files:
        assert reached(file) & compiled_modules() <= COUNTER, file


def test_what_is_compiled_is_seen() -> None:
    found = reached(ROOT / "tests" / "vhosts" / "queues" / "ready" / "test_priority.py")
    assert {"vhosts.queues.ready.priority", "vhosts.queues.queue"} <= found & compiled_modules()
