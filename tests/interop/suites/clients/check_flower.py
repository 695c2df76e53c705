"""Flower, Celery's monitor: its page of the broker reads the HTTP API, the others read Celery's events."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import celery
import kombu
from checks import ADMIN_PORT, HOST, PORT, check, fresh, main, wait

BROKER = f"pyamqp://guest:guest@{HOST}:{PORT}//"
QUEUE = fresh("tasks")
FLOWER = f"http://127.0.0.1:{20_000 + os.getpid() % 20_000}"
APP = f"""
import celery
app = celery.Celery("flower", broker={BROKER!r}, backend="rpc://")
app.conf.update(task_default_queue={QUEUE!r}, broker_connection_retry_on_startup=True)

@app.task(name="shop.add")
def add(x, y):
    return x + y
"""
app = celery.Celery("client", broker=BROKER, backend="rpc://")
app.conf.task_default_queue = QUEUE


@contextlib.contextmanager
def running(directory: Path, name: str, *arguments: str) -> Iterator[None]:
    """A command of Celery with the app beside it; its log is ``name`` in ``directory``."""
    command = [sys.executable, "-m", "celery", "-A", "shop", *arguments]
    environment = {**os.environ, "FLOWER_UNAUTHENTICATED_API": "true"}
    with (directory / name).open("w") as log:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


def ask(path: str, body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(FLOWER + path, data), timeout=20) as reply:
        return reply.read().decode()


def answers(path: str) -> Any:
    """What Flower answers, or None while it does not."""
    try:
        return json.loads(ask(path))
    except OSError:
        return None


def lengths(queue: str) -> dict[str, Any]:
    queues = answers("/api/queues/length") or {"active_queues": []}
    return next((each for each in queues["active_queues"] if each["name"] == queue), {})


@check
def a_task_runs() -> None:
    assert app.send_task("shop.add", (2, 3)).get(timeout=30) == 5


@check
def it_sees_the_worker() -> None:
    wait(lambda: answers("/api/workers?refresh=1"), 30)


@check
def it_sees_the_task() -> None:
    wait(lambda: any(task["name"] == "shop.add" for task in answers("/api/tasks").values()), 30)


@check
def its_page_of_the_broker_lists_the_queue() -> None:
    wait(lambda: QUEUE in ask("/broker"), 30)


@check
def it_tells_the_lengths_of_queues() -> None:
    wait(lambda: lengths(QUEUE).get("messages") == 0, 30)
    assert lengths(QUEUE)["consumers"] == 1


@check
def it_publishes_a_task_and_waits_for_its_result() -> None:
    assert json.loads(ask("/api/task/apply/shop.add", {"args": [4, 5]}))["result"] == 9


@check
def messages_of_a_queue_without_a_worker_are_counted() -> None:
    with kombu.Connection(BROKER) as connection, connection.SimpleQueue(QUEUE) as simple:
        app.control.cancel_consumer(QUEUE, reply=True, timeout=5)
        for number in range(5):
            simple.put({"number": number})
        wait(lambda: lengths(QUEUE).get("messages_ready") == 5, 30)
        found = lengths(QUEUE)
        assert (found["messages"], found["messages_unacknowledged"], found["consumers"]) == (5, 0, 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _directory:
        _path = Path(_directory)
        (_path / "shop.py").write_text(APP)
        _port = FLOWER.rpartition(":")[2]
        _api = f"--broker-api=http://guest:guest@{HOST}:{ADMIN_PORT}/api/"
        with (
            running(_path, "worker", "worker", "-P", "solo", "-E", "-l", "WARNING"),
            running(_path, "flower", "flower", f"--port={_port}", "--address=127.0.0.1", _api),
        ):
            main()
