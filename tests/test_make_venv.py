"""`tools/make_venv.sh` on systems that lack something, played by stand-ins on the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trees import ROOT

#: A Python as Debian ships it: venv is there, pip for it is not until the package is installed.
DEBIAN_PYTHON = """\
#!/bin/sh
case "$*" in
    *"import ensurepip"*) [ -e "$(dirname "$0")/apt-get.log" ] ;;
    *"-m venv"*) mkdir -p "$3" && echo made >"$3/pyvenv.cfg" ;;
    *) exec {python} "$@" ;;
esac
"""
APT = '#!/bin/sh\necho "$@" >>"$(dirname "$0")/apt-get.log"\n'


def run(folder: Path, *, user: int = 1000, **programs: str) -> subprocess.CompletedProcess[str]:
    programs |= {"id": f"#!/bin/sh\necho {user}\n"}
    for name, text in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(text)
        path.chmod(0o755)
    for tool in ("sh", "dirname", "mkdir"):
        (folder / tool).symlink_to(f"/bin/{tool}" if os.path.exists(f"/bin/{tool}") else f"/usr/bin/{tool}")
    return subprocess.run(
        ["/bin/sh", str(ROOT / "tools" / "make_venv.sh"), str(folder / "venv")],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_python(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.returncode == 1
    assert "Python 3.11 or newer was not found" in result.stderr
    assert "apt-get install python3" in result.stderr


def test_python_too_old(tmp_path: Path) -> None:
    result = run(tmp_path, python3="#!/bin/sh\nexit 1\n")
    assert result.returncode == 1
    assert "Python 3.11 or newer was not found" in result.stderr


def test_no_ensurepip_as_a_user_names_the_package(tmp_path: Path) -> None:
    result = run(tmp_path, python3=DEBIAN_PYTHON.format(python=sys.executable), apt_get=APT)
    assert result.returncode == 1
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt-get install python{version}-venv" in result.stderr
    assert not (tmp_path / "apt-get.log").exists()


def test_no_ensurepip_as_root_installs_it_and_says_so(tmp_path: Path) -> None:
    result = run(tmp_path, user=0, python3=DEBIAN_PYTHON.format(python=sys.executable), apt_get=APT)
    assert result.returncode == 0, result.stderr
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"Missing here: python{version}-venv. Installing with apt-get" in result.stdout
    assert (tmp_path / "apt-get.log").read_text() == f"install -y -q python{version}-venv\n"
    assert (tmp_path / "venv" / "pyvenv.cfg").exists()


@pytest.mark.parametrize("name", ["python3", "python3.11"])
def test_first_python_that_fits(tmp_path: Path, name: str) -> None:
    python = f'#!/bin/sh\ncase "$*" in *"-m venv"*) mkdir "$3" ;; *) exec {sys.executable} "$@" ;; esac\n'
    result = run(tmp_path, **{name: python})
    assert result.returncode == 0, result.stderr
    assert f"with Python {sys.version.split()[0]}" in result.stdout
    assert (tmp_path / "venv").is_dir()
