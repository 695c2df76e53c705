"""Contents of messages in memory: what they are counted with, and which of them go to disk.

The node's account counts each content with the objects around it. A logged message is counted while its
content is in memory. A transient one is counted until it is settled; if memory is short while it is
delivered and not settled, its content is put aside: it moves to a file until it is delivered again.
"""

from __future__ import annotations

from typing import Any

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from persistence.log.queue.queue_log import QueueLog
from persistence.log.queue.spill import Spill
from persistence.memory import MemoryBudget

#: Bytes of the objects around a message's content.
OVERHEAD = 160
#: What it costs to write a content aside or to read it back, in deliveries; and the octets, to the power of
#: 2, that cost one more.
SPILL_UNITS = 30
SPILL_OCTETS_SHIFT = 9

# C integers where compiled (see contents.pxd).
_OVERHEAD = OVERHEAD
_SPILL_UNITS = SPILL_UNITS
_SPILL_OCTETS_SHIFT = SPILL_OCTETS_SHIFT


class Contents:
    """The contents of all queues of a node; ``budget`` is the node's account of memory.

    ``spill`` writes contents to files; without it they stay in memory.
    """

    __slots__ = ("budget", "spill")

    def __init__(self, budget: MemoryBudget, spill: Spill | None = None) -> None:
        self.budget = budget
        self.spill = spill

    def put_aside(self, message: Message) -> None:
        """Move the content of a delivered transient message to disk if memory is short."""
        budget = self.budget
        if message.flags & (flags.LOGGED | flags.SPILLED) or budget.used < budget.limit or self.spill is None:
            return
        self._count_work(message)
        if self.spill.put(message):
            message.flags |= flags.SPILLED
            budget.used -= message.size()

    def take_back(self, message: Message) -> None:
        """Read back the content of a message that was put aside. A large one is read while it is sent.

        Raises:
            OSError, PersistenceError: it cannot be read.
        """
        content: Any = message.content  # put aside, so a ``spill.SpilledContent``
        if not content.is_whole:
            return
        self._count_work(message)
        message.content = content[0]
        message.flags &= ~flags.SPILLED
        self.budget.used += message.size()

    def recall(self, message: Message, log: QueueLog | None) -> None:
        """See that a delivered message of the queue with this log has its content.

        Raises:
            OSError, PersistenceError: it cannot be read.
        """
        if message.content is None:
            assert log is not None  # nobody else drops contents
            message.take_content(log.read_one(message.offset))
        elif message.flags & flags.SPILLED:
            self.take_back(message)

    def release(self, message: Message) -> None:
        """A transient message that was delivered or returned is gone."""
        self.budget.used -= _OVERHEAD if message.flags & flags.SPILLED else message.size() + _OVERHEAD

    def _count_work(self, message: Message) -> None:
        self.budget.work += _SPILL_UNITS + (message.size() >> _SPILL_OCTETS_SHIFT)
