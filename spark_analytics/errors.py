"""Errors of reading logs as tables. Every text says what to do, or which bytes are wrong."""

from __future__ import annotations


class AnalyticsError(Exception):
    """Base of all errors of this package."""


class OptionError(AnalyticsError, ValueError):
    """An option, table, column or value that does not exist; the text names the nearest that does."""


class NotADataDirectory(AnalyticsError):
    """The path does not exist, or is not a broker's data directory."""


class FormatVersionError(AnalyticsError):
    """The files have another format version than this reader knows; the text names both."""

    def __init__(self, path: str, found: object, known: object) -> None:
        super().__init__(
            f"{path}: format version {found}, this reader knows version {known}; "
            "read it with the amqp-router release that wrote it"
        )


class CorruptLog(AnalyticsError):
    """Bytes that count as durable are not what was written."""

    def __init__(self, path: str, position: int, offset: int, text: str) -> None:
        super().__init__(
            f"{path} at byte {position}, offset {offset}: {text}; "
            "if the machine lost power, start the broker once, which repairs what its journal has"
        )
        self.path = path
        self.position = position
        self.offset = offset


class IncompleteDirectory(AnalyticsError):
    """A log that the file ``synced`` promises is missing, wholly or in part."""

    def __init__(self, path: str, promised: int, text: str) -> None:
        super().__init__(
            f"{path}: {text}, but the file `synced` promises it up to offset {promised}; put it back from a "
            "copy, start the broker once, or set option failOnDataLoss=false to read what is left"
        )


class NoMarks(AnalyticsError):
    """The file ``synced`` is missing, so nobody can tell which logs there were and how far."""

    def __init__(self, path: str, *, is_stream: bool = False) -> None:
        otherwise = (
            "(a stream cannot do without it)"
            if is_stream
            else "or set option failOnDataLoss=false to read what is there, each log up to its first bad "
            "batch"
        )
        super().__init__(
            f"{path}: the file is missing, which says what logs there are and how far they are durable; "
            f"copy it along with the directory, start the broker once, {otherwise}"
        )


class DataLoss(AnalyticsError):
    """Records that the table had when it was loaded (or that were asked for) are gone."""


class CheckpointError(AnalyticsError):
    """The checkpoint of a stream does not fit what the stream reads."""

    def __init__(self, text: str) -> None:
        super().__init__(f"this checkpoint cannot be used: {text}; name another checkpointLocation")


class NoJava(AnalyticsError):
    """Spark needs a Java runtime, and there is none that fits."""


class MissingExtra(AnalyticsError):
    """A package of the extra ``analytics`` is not installed."""
