"""Dead letters that wait in the log of their queue: for a target that has refused them, or for their turn.

A target refuses a letter if its log cannot be written for now, or if it is full.
Such a letter stays in the log of its queue, and 8 bytes of it stay in memory. It is sent again after a
second, then after twice as long each time, up to half a minute. The letters of one queue that wait for the
same target are a line. They keep their order, and a line asks its target with one letter before it sends
more. So a line of a million letters costs a full target one attempt at a time, and other lines go on.

A target that has taken a letter which another one refused does not get it again. But its log must have it
safe, too, before the letter's queue settles it.

A process that ends loses nothing: the next start finds the messages in the log, as it does with letters on
their way. That is also what happens to refused letters for which the node's account of memory has no room.

A million messages that are rejected together are more letters than may be on their way. Those of logged
messages are put off: they wait in the same form, without a target, until there is room.

Compiled: see ``waiting_letters.pxd``.

Source: RabbitMQ, "At-Least-Once Dead Lettering" (there for quorum queues alone, at a fixed interval).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from persistence.errors import PersistenceError, is_passing
from persistence.memory import MemoryBudget
from vhosts.letter import NOBODY, Letter, Sender, letter_of
from vhosts.queues.death import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from vhosts.queues.handle import QueueHandle
from vhosts.queues.mortal import MortalQueue
from vhosts.queues.timers import Timer

#: Microseconds before a refused letter is sent again, at first and at most.
FIRST_US = 1_000_000
LONGEST_US = 30_000_000
#: Letters of one line on their way at a time, when its target takes them.
WINDOW = 64
#: Bytes in the node's account of memory: of a waiting letter, of one that some targets have taken, of a line.
ENTRY_BYTES = 8
TAKEN_BYTES = 128
LINE_BYTES = 1024
#: Places at the front of a line that are given back together.
SPENT_MAX = 4096

_REASONS = (REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT)
_REASON_BITS = 2


class Line:
    """The letters of ``queue`` that wait for ``target``, the oldest first: offset and reason of each.

    ``target`` is None if they have not been sent yet.
    """

    __slots__ = (
        "_entries",
        "_front",
        "_room",
        "_spent",
        "again",
        "is_refused",
        "pause_us",
        "queue",
        "sent",
        "taken",
        "target",
        "timer",
        "window",
    )

    def __init__(self, room: WaitingRoom, queue: MortalQueue, target: QueueHandle | None) -> None:
        self._room = room
        self.queue = queue
        self.target = target
        self._entries = array("Q")
        #: How many of ``_entries`` were taken.
        self._spent = 0
        #: Entries that come before these, the first at the end.
        self._front: list[int] = []
        #: Letters that were sent and refused since the last pause.
        self.again: list[int] = []
        #: The queues (incarnations) that have the letter at an offset, if there are any.
        self.taken: dict[int, frozenset[str]] = {}
        #: Letters on their way, and how many there may be.
        self.sent = 0
        self.window = 1
        self.is_refused = False
        self.pause_us = FIRST_US
        self.timer: Timer | None = None

    def length(self) -> int:
        """The letters that wait, and those on their way."""
        return len(self._entries) - self._spent + len(self._front) + len(self.again) + self.sent

    def append(self, entry: int) -> None:
        """A further letter waits."""
        self._entries.append(entry)

    def next(self) -> int | None:
        """Take the first entry; None if there is none."""
        if self._front:
            return self._front.pop()
        if self._spent == len(self._entries):
            return None
        entry = self._entries[self._spent]
        self._spent += 1
        if self._spent == len(self._entries):
            self._entries = array("Q")
            self._spent = 0
        elif self._spent >= SPENT_MAX and self._spent * 2 > len(self._entries):
            del self._entries[: self._spent]
            self._spent = 0
        return entry

    def step_back(self) -> None:
        """The letters that were refused stand in front again."""
        self.again.sort(reverse=True)
        self._front += self.again
        self.again = []

    def timer_due(self, now_us: int) -> None:
        """See ``timers.Due``."""
        self.timer = None
        self._room.go_on(self)


class Waiting(NamedTuple):
    """A line as others see it: names of queue and target, number of letters, why the target refuses."""

    queue: str
    target: str
    letters: int
    reason: str


class WaitingRoom:
    """The lines of one virtual host. ``sender`` puts a letter on its way, again."""

    def __init__(self, account: MemoryBudget, sender: Sender) -> None:
        self._account = account
        self._sender = sender
        self._lines: dict[tuple[MortalQueue, QueueHandle | None], Line] = {}
        #: Those of them without a target.
        self._put_off: dict[MortalQueue, Line] = {}
        #: Letters that are on their way again.
        self._sent: dict[Letter, Line] = {}
        #: Refused letters that wait and are not on their way.
        self.count = 0
        #: Times that a target refused a letter which is then sent again.
        self.refused_total = 0
        #: Letters that were left to the next start.
        self.left_total = 0

    def lines(self) -> Iterator[Waiting]:
        """All lines of refused letters."""
        for line in list(self._lines.values()):
            if line.target is None:
                continue
            reason = "it is full" if line.target.takes_messages() else "its log cannot be written"
            yield Waiting(line.queue.name, line.target.name, line.length(), reason)

    def must_wait(self, letter: Letter, target: QueueHandle) -> bool:
        """Whether letters of the same queue for ``target`` wait, so that a new one goes behind them."""
        if not self._lines:
            return False
        return (letter.queue, target) in self._lines and letter not in self._sent

    def put(self, letter: Letter, target: QueueHandle, taken: frozenset[str]) -> bool:
        """Let ``letter``, which ``target`` refuses and the queues ``taken`` have, wait; False if memory has
        no room for it. The letter's message is in the log of its queue.
        """
        line = self._line(letter.queue, target, TAKEN_BYTES if taken else 0)
        if line is None:
            self.left_total += 1
            return False
        self.count += 1
        self.refused_total += 1
        entry = _entry(letter)
        if taken:
            line.taken[letter.message.offset] = taken
        if self._sent.get(letter) is line:
            line.again.append(entry)
            line.is_refused = True
        else:
            line.append(entry)
            if line.timer is None and not line.sent:
                self._sleep(line)
        return True

    def must_be_put_off(self, queue: MortalQueue) -> bool:
        """Whether letters of ``queue`` wait for their turn, so that a new one goes behind them."""
        return queue in self._put_off

    def put_off(self, letter: Letter) -> bool:
        """Let ``letter``, whose message is in the log of its queue, wait for its turn; False if memory has no
        room for that.
        """
        line = self._line(letter.queue, None)
        if line is None:
            return False
        self._put_off[letter.queue] = line
        line.append(_entry(letter))
        return True

    def send_put_off(self, most: int) -> None:
        """Send letters whose turn it is."""
        for line in list(self._put_off.values()):
            line.window = line.sent + most
            self._feed(line)
            most = line.window - line.sent
            if most <= 0:
                break

    def _line(self, queue: MortalQueue, target: QueueHandle | None, more: int = 0) -> Line | None:
        """The line for one more letter, of ``more`` bytes beside its entry; None if memory has no room."""
        line = self._lines.get((queue, target))
        size = ENTRY_BYTES + more + (LINE_BYTES if line is None else 0)
        if not self._account.has_room_to_keep(size):
            return None
        self._account.kept += size
        if line is None:
            line = self._lines[queue, target] = Line(self, queue, target)
        return line

    def done(self, letter: Letter, is_taken: bool) -> None:
        """``letter``, which may have come from a line, is settled (``is_taken``) or waits again."""
        if not self._sent:
            return
        line = self._sent.pop(letter, None)
        if line is None:
            return
        line.sent -= 1
        if line.target is None:
            if line.sent == 0 and line.length() == 0:
                self._remove(line)
            return
        if is_taken:
            line.pause_us = FIRST_US
            line.window = min(2 * line.window, WINDOW)
        if not line.is_refused:
            self._feed(line)
        elif line.sent == 0:
            line.step_back()
            self._sleep(line)

    def go_on(self, line: Line) -> None:
        """The pause is over: ask the target again."""
        line.is_refused = False
        line.window = line.sent + 1
        self._feed(line)

    def _feed(self, line: Line) -> None:
        """Send letters of ``line``, as many as its window has room for."""
        if line.queue.deleted:
            self._drop(line)
            return
        while line.sent < line.window and not line.is_refused:
            entry = line.next()
            if entry is None:
                break
            try:
                letter = self._letter(line, entry)
            except (OSError, PersistenceError) as error:
                if is_passing(error):
                    line.again.append(entry)
                    line.is_refused = True
                    break
                self.left_total += 1  # the next start says what is wrong with the log
                self._leaves(line, entry >> _REASON_BITS)
                continue
            line.sent += 1
            self._sent[letter] = line
            self._leaves(line, letter.message.offset)
            self._sender.send(letter)
        if line.sent > 0:
            return
        line.step_back()
        if line.length() == 0:
            self._remove(line)
        elif line.is_refused:
            self._sleep(line)

    def _letter(self, line: Line, entry: int) -> Letter:
        offset = entry >> _REASON_BITS
        log = line.queue.log
        assert log is not None
        letter = letter_of(line.queue, log.read_one(offset), _REASONS[entry & (1 << _REASON_BITS) - 1])
        letter.taken = line.taken.get(offset, NOBODY)
        return letter

    def _leaves(self, line: Line, offset: int) -> None:
        """The letter at ``offset`` waits no more."""
        if line.target is not None:
            self.count -= 1
        self._account.kept -= ENTRY_BYTES
        if line.taken.pop(offset, None) is not None:
            self._account.kept -= TAKEN_BYTES

    def _sleep(self, line: Line) -> None:
        timers = line.queue.timers_of_node()
        if timers is not None:
            line.timer = timers.set(line, timers.now_us() + line.pause_us)
            line.pause_us = min(2 * line.pause_us, LONGEST_US)

    def _drop(self, line: Line) -> None:
        """The queue is gone, and with it all its messages."""
        left = line.length() - line.sent
        if line.target is not None:
            self.count -= left
        self._account.kept -= ENTRY_BYTES * left + TAKEN_BYTES * len(line.taken)
        line.taken = {}
        self._remove(line)

    def _remove(self, line: Line) -> None:
        if self._lines.get((line.queue, line.target)) is line:
            del self._lines[line.queue, line.target]
            self._account.kept -= LINE_BYTES
            if line.target is None:
                del self._put_off[line.queue]


def _entry(letter: Letter) -> int:
    return letter.message.offset << _REASON_BITS | _REASONS.index(letter.reason)
