"""The load generator `amqpload`, a C program outside this repository, and its standard scenarios.

It is looked for in ``../shared/loadgen``; `--loadgen` names another place. A copy is built under ``build/``.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.brokers import ROOT

DEFAULT = ROOT.parent / "shared" / "loadgen"
BUILD = ROOT / "build" / "loadgen"


class NoLoadGenerator(RuntimeError):
    """It is not there, or does not build; the text says which."""


class LoadGenerator:
    """``scenarios`` maps the names of `bench.py` to the options of `amqpload`."""

    def __init__(self, source: Path = DEFAULT) -> None:
        if not (source / "amqpload.c").exists():
            raise NoLoadGenerator(f"no load generator in {source}; name its directory with --loadgen")
        BUILD.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            if path.is_file():
                shutil.copy(path, BUILD / path.name)
        made = subprocess.run(["make", "-s", "-C", str(BUILD)], capture_output=True, text=True, check=False)
        if made.returncode:
            raise NoLoadGenerator(f"the load generator does not build: {made.stderr}")
        self.program = BUILD / "amqpload"
        self.scenarios = self._scenarios()

    def _scenarios(self) -> dict[str, str]:
        spec = importlib.util.spec_from_file_location("loadgen_bench", BUILD / "bench.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        scenarios: dict[str, str] = module.SCENARIOS
        return scenarios

    def command(self, port: int, pid: int, *options: str) -> list[str]:
        """The command line for a run; ``pid`` 0 if the broker is not there yet."""
        watch = ["--broker-pid", str(pid)] if pid else []
        return [str(self.program), "--port", str(port), *watch, *options]

    def run(self, port: int, pid: int, *options: str) -> dict[str, Any]:
        """One run; its JSON, with ``problem`` set to what it complained about if a check failed."""
        done = subprocess.run(self.command(port, pid, *options), capture_output=True, text=True, check=False)
        return self.result(done.returncode, done.stdout, done.stderr)

    @staticmethod
    def result(code: int, stdout: str, stderr: str) -> dict[str, Any]:
        """What a finished run printed."""
        row: dict[str, Any] = json.loads(stdout) if stdout.startswith("{") else {}
        row["problem"] = "" if code == 0 and row else stderr.strip() or f"exit code {code}"
        return row
