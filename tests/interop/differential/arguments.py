"""Wrong arguments on both brokers: ``python -m tests.interop.differential.arguments``.

Each known argument is given values of all types of a field, right and wrong ones: in queue.declare (classic
and quorum), exchange.declare, queue.bind, exchange.bind, basic.consume, and as a header of basic.publish.
Some queues have a second argument, which is wrong, too; others are declared again with another value.
Compared is what the client gets: a reply, the code and text of an error, and whether the channel or the
connection closes. The run prints what differs, and counts.
"""

from __future__ import annotations

import argparse
import itertools
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.differential.vocabulary import PLUGINS
from tests.interop.wire import Typed, Wire, encode_table
from vhosts.arguments import QUEUE_ARGUMENTS

#: Numbers that are the limit of something, or beyond it.
INTEGERS = (-(2**40), -(2**31), -1, 0, 1, 2, 5, 255, 256, 2**31, 2**32 - 1, 2**32, 315_360_000_000, 2**62)
FORMS = {"b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q"}
TEXTS = (
    "",
    "drop-head",
    "reject-publish",
    "reject-publish-dlx",
    "default",
    "lazy",
    "classic",
    "quorum",
    "all",
    "any",
    "all-with-x",
    "first",
    "1D",
    "5",
    "at-least-once",
    "client-local",
    "balanced",
    "min-masters",
    "amq.fanout",
    "message_id",
    "nope nope",
    "it's",
    "ä",
)


def values() -> list[Any]:
    """Values of every type of a field."""
    found: list[Any] = [True, False, None, *TEXTS]
    for letter, form in FORMS.items():
        size = struct.calcsize(f">{form}")
        low, high = (0, 2 ** (8 * size)) if form.isupper() else (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1))
        numbers = [n for n in INTEGERS if low <= n < high]
        if letter != "l":
            numbers = [n for n in numbers if n in (-1, 0, 1, 5, numbers[0], numbers[-1])]
        found += [Typed(letter, struct.pack(f">{form}", n)) for n in numbers]
    found += [1.0, 1.5, -1.0, Typed("f", struct.pack(">f", 2.5))]
    found += [Typed("D", struct.pack(">Bi", 1, 15)), Typed("T", struct.pack(">Q", 5))]
    found += [b"", b"lazy", [], [1, "q"], ["first"], [b"q"], {}, {"a": 1}]
    return found


VALUES = values()
EXCHANGES = {
    "alternate-exchange": ("direct",),
    "hash-header": ("x-consistent-hash",),
    "hash-property": ("x-consistent-hash",),
    "x-recent-history-length": ("x-recent-history",),
    "x-unknown": ("topic",),
}
BINDINGS = ("x-match", "h", "x-h", "x-unknown")
CONSUMERS = (
    "x-priority",
    "x-stream-offset",
    "x-cancel-on-ha-failover",
    "x-credit",
    "x-consumer-timeout",
    "x-unknown",
)
HEADERS = (
    "CC",
    "BCC",
    "x-death",
    "x-first-death-queue",
    "x-recent-history-no-store",
    "x-delivery-count",
    "x-received-from",
    "h",
)


#: No answer within so many seconds is none.
SILENCE_S = 20


class Case(NamedTuple):
    """One method with an argument."""

    method: str
    argument: str
    value: Any
    kind: str = ""
    #: For a second declaration.
    other: Any = None

    def told(self) -> str:
        given = f"{self.argument}={self.value!r}"
        then = f", then {self.other!r}" if self.other is not None or self.method == "redeclare" else ""
        return f"{self.method} {self.kind} {given}{then}"


#: Numbers that RabbitMQ's exchange with a history does not know as such.
UNSIGNED = "Bui"


def is_deliberate(case: Case) -> bool:
    """Whether docs/compatibility.md says that RabbitMQ's answer is another one."""
    named = {case.argument, case.other} if case.method == "two" else {case.argument}
    if case.argument == "x-recent-history-length":
        return isinstance(case.value, Typed) and case.value.tag in UNSIGNED
    if "x-queue-leader-locator" in named:
        return case.kind == "classic"
    return bool(
        named & {"x-queue-master-locator", "hash-header", "hash-property", "x-credit", "x-partitions"}
    )


def cases() -> Iterator[Case]:
    """The whole table."""
    for argument in (*QUEUE_ARGUMENTS, "x-unknown", "alternate-exchange"):
        for kind in ("classic", "quorum"):
            yield from (Case("queue.declare", argument, value, kind) for value in VALUES)
    for argument, other in itertools.permutations(QUEUE_ARGUMENTS, 2):
        if "x-queue-type" not in (argument, other):
            yield Case("two", argument, {}, "classic", other)
            yield Case("two", argument, {}, "quorum", other)
    for argument in QUEUE_ARGUMENTS:
        for kind in ("classic", "quorum"):
            for value in _accepted(argument):
                for other in (None, value, 1, 2.0, "x", Typed("l", struct.pack(">q", 100)), True):
                    yield Case("redeclare", argument, value, kind, other)
    for argument, kinds in EXCHANGES.items():
        yield from (Case("exchange.declare", argument, value, kind) for kind in kinds for value in VALUES)
    for method in ("queue.bind", "exchange.bind"):
        for argument in BINDINGS:
            for kind in ("headers", "topic", "x-recent-history"):
                yield from (Case(method, argument, value, kind) for value in VALUES)
    for argument in CONSUMERS:
        for kind in ("classic", "quorum"):
            yield from (Case("basic.consume", argument, value, kind) for value in VALUES)
    for argument in HEADERS:
        for kind in ("direct", "x-recent-history", "dead"):
            yield from (Case("basic.publish", argument, value, kind) for value in VALUES)


def _accepted(argument: str) -> tuple[Any, ...]:
    """Values that a queue takes, to be followed by another one."""
    texts = {
        "x-dead-letter-exchange": ("amq.fanout",),
        "x-overflow": ("drop-head",),
        "x-queue-mode": ("lazy",),
        "x-queue-leader-locator": ("balanced",),
        "x-queue-master-locator": ("client-local",),
        "x-dead-letter-strategy": ("at-most-once",),
        "x-single-active-consumer": (True,),
        "x-queue-version": (1,),
        "x-expires": (600_000,),
    }
    return texts.get(argument, (100,))


class Side:
    """One broker."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.number = 0
        self.wire: Wire | None = None
        self.channel = 0

    def answers(self, case: Case) -> list[str]:
        """All that a client gets for one case."""
        self.number += 1
        if self.wire is None:
            self.wire, self.channel = Wire(self.port), 0
        self.channel += 1
        if self.channel > 1000:
            self.wire.close()
            self.wire, self.channel = Wire(self.port), 1
        self.wire.open_channel(self.channel)
        found: list[str] = []
        for name, fields in self.steps(case):
            if name == "publish":
                self.wire.publish(self.channel, **fields)
            else:
                self.wire.send(self.channel, name, **fields)
            got = self.wire.receive_within(SILENCE_S)
            if got is None:
                self.wire.close()
                self.wire = None
                return [*found, "nothing"]
            found.append(f"{got.name} {got.fields} {got.properties}".replace(self.name, "NAME"))
            if got.name in ("connection.close", "eof", "reset"):
                self.wire.close()
                self.wire = None
                return found
            if got.name == "channel.close":
                self.wire.send(self.channel, "channel.close-ok")
                self.channel += 1
                self.wire.open_channel(self.channel)
                break
        self.clean()
        return found

    @property
    def name(self) -> str:
        return f"arguments-{self.number}"

    def clean(self) -> None:
        assert self.wire is not None
        for name, fields in (
            ("queue.delete", {"queue": self.name}),
            ("exchange.delete", {"exchange": self.name}),
        ):
            self.wire.send(self.channel, name, **fields)
            while (got := self.wire.receive()).name not in (f"{name}-ok", "channel.close"):
                pass
            assert got.name != "channel.close", got
        self.wire.send(self.channel, "channel.close", code=200)
        while self.wire.receive().name != "channel.close-ok":
            pass

    def steps(self, case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
        name = self.name
        given = {case.argument: case.value}
        quorum = {"x-queue-type": "quorum"} if case.kind == "quorum" else {}
        if case.method == "queue.declare":
            yield "queue.declare", {"queue": name, "durable": True, "arguments": {**quorum, **given}}
        elif case.method == "two":
            both = {**quorum, **given, case.other: {}}
            yield "queue.declare", {"queue": name, "durable": True, "arguments": both}
        elif case.method == "redeclare":
            exchange = {"x-dead-letter-exchange": ""} if case.argument == "x-dead-letter-routing-key" else {}
            declared = {**quorum, **exchange, **given}
            yield "queue.declare", {"queue": name, "durable": True, "arguments": declared}
            other = {} if case.other is None else {case.argument: case.other}
            yield (
                "queue.declare",
                {"queue": name, "durable": True, "arguments": {**quorum, **exchange, **other}},
            )
        elif case.method == "exchange.declare":
            yield "exchange.declare", {"exchange": name, "type": case.kind, "arguments": given}
            yield "exchange.declare", {"exchange": name, "type": case.kind, "arguments": {}}
        else:
            yield "queue.declare", {"queue": name, "durable": True, "arguments": quorum}
            if case.kind not in ("quorum", "classic"):
                kind = case.kind if case.kind != "dead" else "direct"
                yield "exchange.declare", {"exchange": name, "type": kind}
            yield from self.use(case, given)

    def use(self, case: Case, given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The steps of a case that needs a queue, after its declaration."""
        name = self.name
        if case.method == "queue.bind":
            yield "queue.bind", {"queue": name, "exchange": name, "routing_key": "1", "arguments": given}
            yield "confirm.select", {}
            yield "publish", {"exchange": name, "routing_key": "1", "headers": {"h": 1, "x-h": 1}}
            yield "queue.declare", {"queue": name, "passive": True}
            yield "queue.unbind", {"queue": name, "exchange": name, "routing_key": "1", "arguments": given}
        elif case.method == "exchange.bind":
            yield (
                "exchange.bind",
                {"destination": "amq.fanout", "source": name, "routing_key": "1", "arguments": given},
            )
        elif case.method == "basic.consume":
            yield "basic.consume", {"queue": name, "tag": "t", "arguments": given}
        else:
            yield "queue.bind", {"queue": name, "exchange": name, "routing_key": "k"}
            yield "confirm.select", {}
            yield "publish", {"exchange": name, "routing_key": "k", "headers": encode_table(given)}
            yield "queue.declare", {"queue": name, "passive": True}
            yield "basic.get", {"queue": name, "no_ack": True}


def differences(
    chosen: Iterable[Case], router: Side, rabbit: Side, counted: Counter[str]
) -> Iterator[tuple[Case, list[str], list[str]]]:
    """The cases that are not answered alike."""
    for case in chosen:
        ours, theirs = router.answers(case), rabbit.answers(case)
        counted[case.method] += 1
        if ours != theirs:
            yield case, ours, theirs


def main() -> int:
    parser = argparse.ArgumentParser(prog="arguments", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose description has it")
    arguments = parser.parse_args()
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="arguments-") as directory:
        router = RouterProcess(Path(directory, "router"))
        rabbit = RabbitProcess(Path(directory, "rabbitmq"), plugins=PLUGINS)
        router.start()
        rabbit.start()
        try:
            count = deliberate = 0
            chosen = [case for case in cases() if arguments.only in case.told()]
            sides = Side(router.port), Side(rabbit.port)
            for case, ours, theirs in differences(chosen, *sides, counted):
                if is_deliberate(case):
                    deliberate += 1
                    continue
                count += 1
                print(f"{case.told()}\n  here:     {ours}\n  RabbitMQ: {theirs}", flush=True)
        finally:
            router.stop()
            rabbit.stop()
    print(f"{counted.total()} cases, {count} differ, {deliberate} on purpose: {dict(counted)}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
