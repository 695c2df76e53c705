"""A plain port in front of a broker's port with TLS, because the load generator does not speak TLS.

It is a process of its own (``python -m bench.tunnel HOST PORT CA``) and prints its port. The broker's CPU is
measured without it; on two processors it costs throughput.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.brokers import ROOT, Broker


class _End(asyncio.Protocol):
    """One end of a tunnel; what it receives goes to the ``other``."""

    def __init__(self, made: Callable[[_End], None] | None = None) -> None:
        self.made = made
        self.other: _End | None = None
        self.transport: asyncio.Transport
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.made is not None:
            self.made(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def join(self, other: _End) -> None:
        """Pass on to ``other`` from now on."""
        self.other = other
        for data in self.early:
            other.transport.write(data)
        self.early.clear()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()
            self.other = None


async def serve(host: str, port: int, ca: str) -> None:
    """Serve until the process ends."""
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context(cafile=ca)
    tasks: set[asyncio.Task[None]] = set()

    async def connect(client: _End) -> None:
        _, broker = await loop.create_connection(_End, host, port, ssl=context, server_hostname="localhost")
        broker.join(client)
        client.join(broker)

    def made(client: _End) -> None:
        task = loop.create_task(connect(client))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await loop.create_server(lambda: _End(made), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Tunnel:
    """``broker`` as a load generator sees it that goes through its port with TLS, which ``tls_port()``
    tells."""

    def __init__(self, broker: Broker, tls_port: Callable[[], int], ca: Path) -> None:
        self.broker = broker
        self.name = f"{broker.name}, TLS"
        self.host = "127.0.0.1"
        self.port = 0
        self.pid = 0
        self._tls_port = tls_port
        self._ca = ca
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """The broker has started already."""
        command = [
            sys.executable,
            "-m",
            "bench.tunnel",
            self.broker.host,
            str(self._tls_port()),
            str(self._ca),
        ]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.pid = self.broker.pid

    def stop(self) -> int:
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait()

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return self.broker.log()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
