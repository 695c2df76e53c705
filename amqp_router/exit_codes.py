"""The exit codes of the command ``amqp-router``, which its help text shows, and errors that stand for one.

This module is small, so that a command need not load what raises them.
"""

from __future__ import annotations

OK, FAILED, USAGE, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES = {
    OK: "done, or stopped as asked (SIGTERM, SIGINT)",
    FAILED: "an error that the broker's log describes, or `log` found a damaged file",
    USAGE: "an unknown command or option, or an invalid configuration value",
    UNAVAILABLE: "the broker cannot use the data directory or the port, or a package or Java is missing",
    INTERRUPTED: "interrupted (Ctrl-C) before it was done",
}


class ListenError(Exception):
    """An address cannot be listened on: the text is one line that names it, the reason and the way out."""


class LogDirectoryError(Exception):
    """The path has no logs of a broker; the text is one line."""
