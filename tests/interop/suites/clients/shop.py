"""The Celery application of ``load_celery.py``: what workers, Flower and the client share.

Each task leaves a line in the file of effects, which outlives every process: what ran stands there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import celery
from kombu import Exchange, Queue

DIRECTORY = Path(os.environ["SHOP_DIRECTORY"])
IS_QUORUM = os.environ["SHOP_QUEUES"] == "quorum"
EFFECTS = DIRECTORY / "effects"
QUEUE = "shop"
PRIORITY_MAX = 10

app = celery.Celery(
    "shop", broker=os.environ["SHOP_BROKER"], backend=f"db+sqlite:///{DIRECTORY}/results.sqlite"
)
app.conf.update(
    # A worker that dies returns its tasks; a publish counts when the broker has confirmed it.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"confirm_publish": True},
    # Tasks publish too: retries, and the ends of chords. They must outlast a broker that is away.
    task_publish_retry_policy={
        "max_retries": 100,
        "interval_start": 0.2,
        "interval_step": 0.2,
        "interval_max": 1,
    },
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    database_engine_options={"connect_args": {"timeout": 60}},
    worker_send_task_events=True,
    worker_prefetch_multiplier=4,
    task_default_queue=QUEUE,
)
if IS_QUORUM:
    # Tasks with a time then wait in queues of the broker, which Celery needs a topic exchange for.
    app.conf.update(
        task_default_queue_type="quorum",
        task_default_exchange="shop-tasks",
        task_default_exchange_type="topic",
        task_default_routing_key=QUEUE,
    )
else:
    arguments = {"x-max-priority": PRIORITY_MAX}
    app.conf.task_queues = [Queue(QUEUE, Exchange(QUEUE), routing_key=QUEUE, queue_arguments=arguments)]


def leave(kind: str, number: int) -> None:
    """One line, which the system appends as a whole."""
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{kind} {number}\n".encode())
    finally:
        os.close(file)


@app.task(name="shop.plain")
def plain(number: int) -> int:
    leave("plain", number)
    return number


@app.task(name="shop.retried", bind=True, max_retries=None)
def retried(self: celery.Task, number: int) -> None:
    """Fails at first, and publishes itself again for a second later."""
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    leave("retried", number)


@app.task(name="shop.timed")
def timed(number: int, due: float) -> None:
    """``due``: not before this time, in seconds since 1970."""
    leave("timed" if time.time() >= due - 0.1 else "early", number)


@app.task(name="shop.part")
def part(value: int) -> int:
    return value


@app.task(name="shop.total")
def total(values: list[int], number: int) -> None:
    """The end of a chord of ``part``."""
    leave("chord" if sum(values) == 6 else "wrong", number)
