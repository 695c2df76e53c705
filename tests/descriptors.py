"""A process that has no file descriptors left, for a while."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def none_left(last: socket.socket) -> Iterator[None]:
    """No descriptor is free while the block runs; ``last`` has the highest one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno() + 1, hard))
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.dup(last.fileno()))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)
