"""The loads of ``make soak`` for seconds: nothing lost, no deadlock, memory within bounds; no times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.brokers import Broker, RouterProcess
from tests.faults import loads
from tests.faults.costly import COSTLY
from tests.faults.crowds import CROWDS
from tests.faults.features import FEATURES
from tests.faults.graphs import GRAPHS
from tests.faults.honest import Honest
from tests.faults.hungry import HUNGRY
from tests.faults.loads import MIB, Outcome
from tests.faults.odd import ODD
from tests.faults.operators import OPERATORS
from tests.faults.place import Place
from tests.faults.soak import Memory, flatness, resident


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    broker = RouterProcess(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.stop()
    assert "Traceback" not in broker.log(), broker.log()


def run(broker: Broker, load: Callable[[], Outcome], grows_by: int) -> None:
    """``grows_by`` is in MiB, above what the broker had before."""
    before = resident(broker.pid)
    memory = Memory(broker.pid)
    memory.start()
    outcome = load()
    memory.finish()
    assert outcome.problem == "", outcome
    assert outcome.published > 0
    assert outcome.delivered > 0
    assert max(memory.samples) - before < grows_by


def test_publisher_that_also_consumes(broker: Broker) -> None:
    run(broker, lambda: loads.publisher_that_consumes(broker.port, 3), grows_by=150)


@pytest.mark.parametrize("load", [loads.publishers_faster_persistent, loads.publishers_faster_transient])
def test_publishers_faster_than_consumers(broker: Broker, load: loads.Load) -> None:
    run(broker, lambda: load(broker.port, 4), grows_by=200)


def test_consumer_that_stops_reading(broker: Broker) -> None:
    run(broker, lambda: loads.consumer_that_stops_reading(broker.port, 4), grows_by=150)


def test_body_of_128_mib(broker: Broker) -> None:
    """Held once as it comes in, and once more at most on its way out."""
    run(broker, lambda: loads.large_body(broker.port, 0, 128 * MIB), grows_by=400)


def test_fanout_to_1000_queues_in_one_chunk(broker: Broker) -> None:
    run(broker, lambda: loads.wide_fanout(broker.port, 0, chunk=50), grows_by=200)


def test_fanout_to_1000_durable_queues_in_one_chunk(broker: Broker) -> None:
    run(broker, lambda: loads.wide_fanout_durable(broker.port, 0, chunk=3), grows_by=200)


def test_requeue_of_many(broker: Broker) -> None:
    run(broker, lambda: loads.mass_requeue(broker.port, 1, count=30_000), grows_by=150)


@pytest.fixture(scope="module")
def honest(broker: RouterProcess) -> Iterator[Honest]:
    client = Honest(broker.port)
    client.start()
    yield client
    assert client.finish() == ""
    assert client.delivered == client.sent > 0


@pytest.mark.parametrize("name", [*HUNGRY, *COSTLY, *CROWDS, *FEATURES, *GRAPHS, *OPERATORS, *ODD])
def test_load_of_one_client_made_small(broker: RouterProcess, honest: Honest, name: str) -> None:
    """What it does at full size is for ``make soak``; here each runs through and leaves nothing behind."""
    place = Place(broker.port, broker.admin_port, scale=0.01)
    outcome = (HUNGRY | COSTLY | CROWDS | FEATURES | GRAPHS | OPERATORS | ODD)[name](place, 0.3)
    assert outcome.problem == "", outcome
    assert outcome.published > 0
    assert honest.problem == ""
    with loads.control(broker.port) as wire:
        wire.ok(1, "queue.declare", queue="after", exclusive=True)


def test_what_is_called_flat() -> None:
    failed: list[str] = []
    assert "flat" in flatness([100, 130, 120], lambda: failed.append("flat"))
    assert not failed
    assert "**not flat**" in flatness([100, 150, 190], lambda: failed.append("grown"))
    assert failed == ["grown"]


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterProcess]:
    broker = RouterProcess(tmp_path_factory.mktemp("small"), options=["--memory-limit", "256MiB"])
    broker.start()
    yield broker
    broker.stop()
    assert "Traceback" not in broker.log(), broker.log()


@pytest.mark.parametrize(
    ("mode", "is_waiting"),
    [(1, False), (2, True)],
    ids=["transient, the consumer comes later", "persistent, the consumer waits"],
)
def test_body_of_half_the_memory_limit(small_broker: RouterProcess, mode: int, is_waiting: bool) -> None:
    """It is confirmed and delivered unchanged, and the process stays below the limit and a quarter of it."""
    body = b"".join(b"%015d\n" % number for number in range(8 * MIB))
    assert len(body) == 128 * MIB
    memory = Memory(small_broker.pid)
    memory.start()
    with loads.control(small_broker.port) as publisher, loads.control(small_broker.port) as consumer:
        publisher.ok(1, "queue.declare", queue="large", durable=True, auto_delete=True)
        publisher.ok(1, "confirm.select")
        if is_waiting:
            consumer.ok(1, "basic.consume", queue="large")
        publisher.socket.settimeout(60)
        publisher.publish(1, "", "large", body, delivery_mode=mode)
        assert publisher.receive(60).name == "basic.ack"
        if not is_waiting:
            consumer.ok(1, "basic.consume", queue="large")
        message = consumer.receive(60)
        assert (message.name, message.redelivered, message.body == body) == ("basic.deliver", False, True)
        consumer.send(1, "basic.ack", delivery_tag=message.delivery_tag)
    memory.finish()
    assert max(memory.samples) < 256 * 1.25
