"""What a log has told the sync of, so that it tells it once for each round.

Compiled, as the log is: see ``due.pxd``.
"""

from __future__ import annotations

from .ports import Rounds


class Due:
    """Whether the log is in the sync's lists of those with messages and of those with settles."""

    __slots__ = ("messages", "settles", "sync")

    def __init__(self, sync: Rounds) -> None:
        self.sync = sync
        self.messages = False
        self.settles = False

    @property
    def is_any(self) -> bool:
        """Whether it is in one of the lists."""
        return self.messages or self.settles

    def clear(self) -> None:
        """A round has it."""
        self.messages = self.settles = False
