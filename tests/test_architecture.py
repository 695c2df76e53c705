"""docs/ARCHITECTURE.md names files and functions that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.trees import ROOT

TEXT = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
#: A row of a table: what happens, the file, and the functions.
ROWS = re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \| ([^|]+) \|$", TEXT, re.MULTILINE)


def functions(path: str) -> set[str]:
    """The names of the functions in a file, those of classes with their class."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_the_ways_have_steps() -> None:
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("path", "names"), ROWS)
def test_functions_on_the_ways_exist(path: str, names: str) -> None:
    named = re.findall(r"`([\w.]+)`", names)
    assert named
    assert set(named) <= functions(path)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[\w-]+/)+[\w.-]+\.\w+)`", TEXT))))
def test_files_exist(path: str) -> None:
    roots = (ROOT, ROOT / "amqp_router", ROOT / "vhosts", ROOT / "persistence", ROOT / "persistence" / "log")
    assert any((root / path).exists() for root in (*roots, ROOT / "admin_ui", ROOT / "vhosts" / "queues"))
