"""A Celery application under load: the broker is killed twice, a worker once, and nothing may be lost.

Its arguments: ``classic`` or ``quorum``, and for how many seconds tasks are published. Every task that was
published and confirmed must leave its effect (``shop.py``), no task may run before its time, and Celery's
remote control, its events, revoked tasks, priorities and Flower must work after all of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from checks import ADMIN_PORT, ARGUMENTS, HOST, PORT, check, kill_broker, main, wait

QUEUES, SECONDS = ARGUMENTS[0], int(ARGUMENTS[1])
DIRECTORY = Path(tempfile.mkdtemp())
HERE = Path(__file__).resolve().parent
os.environ.update(
    SHOP_BROKER=f"pyamqp://guest:guest@{HOST}:{PORT}//", SHOP_DIRECTORY=str(DIRECTORY), SHOP_QUEUES=QUEUES
)

import celery  # noqa: E402
import kombu  # noqa: E402
import shop  # noqa: E402

PER_SECOND = 40
PUBLISHERS = 2
#: Shares of the time after which the broker, a worker, and the broker again are killed.
KILLS = (0.25, 0.45, 0.6)
#: Seconds for all tasks to be done after the last was published.
DRAIN_SECONDS = 180
WORKERS = 2
CONCURRENCY = 2
FLOWER = f"http://127.0.0.1:{20_000 + os.getpid() % 20_000}"


def celery_command(log: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "celery", "-A", "shop", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "FLOWER_UNAUTHENTICATED_API": "true"}
    with (DIRECTORY / log).open("ab") as output:
        return subprocess.Popen(
            command, cwd=DIRECTORY, env=environment, stdout=output, stderr=output, process_group=0
        )


class Workers:
    """Processes that execute tasks, each a group with its children."""

    def __init__(self) -> None:
        self.processes = [self.start(number) for number in range(WORKERS)]

    def start(self, number: int) -> subprocess.Popen[bytes]:
        options = ["-c", str(CONCURRENCY), "-l", "WARNING", "-n", f"worker{number}@shop"]
        return celery_command(f"worker{number}.log", "worker", *options)

    def kill_one(self) -> None:
        """``kill -9`` one with its children; another takes its place."""
        os.killpg(self.processes[0].pid, signal.SIGKILL)
        self.processes[0].wait()
        self.processes[0] = self.start(0)


class Publisher(threading.Thread):
    """Publishes tasks, each until the broker has confirmed it."""

    def __init__(self, first: int) -> None:
        super().__init__(daemon=True)
        self.number = first
        self.ending = threading.Event()
        #: What was confirmed: kind and number.
        self.published: set[tuple[str, int]] = set()
        self.failures = 0

    def run(self) -> None:
        while not self.ending.wait(PUBLISHERS / PER_SECOND):
            while True:
                try:
                    self.published.add((self.publish(self.number), self.number))
                except (kombu.exceptions.OperationalError, OSError):
                    self.failures += 1
                    time.sleep(0.2)
                else:
                    break
            self.number += PUBLISHERS

    @staticmethod
    def publish(number: int) -> str:
        """Publish a task of the kind that ``number`` determines; returns the kind."""
        if number % 20 == 0:
            celery.chord(shop.part.s(value) for value in range(4))(shop.total.s(number))
            return "chord"
        if number % 10 == 3:
            shop.retried.delay(number)
            return "retried"
        if number % 10 == 5:
            countdown = random.uniform(1, 10)
            shop.timed.apply_async((number, time.time() + countdown), countdown=countdown)
            return "timed"
        shop.plain.apply_async((number,), priority=None if shop.IS_QUORUM else number % 10)
        return "plain"


class Pings(threading.Thread):
    """Asks the workers over remote control all the time; notes when all answered."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.answered: list[float] = []

    def run(self) -> None:
        while True:
            with contextlib.suppress(kombu.exceptions.OperationalError, OSError):
                if len(shop.app.control.ping(timeout=2)) == WORKERS:
                    self.answered.append(time.monotonic())
            time.sleep(0.5)


class Events(threading.Thread):
    """Receives the workers' events, and connects again when the connection is lost."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.succeeded: set[str] = set()
        #: Tasks by worker, in the order in which the broker delivered them to it.
        self.received: defaultdict[str, list[str]] = defaultdict(list)

    def run(self) -> None:
        handlers = {
            "task-succeeded": lambda event: self.succeeded.add(event["uuid"]),
            "task-received": lambda event: self.received[event["hostname"]].append(event["uuid"]),
        }
        while True:
            with (
                contextlib.suppress(kombu.exceptions.OperationalError, OSError),
                shop.app.connection() as connection,
            ):
                connection.ensure_connection()
                shop.app.events.Receiver(connection, handlers=handlers).capture(wakeup=False)
            time.sleep(0.2)


def effects() -> Counter[tuple[str, int]]:
    if not shop.EFFECTS.exists():
        return Counter()
    lines = shop.EFFECTS.read_text().splitlines()
    return Counter((kind, int(number)) for kind, _, number in (line.partition(" ") for line in lines))


def depth() -> tuple[int, int]:
    """Ready messages and consumers of the queue."""
    with kombu.Connection(os.environ["SHOP_BROKER"]) as connection:
        declared = connection.default_channel.queue_declare(shop.QUEUE, passive=True)
        return declared.message_count, declared.consumer_count


def flower(path: str) -> Any:
    """What Flower answers, or None while it does not."""
    try:
        with urllib.request.urlopen(FLOWER + path, timeout=20) as reply:
            return json.loads(reply.read()) if path.startswith("/api") else reply.read().decode()
    except OSError:
        return None


def storm() -> list[Publisher]:
    """Publish tasks, and kill the broker and a worker on the way."""
    publishers = [Publisher(first) for first in range(PUBLISHERS)]
    for each in publishers:
        each.start()
    started = time.monotonic()
    acts = (kill_broker, workers.kill_one, kill_broker)
    for share, act in zip(KILLS, acts, strict=True):
        time.sleep(max(0.0, started + share * SECONDS - time.monotonic()))
        act()
    time.sleep(max(0.0, started + SECONDS - time.monotonic()))
    for each in publishers:
        each.ending.set()
    for each in publishers:
        each.join(60)
        assert not each.is_alive(), "a publisher hangs"
    return publishers


@check
def nothing_that_was_confirmed_is_lost() -> str:
    wait(lambda: len(shop.app.control.ping(timeout=2)) == WORKERS, 60)
    pings.start()
    publishers = storm()
    published = set().union(*(each.published for each in publishers))
    end = time.monotonic() + DRAIN_SECONDS
    while missing := published - effects().keys():
        assert time.monotonic() < end, f"{len(missing)} of {len(published)}: {sorted(missing)[:10]}"
        time.sleep(0.5)
    done = effects()
    kinds = Counter(kind for kind, _ in published)
    again = sum(done.values()) - len(done)
    failures = sum(each.failures for each in publishers)
    assert set(kinds) == {"plain", "retried", "timed", "chord"}
    told = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    return f"{len(published)} tasks ({told}), {again} ran again, {failures} publishes failed"


@check
def no_task_runs_before_its_time_and_no_chord_ends_wrong() -> None:
    assert not [effect for effect in effects() if effect[0] in ("early", "wrong")]


@check
def the_queue_is_empty_afterwards() -> None:
    wait(lambda: depth() == (0, WORKERS), 60)


@check
def remote_control_works_before_between_and_after_the_kills() -> None:
    before, now = len(pings.answered), time.monotonic()
    wait(lambda: len(pings.answered) > before, 30)
    # After a kill the workers may take some seconds to come back; they were asked once in two seconds.
    assert sum(at < now for at in pings.answered) > SECONDS / 10, len(pings.answered)
    inspect = shop.app.control.inspect(timeout=5)
    assert len(inspect.stats() or {}) == WORKERS
    assert all("shop.plain" in tasks for tasks in (inspect.registered() or {}).values())


@check
def a_revoked_task_does_not_run() -> None:
    result = shop.timed.apply_async((1_000_001, time.time() + 4), countdown=4)
    shop.app.control.revoke(result.id)
    other = shop.timed.apply_async((1_000_002, time.time() + 4), countdown=4)
    wait(lambda: ("timed", 1_000_002) in effects(), 60)
    time.sleep(2)
    assert ("timed", 1_000_001) not in effects()
    assert other.id != result.id


@check
def events_of_all_tasks_arrive() -> None:
    results = [shop.plain.delay(2_000_000 + number) for number in range(50)]
    wait(lambda: {result.id for result in results} <= events.succeeded, 60)


@check
def flower_beside_it_sees_workers_tasks_and_queue() -> None:
    wait(lambda: len(flower("/api/workers?refresh=1") or {}) >= WORKERS, 120)
    shop.plain.delay(3_000_000)
    wait(
        lambda: any(
            "3000000" in str(task["args"]) for task in (flower("/api/tasks?limit=50") or {}).values()
        ),
        60,
    )
    wait(lambda: shop.QUEUE in (flower("/broker") or ""), 30)


if not shop.IS_QUORUM:

    @check
    def tasks_of_high_priority_are_delivered_first() -> None:
        """Delivered: two workers with two processes each need not end their tasks in that order."""
        shop.app.control.cancel_consumer(shop.QUEUE, reply=True, timeout=5)
        wait(lambda: depth() == (0, 0), 30)
        low = [shop.plain.apply_async((4_000_000 + number,), priority=0).id for number in range(40)]
        high = {shop.plain.apply_async((4_000_100 + number,), priority=9).id for number in range(5)}
        shop.app.control.add_consumer(shop.QUEUE, reply=True, timeout=5)
        wait(lambda: {*low, *high} <= events.succeeded, 60)
        orders = [
            [each for each in received if each in high or each in low]
            for received in events.received.values()
        ]
        for order in orders:
            assert order == sorted(order, key=lambda each: each in low), orders


if __name__ == "__main__":
    workers, pings, events = Workers(), Pings(), Events()
    events.start()
    port = FLOWER.rpartition(":")[2]
    api = f"--broker-api=http://guest:guest@{HOST}:{ADMIN_PORT}/api/"
    celery_command("flower.log", "flower", f"--port={port}", "--address=127.0.0.1", api)
    main(SECONDS + 2 * DRAIN_SECONDS)
