"""``make interop``: a table of other people's clients and what each could do with the broker.

Every client gets an environment of its own below ``.venv-interop``, made from PyPI on the first run, and a
fresh broker. ``clients/check_*.py`` are the scripts. A directory with the clients' own test suites, each a
shell script that takes HOST and PORT and ends with "NAME: P passed, F failed, S skipped", is run with
``--suites DIRECTORY``; what fails there is shown and not judged, as suites also test what we refuse by name.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.brokers import ROOT, Broker, RabbitProcess, RouterProcess

ENVIRONMENTS = ROOT / ".venv-interop"
SCRIPTS = Path(__file__).resolve().parent / "clients"
SCRIPT_SECONDS = 300
SUITE_SECONDS = 1500


class Client(NamedTuple):
    """A row of the table."""

    name: str
    requirements: tuple[str, ...]
    script: str
    options: tuple[str, ...] = ()
    script_options: tuple[str, ...] = ()
    #: A program that must be there already; without it the client is left out.
    program: str = ""
    #: Whether it needs the HTTP API, which RabbitMQ is started without.
    admin: bool = False


CELERY = ("celery==5.7.0", "kombu==5.7.0")
KOMBU = ("kombu==5.7.0", "amqp==5.4.2")
AS_ITSELF = ("--product", "amqp-router")
CLIENTS = [
    Client("pika", ("pika==1.3.2",), "check_pika.py"),
    Client("aio-pika", ("aio-pika==10.2.1",), "check_aio_pika.py"),
    Client("aiormq", ("aiormq==7.2.4",), "check_aiormq.py"),
    Client("amqpstorm", ("AMQPStorm==3.1.4",), "check_amqpstorm.py"),
    Client("py-amqp", ("amqp==5.4.2",), "check_py_amqp.py"),
    Client("kombu", KOMBU, "check_kombu.py"),
    # kombu asks for prefetch differently of a product that is not called RabbitMQ.
    Client("kombu, product amqp-router", KOMBU, "check_kombu.py", AS_ITSELF),
    Client("celery", CELERY, "check_celery.py"),
    Client("celery, quorum queues", CELERY, "check_celery.py", script_options=("quorum",)),
    Client("flower", ("flower==2.2.0", *CELERY), "check_flower.py", admin=True),
    Client("rabbitpy", ("rabbitpy==3.0.2",), "check_rabbitpy.py"),
    Client("amqp-tools (C)", (), "check_amqp_tools.py", program="amqp-publish"),
]


class Row(NamedTuple):
    """A client's line in the table."""

    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    problems: list[str]


def environment(requirements: Sequence[str]) -> Path:
    """The Python of an environment with ``requirements``; made if it is not there.

    Raises:
        SystemExit: it cannot be made, and why.
    """
    directory = ENVIRONMENTS / re.sub(r"[^\w.=-]+", "_", "+".join(requirements))
    if not requirements:
        return Path(sys.executable)
    python = directory / "bin" / "python"
    made = directory / "made"
    if not made.exists():
        print(f"Installing {', '.join(requirements)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install"]
        installed = subprocess.run([*pip, *requirements], capture_output=True, text=True, check=False)
        if installed.returncode:
            raise SystemExit(f"pip could not install {', '.join(requirements)}:\n{installed.stderr[-2000:]}")
        made.touch()
    return python


def check(client: Client, broker: Broker) -> Row:
    """Run a client's script; a script that dies or hangs counts as one failure more."""
    started = time.monotonic()
    command = [
        str(environment(client.requirements)),
        str(SCRIPTS / client.script),
        broker.host,
        str(broker.port),
        str(getattr(broker, "admin_port", 0)),
        *client.script_options,
    ]
    passed, problems, ended = 0, [], ""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=output, stderr=errors, start_new_session=True, cwd=tempfile.gettempdir()
        )
        try:
            code = process.wait(SCRIPT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            ended = f"not done within {SCRIPT_SECONDS} s"
        output.seek(0)
        errors.seek(0)
        for line in output:
            status, _, rest = line.rstrip("\n").partition("\t")
            if status == "PASS":
                passed += 1
            elif status == "FAIL":
                problems.append(rest.replace("\t", ": "))
        nothing = not passed and not problems
        if not ended and (nothing or code not in (0, 1)):
            ended = f"ended with code {code}"
        if ended:
            problems.append(f"{ended}: {errors.read()[-600:].strip()}")
    return Row(client.name, passed, len(problems), 0, time.monotonic() - started, problems)


def run_suite(script: Path, broker: Broker) -> Row:
    """Run a client's own test suite."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            ["bash", str(script), broker.host, str(broker.port), "1"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(SUITE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        output.seek(0)
        lines = output.read().splitlines()
    seconds = time.monotonic() - started
    found = re.search(r": (\d+) passed, (\d+) failed, (\d+) skipped$", lines[-1] if lines else "")
    if found is None:
        return Row(f"suite of {script.stem}", 0, 1, 0, seconds, [f"no result: {' / '.join(lines[-3:])}"])
    passed, failed, skipped = map(int, found.groups())
    problems = [line.removeprefix("FAIL ") for line in lines if line.startswith("FAIL")]
    return Row(f"suite of {script.stem}", passed, failed, skipped, seconds, problems)


def with_broker(arguments: argparse.Namespace, options: Sequence[str], act: Callable[[Broker], Row]) -> Row:
    """``act`` with a broker of its own; a traceback in the broker's log is a failure more."""
    with tempfile.TemporaryDirectory(prefix="interop-") as directory:
        broker: Broker
        if arguments.rabbitmq:
            broker = RabbitProcess(Path(directory))
        else:
            broker = RouterProcess(Path(directory), uncompiled=arguments.uncompiled, options=options)
        broker.start()
        try:
            row = act(broker)
        finally:
            broker.stop()
        log = "" if arguments.rabbitmq else broker.log()
    if "Traceback" in log:
        text = log[log.index("Traceback") :][:1500]
        return row._replace(failed=row.failed + 1, problems=[*row.problems, f"the broker's log has a {text}"])
    return row


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    width = max(len(row.name) for row in rows)
    print(f"\n{'client':{width}}  passed  failed  skipped  seconds")
    for row in rows:
        print(f"{row.name:{width}}  {row.passed:6}  {row.failed:6}  {row.skipped:7}  {row.seconds:7.1f}")


def main() -> int:
    """0 if every script passed."""
    parser = argparse.ArgumentParser(prog="make interop ARGS=...", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="TEXT", help="only clients with TEXT in their name")
    parser.add_argument("--rabbitmq", action="store_true", help="against Debian's rabbitmq-server instead")
    parser.add_argument("--uncompiled", action="store_true", help="the broker runs from source")
    parser.add_argument("--suites", metavar="DIRECTORY", type=Path, help="also the clients' own test suites")
    parser.add_argument("--suite", action="append", metavar="NAME", help="only this one of them; repeatable")
    arguments = parser.parse_args()
    rows = []
    for client in CLIENTS:
        if arguments.only and arguments.only not in client.name:
            continue
        if client.program and shutil.which(client.program) is None:
            rows.append(Row(client.name, 0, 0, 1, 0.0, []))
            print(f"{client.name}: left out, there is no {client.program}", flush=True)
            continue
        if client.admin and arguments.rabbitmq:
            rows.append(Row(client.name, 0, 0, 1, 0.0, []))
            print(f"{client.name}: left out, RabbitMQ runs without its HTTP API", flush=True)
            continue
        options = () if arguments.rabbitmq else client.options
        row = with_broker(arguments, options, lambda broker, client=client: check(client, broker))
        rows.append(row)
        print(f"{row.name}: {row.passed} passed, {row.failed} failed", flush=True)
        for problem in row.problems:
            print(f"  {problem}", flush=True)
    failed = sum(row.failed for row in rows)
    for script in sorted(arguments.suites.glob("*.sh")) if arguments.suites else []:
        if arguments.suite and script.stem not in arguments.suite:
            continue
        row = with_broker(arguments, (), lambda broker, script=script: run_suite(script, broker))
        rows.append(row)
        print(f"{row.name}: {row.passed} passed, {row.failed} failed, {row.skipped} skipped", flush=True)
        for problem in row.problems:
            print(f"  {problem}", flush=True)
    if not rows:
        parser.error(f"no client has {arguments.only!r} in its name")
    show(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
