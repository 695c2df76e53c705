"""A virtual host's way to the definition store."""

from __future__ import annotations

from collections.abc import Sequence

from amqp_router.protocol.errors import InternalError
from persistence.definitions.records import Change
from persistence.errors import PersistenceError
from vhosts.ports import DefinitionsPort


class Submitter:
    """Submits changes, and knows the revision of the last one.

    A call that finds nothing to change returns ``last_rev``: the change it relies on may not be stored yet.
    """

    def __init__(self, definitions: DefinitionsPort) -> None:
        self.last_rev = 0
        #: The virtual host is deleted, and its rows are gone: what is still removed needs no change.
        self.is_over = False
        self._definitions = definitions

    def submit(self, changes: Sequence[Change]) -> int:
        """Store ``changes``, all or none; returns the revision to wait for, 0 without changes.

        Raises:
            InternalError: the store refuses (541).
        """
        if not changes:
            return 0
        if self.is_over:
            return self.last_rev
        try:
            self.last_rev = self._definitions.submit(changes)
        except PersistenceError as error:
            raise InternalError(str(error)) from error
        return self.last_rev
