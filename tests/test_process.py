"""What the process asks of the system. Run in child processes, since all of it stays set."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from amqp_router import heap
from amqp_router.process import Collector, LoopLag


def child(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_soft_limit_of_open_files_rises() -> None:
    code = (
        "import resource as r; from amqp_router.process import raise_open_files\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (256, 1000))\n"
        "print(raise_open_files(900), r.getrlimit(r.RLIMIT_NOFILE))"
    )
    assert child(code) == "900 (900, 1000)"


def test_limit_of_open_files_never_falls() -> None:
    code = (
        "import resource as r; from amqp_router.process import raise_open_files\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (800, 1000))\n"
        "print(raise_open_files(300), r.getrlimit(r.RLIMIT_NOFILE))"
    )
    assert child(code) == "800 (800, 1000)"


def test_wish_beyond_the_hard_limit_without_the_right_to_raise_it() -> None:
    code = (
        "import resource as r; from amqp_router import process\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (256, 1000))\n"
        "real = r.setrlimit\n"
        "def setrlimit(which, limits):\n"
        "    if limits[1] > 1000: raise ValueError('not allowed to raise maximum limit')\n"
        "    real(which, limits)\n"
        "r.setrlimit = setrlimit\n"
        "print(process.raise_open_files(5000), r.getrlimit(r.RLIMIT_NOFILE))"
    )
    assert child(code) == "1000 (1000, 1000)"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt's parameters are glibc's")
def test_allocator_is_tuned_on_glibc() -> None:
    assert child("from amqp_router.process import tune_allocator; print(tune_allocator())") == "True"


def test_prepare() -> None:
    code = (
        "import os, sys; from amqp_router.process import prepare\n"
        "prepare(256); print(oct(os.umask(0)), sys.getswitchinterval())"
    )
    assert child(code) == "0o77 0.0005"


@pytest.fixture
def _collector_put_back() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield  # what is frozen stays so
    gc.set_threshold(*thresholds)


class Minutes:
    """A loop whose time passes a minute at a time, ``busy_s`` of it used by this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pause_s: float, blocks: int = 1000) -> None:
        self.now = self.cpu = 0.0
        #: What a collection takes, and the blocks that are there; twice as many take twice as long.
        self.pause_s = pause_s
        self.blocks = blocks
        self.collected: list[float] = []
        #: For each look, whether the heap gives back what is scattered, too.
        self.given_back: list[bool] = []
        self.collector = Collector(
            self,  # type: ignore[arg-type]
            cpu_s=lambda: self.cpu,
            clock=lambda: self.now,
            blocks=lambda: self.blocks,
            heap=self,  # type: ignore[arg-type]
        )
        self.collector.start()
        monkeypatch.setattr(gc, "collect", self.collect)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        assert seconds == 60
        self.callback = callback

    def collect(self) -> None:
        self.collected.append(self.now)
        self.now += self.pause_s * self.blocks / 1000

    def give_back(self, *, all_of_it: bool) -> None:
        self.given_back.append(all_of_it)

    def pass_time(self, minutes: int, busy_s: float) -> None:
        for _ in range(minutes):
            self.now += 60
            self.cpu += busy_s
            self.callback()


@pytest.mark.usefixtures("_collector_put_back")
def test_full_collections_wait_for_an_idle_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = Minutes(monkeypatch, pause_s=0.1)
    assert gc.get_threshold()[2] >= 1_000_000
    minutes.pass_time(1, busy_s=4)
    assert len(minutes.collected) == 1  # what it takes is not known before
    minutes.pass_time(50, busy_s=4)
    assert len(minutes.collected) == 1
    minutes.pass_time(3, busy_s=0.2)
    assert len(minutes.collected) == 4
    assert minutes.given_back == 51 * [False] + 3 * [True]


@pytest.mark.usefixtures("_collector_put_back")
@pytest.mark.parametrize(("pause_s", "collections"), [(0.003, 15), (0.008, 1), (0.03, 1)])
def test_few_clients_do_not_wait_for_a_long_collection(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, collections: int
) -> None:
    """A client that published 200 messages a second waited 27 ms, as the broker counted as idle. It waited 13
    for one that was expected to take nine.
    """
    minutes = Minutes(monkeypatch, pause_s)
    minutes.pass_time(15, busy_s=2)
    assert len(minutes.collected) == collections
    minutes.pass_time(2, busy_s=0.2)
    assert len(minutes.collected) == collections + 2


@pytest.mark.usefixtures("_collector_put_back")
def test_what_was_there_at_the_start_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is frozen. With it, one of 3 ms was expected to take 30, and clients kept it away."""
    minutes = Minutes(monkeypatch, pause_s=0.00001, blocks=300_000)
    minutes.pass_time(5, busy_s=2)
    assert len(minutes.collected) == 5


@pytest.mark.usefixtures("_collector_put_back")
@pytest.mark.parametrize("busy_s", [0, 50])
def test_many_objects_make_a_collection_wait(monkeypatch: pytest.MonkeyPatch, busy_s: float) -> None:
    """The last one was short, as there was little; the next is expected to take a second and a half."""
    minutes = Minutes(monkeypatch, pause_s=0.001)
    minutes.pass_time(1, busy_s)
    minutes.blocks *= 1500
    before = len(minutes.collected)
    minutes.pass_time(7, busy_s)
    assert len(minutes.collected) == before
    minutes.pass_time(7, busy_s)
    assert len(minutes.collected) == before + (not busy_s)


@pytest.mark.usefixtures("_collector_put_back")
def test_a_collection_that_saw_next_to_nothing_says_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million messages came after it: the next one took 1.2 s in the first idle minute."""
    minutes = Minutes(monkeypatch, pause_s=0.00001)
    minutes.pass_time(1, busy_s=0)
    assert len(minutes.collected) == 1
    minutes.blocks *= 5000
    minutes.pass_time(4, busy_s=0)
    assert len(minutes.collected) == 1
    minutes.pass_time(1, busy_s=0)
    assert len(minutes.collected) == 2


@pytest.mark.usefixtures("_collector_put_back")
@pytest.mark.parametrize(("pause_s", "apart_s"), [(0.001, 60), (0.003, 108), (0.01, 3600), (0.1, 3600)])
def test_a_broker_that_is_never_idle_collects_seldom(
    monkeypatch: pytest.MonkeyPatch, pause_s: float, apart_s: int
) -> None:
    """One that was expected to take less than 10 ms took 15 six minutes after the last."""
    minutes = Minutes(monkeypatch, pause_s)
    minutes.pass_time(300, busy_s=50)
    times = minutes.collected
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps
    assert all(apart_s <= gap <= apart_s + 61 for gap in gaps)
    assert minutes.given_back == 300 * [False]


class Late:
    """A loop that runs its one timer as late as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        self.due, self.callback = when, callback

    def run(self, late_s: float) -> None:
        self.now = self.due + late_s
        self.callback()


def test_loop_lag_is_seen_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    loop = Late()
    lag = LoopLag(loop, logging.getLogger("test"))  # type: ignore[arg-type]
    lag.start()
    loop.run(0.9)
    assert lag.last_s == pytest.approx(0.9)
    assert caplog.text == ""
    loop.run(1.5)
    loop.run(0.0)
    assert lag.last_s == pytest.approx(0.0)
    assert lag.highest_s == pytest.approx(1.5)
    assert caplog.text.count("event loop was late") == 1


def test_loop_lag_forgets_old_windows() -> None:
    loop = Late()
    lag = LoopLag(loop, logging.getLogger("test"))  # type: ignore[arg-type]
    lag.start()
    loop.run(0.9)
    for _ in range(2 * LoopLag.WINDOW_SAMPLES - 2):
        loop.run(0.0)
    assert lag.highest_s == pytest.approx(0.9), "the window before this one counts as well"
    loop.run(0.0)
    assert lag.highest_s == pytest.approx(0.0)


async def test_loop_lag_on_a_real_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoopLag, "INTERVAL_S", 0.01)
    lag = LoopLag(asyncio.get_running_loop(), logging.getLogger("test"))
    lag.start()
    time.sleep(0.2)
    while lag.highest_s < 0.1:
        await asyncio.sleep(0.01)
    lag.stop()
    last = lag.last_s
    await asyncio.sleep(0.05)
    assert lag.last_s == last, "it measures no more"


@pytest.mark.usefixtures("_collector_put_back")
def test_threads_that_write_do_not_keep_the_loop_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that works for minutes would put off what the heap has to give back."""
    trimmed: list[bool] = []
    monkeypatch.setattr(heap, "trim", lambda: trimmed.append(True))
    loop = asyncio.new_event_loop()
    collector = Collector(loop)
    gc.disable()  # as while the broker starts
    collector.start()
    assert gc.isenabled()
    ending = threading.Event()

    def work() -> None:
        while not ending.is_set():
            hashlib.sha256(bytes(1 << 20)).digest()

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(1)
    ending.set()
    worker.join()
    collector._look()
    while collector._heap._pass is not None:
        loop.run_until_complete(asyncio.sleep(0.001))
    assert trimmed
    collector.stop()
    loop.close()
