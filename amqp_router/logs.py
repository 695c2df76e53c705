"""The broker log: lines for people or JSON objects for machines, on standard error.

Whoever logs says what happened in a few fixed words and gives the particulars as fields:

    logs.event(logger, logging.INFO, "connection opened", peer="127.0.0.1:50118", user="guest", vhost="/")

which reads ``connection opened  peer=127.0.0.1:50118 user=guest vhost=/`` as text. Never called per message.
A thread of its own writes the lines: a terminal or pipe that nobody reads does not hold up the broker.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from amqp_router.compiled import PACKAGES
from amqp_router.outlet import Outlet, descriptor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
}
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
#: Seconds that a start or a stop waits for lines not yet written.
FLUSH_S = 1.0
_FIELDS = "amqp_router_fields"


def event(logger: logging.Logger, level: int, what: str, **fields: object) -> None:
    """Log `what` happened with its particulars; a field that is None is left out."""
    if logger.isEnabledFor(level):
        known = {name: value for name, value in fields.items() if value is not None}
        logger.log(level, "%s", what, extra={_FIELDS: known})


class Handler(logging.Handler):
    """Hands lines to the thread that writes them."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        # The streams in which tests catch the log have no descriptor.
        write = descriptor(stream.fileno()) if stream in (sys.stderr, sys.__stderr__) else _writer(stream)
        self.outlet = Outlet(write, self._dropped, "log")

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the record over as a line."""
        try:
            self.outlet.put(self.format(record) + "\n")
        except Exception:
            self.handleError(record)

    def _dropped(self, count: int) -> str:
        what = {"count": count, "reason": "nobody read the log"}
        record = logging.LogRecord("amqp_router", logging.WARNING, __file__, 0, "log lines dropped", (), None)
        setattr(record, _FIELDS, what)
        return self.format(record) + "\n"


def _writer(stream: TextIO) -> Callable[[bytes], object]:
    return lambda data: stream.write(data.decode())


def setup(level: str, form: str, stream: TextIO | None = None) -> logging.Logger:
    """Send the program's log to `stream` (standard error) in `form` (text or json); returns its logger.

    Calling it again replaces what the earlier call set.
    """
    stream = stream or sys.stderr
    formatter = JsonFormatter() if form == "json" else TextFormatter(colour=_takes_colour(stream))
    root = logging.getLogger()
    flush()
    root.handlers[:] = [Handler(stream, formatter)]
    set_level(level)
    return logging.getLogger("amqp_router")


def flush() -> None:
    """Wait until the lines so far are written, up to ``FLUSH_S``."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Handler):
            handler.outlet.flush(FLUSH_S)


def _takes_colour(stream: TextIO) -> bool:
    """Source: https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Seldom:
    """Says whether a thing is to be told: each once a minute, or who causes it could fill the log."""

    INTERVAL_S = 60.0
    THINGS_MAX = 10_000

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, float] = {}

    def due(self, thing: str) -> bool:
        """Whether ``thing`` was not told within the last minute; it is told now."""
        now = self._clock()
        if now - self._told.get(thing, float("-inf")) < self.INTERVAL_S:
            return False
        self._told.pop(thing, None)
        self._told[thing] = now
        if len(self._told) > self.THINGS_MAX:
            del self._told[next(iter(self._told))]
        return True


def set_level(level: str) -> None:
    """Log only what is at least as severe as `level` (a key of `LEVELS`); of libraries, only warnings."""
    logging.getLogger().setLevel(max(LEVELS[level], logging.WARNING))
    for package in PACKAGES:
        logging.getLogger(package).setLevel(LEVELS[level])


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, _FIELDS, {})
    return fields


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00.123 INFO  what  name=value``, in UTC; one line, but for a traceback below it."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        time = f"{_time(record):%Y-%m-%d %H:%M:%S}.{int(record.msecs):03d}"
        what = _printable(record.getMessage())
        dim, plain, colour = "", "", ""
        if self._colour:
            dim, plain, colour = DIM, PLAIN, COLOURS.get(record.levelno, COLOURS[logging.ERROR])
        fields = "".join(f" {dim}{name}={plain}{_quoted(value)}" for name, value in _fields(record).items())
        line = (
            f"{dim}{time}{plain} {colour}{record.levelname:<7}{plain} {what}{' ' if fields else ''}{fields}"
        )
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``event``, the fields, ``traceback``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _printable(text: str) -> str:
    """`text` with control characters escaped: a peer's words must not forge a line or move the cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _quoted(value: object) -> str:
    text = _printable(str(value))
    return text if text and " " not in text and '"' not in text else json.dumps(text, ensure_ascii=False)
