"""``make interop``: a table of other people's clients and what each could do with the broker.

A suite (``suite.py``) is a program written for one client (``programs.py``), a client's own tests as its
author ships them (``shipped.py``), or an application under load whose broker is killed (``applications.py``).
Each gets a fresh broker. With ``--rabbitmq`` each runs again with Debian's rabbitmq-server, and the tests are
compared by name: what passes there must pass here. Without it every test must pass but those known to fail
on RabbitMQ.

The whole takes an hour. With ``--save FILE`` each suite's results are in FILE as soon as it is done, and
``--resume FILE`` runs only the suites that FILE does not have.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.brokers import RabbitProcess, RouterProcess
from tests.interop.suites.applications import APPLICATIONS
from tests.interop.suites.environments import RABBITMQ, RABBITMQ_PLUGINS, Missing
from tests.interop.suites.programs import PROGRAMS
from tests.interop.suites.results import FAIL, PASS, SKIP, Result, Results, worse_than
from tests.interop.suites.shipped import SUITES
from tests.interop.suites.suite import Node, Suite
from tests.ports import free_port

ALL: tuple[Suite, ...] = (*PROGRAMS, *SUITES, *APPLICATIONS)
#: Name of the test that a traceback in our broker's log fails.
NO_TRACEBACK = "the broker's log has no traceback"


class Row(NamedTuple):
    """A suite's line in the table. ``theirs`` is None without RabbitMQ; ``left_out`` says what is missing.

    ``seconds`` is how long it took here and with RabbitMQ, without what had to be installed.
    """

    suite: Suite
    version: str
    ours: Results
    theirs: Results | None
    seconds: tuple[float, float]
    left_out: str = ""

    def judged(self) -> dict[str, str]:
        """The tests held against our broker, each with the reason of its failure."""
        failed = self.ours.failures()
        if self.theirs is not None:
            worse = worse_than(self.ours, self.theirs)
            worse += [NO_TRACEBACK] if NO_TRACEBACK in self.ours else []
            failed = {name: failed.get(name, "it did not run, or was skipped") for name in worse}
        return {name: why for name, why in failed.items() if name not in self.suite.fails_on_rabbitmq}


def run_ours(suite: Suite, *, uncompiled: bool) -> Results:
    """Run a suite with our broker."""
    with tempfile.TemporaryDirectory(prefix="interop-") as directory:
        port = free_port()
        broker = RouterProcess(
            Path(directory) / "broker",
            uncompiled=uncompiled,
            options=suite.options,
            environment={"AMQP_ROUTER_METRICS_PORT": str(port)},
        )
        results = _with(broker, Node(broker, port), suite, Path(directory))
        log = broker.log()
    if "Traceback" in log:
        results.add(NO_TRACEBACK, FAIL, log[log.index("Traceback") :])
    return results


def run_rabbitmq(suite: Suite) -> Results:
    """Run a suite with Debian's RabbitMQ."""
    with tempfile.TemporaryDirectory(prefix="interop-") as directory:
        port = free_port()
        broker = RabbitProcess(
            Path(directory) / "broker", settings=f"prometheus.tcp.port = {port}\n", plugins=RABBITMQ_PLUGINS
        )
        return _with(broker, Node(broker, port), suite, Path(directory))


def _with(broker: RouterProcess | RabbitProcess, node: Node, suite: Suite, directory: Path) -> Results:
    files = directory / "files"
    files.mkdir()
    broker.start()
    try:
        return suite.run(node, files)
    finally:
        broker.stop()


def run(suite: Suite, arguments: argparse.Namespace) -> Row:
    """A suite's line; it says on the way what happens."""
    try:
        version = suite.prepare()
    except Missing as missing:
        print(f"{suite.name}: left out. {missing}", flush=True)
        return Row(suite, "", Results(), None, (0.0, 0.0), str(missing))
    started = time.monotonic()
    ours = run_ours(suite, uncompiled=arguments.uncompiled)
    between = time.monotonic()
    _say(suite.name, ours, between - started)
    theirs = None
    if arguments.rabbitmq:
        theirs = run_rabbitmq(suite)
        _say(f"{suite.name}, RabbitMQ", theirs, time.monotonic() - between)
    return Row(suite, version, ours, theirs, (between - started, time.monotonic() - between))


def _say(title: str, results: Results, seconds: float) -> None:
    counts = f"{results.count(PASS)} passed, {results.count(FAIL)} failed, {results.count(SKIP)} skipped"
    print(f"{title}: {counts} in {seconds:.0f} s", flush=True)
    for name, why in (results.figures() | results.failures()).items():
        print(f"  {name}: {why}", flush=True)


def _is_wanted(name: str, texts: Sequence[str] | None) -> bool:
    """Whether a suite is asked for: by its whole name, which means no other, or by a part of it."""
    names = {suite.name for suite in ALL}
    return not texts or any(text == name or (text not in names and text in name) for text in texts)


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    columns: list[tuple[str, Callable[[Row], object]]] = [
        ("client", lambda row: row.suite.name),
        ("version", lambda row: row.version),
        ("passed", lambda row: row.ours.count(PASS)),
        ("failed", lambda row: row.ours.count(FAIL)),
        ("skipped", lambda row: row.ours.count(SKIP)),
        ("seconds", lambda row: f"{row.seconds[0]:.0f}"),
        ("RabbitMQ", lambda row: f"{row.theirs.count(PASS)}/{row.theirs.count(FAIL)}" if row.theirs else "-"),
        ("seconds", lambda row: f"{row.seconds[1]:.0f}" if row.theirs else "-"),
        ("worse", lambda row: "left out" if row.left_out else len(row.judged())),
    ]
    texts = [[title for title, _ in columns]]
    texts += [[str(read(row)) for _, read in columns] for row in rows]
    widths = [max(len(line[number]) for line in texts) for number in range(len(columns))]
    print()
    for line in texts:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def save(path: Path, rows: Sequence[Row]) -> None:
    """Write every test's result by name, of both brokers."""
    whole = {
        row.suite.name: {
            "version": row.version,
            "ours": row.ours,
            "rabbitmq": row.theirs,
            "seconds": row.seconds,
            "left_out": row.left_out,
        }
        for row in rows
    }
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
    new.replace(path)


def saved(path: Path) -> dict[str, Row]:
    """What ``save`` wrote, by the suite's name, without what was left out."""
    whole = json.loads(path.read_text())
    rows = {}
    for suite in ALL:
        told = whole.get(suite.name)
        if told is not None and not told["left_out"]:
            ours, theirs = _results(told["ours"]), _results(told["rabbitmq"])
            rows[suite.name] = Row(suite, told["version"], ours or Results(), theirs, tuple(told["seconds"]))
    return rows


def _results(told: dict[str, list[str]] | None) -> Results | None:
    if told is None:
        return None
    results = Results()
    for name, (status, why) in told.items():
        results[name] = Result(status, why)
    return results


def run_all(chosen: Sequence[Suite], arguments: argparse.Namespace) -> list[Row]:
    """The lines of all suites; those that ``--resume`` has are not run again."""
    done = saved(arguments.resume) if arguments.resume else {}
    keep = arguments.save or arguments.resume
    rows = []
    for suite in chosen:
        row = done.get(suite.name)
        if row is None or (arguments.rabbitmq and row.theirs is None):
            row = run(suite, arguments)
        rows.append(row)
        if keep:
            # Also those that were not chosen this time.
            save(
                keep, [*rows, *(done[name] for name in done if name not in {row.suite.name for row in rows})]
            )
    return rows


def main() -> int:
    """0 if nothing is held against our broker."""
    parser = argparse.ArgumentParser(prog="make interop ARGS=...", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--only",
        metavar="TEXT",
        action="append",
        help="the suite of this name, or else all with TEXT in their names; repeatable",
    )
    parser.add_argument(
        "--rabbitmq", action="store_true", help="each also with Debian's rabbitmq-server; compare"
    )
    parser.add_argument("--uncompiled", action="store_true", help="the broker runs from source")
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="write every test's result by name, as JSON, suite by suite"
    )
    parser.add_argument(
        "--resume", metavar="FILE", type=Path, help="run what FILE of --save does not have, and add it there"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the suites")
    arguments = parser.parse_args()
    chosen = [suite for suite in ALL if _is_wanted(suite.name, arguments.only)]
    if not chosen:
        parser.error(f"no suite has {' or '.join(map(repr, arguments.only))} in its name; see --list")
    if arguments.list:
        print("\n".join(suite.name for suite in chosen))
        return 0
    if arguments.rabbitmq:
        RABBITMQ.install()
    rows = run_all(chosen, arguments)
    show(rows)
    judged = [(row.suite.name, name, why) for row in rows for name, why in row.judged().items()]
    if judged:
        print("\nPass on RabbitMQ and fail here:" if arguments.rabbitmq else "\nFailed:")
        for suite_name, name, why in judged:
            print(f"  {suite_name}: {name}: {why}")
    return 1 if judged else 0


if __name__ == "__main__":
    raise SystemExit(main())
