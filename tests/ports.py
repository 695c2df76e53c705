"""Ports that a test's server can keep over restarts.

A port that the kernel chose once is anybody's while its server is down: a client's connection may get it, and
the restarted server finds it in use. So a socket stays bound to it here, in the tests' process, which does
not listen. With SO_REUSEADDR on both, as every server under test sets it, the server binds and listens beside
that socket. When Linux chooses a port itself, it leaves out those that have such a socket, whatever its range
is. While the server is down, connections to the port are refused.
"""

from __future__ import annotations

import socket
import weakref

#: Sockets whose ports are kept until this process ends.
_kept: list[socket.socket] = []


def free_port(owner: object = None) -> int:
    """A free TCP port of 127.0.0.1; nobody else gets it while ``owner``, by default this process, lives."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    if owner is None:
        _kept.append(held)
    else:
        weakref.finalize(owner, held.close)
    return int(held.getsockname()[1])
