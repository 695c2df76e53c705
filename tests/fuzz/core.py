"""What all fuzzers share: cases by seed and number, findings, making them small, saving and replaying them.

A case is a list of steps, each a list that JSON can hold, so that a case can be saved, cut and run again.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tests.fuzz.known import known

Step = list[Any]
Case = list[Step]

#: A case that is no finding by itself is tried again behind so many that came before it.
BEFORE = 40
#: Seconds that making one finding small may take.
SHRINK_S = 120.0
#: Findings alike are counted; only the first so many of a kind are saved.
SAVED_OF_A_KIND = 2
#: Making one small takes long; from then on they are only counted.
SHRUNK_OF_A_KIND = 12


class Target(Protocol):
    """What is fuzzed."""

    name: str

    def make(self, random: Random) -> Case:
        """A case."""

    def run(self, case: Case) -> str:
        """Run it; an empty text, or what is wrong."""

    def checkpoint(self) -> str:
        """Look at what only shows after many cases; as ``run``."""

    def fresh(self) -> None:
        """Start anew, with nothing left of earlier cases."""

    def facts(self) -> str:
        """What else the run showed."""

    def close(self) -> None:
        """End everything."""


@dataclass
class Finding:
    """Something that is wrong, and what brings it about."""

    number: int
    problem: str
    cases: list[Case]
    path: Path | None = None
    #: Whether the cases alone brought it about again.
    again: bool = False


@dataclass
class Report:
    """What came of a run."""

    name: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    #: Findings that are known, by why.
    known: Counter[str] = field(default_factory=Counter)
    facts: str = ""
    #: The kinds before they were made small.
    seen: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """One line, and one more for each finding."""
        lines = [
            f"{self.name}: seed {self.seed}, {self.cases:,} cases in {self.seconds:.0f} s, "
            f"{sum(self.kinds.values())} findings of {len(self.kinds)} kinds; {self.facts}"
        ]
        lines += [f"  known, {count} times: {why}" for why, count in self.known.most_common()]
        for finding in self.findings:
            steps = sum(len(case) for case in finding.cases)
            how = f"{steps} steps" if finding.again else "not brought about again by these cases alone"
            lines.append(f"  case {finding.number}: {first_line(finding.problem)} ({how})")
            lines.append(f"    replay: make fuzz ARGS='--replay {finding.path}'")
        return "\n".join(lines)


def first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else ""


def kind_of(problem: str) -> str:
    """What findings alike have in common: the text without its numbers and names."""
    lines = [line for line in problem.strip().splitlines() if line.strip()]
    if not lines:
        return ""
    trace = [line.strip() for line in lines if re.match(r'\s*File ".*", line \d+', line)]
    # a traceback is known by where it ends
    return (trace[-1] + " " + lines[-1][:60] if trace else re.sub(r"'[^']*'|[\d.]+", "#", lines[0]))[:300]


def detail_of(problem: str) -> str:
    """What tells findings of a kind apart once they are small: the last line, if it is in brackets."""
    last = problem.strip().splitlines()[-1]
    return last if last.startswith("(") else ""


def case_of(target: Target, seed: int, number: int) -> Case:
    """The same for ever for a seed and a number."""
    return target.make(Random(f"{target.name} {seed} {number}"))


def fuzz(
    target: Target,
    seed: int,
    *,
    cases: int = 0,
    seconds: float = 0.0,
    directory: Path,
    say: Callable[[str], None] = print,
    first: int = 0,
    check_every: int = 100,
) -> Report:
    """Run ``cases`` cases from number ``first`` on, or for ``seconds``."""
    report = Report(target.name, seed)
    began = told = time.monotonic()
    before: deque[Case] = deque(maxlen=BEFORE)
    target.fresh()
    try:
        while report.cases < cases if cases else time.monotonic() - began < seconds:
            number = first + report.cases
            case = case_of(target, seed, number)
            problem = target.run(case)
            report.cases += 1
            if not problem and (report.cases % check_every == 0 or report.cases == cases):
                problem = target.checkpoint()
            if problem and (why := known(target.name, problem)):
                report.known[why] += 1
                before.clear()
                target.fresh()
            elif problem:
                finding = Finding(number, problem, [*before, case])
                _examine(target, finding, report, seed, directory, say)
                before.clear()
                target.fresh()
            else:
                before.append(case)
            if time.monotonic() - told > 60:
                told = time.monotonic()
                say(f"{target.name}: {report.cases:,} cases, {sum(report.kinds.values())} findings")
    finally:
        report.facts = target.facts()
        target.close()
        report.seconds = time.monotonic() - began
    return report


def _examine(
    target: Target,
    finding: Finding,
    report: Report,
    seed: int,
    directory: Path,
    say: Callable[[str], None],
) -> None:
    """Make a finding of a new kind small, and save it."""
    say(f"{target.name} seed {seed} case {finding.number}: {finding.problem}")
    kind = kind_of(finding.problem)
    report.seen[kind] += 1
    if report.seen[kind] <= SHRUNK_OF_A_KIND:
        shrink(target, finding)
    kind += detail_of(finding.problem)
    report.kinds[kind] += 1
    if report.kinds[kind] > SAVED_OF_A_KIND:
        return
    report.findings.append(finding)
    finding.path = directory / f"{target.name}-{seed}-{finding.number}.json"
    directory.mkdir(parents=True, exist_ok=True)
    finding.path.write_text(
        json.dumps(
            {
                "target": target.name,
                "seed": seed,
                "case": finding.number,
                "problem": finding.problem,
                "again": finding.again,
                "cases": finding.cases,
            },
            indent=1,
        )
    )
    say(f"{target.name}: saved {finding.path}, {sum(map(len, finding.cases))} steps, again: {finding.again}")


def shrink(target: Target, finding: Finding, seconds: float = SHRINK_S) -> None:
    """Leave out cases and steps as long as the problem of the same kind stays."""
    end = time.monotonic() + seconds
    kind = kind_of(finding.problem)

    def fails(cases: list[Case]) -> bool:
        problem = run_all(target, cases)
        if kind_of(problem) != kind:
            return False
        finding.problem = problem
        return True

    if fails(finding.cases[-1:]):
        finding.cases, finding.again = finding.cases[-1:], True
    elif fails(finding.cases):
        finding.again = True
        finding.cases = _fewer(finding.cases, fails, end)
    for at in range(len(finding.cases) if finding.again else 0):
        before, behind = finding.cases[:at], finding.cases[at + 1 :]
        smaller = _fewer(finding.cases[at], lambda steps: fails([*before, steps, *behind]), end)  # noqa: B023
        finding.cases = [*before, smaller, *behind]


def run_all(target: Target, cases: list[Case]) -> str:
    """Cases on a fresh target; the problem, or an empty text."""
    target.fresh()
    for case in cases:
        if problem := target.run(case):
            return problem
    return target.checkpoint() if cases else ""


def _fewer(things: list[Any], fails: Callable[[list[Any]], bool], end: float) -> list[Any]:
    """Delta debugging: leave out ever smaller parts (Zeller and Hildebrandt, 2002)."""
    size = max(1, len(things) // 2)
    while True:
        position = 0
        while position < len(things) and time.monotonic() < end:
            shorter = things[:position] + things[position + size :]
            if shorter and fails(shorter):
                things = shorter
            else:
                position += size
        if size == 1 or time.monotonic() >= end:
            return things
        size = max(1, size // 2)
