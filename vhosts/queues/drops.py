"""What a full quorum queue has dropped, on its way to become dead letters.

Of all that is dropped at once, the letter of the newest message comes first, as in RabbitMQ. Those of
messages that leave with them because they are over, or have returned too often, come later and in their
order. So the messages are gathered until the queue is short enough, and then buried from the newest. Very
many of them take several turns of the loop, and wait for room among the letters on their way. Meanwhile a
message costs 8 bytes: it is read from the log again.

Whatever has not been buried when the process ends is ready again at the next start.

Compiled: see ``drops.pxd``.

Source: RabbitMQ 3.10.8, observed.
"""

from __future__ import annotations

from array import array

from amqp_router.protocol.message import Message
from persistence.errors import PersistenceError
from persistence.memory import MemoryBudget
from vhosts.queues.death import DELIVERY_LIMIT, EXPIRED, MAXLEN
from vhosts.queues.ready.order import logged_message
from vhosts.queues.standing import StandingQueue

#: The first that are gathered keep their contents until they must wait.
HELD_MAX = 64
#: Bytes of each of the others in the node's account of memory.
OFFSET_BYTES = 8
#: Cost of a burial, in deliveries, without and with reading the message again.
BURY_UNITS = 1
READ_UNITS = 3

# C integers where compiled (see drops.pxd).
_HELD_MAX = HELD_MAX
_OFFSET_BYTES = OFFSET_BYTES
_BURY_UNITS = BURY_UNITS
_READ_UNITS = READ_UNITS


class Drops:
    """Those of one queue; all its messages are in its log."""

    __slots__ = ("_account", "_held", "_later", "_later_offsets", "_offsets", "count", "is_begun", "is_whole")

    def __init__(self, account: MemoryBudget) -> None:
        self._account = account
        self._held: list[Message] = []
        #: Of those that came after them.
        self._offsets = array("Q")
        #: What is buried after them, and the offsets of others after that; odd ones for what is over.
        self._later: list[tuple[Message, str]] = []
        self._later_offsets = array("Q")
        #: How many are to be buried.
        self.count = 0
        #: Whether the queue is about to drop, and has looked at the time.
        self.is_begun = False
        #: Whether all are here that are dropped at once.
        self.is_whole = False

    def add(self, message: Message) -> bool:
        """Gather one more; False if memory has no room for another one."""
        self.count += 1
        if len(self._held) < _HELD_MAX:
            self._held.append(message)
            return True
        self._offsets.append(message.offset)
        self._account.kept += _OFFSET_BYTES
        return self._account.has_room_to_keep(_OFFSET_BYTES)

    def add_later(self, message: Message, reason: str) -> None:
        """Gather one that leaves with them for another reason."""
        self.count += 1
        if len(self._later) < _HELD_MAX:
            self._later.append((message, reason))
            return
        self._later_offsets.append(message.offset << 1 | (reason == EXPIRED))
        self._account.kept += _OFFSET_BYTES

    def close(self) -> None:
        """All are here."""
        self.is_whole = True
        self._later.reverse()
        self._later_offsets.reverse()

    def bury_all(self, queue: StandingQueue, done: int, budget: int) -> int:
        """No further one comes: ``bury`` them."""
        if not self.is_whole:
            self.close()
        return self.bury(queue, done, budget)

    def bury(self, queue: StandingQueue, done: int, budget: int) -> int:
        """Bury some, until ``budget`` units are used; returns the units used.

        The others wait for a later turn, or for room among the letters.
        """
        letters = queue.vhost.dead_letters
        while self.count > 0:
            if letters.is_full():
                letters.wait(queue)
                self._rest()
                return done
            if done >= budget:
                self._rest()
                return done
            self.count -= 1
            done += _BURY_UNITS
            reason = MAXLEN
            if self._offsets:
                message = self._read(queue, self._offsets.pop())
                done += _READ_UNITS
            elif self._held:
                message = self._held.pop()
            elif self._later:
                message, reason = self._later.pop()
            else:
                offset = self._later_offsets.pop()
                reason = EXPIRED if offset & 1 else DELIVERY_LIMIT
                message = self._read(queue, offset >> 1)
                done += _READ_UNITS
            letters.add(queue, message, reason)
        self.is_begun = self.is_whole = False
        return done

    def _read(self, queue: StandingQueue, offset: int) -> Message:
        self._account.kept -= _OFFSET_BYTES
        assert queue.log is not None
        try:
            return queue.log.read_one(offset)
        except (OSError, PersistenceError):
            return logged_message(offset)  # its letter fails in the same way, and leaves it to the next start

    def _rest(self) -> None:
        """Keep no contents while others wait."""
        for message in self._held:
            message.content = None
        for message, _ in self._later:
            message.content = None

    def forget(self) -> None:
        """The queue is gone, and with it its log."""
        self._account.kept -= _OFFSET_BYTES * (len(self._offsets) + len(self._later_offsets))
        self._held, self._later = [], []
        self._offsets, self._later_offsets = array("Q"), array("Q")
        self.count = 0
        self.is_begun = self.is_whole = False
