"""Ports that a test's server can keep over restarts.

A port that the kernel chooses lies in the range of which it also serves clients. While a server that had it
is down, some client's connection may get it, and the restarted server finds it in use. The ports given here
lie below that range, and a lock keeps each for this process, so that tests in parallel do not get it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOWEST = 10_000
_locks: list[int] = []


def lowest_of_clients() -> int:
    """The first port that the kernel gives to a client by itself."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:  # not Linux
        return 32_768


def free_port() -> int:
    """A free TCP port of 127.0.0.1, this process's own until it ends.

    Raises:
        OSError: 1,000 ports at random were all in use.
    """
    highest = lowest_of_clients() - 1
    choices = range(LOWEST, highest) if highest > LOWEST + 1000 else range(61_000, 65_535)
    directory = Path(tempfile.gettempdir()) / f"amqp-router-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    chooser = random.SystemRandom()  # a test's seed must not lead two processes to the same ports
    for _ in range(1000):
        port = chooser.choice(choices)
        lock = os.open(directory / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            with contextlib.suppress(OSError):
                os.close(lock)
            continue
        _locks.append(lock)
        return port
    raise OSError(f"no free port among 1,000 of {choices.start} to {choices.stop - 1}")
