"""docs/ARCHITECTURE.md names files and functions that exist, and the ways that messages really take."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import RouterProcess
from tests.interop.wire import Wire
from tests.trees import ROOT
from tests.ways import TEXT, TRACE_FILE, TRACED, Step, passed, rows, way
from vhosts.publishing.spread import SPREAD_DURABLE

PUBLISH, ACK = way("a publish"), way("an acknowledgement")
#: What only a message for very many queues passes.
SPREAD = Step("vhosts/publishing/spread.py", "Spread.go_on")


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
    assert len(PUBLISH) >= 10
    assert len(ACK) >= 9


@pytest.mark.parametrize(("path", "names"), rows())
def test_functions_on_the_ways_exist(path: str, names: list[str]) -> None:
    assert names
    assert set(names) <= functions(path)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[\w-]+/)+[\w.-]+\.\w+)`", TEXT))))
def test_files_exist(path: str) -> None:
    roots = (ROOT, ROOT / "amqp_router", ROOT / "vhosts", ROOT / "persistence", ROOT / "persistence" / "log")
    assert any((root / path).exists() for root in (*roots, ROOT / "admin_ui", ROOT / "vhosts" / "queues"))


class Traced:
    """A broker from source that writes down which functions of the ways it enters."""

    def __init__(self, directory: Path) -> None:
        self.trace = directory / "trace"
        self.trace.touch()
        self.seen = 0
        environment = {TRACE_FILE: str(self.trace)}
        self.broker = RouterProcess(directory, uncompiled=True, entry=TRACED, environment=environment)
        self.broker.start()

    def begin(self) -> None:
        """What happens from now on counts."""
        self.seen = self.trace.stat().st_size

    def way(self, steps: list[Step]) -> list[Step]:
        """The steps that were passed since ``begin``, once the last one was; a timer may be before it."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = passed(self.trace.read_text()[self.seen :], steps)
            if steps[-1] in found:
                break
            time.sleep(0.01)
        return found


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    traced = Traced(tmp_path_factory.mktemp("ways"))
    yield traced
    assert traced.broker.stop() == 0


def publish(traced: Traced, queues: int) -> list[Step]:
    """The way of one persistent message to so many durable queues."""
    exchange = f"to-{queues}"
    with Wire(traced.broker.port) as wire:
        wire.open_channel(confirm=True)
        wire.call(1, "exchange.declare", exchange=exchange, type="fanout")
        for number in range(queues):
            queue = f"{exchange}-{number}"
            wire.send(1, "queue.declare", queue=queue, durable=True, nowait=True)
            wire.send(1, "queue.bind", queue=queue, exchange=exchange, nowait=True)
        wire.call(1, "queue.declare", queue=queue, passive=True)
        traced.begin()
        wire.publish(1, exchange, "", b"x", delivery_mode=2)
        wire.confirmed(1)
        return traced.way(PUBLISH)


def test_a_publish_passes_every_function_in_that_order(traced: Traced) -> None:
    assert publish(traced, 1) == [step for step in PUBLISH if step != SPREAD]


def test_a_publish_to_very_many_queues_goes_on_in_slices(traced: Traced) -> None:
    assert publish(traced, SPREAD_DURABLE + 1) == PUBLISH


def test_an_ack_passes_every_function_in_that_order(traced: Traced) -> None:
    with Wire(traced.broker.port) as wire:
        wire.open_channel(confirm=True)
        wire.call(1, "queue.declare", queue="acked", durable=True)
        for _ in range(3):
            wire.publish(1, "", "acked", b"x", delivery_mode=2)
        wire.confirmed(3)
        wire.call(1, "basic.qos", count=2)
        wire.call(1, "basic.consume", queue="acked")
        wire.receive_named("basic.deliver", 2)
        traced.begin()
        wire.send(1, "basic.ack", delivery_tag=2, multiple=True)
        wire.receive_named("basic.deliver", 1)
        assert traced.way(ACK) == ACK
