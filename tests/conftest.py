"""What all tests share."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from amqp_router import compiled
from tests.planting import Plot, plots

# How long an example takes says something about the machine's other load, nothing about the code.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# For tests that are to fail (``tests/planting.py``): the same examples every time, and the first that fails
# is enough. Making it smaller takes Hypothesis anything up to minutes.
settings.register_profile(
    "first failure",
    settings.get_profile("no clock"),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("no clock")

# Brokers of several tests at a time would want the same port.
os.environ.setdefault("AMQP_ROUTER_METRICS_PORT", "0")

# Collecting makes no garbage, and looking for some was a third of it. ``pytest_collection_finish`` ends this.
gc.disable()

# Where the tests beside these say how they ended; not for tests that run tests.
_BESIDE = os.environ.pop("AMQP_ROUTER_TESTS_BESIDE", None)
#: Their files, and what they are.
BESIDE = {
    "apart": "tests that wait for Spark and browsers",
    "observed": "tests of what clients observe",
    "source": "tests of compiled modules, from source",
    "compiled": "tests of compiled modules, compiled",
}


@pytest.fixture(scope="session", name="plots")
def copies_of_the_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Plot]]:
    """Where planted bugs are looked for, one for each processor."""
    with plots(tmp_path_factory.mktemp("plots"), len(os.sched_getaffinity(0))) as found:
        yield found


def pytest_report_header() -> str:
    """Say at the top of a run which build is tested."""
    return f"amqp-router: {compiled.build.summary()}"


def pytest_collection_finish() -> None:
    """Take what collecting has made out of the collector's sight: a full collection costs seconds with it."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what came of the tests that ran beside these (``tools/test_both_ways.sh``)."""
    if _BESIDE is None:
        return
    folder = Path(_BESIDE)
    for name, title in BESIDE.items():
        while not (folder / f"{name}.code").exists():
            time.sleep(0.1)
        passed = (folder / f"{name}.code").read_text().strip() == "0"
        output = (folder / name).read_text(errors="replace").splitlines()
        terminalreporter.section(title)
        for line in _told(output) if passed else output:
            terminalreporter.line(line)


def _told(output: Sequence[str]) -> Sequence[str]:
    """What a run that passed says beyond its dots: what the models did, what was skipped, the last line."""
    wanted = (" moves ", " short test summary ")
    heads = [
        number
        for number, line in enumerate(output)
        if line.startswith("=====") and any(each in line for each in wanted)
    ]
    return output[heads[0] :] if heads else output[-1:]
