"""Celery with its defaults: a worker in a thread, results over its rpc backend, remote control.

Celery's own queues for results and remote control carry expiry times.
"""

from __future__ import annotations

import time

import celery
import kombu
from celery.contrib.testing.worker import start_worker
from checks import ARGUMENTS, HOST, PORT, check, fresh, main, raises, wait

QUEUE = fresh("celery")
#: Tasks that wait for their time, as many as fill the first limit of a worker many times over.
WAITING = 200
app = celery.Celery("interop", broker=f"pyamqp://guest:guest@{HOST}:{PORT}//", backend="rpc://")
app.conf.update(
    task_default_queue=QUEUE,
    broker_connection_retry_on_startup=True,
)
IS_QUORUM = ARGUMENTS == ["quorum"]
if IS_QUORUM:
    # Celery then lets tasks wait for their time in queues of the broker, which needs a topic exchange.
    app.conf.update(
        task_default_queue_type="quorum",
        task_default_exchange=fresh("tasks"),
        task_default_exchange_type="topic",
        task_default_routing_key=QUEUE,
    )
attempts: list[int] = []


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task(bind=True, acks_late=True, max_retries=3)
def retried(self: celery.Task) -> int:
    attempts.append(1)
    if len(attempts) < 3:
        raise self.retry(countdown=1 if IS_QUORUM else 0.1)
    return len(attempts)


@app.task
def failing() -> None:
    raise ValueError("as it should")


@check
def tasks_run_and_return_results() -> None:
    results = [add.delay(number, 1) for number in range(30)]
    assert [result.get(timeout=15) for result in results] == list(range(1, 31))


@check
def chains_and_groups() -> None:
    assert celery.chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=15) == 10
    assert celery.group(add.s(number, number) for number in range(5))().get(timeout=15) == [0, 2, 4, 6, 8]


@check
def a_failure_reaches_the_caller() -> None:
    raises(ValueError, "as it should", lambda: failing.delay().get(timeout=15))


@check
def a_task_is_retried() -> None:
    assert retried.delay().get(timeout=15) == 3


@check
def a_task_is_delayed() -> None:
    assert add.apply_async((1, 1), countdown=1).get(timeout=15) == 2


@check
def tasks_with_a_time_let_others_pass() -> str:
    """The worker raises its limit for each task that it keeps until its time has come."""
    waiting = [add.apply_async((number, 1), countdown=60) for number in range(WAITING)]
    started = time.monotonic()
    assert add.delay(40, 2).get(timeout=15) == 42
    seconds = time.monotonic() - started
    assert not any(result.ready() for result in waiting)
    app.control.revoke([result.id for result in waiting])
    return f"one behind {WAITING} was done after {seconds:.2f} s"


@check
def the_worker_answers_over_remote_control() -> None:
    found = app.control.inspect(timeout=5).ping()
    assert [answer["ok"] for answer in (found or {}).values()] == ["pong"]
    assert app.control.inspect(timeout=5).registered()


@check
def the_queue_is_empty_afterwards() -> None:
    with kombu.Connection(app.conf.broker_url) as connection:
        channel = connection.default_channel
        wait(lambda: channel.queue_declare(QUEUE, passive=True).message_count == 0)


if __name__ == "__main__":
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, loglevel="ERROR"):
        main()
