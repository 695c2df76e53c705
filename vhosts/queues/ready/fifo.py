"""First in, first out: the order of AMQP.

The messages, in order of offset, are always the concatenation of

1. ``requeued``: returned messages, by offset; those of the log keep no content;
2. the ``ring``: the window of messages in memory that consumers will get next;
3. the backlog: ``backlog`` messages at offsets from ``cursor`` to the end. They are in the log or, if they
   are transient and the node's memory budget is used up, in the page log.

Every requeued offset is below every ring offset, because delivery takes the lowest offset first. Every ring
offset is below ``cursor``. A message joins the ring only while the backlog is empty, which keeps the order.

A consumer may return a million messages at once, which takes many turns of the loop, and in the order in
which it got them. Until all of them are back nothing is given. Otherwise other consumers would get newer
messages before the older ones that are still on their way.

If other nodes have copies of the log, a message is held back until its offset lies below the high watermark
(``Copies.visible_end``). What was returned has been delivered before, so it need not wait again.
"""

from __future__ import annotations

from amqp_router.protocol import flags
from amqp_router.protocol.message import Message
from persistence.errors import PersistenceError, is_passing
from persistence.log.queue.page_log import PageLog
from persistence.memory import MemoryBudget
from vhosts.queues.contents import OVERHEAD
from vhosts.queues.ready.order import ReadyOrder, Trouble
from vhosts.queues.ready.returned import Returned
from vhosts.queues.ready.ring import Ring

#: Limit of the part of a logged queue that is in memory, in content bytes.
WINDOW_BYTES = 8 << 20

# C integers where compiled (see fifo.pxd).
_WINDOW_BYTES = WINDOW_BYTES
_COUNTED_MESSAGES = 1024
_UNWANTED_MESSAGES = 64  # without consumers
_PEEKED_MESSAGES = 256  # read together by who takes one after the other
_GROW_SHIFT = 4  # places of a ring, to the power of 2, that cost as much as an enqueue when it grows
_OVERHEAD = OVERHEAD


class FifoOrder(ReadyOrder):
    """Oldest first."""

    __slots__ = (
        "backlog",
        "cursor",
        "paged",
        "paged_bodies",
        "paged_end",
        "pager",
        "requeued",
        "reread",
        "ring",
        "ring_bodies",
        "ring_bytes",
        "skips_returned",
        "uncounted_from",
        "uncounted_to",
        "unlogged_bytes",
    )

    def __init__(self) -> None:
        super().__init__()
        self.pager: PageLog | None = None
        #: The offset after the last message given to the page log; how many are there, and octets of their
        #: bodies.
        self.paged_end = 0
        self.paged = 0
        self.paged_bodies = 0
        self.ring = Ring()
        self.ring_bytes = 0
        #: Octets of the bodies of those in the ring; and in ring and backlog of those that the log does not
        #: have.
        self.ring_bodies = 0
        self.unlogged_bytes = 0
        #: Made for the first one; stays when it is empty.
        self.requeued: Returned | None = None
        self.reread: dict[int, Message] = {}
        self.backlog = 0
        self.cursor = 0
        #: What has returned before a start is not in the backlog.
        self.skips_returned = False
        #: Recovered messages at offsets from here to there are not counted in ``body_bytes``.
        self.uncounted_from = 0
        self.uncounted_to = 0

    # -- adding ---------------------------------------------------------------------------------------

    def push(self, message: Message, logged: bool) -> bool:
        budget: MemoryBudget = self.contents.budget
        size = message.size() + _OVERHEAD
        if self.backlog == 0:
            if logged:
                if (
                    self.wanted
                    and self.ring.count < self.window
                    and self.ring_bytes < _WINDOW_BYTES
                    and budget.used < budget.limit
                ):
                    self._push(message, size)
                else:
                    self.cursor = message.offset
                    self.backlog = 1
            elif budget.used < budget.limit:
                self._push(message, size)
            else:
                self.cursor = message.offset
                if not self._page(message):
                    return False
        elif logged:
            self.backlog += 1
        elif not self._page(message):
            return False
        self.count += 1
        self.body_bytes += message.body_size
        if not logged:
            self.transient_bytes += message.body_size
            self.unlogged_bytes += message.body_size
        return True

    def _push(self, message: Message, size: int) -> None:
        budget: MemoryBudget = self.contents.budget
        grown = self.ring.push(message)
        if grown > 0:
            budget.work += grown >> _GROW_SHIFT
        self.ring_bytes += size
        self.ring_bodies += message.body_size
        budget.used += size

    def _page(self, message: Message) -> bool:
        """Write a transient message beyond the memory budget to the page file, which lasts as long as the
        process.
        """
        try:
            if self.pager is None:
                self.pager = self.node.page_log(self.incarnation)
            self.pager.append(message, self.tick.now_us)
        except (OSError, PersistenceError) as error:
            if not is_passing(error):
                # Earlier messages in the file may be lost too, and with them the order: nothing more is
                # delivered.
                self.trouble = Trouble(f"its page file failed: {error}")
            # Otherwise only this message is refused; the messages in the file are still good.
            return False
        self.backlog += 1
        self.paged += 1
        self.paged_bodies += message.body_size
        self.paged_end = message.offset + 1
        return True

    def put_back(self, message: Message) -> None:
        if self.requeued is None:
            self.requeued = Returned()
        self.requeued.add(message)
        self.count += 1
        self.body_bytes += message.body_size

    def recovered(self) -> None:
        log = self.log
        assert log is not None
        self.backlog = self.count = log.batches.state.live
        self.cursor = self.uncounted_from = log.start
        self.uncounted_to = log.end

    # -- taking ---------------------------------------------------------------------------------------

    def pop(self) -> Message | None:
        """The message with the lowest offset."""
        if self.returning > 0 and self.return_left > 0:
            return None
        if self.requeued is not None and self.requeued.count > 0:
            return self._pop_requeued()
        ring = self.ring
        if ring.count == 0:
            if self.backlog == 0:
                return None
            self._load(self.window if self.wanted else min(self.window, _UNWANTED_MESSAGES))
            if ring.count == 0:
                return None
        message = ring.head()
        log = self.log
        if log is not None and message.offset >= log.copies.visible_end and message.flags & flags.LOGGED:
            return None
        ring.take()
        self.count -= 1
        if message.offset < self.uncounted_from or message.offset >= self.uncounted_to:
            self.body_bytes -= message.body_size
        size = message.size() + _OVERHEAD
        self.ring_bytes -= size
        self.ring_bodies -= message.body_size
        if message.flags & flags.LOGGED:
            self.contents.budget.used -= size
        else:
            self.unlogged_bytes -= message.body_size
        return message

    def peek(self, eager: bool) -> Message | None:
        if self.returning > 0 and self.return_left > 0:
            return None
        if self.requeued is not None and self.requeued.count > 0:
            returned = self.requeued.lowest()
            log = self.log
            if (
                log is not None
                and returned.offset >= log.copies.visible_end
                and returned.flags & flags.LOGGED
            ):
                return None
            return returned
        if self.ring.count == 0:
            if self.backlog == 0:
                return None
            self._load(min(self.window, _PEEKED_MESSAGES) if eager else 1)
            if self.ring.count == 0:
                return None
        message = self.ring.head()
        log = self.log
        if log is not None and message.offset >= log.copies.visible_end and message.flags & flags.LOGGED:
            return None
        return message

    def _pop_requeued(self) -> Message | None:
        requeued = self.requeued
        assert requeued is not None
        message = requeued.lowest()
        if not self._restore(message):
            return None
        requeued.take()
        self.count -= 1
        self.body_bytes -= message.body_size
        if requeued.count == 0:
            self.reread.clear()
        return message

    def _restore(self, message: Message) -> bool:
        """See that a returned message, the head, has its content; False if it is held back, or in
        ``trouble``.
        """
        log = self.log
        if log is not None and message.offset >= log.copies.visible_end and message.flags & flags.LOGGED:
            return False  # it was delivered before the log had copies
        if message.content is None:
            found = self.reread.pop(message.offset, None)
            if found is None:
                found = self._reread(message.offset)
                if found is None:
                    return False
            message.take_content(found)
        elif message.flags & flags.SPILLED:
            try:
                self.contents.take_back(message)
            except (OSError, PersistenceError) as error:
                self.trouble = Trouble(f"a message that was put aside cannot be read: {error}", error)
                return False
        return True

    def _reread(self, offset: int) -> Message | None:
        """Read the content of a returned message again, and of those after it, which will be delivered
        next.
        """
        log = self.log
        assert log is not None  # nobody else drops contents
        assert self.requeued is not None
        try:
            messages, _ = log.read(offset, log.end, min(256, self.requeued.count), 1 << 18)
        except (OSError, PersistenceError) as error:
            self.trouble = Trouble(f"its log failed: {error}", error)
            return None
        self.reread = {message.offset: message for message in messages}
        found = self.reread.pop(offset, None)
        if found is None:
            self.trouble = Trouble(f"its log failed: message at offset {offset} is not in the log")
        return found

    def _load(self, room: int) -> None:
        """Fill the window from the backlog, in offset order, with up to ``room`` messages."""
        budget: MemoryBudget = self.contents.budget
        size = 1 << 19
        if budget.used >= budget.limit:
            room = min(room, 16)
            size = 1 << 16
        log = self.log
        if log is not None:
            end = log.end
            try:
                messages, reached = log.read(self.cursor, end, room, size, self.skips_returned)
            except (OSError, PersistenceError) as error:
                self.trouble = Trouble(f"its log failed: {error}", error)
                return
        else:
            end = self.paged_end
            messages, reached = [], end
        if self.pager is not None:
            try:
                paged, paged_to = self.pager.read(self.cursor, reached, room, size)
            except (OSError, PersistenceError) as error:
                self.trouble = Trouble(f"its page file failed: {error}", error)
                return
            if paged_to < reached:
                reached = paged_to
                messages = [message for message in messages if message.offset < reached]
            for message in paged:
                message.flags &= flags.REDELIVERED | flags.BLIND
                self.paged_bodies -= message.body_size
            self.paged -= len(paged)
            if paged:
                messages = sorted(messages + paged, key=_offset)
        for message in messages:
            self._push(message, message.size() + _OVERHEAD)
        self.backlog -= len(messages)
        self.cursor = reached
        if self.pager is not None:
            self.pager.drop_below(reached)
            if self.backlog == 0:
                self._drop_pager()
        if not messages and reached >= end and self.backlog:
            # Only a bug or a fault of the disk leads here. Without this line the loop would never end.
            self.count -= self.backlog
            self.backlog = 0
            self.trouble = Trouble("messages counted as waiting are not there")

    # -- dropping -------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Drop the window from memory if the log has all of it."""
        ring = self.ring
        if self.log is None or ring.count == 0 or ring.behind is not None:
            return
        if all(message.flags & flags.LOGGED for message in ring.first(ring.count)):
            self.cursor = self._window_start()
            self.backlog += ring.count
            self._clear_ring()

    def drop_all(self, settle: bool) -> Returned | None:
        """All at once, but for the returned messages: those have their places among the unacknowledged."""
        if settle and self.log is not None and self.ring.count + self.backlog > 0:
            # All that is unacknowledged is below the lowest offset that is ready and was not returned.
            start = self._window_start()
            self.log.purge(start, self.log.end, self._also_kept(start))
        # Empty containers stay: the garbage collector would get new ones of very many queues all at once.
        returned = self.requeued
        if returned is not None:
            if returned.count > 0:
                self.requeued = None
            else:
                returned = None
        if self.reread:
            self.reread = {}
        self._clear_ring()
        self.backlog = 0
        self.count = self.body_bytes = 0
        self.transient_bytes -= self.unlogged_bytes
        self.unlogged_bytes = 0
        self.uncounted_to = 0
        if self.pager is not None:
            self._drop_pager()
        return returned

    def _also_kept(self, start: int) -> list[tuple[int, int]]:
        """Runs (offset, number of offsets) at ``start`` and above that a purge leaves to who has them."""
        return []

    def _window_start(self) -> int:
        return self.ring.head().offset if self.ring.count > 0 else self.cursor

    def _drop_pager(self) -> None:
        assert self.pager is not None
        self.pager.delete()
        self.pager = None
        self.paged = self.paged_bodies = 0

    def _clear_ring(self) -> None:
        self.contents.budget.used -= self.ring_bytes
        if self.ring.count > self.window:
            # To free half a million objects takes a tenth of a second.
            for messages in self.ring.lists():
                self.node.free(messages)
        if self.ring.count > 0:
            self.ring = Ring()
        self.ring_bytes = self.ring_bodies = 0

    # -- counting -------------------------------------------------------------------------------------

    def has_counted_bytes(self) -> bool:
        return self.uncounted_to == 0

    def count_bytes(self) -> bool:
        # What was delivered since is below the window; it was never counted.
        start = max(self.uncounted_from, self._window_start())
        log = self.log
        if start < self.uncounted_to and log is not None:
            try:
                messages, reached = log.read(
                    start, self.uncounted_to, _COUNTED_MESSAGES, 1 << 18, self.skips_returned
                )
            except (OSError, PersistenceError):
                return True  # whoever takes the messages hears of it
            self.body_bytes += sum([message.body_size for message in messages])
            self.uncounted_from = reached
            if reached < self.uncounted_to:
                return False
            if not self.wanted:
                log.reader.forget()  # nobody reads on from here: 10,000 queues would keep a chunk each
        self.uncounted_to = 0
        return True

    # -- looking --------------------------------------------------------------------------------------

    def in_memory(self) -> int:
        return self.ring.count

    def memory_bytes(self) -> int:
        return self.ring_bytes

    def memory_bodies(self) -> int:
        return self.ring_bodies

    def put_aside(self) -> tuple[int, int]:
        return self.paged, self.paged_bodies


def _offset(message: Message) -> int:
    return message.offset
