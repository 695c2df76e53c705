"""What became of each test of a suite, by name: read from lines or JUnit's XML, compared between brokers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
#: The worst outcome of several tests of one name counts.
_ORDER = (PASS, SKIP, FAIL)
#: Characters of a reason that are kept.
WHY_LENGTH = 300


class Result(NamedTuple):
    """``why`` tells why the test failed or was skipped; of one that passed, the figures it came with."""

    status: str
    why: str = ""


class Results(dict[str, Result]):
    """Test name to result. ``add`` keeps the worst result of a name."""

    def add(self, name: str, status: str, why: str = "") -> None:
        old = self.get(name)
        if old is None or _ORDER.index(status) > _ORDER.index(old.status):
            self[name] = Result(status, " ".join(why.split())[:WHY_LENGTH])

    def count(self, status: str) -> int:
        return sum(result.status == status for result in self.values())

    def figures(self) -> dict[str, str]:
        """Name and figures of each test that passed and has some."""
        return {
            name: result.why for name, result in sorted(self.items()) if result.status == PASS and result.why
        }

    def failures(self) -> dict[str, str]:
        """Name and reason of each test that failed."""
        return {name: result.why for name, result in sorted(self.items()) if result.status == FAIL}


def from_lines(lines: Iterable[str]) -> Results:
    """What a program prints: PASS, FAIL or SKIP, the name, and why, between tabs. Other lines are ignored.

    What follows PASS and the name are figures.
    """
    results = Results()
    for line in lines:
        status, _, rest = line.rstrip("\n").partition("\t")
        name, _, why = rest.partition("\t")
        if status in _ORDER and name:
            results.add(name, status, why)
    return results


def from_go(lines: Iterable[str]) -> Results:
    """What ``go test -v`` prints; tests inside tests count with the one around them."""
    results = Results()
    for line in lines:
        if found := re.match(r"--- (PASS|FAIL|SKIP): (\S+)", line):
            results.add(found[2], found[1])
    return results


def from_junit(path: Path) -> Results:
    """JUnit's XML as pytest writes it. An error in a fixture is a failure of its test."""
    results = Results()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        status, why = PASS, ""
        for child in case:
            if child.tag in ("failure", "error"):
                status, why = FAIL, child.get("message") or child.text or ""
            elif child.tag == "skipped" and status == PASS:
                status, why = SKIP, child.get("message") or ""
        results.add(name, status, why)
    return results


def worse_than(ours: Mapping[str, Result], theirs: Mapping[str, Result]) -> list[str]:
    """Names of tests that pass in ``theirs`` and not in ``ours``, where they may be missing altogether."""
    return sorted(
        name
        for name, result in theirs.items()
        if result.status == PASS and ours.get(name, Result(FAIL)).status != PASS
    )
