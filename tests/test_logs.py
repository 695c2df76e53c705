"""The broker log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from amqp_router import logs
from amqp_router.compiled import PACKAGES


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _root_logger_put_back() -> Iterator[None]:
    loggers = [logging.getLogger(), *map(logging.getLogger, PACKAGES)]
    handlers, levels = loggers[0].handlers[:], [logger.level for logger in loggers]
    yield
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def test_text_line() -> None:
    stream = io.StringIO()
    logger = logs.setup("info", "text", stream)
    logs.event(
        logger, logging.INFO, "connection opened", peer="127.0.0.1:5", user="guest", vhost="a b", client=None
    )
    time, _, rest = stream.getvalue().partition(" INFO ")
    assert len(time) == len("2026-01-31 12:00:00.123")
    assert rest == '   connection opened  peer=127.0.0.1:5 user=guest vhost="a b"\n'


def test_json_line() -> None:
    stream = io.StringIO()
    logger = logs.setup("info", "json", stream)
    logs.event(logger, logging.WARNING, "connection refused", peer="[::1]:5", reason="too\nmany")
    [line] = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "level": "warning",
        "logger": "amqp_router",
        "event": "connection refused",
        "peer": "[::1]:5",
        "reason": "too\nmany",
    }


def test_level_hides_and_can_be_changed() -> None:
    stream = io.StringIO()
    logger = logs.setup("warning", "text", stream)
    logs.event(logger, logging.INFO, "hidden")
    logs.set_level("debug")
    logs.event(logger, logging.DEBUG, "shown")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["shown"]


def test_libraries_only_warn() -> None:
    stream = io.StringIO()
    logs.setup("debug", "text", stream)
    library = logging.getLogger("some.library")
    library.info("chatter")
    library.warning("trouble")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()] == ["trouble"]


def test_peer_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    logger = logs.setup("info", "text", stream)
    logs.event(logger, logging.INFO, "login refused", user="x\n2026 INFO all well\x1b[2J")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


def test_colour_only_on_a_terminal() -> None:
    for stream, coloured in ((io.StringIO(), False), (Terminal(), True)):
        logger = logs.setup("info", "text", stream)
        logs.event(logger, logging.ERROR, "x")
        assert ("\x1b[31m" in stream.getvalue()) is coloured


def test_traceback() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        logger = logs.setup("info", form, stream)
        try:
            raise ValueError("deep")
        except ValueError:
            logger.exception("the broker failed")
        assert "ValueError: deep" in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1
