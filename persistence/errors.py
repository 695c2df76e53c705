"""What can go wrong with durable state. Every error about content names file and position."""

from __future__ import annotations


class PersistenceError(Exception):
    """Base of this package's errors."""


class LogFailed(PersistenceError):
    """The log is fenced: a write, sync or read failed, and nothing more is accepted or confirmed.

    ``errno`` is the system's number (``errno.EIO``, ``errno.ENOSPC`` ...), or 0.
    """

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class LogsWithoutDefinitions(PersistenceError):
    """Queues have logs and the definition store is new: a start would set all of them aside."""


class CorruptLog(PersistenceError):
    """Bytes that had been synced are not what was written (rot), or a file is missing or foreign.

    Nothing was changed; ``path`` and ``position`` say where.
    """

    def __init__(self, path: str, position: int, text: str) -> None:
        super().__init__(f"{path} at byte {position}: {text}")
        self.path = path
        self.position = position
        self.text = text
