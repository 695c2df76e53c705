"""The ports that tests give to servers."""

import subprocess
import sys

from tests.ports import free_port, lowest_of_clients

MANY = "from tests.ports import free_port; print(*(free_port() for _ in range(200))); input()"


def test_no_client_of_another_test_gets_the_port_while_its_server_is_down() -> None:
    assert all(free_port() < lowest_of_clients() for _ in range(20))


def test_processes_get_different_ports_until_they_end() -> None:
    command = [sys.executable, "-c", MANY]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    ports = [port for process in processes for port in process.stdout.readline().split()]
    for process in processes:
        process.communicate("\n")
    assert len(ports) == len(set(ports)) == 800
