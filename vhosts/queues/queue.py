"""A queue on this node: its ready messages, its consumers and its log.

The ready messages, in order of offset, are always the concatenation of

1. ``requeued``: returned messages, a heap by offset; those of the log keep no content;
2. the ``ring``: the window of messages in memory that consumers will get next;
3. the backlog: ``backlog`` messages at offsets from ``cursor`` to the end. They are in the log or, if they
   are transient and the node's memory budget is used up, in the page log.

Every requeued offset is below every ring offset, because delivery takes the lowest offset first. Every ring
offset is below ``cursor``. A message joins the ring only while the backlog is empty, which keeps the order.

Messages are delivered as soon as they are published, also before their log is synced. Publishers are answered
through ``await_durable`` when the log's high watermark has passed what they published.

A consumer may return a million messages at once, which takes many turns of the loop. Until all of them are
back, the queue delivers only those that are back, lowest offset first, and nothing of the ring. Otherwise
other consumers would get newer messages before the older ones that are still on their way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any

from amqp_router.protocol.errors import AccessRefused, PreconditionFailed
from amqp_router.protocol.message import Message
from amqp_router.protocol.tick import Tick
from persistence.errors import PersistenceError, is_passing
from vhosts.queues.consumers import Consumer
from vhosts.queues.handle import QueueHandle, Run

#: Limits of the part of a logged queue that is in memory: messages and content bytes.
WINDOW_MESSAGES = 4096
WINDOW_BYTES = 8 << 20
#: Cost of a redelivery in units of ``Queue.pump``. It is higher because each one is found and read alone.
REDELIVERY_UNITS = 3
PARKED_PER_UNIT = 16
#: Consumers that hear in one turn of the loop that their queue is gone; some 2.5 µs each.
CANCEL_SLICE = 500
#: What it costs to write a content aside or to read it back, in deliveries; and the octets, to the power of
#: 2, that cost one more.
SPILL_UNITS = 30
SPILL_OCTETS_SHIFT = 9
#: Returned messages dropped by one call when a queue is purged or deleted; about a millisecond.
DROP_SLICE = 4096

# C integers where compiled (see queue.pxd).
_WINDOW_MESSAGES = 4096
_WINDOW_BYTES = 8 << 20
_PERSISTENT = 1
_REDELIVERED = 2
_LOGGED = 4
_SPILLED = 8
_ACK = 1
_DROP = 4
_RETURN = 6
_REDELIVERY_EXTRA = REDELIVERY_UNITS - 1
_PARKED_PER_UNIT = PARKED_PER_UNIT
_GROW_SHIFT = 4  # places of a ring, to the power of 2, that cost as much as an enqueue when it grows
_SPILL_UNITS = SPILL_UNITS
_SPILL_OCTETS_SHIFT = SPILL_OCTETS_SHIFT
_OVERHEAD = 160  # bytes of the objects around a message's content, for the memory budget


class Queue(QueueHandle):
    """A local queue. Made by the node, which fills its collaborators before anyone uses it.

    ``budget`` is the node's account of message bytes in memory, ``open_pager()`` makes the page log of a
    queue that outgrows it, ``on_deleted(queue, rev)`` tells the node to remove the log once ``rev`` is
    committed.
    """

    __slots__ = (
        "ack_total",
        "backlog",
        "budget",
        "cursor",
        "deliver_no_ack_total",
        "deliver_total",
        "dirty",
        "discard",
        "error",
        "exclusive_use",
        "get_empty_total",
        "get_no_ack_total",
        "get_total",
        "in_slices",
        "leaving",
        "logged_end",
        "next_offset",
        "on_deleted",
        "on_failed",
        "on_resumed",
        "on_stalled",
        "open_pager",
        "pager",
        "publish_total",
        "pumped_at",
        "redeliver_total",
        "refusing",
        "requeued",
        "reread",
        "return_left",
        "returning",
        "ring",
        "ring_bytes",
        "ring_count",
        "ring_head",
        "spill",
        "stalled",
        "tick",
        "turn",
        "waiting",
    )

    def __init__(self) -> None:
        super().__init__()
        self.tick: Tick
        self.budget: Any = None
        self.open_pager: Callable[[], Any]
        self.on_deleted: Callable[[Queue, int], None] | None = None
        #: Called when the queue has failed (see ``error``) or takes no messages (see ``refusing``).
        self.on_failed: Callable[[Queue], None] | None = None
        #: Called when the queue takes messages again.
        self.on_resumed: Callable[[Queue], None] | None = None
        #: Called when waiting messages cannot be read for now. The callee calls ``unstall`` after a while.
        self.on_stalled: Callable[[Queue], None] | None = None
        self.stalled = False
        #: Frees a long list of messages over several turns of the loop.
        self.discard: Callable[[list[Any]], None] | None = None
        self.pager: Any = None
        #: Calls a step once per turn of the loop until it returns True; None does it all at once.
        self.in_slices: Callable[[Callable[[], bool]], None] | None = None
        #: Consumers that were cancelled and have not heard of it.
        self.leaving: dict[Consumer, None] = {}
        #: Takes the contents of delivered transient messages when memory is short; None if they stay in
        #: memory.
        self.spill: Any = None
        self.ring: list[Any] = [None] * 16
        self.ring_head = 0
        self.ring_count = 0
        self.ring_bytes = 0
        self.requeued: list[tuple[int, Message]] = []
        self.reread: dict[int, Message] = {}
        self.backlog = 0
        self.cursor = 0
        #: Offset of the next message of a queue without a log.
        self.next_offset = 0
        #: The offset after the last message appended to the log. A publisher's run waits until it is durable.
        self.logged_end = 0
        #: The next consumer in the ring of those that may be ready; None if the ring is empty.
        self.turn: Consumer | None = None
        #: Whether the only consumer is an exclusive one.
        self.exclusive_use = False
        self.dirty = False
        #: ``publish_total`` when consumers were last offered all there was.
        self.pumped_at = 0
        #: Returns in slices that go on, and how many messages they may bring while newer ones wait.
        self.returning = 0
        self.return_left = 0
        self.waiting: deque[tuple[int, Run]] = deque()
        #: Why the queue has failed, or "".
        self.error = ""
        #: Why it takes no messages, or "": it has failed, or its log waits for disk space or file
        #: descriptors.
        self.refusing = ""
        self.publish_total = 0
        #: Deliveries with and without acknowledgement, to consumers and by ``get``.
        self.deliver_total = 0
        self.deliver_no_ack_total = 0
        self.get_total = 0
        self.get_no_ack_total = 0
        self.get_empty_total = 0
        self.redeliver_total = 0
        self.ack_total = 0

    # -- publishing ---------------------------------------------------------------------------------

    def publish(self, message: Message) -> bool:
        """Append ``message`` (an object that belongs to this queue alone); False if the log cannot take
        it.
        """
        log = self.log
        logged = False
        if self.refusing:
            return False
        if log is None:
            message.offset = self.next_offset
            self.next_offset += 1
        elif message.flags & _PERSISTENT:
            log.append(message, self.tick.now_us)
            logged = True
            self.logged_end = message.offset + 1
        else:
            log.reserve(message)
        self.publish_total += 1
        size = message.size() + _OVERHEAD
        if self.backlog == 0:
            if logged:
                if (
                    len(self.consumers) > 0
                    and self.ring_count < _WINDOW_MESSAGES
                    and self.ring_bytes < _WINDOW_BYTES
                    and self.budget.used < self.budget.limit
                ):
                    self._push(message, size)
                else:
                    self.cursor = message.offset
                    self.backlog = 1
            elif self.budget.used < self.budget.limit:
                self._push(message, size)
            else:
                self.cursor = message.offset
                if not self._page(message):
                    return False
        elif logged:
            self.backlog += 1
        elif not self._page(message):
            return False
        if not self.dirty:
            if len(self.consumers) > 0:
                self.touch()
            elif logged:
                # It is synced even if nobody waits for it because another queue refused the message.
                self.tick.wake()
        return True

    def _push(self, message: Message, size: int) -> None:
        ring = self.ring
        if self.ring_count == len(ring):
            self._grow()
            ring = self.ring
        ring[(self.ring_head + self.ring_count) & (len(ring) - 1)] = message
        self.ring_count += 1
        self.ring_bytes += size
        self.budget.used += size

    def _grow(self) -> None:
        # In place: the garbage collector would look through a thousand new rings at once, for 10 ms.
        ring = self.ring
        size = len(ring)
        head = self.ring_head
        ring.extend([None] * size)
        ring[size : size + head] = ring[:head]
        ring[:head] = [None] * head
        self.budget.work += size >> _GROW_SHIFT

    def _page(self, message: Message) -> bool:
        """Write a transient message beyond the memory budget to the page file, which lasts as long as the
        process.
        """
        try:
            if self.pager is None:
                self.pager = self.open_pager()
            self.pager.append(message)
        except (OSError, PersistenceError) as error:
            if is_passing(error):
                return False  # only this message is refused; the messages in the file are still good
            # Earlier messages in the file may be lost too, and with them the order: nothing more is
            # delivered.
            self._fail(f"its page file failed: {error}")
            return False
        self.backlog += 1
        return True

    def await_durable(self, run: Run) -> None:
        """Call ``run.settled`` once everything published so far is below the high watermark."""
        log = self.log
        if self.deleted and (log is None or log.deleted):
            return
        if self.refusing:
            run.remaining += 1
            run.settled(True)
            return
        if log is None:
            return
        run.remaining += 1
        # Not the log's end: transient messages take offsets there, which no sync covers by itself.
        self.waiting.append((self.logged_end, run))
        self.tick.wake()

    def on_high_watermark(self, log: Any) -> None:
        """Answer the publishers below the log's high watermark, which has risen.

        Nobody is answered before the queue's own definition is committed. After a crash the queue would not
        exist, and the confirmed message would be lost.
        """
        if self.definition_rev:
            return
        waiting = self.waiting
        watermark = log.high_watermark
        while waiting and waiting[0][0] <= watermark:
            waiting.popleft()[1].settled(False)

    def definition_stored(self) -> None:
        """The queue's definition is committed."""
        self.definition_rev = 0
        if self.refusing and not self.error and (self.log is None or self.log.failed is None):
            self.on_log_resumed(self.log)
        if self.log is not None:
            self.on_high_watermark(self.log)

    def definition_failed(self, error: Exception) -> None:
        """The queue's definition cannot be stored for now: nack the publishers that wait for it."""
        if not self.refusing:
            self.refusing = f"its definition cannot be stored: {error}"
            self._refuse_waiting()

    def on_log_failed(self, log: Any, error: Exception) -> None:
        """The log cannot be read or written: nack publishers, cancel consumers, and answer with the reason
        from now on.

        After a passing error (a full disk) the queue only takes no messages. Consumers and acknowledgements
        go on.
        """
        if log.passing:
            if not self.refusing:
                self.refusing = f"its log cannot be written for now: {error}"
                self._refuse_waiting()
        else:
            self._fail(f"its log failed: {error}")

    def on_log_resumed(self, log: Any) -> None:
        """The log takes messages again."""
        if not self.error and not self.definition_rev:
            self.refusing = ""
            if self.on_resumed is not None:
                self.on_resumed(self)
            if len(self.consumers) > 0:
                self.touch()

    def _refuse_waiting(self) -> None:
        if self.on_failed is not None:
            self.on_failed(self)
        waiting = self.waiting
        while waiting:
            waiting.popleft()[1].settled(True)

    def _unreadable(self, reason: str, error: Exception) -> None:
        """Waiting messages cannot be read: try again later after a passing error, otherwise fail the
        queue.
        """
        if not is_passing(error) or self.on_stalled is None:
            self._fail(reason)
        elif not self.stalled:
            self.stalled = True
            self.on_stalled(self)

    def unstall(self) -> None:
        """Try again to read waiting messages."""
        self.stalled = False
        if not self.deleted and len(self.consumers) > 0:
            self.touch()

    def _fail(self, reason: str) -> None:
        if self.error:
            return
        self.error = self.refusing = reason
        self._refuse_waiting()
        self._cancel_consumers()

    # -- taking -------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Deliver to consumers at the end of this tick."""
        if not self.dirty:
            self.dirty = True
            self.tick.queues.append(self)
            self.tick.wake()

    def pump(self, budget: int) -> int:
        """Deliver to consumers in turn until ``budget`` units are used; returns the number of units used.

        A message costs one unit, a redelivered one ``REDELIVERY_UNITS``. ``PARKED_PER_UNIT`` consumers that
        are not ready cost one. Reading and writing contents on disk costs what the node's account counts as
        ``work``. If the result is ``budget`` or more, there may be more to do.
        """
        done = 0
        parked = 0
        self.budget.work = 0  # what was done before is not the consumers'
        while done < budget and self.ring_count + self.backlog + len(self.requeued) > 0:
            consumer = self.turn
            if consumer is None:
                break
            if not consumer.ready():
                self._unlink(consumer)
                consumer.parked = True
                parked += 1
                if parked == _PARKED_PER_UNIT:
                    parked = 0
                    done += 1
                continue
            message = self._pop()
            if message is None:
                break
            self.turn = consumer.following
            done += 1
            if message.flags & _REDELIVERED:
                self.redeliver_total += 1
                done += _REDELIVERY_EXTRA
            if consumer.no_ack:
                self.deliver_no_ack_total += 1
                consumer.deliver(message)
                self._gone(message, _ACK)
            else:
                self.deliver_total += 1
                self.unacked_count += 1
                consumer.deliver(message)
                if message.flags & _LOGGED:
                    message.content = None
                elif self.budget.used >= self.budget.limit:
                    self.put_aside(message)
            if self.budget.work > 0:
                done += self.budget.take_work()
        if done < budget:
            self.pumped_at = self.publish_total
        return done

    def deliver_due(self, budget: int) -> int:
        # Only a queue on the agenda has anything due. It stays on the agenda, which costs next to nothing.
        return self.pump(budget) if self.dirty else 0

    def has_new(self) -> bool:
        return self.dirty and self.publish_total != self.pumped_at

    def begin_return(self) -> None:
        """Messages come back in slices from now on, lowest first; ``end_return`` must follow.

        Meanwhile only those are delivered that are back: newer ones wait, but for no more than as many as are
        unacknowledged now, or clients that never cease to return messages could hold up all the others.
        """
        if self.returning == 0:
            self.return_left = self.unacked_count
        self.returning += 1

    def end_return(self) -> None:
        """All of them are back."""
        self.returning -= 1
        if self.returning == 0 and len(self.consumers) > 0:
            self.touch()

    def is_returning(self) -> bool:
        return self.returning > 0 and self.return_left > 0

    def put_aside(self, message: Message) -> None:
        """Move the content of a delivered transient message to disk if memory is short."""
        if message.flags & (_LOGGED | _SPILLED) or self.budget.used < self.budget.limit or self.spill is None:
            return
        self._count_spill(message)
        if self.spill.put(message):
            message.flags |= _SPILLED
            self.budget.used -= message.size()

    def _count_spill(self, message: Message) -> None:
        self.budget.work += _SPILL_UNITS + (message.size() >> _SPILL_OCTETS_SHIFT)

    def _take_back(self, message: Message) -> bool:
        """Read a small content back from disk; False if that fails. A large one is read while it is sent."""
        content: Any = message.content
        if not content.is_whole:
            return True
        self._count_spill(message)
        try:
            message.content = content[0]
        except (OSError, PersistenceError) as error:
            self._unreadable(f"a message that was put aside cannot be read: {error}", error)
            return False
        message.flags &= ~_SPILLED
        self.budget.used += message.size()
        return True

    def _charged(self, message: Message) -> int:
        """Bytes of a transient message that are counted in the budget."""
        return _OVERHEAD if message.flags & _SPILLED else message.size() + _OVERHEAD

    def _pop(self) -> Message | None:
        """The ready message with the lowest offset, with its content; None when there is none."""
        if len(self.requeued) > 0:
            return self._pop_requeued()
        if self.returning > 0 and self.return_left > 0:
            return None
        if self.ring_count == 0:
            if self.backlog == 0:
                return None
            self._load()
            if self.ring_count == 0:
                return None
        ring = self.ring
        head = self.ring_head
        message: Message = ring[head]
        ring[head] = None
        self.ring_head = (head + 1) & (len(ring) - 1)
        self.ring_count -= 1
        size = message.size() + _OVERHEAD
        self.ring_bytes -= size
        if message.flags & _LOGGED:
            self.budget.used -= size
        return message

    def _pop_requeued(self) -> Message | None:
        message = self.requeued[0][1]
        if message.content is None:
            found = self.reread.pop(message.offset, None)
            if found is None:
                found = self._reread(message.offset)
                if found is None:
                    return None
            message.content = found.content
            message.channel = found.channel
            message.header_size = found.header_size
            message.frame_count = found.frame_count
            message.frame_payload = found.frame_payload
        elif message.flags & _SPILLED and not self._take_back(message):
            return None
        heappop(self.requeued)
        if not self.requeued:
            self.reread.clear()
        return message

    def _reread(self, offset: int) -> Message | None:
        """Read the content of a returned message again, and of those after it, which will be delivered
        next.
        """
        try:
            messages, _ = self.log.read(offset, self.log.end, min(256, len(self.requeued)), 1 << 18)
        except (OSError, PersistenceError) as error:
            self._unreadable(f"its log failed: {error}", error)
            return None
        self.reread = {message.offset: message for message in messages}
        found = self.reread.pop(offset, None)
        if found is None:
            self._fail(f"its log failed: message at offset {offset} is not in the log")
        return found

    def _load(self) -> None:
        """Fill the window from the backlog, in offset order."""
        room = _WINDOW_MESSAGES if len(self.consumers) > 0 else 64
        size = 1 << 19
        if self.budget.used >= self.budget.limit:
            room = 16
            size = 1 << 16
        log = self.log
        if log is not None:
            end = log.end
            try:
                messages, reached = log.read(self.cursor, end, room, size)
            except (OSError, PersistenceError) as error:
                self._unreadable(f"its log failed: {error}", error)
                return
        else:
            end = self.next_offset
            messages, reached = [], end
        if self.pager is not None:
            try:
                paged, paged_to = self.pager.read(self.cursor, reached, room, size)
            except (OSError, PersistenceError) as error:
                self._unreadable(f"its page file failed: {error}", error)
                return
            if paged_to < reached:
                reached = paged_to
                messages = [message for message in messages if message.offset < reached]
            for message in paged:
                message.flags &= _REDELIVERED
            if paged:
                messages = sorted(messages + paged, key=_offset)
        for message in messages:
            self._push(message, message.size() + _OVERHEAD)
        self.backlog -= len(messages)
        self.cursor = reached
        if self.pager is not None:
            self.pager.drop_below(reached)
            if self.backlog == 0:
                self.pager.delete()
                self.pager = None
        if not messages and reached >= end and self.backlog:
            # Only a bug or a fault of the disk leads here. Without this line the loop would never end.
            self.backlog = 0
            self._fail("messages counted as waiting are not there")

    def get(self, no_ack: bool) -> Message | None:
        """Take one message for ``basic.get``; None when nothing is ready."""
        message = self._pop()
        if message is None:
            self.get_empty_total += 1
            return None
        if message.flags & _REDELIVERED:
            self.redeliver_total += 1
        if no_ack:
            self.get_no_ack_total += 1
            self._gone(message, _ACK)
        else:
            self.get_total += 1
            self.unacked_count += 1
        return message

    def check_available(self) -> None:
        """Raises PreconditionFailed when the log has failed."""
        if self.error:
            raise PreconditionFailed(
                f"queue '{self.name}' in vhost '{self.vhost.name}' cannot be used: {self.error}"
            )

    # -- settling -----------------------------------------------------------------------------------

    def settle(self, message: Message, kind: int) -> None:
        """Settle a delivered message; ``kind`` as in a SETTLES record."""
        self.unacked_count -= 1
        if kind == _ACK:
            self.ack_total += 1
        self._gone(message, kind)

    def _gone(self, message: Message, kind: int) -> None:
        if message.flags & _LOGGED:
            if not self.deleted:
                self.log.settle(message.offset, message.gap, kind)
        else:
            self.budget.used -= self._charged(message)

    def requeue(self, message: Message) -> None:
        """Return a delivered message to its place and mark it as redelivered."""
        self.unacked_count -= 1
        self.return_left -= 1
        if self.deleted:
            if not message.flags & _LOGGED:
                self.budget.used -= self._charged(message)
            return
        message.flags |= _REDELIVERED
        if message.flags & _LOGGED:
            # The log records it, so that the mark survives a clean stop.
            self.log.settle(message.offset, message.gap, _RETURN)
        heappush(self.requeued, (message.offset, message))
        if len(self.consumers) > 0:
            self.touch()

    # -- consumers ----------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Start delivering to ``consumer``.

        Raises:
            AccessRefused: it is exclusive and another consumer exists, or the existing one is exclusive
                (403).
            PreconditionFailed: the log has failed.
        """
        self.check_available()
        if self.consumers and (consumer.exclusive or self.exclusive_use):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost.name}' in exclusive use")
        self.consumers[consumer] = None
        self.exclusive_use = consumer.exclusive
        self._link(consumer)
        self.touch()

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Remove ``consumer``; True if it was the last one."""
        if consumer not in self.consumers:
            return False
        del self.consumers[consumer]
        self._unlink(consumer)
        consumer.parked = False
        if self.consumers:
            return False
        if self.log is not None:
            self._drop_window()
        return True

    def wake(self, consumer: Consumer) -> None:
        """``consumer`` may be ready again; its turn comes after those of all others."""
        if self.deleted or self.error:
            return  # it is cancelled, and may not have heard of it yet
        if consumer.parked:
            consumer.parked = False
            self._link(consumer)
        self.touch()

    def _link(self, consumer: Consumer) -> None:
        """Put ``consumer`` into the ring, as the last whose turn comes."""
        first = self.turn
        if first is None:
            self.turn = consumer.following = consumer.previous = consumer
            return
        last: Any = first.previous
        consumer.following = first
        consumer.previous = last
        last.following = consumer
        first.previous = consumer

    def _unlink(self, consumer: Consumer) -> None:
        """Take ``consumer`` out of the ring, if it is in it."""
        following, previous = consumer.following, consumer.previous
        if following is None or previous is None:
            return
        if self.turn is consumer:
            self.turn = following if following is not consumer else None
        following.previous = previous
        previous.following = following
        consumer.following = consumer.previous = None

    def _cancel_consumers(self) -> None:
        """Nobody gets anything from now on; very many consumers hear of it in slices."""
        if not self.consumers:
            return
        self.leaving = self.consumers
        self.consumers = {}
        self.turn = None
        if not self._cancel_some() and self.in_slices is not None:
            self.in_slices(self._cancel_some)

    def has_told_consumers(self) -> bool:
        return not self.leaving

    def _cancel_some(self) -> bool:
        leaving = self.leaving
        left = CANCEL_SLICE if self.in_slices is not None else len(leaving)
        while leaving and left > 0:
            left -= 1
            consumer = leaving.popitem()[0]
            self._unlink(consumer)
            consumer.parked = False
            consumer.cancelled()
        return not leaving

    def _drop_window(self) -> None:
        """Drop from memory what the log has too, because the queue has no consumers any more."""
        ring = self.ring
        mask = len(ring) - 1
        for index in range(self.ring_count):
            if not ring[(self.ring_head + index) & mask].flags & _LOGGED:
                return
        if self.ring_count > 0:
            self.cursor = ring[self.ring_head].offset
            self.backlog += self.ring_count
            self._clear_ring()

    def _clear_ring(self) -> None:
        self.budget.used -= self.ring_bytes
        if self.ring_count > _WINDOW_MESSAGES and self.discard is not None:
            # To free half a million objects takes a tenth of a second.
            self.discard(self.ring)
        self.ring = [None] * 16
        self.ring_head = 0
        self.ring_count = 0
        self.ring_bytes = 0

    # -- the whole queue ----------------------------------------------------------------------------

    def message_count(self) -> int:
        """Messages ready for delivery."""
        return self.ring_count + self.backlog + len(self.requeued)

    def recovered(self) -> None:
        """Use the messages that recovery found in the log as the backlog."""
        self.backlog = self.log.live
        self.cursor = self.log.start

    def purge(self) -> int:
        """Drop every ready message; returns their number. Unacknowledged messages stay.

        Raises:
            PreconditionFailed: the log has failed, so the messages would come back after a restart.
        """
        self.check_available()
        count = self.message_count()
        if self.log is not None:
            if self.refusing:
                raise PreconditionFailed(
                    f"queue '{self.name}' in vhost '{self.vhost.name}' cannot be purged: {self.refusing}"
                )
            if self.ring_count + self.backlog > 0:
                self.log.purge(self._window_start(), self.log.end)
            self.tick.wake()
        self._drop_ready()
        return count

    def _window_start(self) -> int:
        """The lowest offset that is ready and was not returned; all that is unacknowledged is below it."""
        return self.ring[self.ring_head].offset if self.ring_count > 0 else self.cursor

    def _drop_ready(self) -> None:
        # Empty containers stay: the garbage collector would get new ones of very many queues all at once.
        if self.requeued:
            returned = self.requeued
            self.requeued = []
            drop = partial(self._drop_some, returned, [0])
            if not drop():
                in_slices = self.in_slices or at_once
                in_slices(drop)
        if self.reread:
            self.reread = {}
        self._clear_ring()
        self.backlog = 0
        if self.pager is not None:
            self.pager.delete()
            self.pager = None

    def _drop_some(self, returned: list[Any], position: list[int]) -> bool:
        """Settle a slice of the ``returned`` messages, which nobody gets any more; True if none is left."""
        index = position[0]
        end = min(index + DROP_SLICE, len(returned))
        while index < end:
            message: Message = returned[index][1]
            returned[index] = None
            self._gone(message, _DROP)
            index += 1
        position[0] = end
        return end == len(returned)

    def delete(self, rev: int) -> int:
        """Delete the queue now; its log is removed once revision ``rev`` is committed.

        Consumers are cancelled. Publishers that still wait go on waiting for the log or for ``rev``: before
        one of them is on disk, a crash would bring the queue back without their messages. Returns how many
        messages were ready.
        """
        count = self.message_count()
        self.deleted = True
        self._cancel_consumers()
        self._drop_ready()
        if self.on_deleted is not None:
            self.on_deleted(self, rev)
        else:
            self.removal_stored()
        return count

    def removal_stored(self) -> None:
        """No start will bring the queue back: publishers that still wait are answered as settled."""
        waiting = self.waiting
        while waiting:
            waiting.popleft()[1].settled(False)


def at_once(step: Callable[[], bool]) -> None:
    """Slices of a queue whose owner has no event loop."""
    while not step():
        pass


def _offset(message: Message) -> int:
    return message.offset
