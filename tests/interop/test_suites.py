"""What `make interop` makes of the results of others' tests, and of programs that hang or leave processes."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import pytest

from tests.brokers import RouterProcess
from tests.interop.suites import run
from tests.interop.suites.results import (
    FAIL,
    PASS,
    SKIP,
    Results,
    from_go,
    from_junit,
    from_lines,
    worse_than,
)
from tests.interop.suites.suite import Node, Suite, watch

REPORT = """<testsuites><testsuite>
<testcase classname="t.one" name="passes"/>
<testcase classname="t.one" name="fails"><failure message="1 != 2">long text</failure></testcase>
<testcase classname="t.one" name="skipped"><skipped message="not here"/></testcase>
<testcase classname="t.one" name="twice"/>
<testcase classname="t.one" name="twice"><error message="in its fixture"/></testcase>
</testsuite></testsuites>"""


def test_junit(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    results = from_junit(tmp_path / "report.xml")
    assert {name: result.status for name, result in results.items()} == {
        "t.one::passes": PASS,
        "t.one::fails": FAIL,
        "t.one::skipped": SKIP,
        "t.one::twice": FAIL,
    }
    assert results.failures() == {"t.one::fails": "1 != 2", "t.one::twice": "in its fixture"}


def test_lines_and_go() -> None:
    results = from_lines(["noise", "PASS\ta b\t", "FAIL\tc\twhy: this\n", "KILL\tbroker", "FAIL"])
    assert results == {"a b": (PASS, ""), "c": (FAIL, "why: this")}
    assert from_lines(["PASS\tload\t7 tasks", "PASS\tplain\t"]).figures() == {"load": "7 tasks"}
    found = from_go(
        ["=== RUN   TestOne", "--- PASS: TestOne (0.01s)", "--- FAIL: TestTwo (1s)", "    --- PASS: x"]
    )
    assert found == {"TestOne": (PASS, ""), "TestTwo": (FAIL, "")}


def test_worse_is_what_passes_there_and_not_here() -> None:
    ours = from_lines(
        ["PASS\tboth\t", "FAIL\there\t", "FAIL\tnowhere\t", "PASS\tonly ours\t", "SKIP\tleft out\t"]
    )
    theirs = from_lines(
        ["PASS\tboth\t", "PASS\there\t", "FAIL\tnowhere\t", "PASS\tmissing\t", "PASS\tleft out\t"]
    )
    assert worse_than(ours, theirs) == ["here", "left out", "missing"]


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def row(suite: Suite, arguments: argparse.Namespace) -> run.Row:
        ran.append(suite.name)
        results = from_lines(["PASS\tone\t", "FAIL\ttwo\twhy"])
        return run.Row(suite, "1.0", results, Results() if arguments.rabbitmq else None, (1.0, 2.0))

    monkeypatch.setattr(run, "run", row)
    path = tmp_path / "results.json"
    first, second, third = run.ALL[:3]
    ours = argparse.Namespace(rabbitmq=False, save=path, resume=None)
    run.run_all([first, second], ours)
    again = argparse.Namespace(rabbitmq=False, save=None, resume=path)
    rows = run.run_all([second, third], again)
    assert ran == [first.name, second.name, third.name]
    assert [(each.suite.name, each.ours.failures()) for each in rows] == [
        (second.name, {"two": "why"}),
        (third.name, {"two": "why"}),
    ]
    assert run.saved(path).keys() == {first.name, second.name, third.name}
    # What ran here alone runs again when it is to be compared.
    both = argparse.Namespace(rabbitmq=True, save=None, resume=path)
    run.run_all([first], both)
    run.run_all([first], both)
    assert ran[3:] == [first.name]


def python(text: str) -> list[str]:
    return [sys.executable, "-u", "-c", text]


def no_broker(directory: Path) -> Node:
    return Node(RouterProcess(directory), 0)


def test_a_program_that_hangs_ends_with_all_it_started(tmp_path: Path) -> None:
    text = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '3600'], process_group=0)\n"
        "print(child.pid); time.sleep(3600)\n"
    )
    ended = watch(python(text), no_broker(tmp_path), tmp_path, 8)
    assert ended.problem == "not done within 8 s"
    while _runs(int(ended.lines[0])):
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_program_has_the_broker_killed(tmp_path: Path) -> None:
    broker = RouterProcess(tmp_path / "broker")
    broker.start()
    try:
        first = broker.pid
        text = "print('KILL\\tbroker'); assert input() == 'started'; print('PASS\\tafter the kill\\t')"
        ended = watch(python(text), Node(broker, 0), tmp_path, 60)
        assert (ended.code, from_lines(ended.lines)) == (0, {"after the kill": (PASS, "")})
        assert broker.pid != first
    finally:
        broker.stop()
