"""The ports that tests give to servers."""

from __future__ import annotations

import gc
import socket
import struct
import subprocess
import sys
import time

import pytest

from tests.ports import free_port

MANY = "from tests.ports import free_port; print(*(free_port() for _ in range(200))); input()"
#: A broker in small: it serves one client.
SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    server.accept()[0].sendall(b"x")
"""
IP_LOCAL_PORT_RANGE = 51  # Linux' number: Python has no name for it


class Owner:
    pass


def test_processes_get_different_ports_until_they_end() -> None:
    command = [sys.executable, "-c", MANY]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    ports = [port for process in processes for port in process.stdout.readline().split()]
    for process in processes:
        process.communicate("\n")
    assert len(ports) == len(set(ports)) == 800


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("way", ["connect", "bind"])
def test_the_kernel_gives_the_port_to_nobody_else(way: str, reuse: bool) -> None:
    """Also not to a socket that it lets choose from that port alone."""
    owner = Owner()
    port = free_port(owner)

    def given() -> int:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            try:
                other.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("=I", port << 16 | port))
            except OSError:
                pytest.skip("the choice of ports cannot be narrowed (Linux before 6.3)")
            if way == "connect":
                other.connect(server.getsockname())
            else:
                other.bind(("127.0.0.1", 0))
            return int(other.getsockname()[1])

    with pytest.raises(OSError, match=r"Cannot assign|already in use"):
        given()
    del owner
    gc.collect()
    assert given() == port, "it is free again when its owner is gone"


def test_a_server_listens_at_the_port_again_and_nobody_answers_meanwhile() -> None:
    port = free_port()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with subprocess.Popen([sys.executable, "-c", SERVER, str(port)]) as server:
            assert answer(port, server) == b"x"
            assert server.wait(60) == 0


def answer(port: int, server: subprocess.Popen[bytes]) -> bytes:
    """What comes at the port as soon as ``server`` listens there."""
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as client:
                return client.recv(1)
        except ConnectionRefusedError:
            assert server.poll() is None
            time.sleep(0.01)
