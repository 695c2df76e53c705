"""Spark sessions for reading logs: small, quiet, with cheap tasks."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from . import java
from .data_source import AmqpRouterSource

#: Flags for a Java that runs for seconds: the quick compiler, and the garbage collector without threads.
SHORT_LIVED_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
#: The reasons are in docs/analytics.md, "Sessions".
CONFS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "spark_analytics.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def session(
    app_name: str = "amqp-router",
    *,
    master: str = "local[*]",
    log_file: str | os.PathLike[str] | None = None,
    install_java: bool = False,
    conf: dict[str, Any] | None = None,
) -> SparkSession:
    """A session on this machine, or the existing one of the process, set up for the source.

    ``conf`` adds settings or overrides ours. With ``log_file`` Java's standard error is written to that file.

    Raises:
        NoJava: there is no Java and ``install_java`` is not set.
    """
    java.prepare(install=install_java)
    # Spark's default is `python3` of PATH, which may not be that of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Flags of the first of two Javas, which only makes the command line of the second.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED_JAVA)
    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in {**CONFS, **(conf or {})}.items():
        builder = builder.config(key, str(value))
    # PySpark warns of it often, but nothing here uses pandas.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with _standard_error_to(log_file), _interrupts_wait():
        spark = builder.getOrCreate()
    return register(spark)


def register(spark: SparkSession) -> SparkSession:
    """Register the source with an existing session, and return the session.

    Without it, Spark finds the source only if a folder of ``sys.path`` contains the package
    ``pyspark_amqp_router``, which is not so for an editable installation.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The process that plans splits does not know the cluster, so the class has the number of its cores.
        cores = {"cores": spark.sparkContext.defaultParallelism}
        try:
            spark.dataSource.register(type(AmqpRouterSource.__name__, (AmqpRouterSource,), cores))
        except AnalysisException as error:
            # PySpark 4.0 keeps the class that it found itself, which only lacks the cores.
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
    return spark


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, because PySpark would leave a starting Java behind for ever."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _standard_error_to(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Let processes that are started meanwhile write their standard error to a file."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(file)


def write_executor_zip(path: str | os.PathLike[str] | None = None) -> str:
    """Write a zip of the modules that executors need, for ``--py-files`` or ``addPyFile``; returns its
    path.
    """
    if path is None:
        handle, path = tempfile.mkstemp(prefix="amqp-router-", suffix=".zip")
        os.close(handle)
    package = Path(__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.glob("*.py")):
            archive.write(file, f"{package.name}/{file.name}")
        source = "from spark_analytics.data_source import AmqpRouterSource as DefaultSource\n"
        archive.writestr("pyspark_amqp_router/__init__.py", source)
    return os.fspath(path)
