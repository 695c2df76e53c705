"""The room that the contents under way of one connection take in the node's account of memory.

Contents under way have not arrived as a whole, or wait in a transaction.
"""

from __future__ import annotations

from amqp_router.protocol import errors
from persistence.memory import MemoryBudget


class Intake:
    """Room in the node's memory for the contents under way of one connection."""

    __slots__ = ("account", "announced")

    def __init__(self, account: MemoryBudget) -> None:
        #: The node's ``MemoryBudget``.
        self.account = account
        #: Bytes of these contents, as announced by their headers.
        self.announced = 0

    def admit(self, size: int) -> int:
        """Reserve room for a content of ``size`` bytes. It is refused now or will not be refused at all.

        Raises:
            PreconditionFailed: there is no room (406).
        """
        if not self.account.admit(size, self.announced):
            raise errors.PreconditionFailed(
                f"message size {size} is larger than the memory left for messages under way "
                f"({self.announced} bytes of this connection are); publish it again later, "
                "or raise the broker's memory_limit",
                class_id=60,
                method_id=40,
            )
        self.announced += size
        return 0

    def release(self, size: int) -> None:
        """Give back the room of a content of ``size`` bytes that is complete, or never will be."""
        self.announced -= size
        self.account.release(size)
