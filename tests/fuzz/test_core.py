"""The fuzzers' own machinery: findings are found, made small, saved, and the same again."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.fuzz import amqp, files, http, tls
from tests.fuzz.core import Case, case_of, fuzz, kind_of, run_all
from tests.fuzz.directory import Base
from tests.fuzz.files import judged
from tests.fuzz.sockets import amqp_fault, http_fault
from tests.interop.wire import encode_frame, encode_method


class Fragile:
    """Breaks at a step 7 behind a step 3; what it has seen stays until it is fresh."""

    name = "fragile"

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.closed = False

    def make(self, random: Random) -> Case:
        return [[random.randrange(10)] for _ in range(random.randrange(1, 12))]

    def run(self, case: Case) -> str:
        self.seen += [step[0] for step in case]
        at = self.seen.index(3) if 3 in self.seen else len(self.seen)
        return f"broken after {len(self.seen)} steps" if 7 in self.seen[at:] else ""

    def checkpoint(self) -> str:
        return ""

    def fresh(self) -> None:
        self.seen = []

    def facts(self) -> str:
        return ""

    def close(self) -> None:
        self.closed = True


def test_a_finding_is_made_as_small_as_it_gets_and_replays(tmp_path: Path) -> None:
    target = Fragile()
    report = fuzz(target, 5, cases=30, directory=tmp_path, say=lambda _: None)
    assert target.closed
    assert report.cases == 30
    assert len(report.kinds) == 1
    for finding in report.findings:
        assert [step for case in finding.cases for step in case] == [[3], [7]]
        assert finding.path is not None
        saved = json.loads(finding.path.read_text())
        assert run_all(Fragile(), saved["cases"]) == finding.problem == "broken after 2 steps"
        assert str(finding.path) in report.text()


def test_seed_and_number_make_the_case() -> None:
    for module in (amqp, http, files, tls):
        first, again, other = (module.make(Random(seed)) for seed in ("a", "a", "b"))
        assert first == again == json.loads(json.dumps(first))
        assert first != other
    assert case_of(Fragile(), 1, 2) != case_of(Fragile(), 2, 1)


def test_tracebacks_that_end_at_the_same_place_are_of_a_kind() -> None:
    text = 'Traceback\n  File "a.py", line 1, in f\n    x\n  File "b.py", line {}, in g\nValueError: {}\n'
    assert kind_of(text.format(2, "x")) == kind_of(text.format(2, "x"))
    assert kind_of(text.format(2, "x")) != kind_of(text.format(3, "x"))
    assert kind_of("lost 3 of 4 in queue 'a'") == kind_of("lost 1 of 9 in queue 'b'")


def test_replies_that_no_broker_may_send() -> None:
    good = b"AMQP\0\0\x09\x01" + encode_frame(1, 1, encode_method("channel.close", code=404))
    assert amqp_fault(good) == ""
    assert amqp_fault(good[:-3]) == ""  # not whole yet
    assert "541" in amqp_fault(encode_frame(1, 0, encode_method("connection.close", code=541)))
    assert "ends with" in amqp_fault(good[:-1] + b"\0" + good)
    assert "frame type 7" in amqp_fault(good + encode_frame(7, 0, b"12345678"))
    assert http_fault(b"HTTP/1.1 200 OK\r\n\r\n") == ""
    assert "500" in http_fault(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 500 Internal Server Error\r\n\r\n")


def test_what_a_start_may_not_do() -> None:
    random = Random(1)
    bodies = [files_body(random, number) for number in range(4)]
    base = Base(Path(), "killed", held={"q": bodies[1:]}, gone={"q": {bodies[0]}})
    assert judged({"q": bodies[1:]}, base, told=False) == ""
    assert judged({"q": None}, base, told=False) == ""
    assert "lost 1 of 3" in judged({"q": bodies[2:]}, base, told=False)
    assert judged({"q": bodies[2:]}, base, told=True) == ""
    assert "back" in judged({"q": bodies}, base, told=False)
    assert "order" in judged({"q": bodies[:0:-1]}, base, told=False)
    assert "twice" in judged({"q": bodies[1:] + bodies[1:2]}, base, told=True)
    assert "nobody published" in judged({"q": [bodies[1][:-1]]}, base, told=True)


def files_body(random: Random, number: int) -> bytes:
    from tests.fuzz.directory import body

    return body(random, "q", number, 20)
