"""What can go wrong with durable state. Every error about content names file and position."""

from __future__ import annotations

import errno

#: Errors that pass: the machine lacks space, quota, descriptors or memory. Nothing is damaged.
PASSING_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class PersistenceError(Exception):
    """Base of this package's errors."""


class LogFailed(PersistenceError):
    """The log is fenced: a write, sync or read failed, and no message is accepted or confirmed.

    This lasts until a restart, or after a passing error (``is_passing``) until a later attempt succeeds.

    ``errno`` is the system's number (``errno.EIO``, ``errno.ENOSPC`` ...), or 0.
    """

    def __init__(self, text: str, errno: int = 0) -> None:
        super().__init__(text)
        self.errno = errno


class LogsWithoutDefinitions(PersistenceError):
    """Queues have logs, but the definition store is new. A start would set all of the logs aside."""


class CorruptLog(PersistenceError):
    """Bytes that had been synced are not what was written (rot), or a file is missing or foreign.

    Nothing was changed; ``path`` and ``position`` say where.
    """

    def __init__(self, path: str, position: int, text: str) -> None:
        super().__init__(f"{path} at byte {position}: {text}")
        self.path = path
        self.position = position
        self.text = text


def is_passing(error: Exception) -> bool:
    """Whether the same call may succeed later: the disk is full, or descriptors are used up."""
    return isinstance(error, (OSError, LogFailed)) and error.errno in PASSING_ERRNOS
