"""Rows as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

FORMATS = ("table", "json", "csv")


def pick(row: Any, column: str) -> Any:
    """The value of a dotted column; None if it is missing."""
    for name in column.split("."):
        if not isinstance(row, dict):
            return None
        row = row.get(name)
    return row


def text(value: Any) -> str:
    """A value on one line. Characters that a terminal obeys are escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        shown = json.dumps(value, ensure_ascii=False) if value else ""
    else:
        shown = str(value)
    return shown if shown.isprintable() else "".join([c if c.isprintable() else repr(c)[1:-1] for c in shown])


def rows_text(rows: Sequence[Any], columns: Sequence[str], form: str) -> str:
    """Rows in one of `FORMATS`."""
    if form == "json":
        picked = [{column: pick(row, column) for column in columns} for row in rows]
        return json.dumps(picked, indent=1, ensure_ascii=False)
    lines = [[text(pick(row, column)) for column in columns] for row in rows]
    if form == "csv":
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([columns, *lines])
        return buffer.getvalue().rstrip("\n")
    widths = [max(map(len, each)) for each in zip(columns, *lines, strict=True)]
    shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in [list(columns), *lines]]
    return "\n".join(shown)


def pairs_text(found: dict[str, Any], form: str) -> str:
    """One object: a line for each of its fields."""
    if form == "json":
        return json.dumps(found, indent=1, ensure_ascii=False)
    return rows_text(
        [{"name": name, "value": value} for name, value in found.items()], ["name", "value"], form
    )


def show(shown: str) -> None:
    """Print, also names that are not UTF-8."""
    sys.stdout.write(shown.encode("utf-8", "backslashreplace").decode() + "\n")


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """On a terminal, says what is waited for and for how long; nothing of it stays."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def tick() -> None:
        while not done.wait(0.5):
            print(f"\r{what} ... {time.monotonic() - began:.0f} s\x1b[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
