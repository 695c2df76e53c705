"""What can go wrong with a definition store. Every text names the file, and the way out if there is one."""

from __future__ import annotations

from pathlib import Path

from persistence.errors import PersistenceError


class DefinitionsError(PersistenceError):
    """Base of all errors of this package."""


class SchemaTooNew(DefinitionsError):
    """The store was written by a later release; it is left as it is."""

    def __init__(self, path: Path, found: str, known: str) -> None:
        super().__init__(
            f"{path}: definitions have schema {found!r}, this release knows up to {known!r}; "
            "start the release that wrote them, or restore the copy made before the upgrade"
        )
        self.path = path
        self.found = found
        self.known = known


class NotADefinitionStore(DefinitionsError):
    """The file is damaged, or something else lies in its place; it is left as it is."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(f"{path}: cannot be read as definitions: {reason}; restore it from a copy")
        self.path = path


class StoreFailed(DefinitionsError):
    """A transaction could not be stored. No later one is stored before it.

    ``passing``: the store tries again until it is stored. Otherwise memory is ahead of the disk until a
    restart. No client was told that later changes are stored.
    """

    def __init__(self, path: Path, reason: object, *, passing: bool = False) -> None:
        way_out = "it is tried again" if passing else "repair the cause and restart"
        super().__init__(f"{path}: definitions cannot be stored: {reason}; {way_out}")
        self.path = path
        self.reason = reason
        self.passing = passing


class StoreStopped(DefinitionsError):
    """The store is not running: not started yet, or stopped."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: the definition store is not running")
        self.path = path


class RevTrimmed(DefinitionsError):
    """The changes after a rev are no longer kept; a snapshot must be taken instead."""

    def __init__(self, rev: int, oldest: int) -> None:
        super().__init__(f"changes after rev {rev} are gone, they are kept after rev {oldest}")
        self.rev = rev
        self.oldest = oldest
