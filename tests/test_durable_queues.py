"""What a node does with the logs of its durable queues beside the definitions: epochs, and deletion."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from amqp_router.broker import Broker
from amqp_router.cluster import QueueState
from amqp_router.config import Settings
from tests.persistence.log.support import message
from vhosts.queues.queue import Queue

LOGGER = logging.getLogger("amqp_router.test")


@contextlib.asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Broker]:
    broker = Broker(Settings(data_dir=directory), asyncio.get_running_loop(), LOGGER)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def queue_of(broker: Broker) -> Queue:
    queue = broker.vhosts["/"].queues["q"]
    assert isinstance(queue, Queue)
    return queue


async def until(reached: Any) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.005)


def test_each_start_writes_in_a_new_epoch(tmp_path: Path) -> None:
    """Though nothing is written in most of them, by which the log itself could tell."""
    epochs = []

    async def live() -> None:
        async with running(tmp_path) as broker:
            if not epochs:
                _, rev = broker.vhosts["/"].declare_queue("q", durable=True)
                await until(lambda: broker.commits.committed >= rev)
            queue = queue_of(broker)
            entry = broker.virtual_hosts.make_queue._leaders._registry.get(f"/queues/{queue.incarnation}")
            assert entry is not None
            assert queue.log.epoch == QueueState.decode(entry.data).epoch
            epochs.append(queue.log.epoch)

    for _ in range(3):
        asyncio.run(live())
    assert epochs == [1, 2, 3]


def test_log_stays_until_the_deletion_of_its_row_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash before that the queue is there again, with all it holds."""
    stored = threading.Event()

    async def live() -> None:
        async with running(tmp_path) as broker:
            _, rev = broker.vhosts["/"].declare_queue("q", durable=True)
            await until(lambda: broker.commits.committed >= rev)
            log = queue_of(broker).log
            log.append(message(b"body"), 1)
            broker.storage.sync.start_round()
            await until(lambda: log.high_watermark == log.end)
            directory = Path(log.partition.directory).parent
            write = broker.definitions._database.write

            def write_later(batch: Any) -> None:
                stored.wait(20)
                write(batch)

            monkeypatch.setattr(broker.definitions._database, "write", write_later)
            _, rev = broker.vhosts["/"].delete_queue("q")
            broker.storage.sync.jobs.worker.wait_idle()
            is_there = directory.exists() and log.failed is None
            stored.set()
            assert is_there
            await until(lambda: not directory.exists())
            assert broker.commits.committed >= rev

    asyncio.run(live())
