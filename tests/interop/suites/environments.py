"""What clients need, made once below ``.venv-interop``: environments of Python and Node, sources, packages.

Everything comes from PyPI, npm or Debian. ``pins/NAME.txt`` pins the versions from PyPI, and
``node/package-lock.json`` those from npm. Debian pins its packages by its release; ``Debian.version`` says
which it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.brokers import ROOT, RabbitProcess

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / ".venv-interop"
PINS = HERE / "pins"
NODE = HERE / "node"
#: Written last into what was made whole; its text tells of what it was made.
MADE = "made"


class Missing(RuntimeError):
    """What a suite needs is not there and could not be installed; the text says why."""


def _run(
    what: str, command: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        raise Missing(f"{what} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def _is_made(directory: Path, of: str) -> bool:
    made = directory / MADE
    return made.exists() and made.read_text() == of


def python(name: str) -> Path:
    """The Python of an environment with what ``pins/NAME.txt`` lists, which are all its packages."""
    pins = PINS / f"{name}.txt"
    of = hashlib.sha256(pins.read_bytes()).hexdigest()
    directory = ENVIRONMENTS / name
    interpreter = directory / "bin" / "python"
    if not _is_made(directory, of):
        print(f"Installing what {pins.relative_to(ROOT)} lists ...", flush=True)
        _run("python -m venv", [sys.executable, "-m", "venv", "--clear", str(directory)])
        pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install"]
        _run(f"pip install -r {pins.name}", [*pip, "--no-deps", "-r", str(pins)])
        (directory / MADE).write_text(of)
    return interpreter


def version(name: str, package: str) -> str:
    """The version of ``package`` in ``pins/NAME.txt``.

    Raises:
        KeyError: It does not stand there.
    """
    for line in (PINS / f"{name}.txt").read_text().splitlines():
        pinned, _, number = line.partition("==")
        if pinned.lower() == package.lower():
            return number
    raise KeyError(f"{package} is not in pins/{name}.txt")


def source(name: str, package: str) -> Path:
    """The unpacked source archive of ``package`` with its tests, in the version of ``pins/NAME.txt``."""
    number = version(name, package)
    directory = ENVIRONMENTS / "sources" / f"{package}-{number}"
    if not _is_made(directory, number):
        interpreter = python(name)
        shutil.rmtree(directory, ignore_errors=True)
        archives = directory / "archive"
        archives.mkdir(parents=True)
        pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "download"]
        options = ["--no-deps", "--no-binary", package, "-d", str(archives), f"{package}=={number}"]
        _run(f"pip download {package}=={number}", [*pip, *options])
        (archive,) = archives.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(directory, filter="data")
        shutil.rmtree(archives)
        (directory / MADE).write_text(number)
    (unpacked,) = (path for path in directory.iterdir() if path.is_dir())
    return unpacked


def node() -> Path:
    """A directory whose ``node_modules`` has what ``node/package-lock.json`` lists."""
    if shutil.which("npm") is None:
        raise Missing("there is no npm (Debian: apt-get install nodejs npm)")
    lock = NODE / "package-lock.json"
    of = hashlib.sha256(lock.read_bytes()).hexdigest()
    directory = ENVIRONMENTS / "node"
    if not _is_made(directory, of):
        print(f"Installing what {lock.relative_to(ROOT)} lists ...", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for path in (lock, NODE / "package.json"):
            shutil.copy(path, directory)
        _run("npm ci", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=directory)
        (directory / MADE).write_text(of)
    return directory


def node_version(package: str) -> str:
    """The version of ``package`` in ``node/package-lock.json``, installed."""
    node()
    lock = json.loads((NODE / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{package}"]["version"])


class Debian(NamedTuple):
    """Packages of Debian; the first is the client, whose version the table shows."""

    packages: tuple[str, ...]

    def version(self) -> str:
        return _installed(self.packages[0]) or "?"

    def install(self) -> None:
        """Install what is missing, as root; otherwise say what is missing.

        Raises:
            Missing: It is not Debian, not root, or apt-get failed.
        """
        missing = [package for package in self.packages if not _installed(package)]
        if not missing:
            return
        names = " ".join(missing)
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise Missing(f"missing: {names} (Debian: sudo apt-get install {names})")
        print(f"Installing {names} with apt-get, as this is Debian and you are root ...", flush=True)
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            _run(f"apt-get install {names}", command, environment)
        except Missing:
            _run("apt-get update", ["apt-get", "update", "-q"])
            _run(f"apt-get install {names}", command, environment)


RABBITMQ = Debian(("rabbitmq-server",))
RABBITMQ_PLUGINS = ("rabbitmq_management", "rabbitmq_prometheus")


def rabbitmqadmin() -> Path:
    """The command that Debian's rabbitmq-server hands out at ``/cli/rabbitmqadmin`` while it runs."""
    RABBITMQ.install()
    number = RABBITMQ.version()
    directory = ENVIRONMENTS / "rabbitmqadmin"
    path = directory / "rabbitmqadmin"
    if not _is_made(directory, number):
        print("Starting rabbitmq-server once, for its rabbitmqadmin ...", flush=True)
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="interop-") as home:
            broker = RabbitProcess(Path(home), plugins=("rabbitmq_management",))
            broker.start()
            try:
                address = f"http://{broker.host}:{broker.admin_port}/cli/rabbitmqadmin"
                with urllib.request.urlopen(address, timeout=20) as reply:
                    path.write_bytes(reply.read())
            finally:
                broker.stop()
        (directory / MADE).write_text(number)
    return path


def _installed(package: str) -> str:
    """The installed version of a package of Debian, or nothing."""
    if shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "-W", "-f", "${Status}\t${Version}", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    status, _, number = done.stdout.partition("\t")
    return number if done.returncode == 0 and status.startswith("install ok installed") else ""
