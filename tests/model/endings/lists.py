"""The model: queues made of lists that say when a message must end, and how.

It knows nothing of slices, windows, timers, logs and pages. Whatever the node does in however many turns, in
the end the same messages must be ready in the same order, and the same letters must have gone out.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable

from tests.model.endings.pairs import Pairs
from tests.model.endings.queue import Entry, ModelQueue, Shown
from tests.model.endings.says import after_death, would_go_round
from vhosts import dead_letters


class Lists:
    """All queues of the node, and the letters under way."""

    def __init__(self) -> None:
        self.now_us = 0
        self.queues: dict[str, ModelQueue] = {}
        self.pairs = Pairs()
        self.counts: dict[str, int] = {}
        #: Names of queues whose removal may not be stored.
        self.leaving: Callable[[], set[str]] = set
        self._letters: deque[tuple[ModelQueue, Entry, str]] = deque()
        #: What the consumers of a queue got in this move.
        self.seen: Callable[[ModelQueue], set[Shown]] = lambda queue: set()

    def letters_to_come(self) -> int:
        """Letters that are still to be sent, and messages whose time is over, which may become some."""
        over = [
            entry
            for queue in self.queues.values()
            for entry in queue.ready
            if entry.deadline_us is not None and entry.deadline_us <= self.now_us
        ]
        return len(self._letters) + len(over)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def note(self, queue: ModelQueue, entry: Entry, feature: str) -> None:
        """``feature`` acts on a message of ``queue``."""
        self.pairs.note(entry.marks, feature, queue.in_force())

    # -- coming -----------------------------------------------------------------------------------------

    def publish(self, queue: ModelQueue, entry: Entry) -> bool:
        """Whether ``queue`` takes it."""
        found = queue.rules
        if found.is_limited:
            self.note(queue, entry, "max-length")
        if found.overflow != "drop-head" and queue.is_too_long(more=1, octets=len(entry.body)):
            self.pump(queue)
            if queue.is_too_long(more=1, octets=len(entry.body)):
                self.note(queue, entry, "overflow")
                self.count("refused")
                if found.overflow == "reject-publish-dlx":
                    self._die(queue, entry, "maxlen")
                return False
        times = []
        if found.ttl is not None:
            times.append(found.ttl)
        if entry.says.expiration is not None:
            times.append(int(entry.says.expiration))
        if times:
            entry.deadline_us = self.now_us + min(times) * 1000
            self.note(queue, entry, "TTL")
        if queue.kind.priorities is not None and entry.says.priority:
            self.note(queue, entry, "priority")
        entry.logged = queue.kind.quorum or (queue.kind.durable and entry.says.persistent)
        while entry.key in queue.entries:
            entry.copy += 1
        queue.entries[entry.key] = entry
        queue.arrived += 1
        queue.insert(entry)
        if entry.deadline_us is not None and entry.deadline_us <= self.now_us:
            self._deliver(queue)
            self._expire(queue)
        has_turn = queue.credit() <= 0 or (queue.kind.quorum and found.exchange is not None)
        if has_turn and queue.rules.overflow == "drop-head" and queue.is_too_long():
            self._deliver(queue)
            if not queue.gathers():
                self._expire(queue)
            self._trim(queue)
            self._expire(queue)
        return True

    # -- going ------------------------------------------------------------------------------------------

    def pump(self, queue: ModelQueue) -> None:
        """Deliver what consumers take, then let end what must end."""
        before = -1
        while before != len(queue.ready):
            before = len(queue.ready)
            self._deliver(queue)
            if not queue.gathers():
                self._expire(queue)
            self._trim(queue)

    def rest(self) -> None:
        """Until nothing more happens by itself.

        A turn sends letters and then lets queues deliver and give up messages. So the letter of a rejected
        message is in its target before the reject makes room for another delivery.
        """
        is_first = True
        while is_first or self._letters:
            is_first = False
            for _ in range(min(dead_letters.SLICE, len(self._letters))):
                self._send(*self._letters.popleft())
            for queue in list(self.queues.values()):
                self.pump(queue)

    def _deliver(self, queue: ModelQueue) -> None:
        seen = None
        while queue.ready and queue.credit() > 0:
            entry = queue.ready[0]
            if entry.deadline_us is not None and entry.deadline_us < self.now_us:
                self._die_among(queue, queue.ready.pop(0), "expired")
                continue
            if queue.kind.priorities is not None:
                # If others come meanwhile, what its consumers take first is seen, not foretold.
                if seen is None:
                    seen = self.seen(queue) - {each.shown for each in queue.given}
                found = next((each for each in queue.ready if each.shown in seen), None)
                queue.is_out_of_order |= found is not entry
                if found is None:
                    return
                entry = found
            queue.ready.remove(entry)
            queue.turns += 1
            entry.turn = queue.turns
            queue.given.append(entry)

    def _expire(self, queue: ModelQueue) -> None:
        for head in self._over(queue):
            self._die(queue, head, "expired")

    def _over(self, queue: ModelQueue) -> list[Entry]:
        """Take what is over at the head."""
        found = []
        while queue.ready:
            head = queue.ready[0]
            if head.deadline_us is None or head.deadline_us > self.now_us:
                break
            found.append(queue.ready.pop(0))
        return found

    def _trim(self, queue: ModelQueue) -> None:
        if queue.kind.quorum:
            for entry in self._over(queue):  # it looks at the time first
                self._die_among(queue, entry, "expired")
        dropped = []
        while queue.rules.overflow == "drop-head" and queue.ready and queue.is_too_long():
            dropped.append(queue.ready.pop(0))
        if queue.kind.quorum:
            dropped.reverse()  # the letter of the newest comes first
        for entry in dropped:
            self._die(queue, entry, "maxlen")
        later, queue.later = queue.later, []
        for entry, reason in later:
            self._die(queue, entry, reason)

    def _die_among(self, queue: ModelQueue, entry: Entry, reason: str) -> None:
        """The letters of those that are dropped with it come first."""
        if queue.gathers():
            queue.later.append((entry, reason))
        else:
            self._die(queue, entry, reason)

    def _die(self, queue: ModelQueue, entry: Entry, reason: str) -> None:
        self.count(reason)
        feature = {"expired": "TTL", "maxlen": "overflow", "delivery_limit": "delivery limit"}.get(reason)
        if feature is not None:
            self.note(queue, entry, feature)
        if reason == "maxlen":
            self.note(queue, entry, "max-length")
        if queue.rules.exchange is None:
            entry.ended = True
        else:
            self._letters.append((queue, entry, reason))

    # -- settling -----------------------------------------------------------------------------------------

    def put_back(
        self, queue: ModelQueue, entry: Entry, *, by_timeout: bool = False, is_slice: bool = False
    ) -> None:
        """``is_slice``: others may follow, and ``end_return`` does."""
        queue.out -= 1
        if queue.deleted:
            return
        self.note(queue, entry, "requeue")
        if by_timeout:
            self.note(queue, entry, "consumer timeout")
        if queue.rules.is_limited:
            self.note(queue, entry, "max-length")
        entry.redelivered = True
        entry.returns += 1
        if queue.rules.returns is not None:
            self.note(queue, entry, "delivery limit")
            if entry.returns > queue.rules.returns:
                die = self._die_among if is_slice else self._die
                die(queue, entry, "delivery_limit")
                return
        if queue.kind.quorum:
            queue.line += 1
            entry.place = (-1, queue.line)  # before all others, in the order of their return
            entry.places[entry.returns] = entry.place
        insort(queue.ready, entry)
        queue.returned += 1
        if not is_slice and not queue.serves_first():
            self._trim(queue)  # before a consumer gets any of them

    def end_return(self, queue: ModelQueue) -> None:
        """All are back that a channel gives back."""
        if not queue.deleted and not queue.serves_first():
            self._trim(queue)

    def settle(self, queue: ModelQueue, entry: Entry, *, ack: bool) -> None:
        queue.out -= 1
        if queue.deleted:
            return
        if ack:
            entry.ended = True
        else:
            self._die(queue, entry, "rejected")

    def purge(self, queue: ModelQueue) -> int:
        count = len(queue.ready)
        for entry in queue.ready:
            entry.ended = True
        queue.ready = []
        return count

    # -- letters ------------------------------------------------------------------------------------------

    def _send(self, queue: ModelQueue, entry: Entry, reason: str) -> None:
        """Send the dead letter of ``entry``."""
        found = queue.rules
        entry.ended = not entry.logged
        if found.exchange != "":
            entry.ended = True  # there is no such exchange
            return
        says = after_death(entry.says, queue.name, reason, found)
        into = self.queues.get(says.key)
        if into is None:
            entry.ended = True
            entry.may_stay = says.key in self.leaving()
            return
        letter = Entry(entry.serial, entry.body, says, set(entry.marks))
        was_here = [death for death in says.deaths if death.queue == into.name]
        if was_here:
            self.note(into, letter, "dead-letter cycle")
            self.note(queue, entry, "dead-letter cycle")
        if would_go_round(says, reason, into.name):
            self.count("cycle ends")
            entry.ended = True
            return
        self.count("dead letter" if not was_here else "dead letter comes again")
        letter.origin = (queue.incarnation, *entry.key)
        if entry.is_old and letter.origin in into.letters:
            self.count("letter known")
            entry.ended = True
            return
        entry.letters.append((into, letter))
        if not self.publish(into, letter) or not letter.logged:
            entry.ended = True
