"""The service of ``load_rpc.py``: answers calls and works on tasks; each leaves a line in a file."""

from __future__ import annotations

import asyncio
import os
import sys

import aio_pika
from aio_pika.patterns import RPC, Master

URL, EFFECTS = sys.argv[1], sys.argv[2]
CALLS, TASKS = "interop.calls", "interop.tasks"


def leave(kind: str, number: int) -> None:
    """One line, which the system appends as a whole."""
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{kind} {number}\n".encode())
    finally:
        os.close(file)


async def double(*, number: int, filler: str) -> int:
    leave("call", number)
    await asyncio.sleep(0.005)
    return number * 2


async def work(*, number: int) -> None:
    await asyncio.sleep(0.005)
    leave("task", number)


async def serve() -> None:
    connection = await aio_pika.connect_robust(URL, reconnect_interval=0.5)
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=20)
        rpc = await RPC.create(channel)
        await rpc.register(CALLS, double, durable=True)
        await Master(channel).create_worker(TASKS, work, durable=True)
        print("serving", flush=True)
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(serve())
