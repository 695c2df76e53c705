"""The broker log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from amqp_router import logs, outlet
from amqp_router.compiled import PACKAGES


class Blocking(io.StringIO):
    """Nobody reads it before ``read`` is set; what is written to it while ``broken`` is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.read = threading.Event()
        self.broken = False

    def write(self, text: str) -> int:
        self.read.wait()
        if self.broken:
            raise BrokenPipeError
        return super().write(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def text_of(stream: io.StringIO) -> str:
    logs.flush()
    return stream.getvalue()


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
    time, _, rest = text_of(stream).partition(" INFO ")
    assert len(time) == len("2026-01-31 12:00:00.123")
    assert rest == '   connection opened  peer=127.0.0.1:5 user=guest vhost="a b"\n'


def test_json_line() -> None:
    stream = io.StringIO()
    logger = logs.setup("info", "json", stream)
    logs.event(logger, logging.WARNING, "connection refused", peer="[::1]:5", reason="too\nmany")
    [line] = text_of(stream).splitlines()
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
    assert [line.split()[-1] for line in text_of(stream).splitlines()] == ["shown"]


def test_libraries_only_warn() -> None:
    stream = io.StringIO()
    logs.setup("debug", "text", stream)
    library = logging.getLogger("some.library")
    library.info("chatter")
    library.warning("trouble")
    assert [line.split()[-1] for line in text_of(stream).splitlines()] == ["trouble"]


def test_peer_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    logger = logs.setup("info", "text", stream)
    logs.event(logger, logging.INFO, "login refused", user="x\n2026 INFO all well\x1b[2J")
    assert len(text_of(stream).splitlines()) == 1
    assert "\x1b" not in text_of(stream)


def test_colour_only_on_a_terminal() -> None:
    for stream, coloured in ((io.StringIO(), False), (Terminal(), True)):
        logger = logs.setup("info", "text", stream)
        logs.event(logger, logging.ERROR, "x")
        assert ("\x1b[31m" in text_of(stream)) is coloured


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_for_those_who_want_none(
    variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*variable)
    stream = Terminal()
    logs.event(logs.setup("info", "text", stream), logging.ERROR, "x")
    assert "\x1b" not in text_of(stream)


def test_lines_that_nobody_reads_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "WAITING_BYTES_MAX", 10_000)
    stream = Blocking()
    logger = logs.setup("info", "json", stream)
    for number in range(1000):
        logs.event(logger, logging.INFO, "connection opened", number=number)
    stream.read.set()
    lines = [json.loads(line) for line in text_of(stream).splitlines()]
    kept = [line["number"] for line in lines if line["event"] == "connection opened"]
    assert kept == list(range(len(kept)))
    assert 10 < len(kept) < 1000
    assert lines[-1]["event"] == "log lines dropped"
    assert lines[-1]["level"] == "warning"
    assert lines[-1]["count"] == 1000 - len(kept)


def test_dropped_lines_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "WAITING_BYTES_MAX", 10_000)
    stream = Blocking()
    logger = logs.setup("info", "text", stream)
    logs.event(logger, logging.INFO, "x" * 20_000)
    stream.read.set()
    text_of(stream)
    logs.event(logger, logging.INFO, "later")
    assert text_of(stream).count("dropped") == 1


def test_what_cannot_be_written_is_counted_and_the_next_line_tried() -> None:
    stream = Blocking()
    stream.read.set()
    stream.broken = True
    logger = logs.setup("info", "text", stream)
    logs.event(logger, logging.INFO, "lost")
    text_of(stream)
    stream.broken = False
    logs.event(logger, logging.INFO, "later")
    later, dropped = text_of(stream).splitlines()
    assert later.endswith("later")
    assert "log lines dropped  count=1" in dropped


def test_the_end_waits_for_lines_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FLUSH_S", 0.01)
    stream = Blocking()
    logs.event(logs.setup("info", "text", stream), logging.INFO, "x")
    logs.flush()
    assert stream.getvalue() == ""
    stream.read.set()
    monkeypatch.setattr(logs, "FLUSH_S", 60)
    logs.flush()
    assert stream.getvalue().endswith("x\n")


def test_traceback() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        logger = logs.setup("info", form, stream)
        try:
            raise ValueError("deep")
        except ValueError:
            logger.exception("the broker failed")
        assert "ValueError: deep" in text_of(stream)
    assert len(text_of(stream).splitlines()) == 1
