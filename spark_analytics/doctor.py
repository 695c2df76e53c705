"""``amqp-router analytics doctor``: checks everything that Spark needs, and runs a one-row job."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import java
from .errors import AnalyticsError
from .terminal import size_text

#: Versions of each package that are known to work: the lowest one, and the first one not tried.
VERSIONS = {
    "numpy": ("2", "3"),
    "pyarrow": ("17", "27"),
    "pyspark": ("4.0", "4.4"),
    "rich": ("13", "16"),
    "matplotlib": ("3.8", "4"),
}
#: Needed only for pictures.
OPTIONAL = "matplotlib"


class Finding(NamedTuple):
    """The result of one check; ``advice`` says what to do if it is not right."""

    what: str
    right: bool
    text: str
    advice: str = ""


def examine(path: str | None, *, install_java: bool = True) -> Iterator[Finding]:
    """Do one check after the other. Stops if the next one would fail for the same reason."""
    yield Finding("python", True, f"{platform.python_version()} at {sys.executable}")
    missing = False
    for name in [name for name in VERSIONS if name != OPTIONAL]:
        finding = _package(name)
        missing = missing or not finding.right
        yield finding
    if missing:
        return
    finding = _java(install_java=install_java)
    yield finding
    if not finding.right:
        return
    if path is not None:
        finding = _data(path)
        yield finding
        path = path if finding.right else None
    yield from _spark(path)


def _package(name: str) -> Finding:
    low, above = VERSIONS[name]
    advice = f"{sys.executable} -m pip install '{requirement(name)}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, "is not installed", advice)
    good = _numbers(low) <= _numbers(version) < _numbers(above)
    return Finding(name, good, version, "" if good else advice)


def requirement(name: str) -> str:
    """The requirement to pass to pip."""
    low, above = VERSIONS[name]
    return f"{name}>={low},<{above}"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def _java(*, install_java: bool) -> Finding:
    try:
        return Finding("java", True, str(java.prepare(install=install_java)))
    except AnalyticsError as error:
        return Finding("java", False, "none that fits", str(error))


def _data(path: str) -> Finding:
    from .options import parse_options  # noqa: PLC0415 - numpy and pyarrow, which are known to be there by now
    from .snapshot import take_snapshot  # noqa: PLC0415

    try:
        parts = []
        for table in ("routing", "messages"):
            logs = take_snapshot(parse_options({"path": path, "table": table}))
            size = sum(segment.size for log in logs for segment in log.segments)
            parts.append(f"{table}: {len(logs)} partitions, {size_text(size)}")
    except (AnalyticsError, OSError) as error:
        return Finding("data", False, path, str(error))
    return Finding("data", True, f"{os.path.abspath(path)}; {'; '.join(parts)}")


def _spark(path: str | None) -> Iterator[Finding]:
    from .spark_session import SHORT_LIVED_JAVA, session  # noqa: PLC0415 - takes a second

    conf = {"spark.driver.extraJavaOptions": SHORT_LIVED_JAVA, "spark.driver.memory": "1g"}
    with tempfile.NamedTemporaryFile(prefix="amqp-router-spark-", suffix=".log") as log:
        try:
            spark = session("amqp-router doctor", log_file=log.name, master="local[1]", conf=conf)
        except Exception as error:
            log.seek(0)
            text = log.read().decode(errors="replace").strip().splitlines()[-12:]
            yield Finding("session", False, "Spark does not start", "\n".join([first_line(error), *text]))
            return
        try:
            yield Finding("session", True, f"Spark {spark.version}, {spark.sparkContext.master}")
            yield _tried("executors", lambda: _ask_executor(spark), "see docs/analytics.md, Executors")
            if path is not None:
                yield _tried("one row", lambda: _one_row(spark, path), "amqp-router log verify")
        finally:
            spark.stop()


def _tried(what: str, act: Callable[[], str], advice: str) -> Finding:
    try:
        return Finding(what, True, act())
    except Exception as error:
        return Finding(what, False, first_line(error), advice)


def _ask_executor(spark: Any) -> str:
    """A worker's description of itself; fails if the worker cannot import this package."""

    def report(_: int) -> str:
        import spark_analytics.decode  # noqa: PLC0415 - in the worker

        return f"{sys.executable} with {spark_analytics.decode.__file__}"

    # Not mapInArrow, which needs pandas.
    return f"import us: {spark.sparkContext.parallelize([0], 1).map(report).first()}"


def _one_row(spark: Any, path: str) -> str:
    rows = spark.read.format("amqp_router").load(path, columns="vhost,exchange,routing_key").take(1)
    if not rows:
        return "the routing log has no event yet; the job ran"
    return f"read: exchange {rows[0].exchange!r}, routing key {rows[0].routing_key!r}"


def first_line(error: BaseException) -> str:
    """The text of our error inside of Spark's error, or else the first line."""
    text = str(error)
    ours = re.findall(r"^(?:\S+\.)?spark_analytics\.errors\.\w+: (.*)$", text, re.MULTILINE)
    return str(ours[-1]) if ours else (text.strip().splitlines() or [type(error).__name__])[0]
