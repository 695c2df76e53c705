"""An RPC service of aio-pika under load: the broker is killed twice, the service once, nothing may be lost.

Its argument: for how many seconds calls are made. Every call must be answered in the end, and rightly; every
task whose publish was confirmed must run (``rpc_service.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aio_pika
from aio_pika.patterns import RPC, Master
from checks import ARGUMENTS, HOST, PORT, check, kill_broker, main
from rpc_service import CALLS, TASKS

URL = f"amqp://guest:guest@{HOST}:{PORT}/"
SECONDS = int(ARGUMENTS[0])
EFFECTS = Path(tempfile.mkdtemp()) / "effects"
CALLERS = 20
TASKERS = 5
PAUSE_SECONDS = 0.05
#: After which a caller asks again: the answer to a call of a killed broker or service never comes.
CALL_SECONDS = 10
DRAIN_SECONDS = 60
FILLER = "x" * 2000
PERSISTENT = aio_pika.DeliveryMode.PERSISTENT


class Service:
    """The process that answers."""

    def __init__(self) -> None:
        self.process = self.start()

    @staticmethod
    def start() -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__).with_name("rpc_service.py")), URL, str(EFFECTS)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        return process

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = self.start()


class Load:
    """Callers and taskers on one robust connection."""

    def __init__(self) -> None:
        self.answered: dict[int, int] = {}
        self.confirmed: set[int] = set()
        #: Tries that failed, by error.
        self.repeats: Counter[str] = Counter()
        self.ending = False

    async def run(self) -> None:
        service = Service()
        connection = await aio_pika.connect_robust(URL, reconnect_interval=0.5)
        async with connection:
            channel = await connection.channel()
            rpc, master = await RPC.create(channel), Master(await connection.channel())
            callers = [self.call_all(rpc, first) for first in range(CALLERS)]
            taskers = [self.publish_all(master, first) for first in range(TASKERS)]
            await asyncio.gather(self.kill(service), *callers, *taskers)

    async def kill(self, service: Service) -> None:
        """Kill the broker, the service and the broker again, then end the load."""
        for act in (kill_broker, service.kill, kill_broker):
            await asyncio.sleep(SECONDS / 4)
            await asyncio.to_thread(act)
        await asyncio.sleep(SECONDS / 4)
        self.ending = True

    async def call_all(self, rpc: RPC, number: int) -> None:
        while not self.ending:
            arguments = {"number": number, "filler": FILLER}
            try:
                call = rpc.call(CALLS, arguments, delivery_mode=PERSISTENT)
                self.answered[number] = await asyncio.wait_for(call, CALL_SECONDS)
            except (Exception, asyncio.CancelledError) as error:  # the client has many for a lost connection
                await self.pause(error)
                continue
            number += CALLERS
            await asyncio.sleep(PAUSE_SECONDS)

    async def pause(self, error: BaseException) -> None:
        """Wait before the next try, but not if this task itself is cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise error
        self.repeats[type(error).__name__] += 1
        await asyncio.sleep(0.2)

    async def publish_all(self, master: Master, number: int) -> None:
        while not self.ending:
            try:
                task = master.create_task(TASKS, {"number": number})  # it makes messages persistent
                await asyncio.wait_for(task, CALL_SECONDS)
            except (Exception, asyncio.CancelledError) as error:  # the client has many for a lost connection
                await self.pause(error)
                continue
            self.confirmed.add(number)
            number += TASKERS
            await asyncio.sleep(PAUSE_SECONDS)


def effects(kind: str) -> set[int]:
    lines = [line.split() for line in EFFECTS.read_text().splitlines()]
    return {int(number) for name, number in lines if name == kind}


@check
def every_call_is_answered_rightly_and_no_confirmed_task_is_lost() -> str:
    asyncio.run(load.run())
    end = time.monotonic() + DRAIN_SECONDS
    while missing := load.confirmed - effects("task"):
        assert time.monotonic() < end, (
            f"{len(missing)} of {len(load.confirmed)} tasks: {sorted(missing)[:10]}"
        )
        time.sleep(0.2)
    assert all(answer == number * 2 for number, answer in load.answered.items())
    assert load.answered.keys() <= effects("call")
    repeats = sum(load.repeats.values())
    return (
        f"{len(load.answered)} calls, {len(load.confirmed)} tasks, {repeats} tries failed and were repeated"
    )


@check
def the_load_went_on_after_each_kill() -> None:
    # One call of a caller takes some milliseconds and its pause; a kill costs some seconds.
    assert len(load.answered) > CALLERS * SECONDS
    assert len(load.confirmed) > TASKERS * SECONDS


if __name__ == "__main__":
    load = Load()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(EFFECTS)
    main(SECONDS + 2 * DRAIN_SECONDS)
