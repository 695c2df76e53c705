"""Completion of the command line in real shells: fish, and zsh on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp_router.ctl.completion import script
from amqp_router.main import _parser

SECONDS = 100.0
CASES = [
    ("amqp-router ct", {"ctl"}),
    ("amqp-router ctl list_q", {"list_queues"}),
    ("amqp-router ctl close_con", {"close_connection", "close_consumer"}),
    ("amqp-router ctl list_queues --vhost / messages_r", {"messages_ready", "messages_ram"}),
    ("amqp-router ctl list_queues --for", {"--format"}),
    ("amqp-router serve --amqp-p", {"--amqp-port"}),
    ("amqp-router ctl completion zs", {"zsh"}),
]


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"{shell} is not installed (Debian: apt-get install {shell})"
    )


@needs("fish")
@pytest.mark.parametrize(("line", "completed"), CASES)
def test_fish(tmp_path: Path, line: str, completed: set[str]) -> None:
    file = tmp_path / "amqp-router.fish"
    file.write_text(script("fish", _parser()))
    ask = f"source {file}; complete -C '{line}'"
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    assert {each.partition("\t")[0] for each in done.stdout.splitlines()} == completed


class Zsh:
    """A zsh on a terminal of its own, with the completion loaded."""

    def __init__(self, file: Path) -> None:
        environment = {**os.environ, "TERM": "dumb", "HOME": str(file.parent), "ZDOTDIR": str(file.parent)}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.type(f"PS1=; unsetopt zle; autoload -Uz compinit; compinit -u -D; source {file}; setopt zle\n")
        self.type("echo rea''dy\n")
        self.read_until("\nready")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read_until(self, pattern: str) -> str:
        """What the terminal shows until ``pattern`` is there."""
        shown = ""
        end = time.monotonic() + SECONDS
        while not re.search(pattern, shown):
            assert time.monotonic() < end, f"{pattern!r} does not come: {shown!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                shown += os.read(self._terminal, 65536).decode(errors="replace")
        return shown

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@pytest.fixture(scope="module")
def zsh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zsh]:
    file = tmp_path_factory.mktemp("zsh") / "_amqp-router"
    file.write_text(script("zsh", _parser()))
    found = Zsh(file)
    yield found
    found.close()


@needs("zsh")
@pytest.mark.parametrize(("line", "completed"), CASES)
def test_zsh(zsh: Zsh, line: str, completed: set[str]) -> None:
    """One completion is written into the line; several are listed below it, in order."""
    zsh.type(f"{line}\t")
    if len(completed) == 1:
        command = line.rpartition(" ")[0]
        zsh.read_until(re.escape(f"{command} {next(iter(completed))} "))
    else:
        zsh.read_until(r"\s+".join(sorted(completed)))
    zsh.type("\x15")  # an empty line for the next case
