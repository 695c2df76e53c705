"""What a start does not do: load modules that it does not need, and collect garbage meanwhile.

`python -m bench start` measures how long a start takes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from amqp_router import compiled, main, serving

#: Only the commands beside `serve` need these, or only some starts.
NOT_SERVED = (
    "alembic",  # a database of an older version
    "amqp_router.ctl",
    "amqp_router.log_cli",
    "amqp_router.log_command",
    "amqp_router.log_inspect",
    "amqp_router.log_salvage",
    "amqp_router.log_text",
    "persistence.log.offline",
    "persistence.log.replica",
    "pyspark",
    "spark_analytics",
    "tests",
)
#: The commands beside `serve` do not wait for the broker and its libraries.
NOT_IN_EVERY_COMMAND = ("aiohttp", "amqp_router.broker", "amqp_router.serving", "sqlalchemy")


def loaded(code: str) -> set[str]:
    """The names of the modules that a new interpreter has after ``code``."""
    print_them = "import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{print_them}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_serve_loads_no_module_of_other_commands() -> None:
    modules = loaded("import amqp_router.main, amqp_router.serving, admin_ui.app")
    assert not modules.intersection(NOT_SERVED)


def test_commands_load_no_broker() -> None:
    assert not loaded("import amqp_router.main").intersection(NOT_IN_EVERY_COMMAND)


def test_a_broker_without_pages_and_metrics_loads_no_http_server() -> None:
    assert "aiohttp" not in loaded("import amqp_router.main, amqp_router.serving")


@pytest.mark.parametrize("ends", [0, SystemExit(2)])
def test_collector_rests_while_the_broker_loads(
    ends: int | BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def serve(args: object) -> int:
        seen.append(gc.isenabled())
        if isinstance(ends, BaseException):
            raise ends
        return ends

    monkeypatch.setattr(serving, "serve", serve)
    with contextlib.suppress(SystemExit):
        assert main.main(["serve"]) == ends
    assert seen == [False]
    assert gc.isenabled()


def test_no_folder_is_listed_for_each_module() -> None:
    """Python's finder and ours list a folder once each."""
    code = (
        "import sys; listed = []\n"
        "sys.addaudithook(lambda event, args: listed.append(args[0]) if event == 'os.listdir' else None)\n"
        "import amqp_router.main, amqp_router.serving, admin_ui.app\n"
        "print(max(listed.count(folder) for folder in listed if 'vhosts' in str(folder)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 2


def test_a_module_written_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = compiled.SourceOnlyFinder(frozenset())
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    assert finder.find_spec("vhosts.late", [str(tmp_path)]) is None
    (tmp_path / "late.py").touch()
    importlib.invalidate_caches()
    assert finder.find_spec("vhosts.late", [str(tmp_path)]) is not None
