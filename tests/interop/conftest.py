"""The broker under test: ours by default, RabbitMQ with ``AMQP_ROUTER_TEST_BROKER=rabbitmq``.

The tests say what RabbitMQ does. Running them against RabbitMQ proves that they say it rightly.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers import Broker, RabbitProcess, RouterProcess
from tests.interop.wire import Wire

RABBITMQ = os.environ.get("AMQP_ROUTER_TEST_BROKER") == "rabbitmq"
_numbers = itertools.count(1)


def make_broker(directory: Path, *, uncompiled: bool = False, options: list[str] | None = None) -> Broker:
    if RABBITMQ:
        return RabbitProcess(directory)
    return RouterProcess(directory, uncompiled=uncompiled, options=options or [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if RABBITMQ and item.get_closest_marker("ours_only"):
            item.add_marker(pytest.mark.skip(reason="RabbitMQ differs here on purpose, or has the feature"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ours_only: where we differ from RabbitMQ on purpose")


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """It has ten minutes for a handshake: what ends one sooner has its own reason."""
    options = ["--handshake-timeout-s", "600"]
    broker = make_broker(tmp_path_factory.mktemp("broker"), options=options)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def broker(shared_broker: Broker) -> Iterator[Broker]:
    """A running broker that all tests share; alive, and without a traceback in its log, afterwards."""
    before = len(shared_broker.log())
    yield shared_broker
    assert Path(f"/proc/{shared_broker.pid}").exists() or os.name != "posix", shared_broker.log()[-4000:]
    if not RABBITMQ:
        assert "Traceback" not in shared_broker.log()[before:], shared_broker.log()[before:]


@pytest.fixture
def own_broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of the test's own, to stop, kill and start again; parameter: compiled or uncompiled."""
    broker = make_broker(tmp_path / "broker", uncompiled=getattr(request, "param", "") == "uncompiled")
    broker.start()
    yield broker
    broker.stop()
    if not RABBITMQ:
        assert "Traceback" not in broker.log(), broker.log()


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., Wire]]:
    """Open raw connections; they are closed after the test."""
    opened: list[Wire] = []

    def connect(**options: object) -> Wire:
        opened.append(Wire(broker.port, host=broker.host, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def wire(connect: Callable[..., Wire]) -> Wire:
    """A raw connection with channel 1 open."""
    connection = connect()
    connection.open_channel(1)
    return connection


@pytest.fixture
def name() -> str:
    """A name for queues and exchanges that no other test uses."""
    return f"t{next(_numbers)}"
