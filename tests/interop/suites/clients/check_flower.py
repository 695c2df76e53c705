"""Flower, Celery's monitor: its page of the broker reads the HTTP API.

Flower's event queues carry a TTL, which the broker refuses by name for now, so tasks and workers stay unseen;
the page of the broker needs none of that.
"""

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

import kombu
from checks import ADMIN_PORT, HOST, PORT, check, fresh, main, wait

APP = """
import celery
app = celery.Celery("flower", broker={broker!r})
app.conf.update(task_default_queue={queue!r}, worker_enable_remote_control=False)
"""


@contextlib.contextmanager
def flower(vhost: str, queue: str) -> Iterator[str]:
    """Flower beside the broker; gives the address of its own API."""
    broker = f"pyamqp://guest:guest@{HOST}:{PORT}/{vhost}"
    with tempfile.TemporaryDirectory() as directory, kombu.Connection(broker) as connection:
        (Path(directory) / "shop.py").write_text(APP.format(broker=broker, queue=queue))
        port = 20_000 + os.getpid() % 20_000
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "shop",
            "flower",
            f"--port={port}",
            "--address=127.0.0.1",
        ]
        command.append(f"--broker-api=http://guest:guest@{HOST}:{ADMIN_PORT}/api/")
        environment = {**os.environ, "FLOWER_UNAUTHENTICATED_API": "true"}
        with open(Path(directory) / "log", "w+") as log:
            process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)
            try:
                channel = connection.default_channel
                channel.queue_declare(queue, durable=True, auto_delete=False)
                with connection.SimpleQueue(queue) as simple:
                    for number in range(5):
                        simple.put({"number": number})
                address = f"http://127.0.0.1:{port}"
                wait(lambda: _answers(address), 30)
                yield address
            finally:
                process.terminate()
                process.wait(10)
            log.seek(0)
            assert "API call failed" not in log.read()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/broker", timeout=5) as page:
            return page.status == 200
    except OSError:
        return False


def lengths(address: str) -> dict[str, dict[str, object]]:
    with urllib.request.urlopen(f"{address}/api/queues/length", timeout=5) as reply:
        return {queue["name"]: queue for queue in json.load(reply)["active_queues"]}


@check
def queues_of_the_default_virtual_host() -> None:
    queue = fresh()
    with flower("/", queue) as address:
        wait(lambda: lengths(address)[queue]["messages"] == 5)
        found = lengths(address)[queue]
        assert (found["messages_ready"], found["messages_unacknowledged"], found["consumers"]) == (5, 0, 0)
        with urllib.request.urlopen(f"{address}/broker", timeout=5) as page:
            assert queue in page.read().decode()


if __name__ == "__main__":
    main()
