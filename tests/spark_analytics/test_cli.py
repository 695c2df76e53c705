"""``amqp-router analytics``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from amqp_router.main import main
from spark_analytics import doctor, spark_session
from spark_analytics.terminal import size_text

from .encoder import (
    Run,
    Sent,
    messages_batch,
    name,
    queue_log,
    routing_batch,
    routing_log,
    stamp,
    write_marks,
)

ROOT = Path(__file__).resolve().parents[2]
T0 = 1_700_000_000_000_000
NAMES = [name("flights", "all", "ua"), name("none")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, "/", NAMES)
    log.append(routing_batch(0, [Run(0, b"UA.EWR.IAH", T0, 1200, 7), Run(1, b"x", T0 + 1, 2, flags=4)]))
    write_marks(tmp_path, [log])
    return tmp_path


class Kept:
    """The session of all tests, which a command must not stop."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self.stopped = 0

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._spark, attribute)

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def kept(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept(spark)
    monkeypatch.setattr(spark_session, "session", lambda *_, **__: kept)
    return kept


EVIL = "evil\x1b[2J\x9b\u202e\u200b\r"


def test_what_controls_a_terminal_is_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stamp(tmp_path)
    (log,) = routing_log(tmp_path, EVIL, [name(EVIL, EVIL)])
    log.append(routing_batch(0, [Run(0, EVIL.encode(), T0, 3)]))
    write_marks(tmp_path, [log])
    command = ["analytics", "stats", "--data-dir", str(tmp_path)]
    assert main(command) == 0
    assert main([*command, "--vhost", EVIL + "x"]) == 2
    output = "".join(capsys.readouterr())
    assert r"evil\x1b[2J\x9b\u202e\u200b\r" in output
    assert all(character.isprintable() or character == "\n" for character in output)
    assert main([*command, "--json"]) == 0
    output = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in output)
    assert json.loads(output)["queue"][0]["queue"] == EVIL


def test_small_data_starts_no_spark(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(spark_session, "session")
    assert main(["analytics", "stats", "--data-dir", str(data)]) == 0
    [segment] = data.glob("routing/*/0/*.log")
    assert f"counted by Arrow in this process: {segment.stat().st_size} B of log\n" in capsys.readouterr().err
    assert main(["analytics", "stats", "--data-dir", str(data), "--vhost", "x"]) == 2
    assert "there is no virtual host 'x'" in capsys.readouterr().err
    amqp = ["--timestamp", "amqp", "--queue", "x"]
    assert main(["analytics", "stats", "--data-dir", str(data), *amqp]) == 2
    assert "analytics: --queue: there is no durable queue 'x'" in capsys.readouterr().err


def test_sizes() -> None:
    sizes = [size_text(size) for size in (0, 1023, 1536, 64 << 20, 5 << 50)]
    assert sizes == ["0 B", "1023 B", "1.5 KiB", "64.0 MiB", "5,120.0 TiB"]


@pytest.mark.parametrize("more", [[], ["--timestamp", "amqp"], ["--top", "1"], ["--since", "2100-01-01"]])
def test_both_engines_count_the_same(
    more: list[str], kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stamp(tmp_path)
    logs = routing_log(tmp_path, "/", [*NAMES, name("", "q", "all")], partitions=2)
    for log in logs:
        log.append(
            routing_batch(
                0,
                [
                    Run(n % 3, b"k%d" % (n % 5), T0 + n * 220_000_000, 1 + n, n, flags=(0, 4, 12, 32)[n % 4])
                    for n in range(20)
                ],
            )
        )
    queue = queue_log(tmp_path, "/", "all", "ab" * 16)
    stamped = (0x0040).to_bytes(2) + (T0 // 1_000_000).to_bytes(8)
    queue.append(
        messages_batch(0, 2, [Sent(n, T0, body=b"b", properties=(stamped, b"\0\0")[n % 2]) for n in range(3)])
    )
    write_marks(tmp_path, [*logs, queue])
    figures = []
    for engine in ("arrow", "spark"):
        assert (
            main(["analytics", "stats", "--data-dir", str(tmp_path), "--json", "--engine", engine, *more])
            == 0
        )
        figures.append(json.loads(capsys.readouterr().out))
        assert figures[-1].pop("engine") == engine
    assert figures[0] == figures[1]
    assert kept.stopped == 1


def test_stats(kept: Kept, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analytics", "stats", "--data-dir", str(data), "--engine", "spark"]) == 0
    output = capsys.readouterr().out
    assert "1,202 messages published, 2,400 copies routed to queues, 2 unroutable (0 returned)" in output
    assert "\x1b" not in output  # not a terminal
    for text in ("UA.EWR.IAH", "2023-11-14 22:00:00", "Messages that went to no queue"):
        assert text in output
    assert kept.stopped == 1


def test_stats_as_json_and_picture(
    kept: Kept, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "p.png"
    command = [
        "analytics",
        "stats",
        "--data-dir",
        str(data),
        "--json",
        "--by",
        "queue",
        "--by",
        "hour",
        "--top",
        "1",
    ]
    assert main([*command, "--plot", str(picture)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["totals"]["messages"] == 1202
    assert figures["queue"] == [{"vhost": "/", "queue": "all", "messages": 1200, "bytes": 8400}]
    assert figures["cut"] == ["queue"]
    assert figures["hour"][0]["hour"] == "2023-11-14T22:00:00Z"
    assert "exchange" not in figures
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_times_are_utc_whatever_the_machine_says(
    kept: Kept, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        command = ["analytics", "stats", "--data-dir", str(data), "--json", "--by", "hour"]
        assert main([*command, "--engine", "spark"]) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    figures = json.loads(capsys.readouterr().out)
    assert figures["hour"][0]["hour"] == "2023-11-14T22:00:00Z"
    assert figures["totals"]["last"] == "2023-11-14T22:13:20.000001Z"


def test_limits_in_time(kept: Kept, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["analytics", "stats", "--data-dir", str(data), "--json", "--by", "key"]
    assert main([*command, "--since", "2023-11-14T22:13:20.000001Z", "--vhost", "/"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["messages"] == 2


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_doctor(kept: Kept, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analytics", "doctor", "--data-dir", str(data)]) == 0
    output = capsys.readouterr().out
    assert "WRONG" not in output
    assert "routing: 1 partitions" in output
    assert "read: exchange 'flights', routing key 'UA.EWR.IAH'" in output
    assert output.endswith("Spark can read the logs.\n")
    assert main(["analytics", "doctor", "--data-dir", str(data / "x")]) == 1
    assert "WRONG data" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--data-dir", "/nowhere"], "/nowhere does not exist; name the folder"),
        (["--queue", "q"], "--queue belongs to --timestamp amqp"),
        (["--by", "colour"], "invalid choice: 'colour'"),
        (["--top", "0"], "not a number above 0"),
        (["--since", "yesterday"], "--since takes a time as 2026-01-31T12:00:00Z"),
        (["--since", "2026-02-01", "--until", "2026-01-01"], "--since is not before --until"),
        (["--plot", "p.pgn"], "--plot p.pgn: a picture ends in .png"),
        (["--plot", "/nowhere/p.png"], "the folder /nowhere is not there"),
    ],
)
def test_refused_before_spark_starts(
    arguments: list[str], text: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["analytics", "stats", "--data-dir", str(data), *arguments])
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    assert text in capsys.readouterr().err


def test_nothing_is_cut_off(kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe is not 80 columns wide."""
    stamp(tmp_path)
    key = "k" * 200
    (log,) = routing_log(tmp_path, "/", NAMES)
    log.append(routing_batch(0, [Run(0, key.encode(), T0)]))
    write_marks(tmp_path, [log])
    assert main(["analytics", "stats", "--data-dir", str(tmp_path), "--by", "key"]) == 0
    assert key in capsys.readouterr().out


def test_a_narrow_window_breaks_names_not_figures(
    kept: Kept, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    assert main(["analytics", "stats", "--data-dir", str(data), "--by", "hour", "--by", "key"]) == 0
    output = capsys.readouterr().out
    for text in ("unroutable", "2023-11-14 22:00:00", "1,202", "8,400"):
        assert text in output


def test_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    stated = {re.split("[<>=]", line)[0]: line for line in [*extras["analytics"], *extras["demo"]]}
    assert {name: doctor.requirement(name) for name in doctor.VERSIONS} == {
        name: stated[name] for name in doctor.VERSIONS
    }


def test_doctor_without_any_package() -> None:
    code = """
import sys
for name in ("numpy", "pyarrow", "pyspark", "rich"):
    sys.modules[name] = None
import importlib.metadata
from amqp_router.main import main
def version(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
sys.exit(main(["analytics", "doctor"]))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (1, "")
    assert "-m pip install 'rich>=13,<16'" in result.stdout
    assert result.stdout.endswith("4 things to set right.\n")


def test_interrupted_while_java_starts(tmp_path: Path) -> None:
    """PySpark alone would leave that Java behind, running for ever."""
    code = """
import os, signal, sys, threading, time
from pyspark.sql import SparkSession
from spark_analytics import session
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
usual = SparkSession.Builder.getOrCreate
def interrupted(self):
    signal.raise_signal(signal.SIGINT)
    return usual(self)
SparkSession.Builder.getOrCreate = interrupted
try:
    session("interrupted", log_file=sys.argv[1], master="local[1]", conf={"spark.driver.memory": "1g"})
except KeyboardInterrupt:
    print("started:", SparkSession._instantiatedSession is not None)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "java.log")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "started: True\n"), result.stderr


def test_the_broker_runs_without_the_extra() -> None:
    """The command line loads nothing of it, and says what to install when it is asked for."""
    code = """
import sys
hidden = ("numpy", "pyarrow", "pyspark", "rich", "pandas", "matplotlib")
for name in hidden:
    sys.modules[name] = None
from amqp_router.main import main
assert not [name for name in hidden if sys.modules[name] is not None]
sys.exit(main(["analytics", "stats"]))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 3
    assert "numpy, pyarrow, rich not installed (the extra `analytics`" in result.stderr
    assert "-m pip install 'numpy" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["analytics", "stats", "--help"])
    assert "amqp-router analytics stats --by queue" in capsys.readouterr().out


def test_all_goes_without_pandas(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Arrow is enough, whatever else of Spark asks for pandas."""
    stub = tmp_path_factory.mktemp("stub")
    (stub / "pandas.py").write_text("raise ImportError('there is no pandas')\n")
    done = subprocess.run(
        [sys.executable, "-m", "amqp_router", "analytics", "doctor", "--data-dir", str(data)],
        env={**os.environ, "PYTHONPATH": f"{stub}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Spark can read the logs." in done.stdout
