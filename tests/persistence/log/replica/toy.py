"""Two nodes with one log, one leads and the other follows: a toy protocol over the real logs.

The toy knows who leads, in which epoch, and who is in the set of replicas that a confirm waits for. All
that touches a log is the product's: batches are read, copied, cut and folded by ``persistence.log``. Power
fails in the middle of operations, batches are damaged, doubled and left out on the way, and the leader
removes and rewrites segments. Whenever the follower has caught up:

- both logs have the same messages, with the same content, and the same returns;
- what was below the high watermark is there, and what was settled below it is not.

At all times:

- who published hears once: that the message lies below the high watermark, or that it was cut;
- the mark for readers in other processes is at the end of the last batch below the log's high watermark;
- a follower's batches have the epochs of the leader's.

A clean election takes a member of the set; an unclean one anybody, and then the model takes what that one
has.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from amqp_router.protocol.flags import ACK, DEAD_LETTER, REJECT, RETURN
from amqp_router.protocol.message import Extras
from persistence.log.format.record import MESSAGES
from persistence.log.queue.epochs import epoch_at
from persistence.log.queue.truncation import truncate_later
from persistence.log.replica.copying import NotCopied
from persistence.log.replica.epochs import common_end
from persistence.log.replica.follower import Follower
from persistence.log.replica.leader import is_valid, snapshot
from persistence.log.replica.unreplicated import PeerOctets, Unreplicated
from tests.persistence.log.replica.side import Side
from tests.persistence.log.support import last_of, message, raw_batches, unsettled


class Entry:
    """A message that the model knows."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        #: Whether it was settled, and the end of the batch that says so once there is one.
        self.is_settled = False
        self.settled_by = 0
        #: A leader has not got its settle, or the message itself; another one may have it.
        self.is_unsure = False


class Toy:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sides = [Side(0), Side(1)]
        self.epoch = 0
        self.entries: dict[int, Entry] = {}
        self.watermark = 0
        #: The highest one before an unclean election.
        self.known = 0
        #: Numbers of the sides that a confirm waits for.
        self.members = {0, 1}
        self.moves: Counter[str] = Counter()
        self.number = 0
        self.leader = self.sides[0]
        self.account = PeerOctets()
        self.unreplicated = Unreplicated(self.leader.log, self.account)
        self.lead(0)

    @property
    def other(self) -> Side:
        return self.sides[1 - self.leader.number]

    # -- who leads --------------------------------------------------------------------------------------

    def lead(self, number: int) -> None:
        self.leader = self.sides[number]
        self.epoch += 1
        self.leader.follower.lead(self.epoch)
        for side in self.sides:
            side.is_joined = False
        self.unreplicated.close()
        assert self.account.by_peer == {}
        self.unreplicated = Unreplicated(self.leader.log, self.account)

    def elect(self) -> None:
        """The other one leads, if it may."""
        other = self.other
        if other.is_busy or other.number not in self.members:
            return
        self.moves["clean election"] += 1
        old = self.leader
        assert not other.log.copies.awaits_snapshot, "a member of the set has lost its settles"
        self.lead(other.number)
        if not old.is_busy:
            old.follower = Follower(old.log)
        self.check_leader()

    def elect_uncleanly(self) -> None:
        other = self.other
        if other.is_busy or other.number in self.members or other.log.copies.awaits_snapshot:
            return
        self.moves["unclean election"] += 1
        old = self.leader
        self.lead(other.number)
        old.follower = Follower(old.log)
        self.members = {other.number}
        # The logs may know more of it, up to where they are the same.
        self.known = min(max(self.known, self.watermark), other.log.end)
        # Its own one may be of an earlier time, in which it led. What is not durable may still be lost.
        self.watermark = max(min(self.watermark, other.log.durable), other.log.high_watermark)
        self.adopt()

    def adopt(self) -> None:
        """The model takes what the leader has."""
        found, _ = self.leader.log.read(0, self.leader.log.end, 1 << 30, 1 << 40)
        self.entries = {each.offset: Entry(each.body()) for each in found}

    def check_leader(self) -> None:
        """The leader has what was confirmed; the model takes from it what was not."""
        log = self.leader.log
        log.close_batches()
        found, _ = log.read(0, log.end, 1 << 30, 1 << 40)
        there = {each.offset: each.body() for each in found}
        for offset, entry in list(self.entries.items()):
            if entry.is_settled:
                if offset not in there:
                    del self.entries[offset]
                elif entry.settled_by and entry.settled_by <= self.watermark:
                    raise AssertionError(f"offset {offset} was settled below the watermark, and is back")
                else:
                    entry.is_settled, entry.settled_by, entry.is_unsure = False, 0, True
            elif there.get(offset) != entry.body:
                assert entry.is_unsure or offset >= self.watermark, f"offset {offset} is lost"
                del self.entries[offset]
        for offset, body in there.items():
            if offset not in self.entries:
                self.entries[offset] = Entry(body)
                self.entries[offset].is_unsure = True
        assert log.batches.state.live == len(there)

    # -- what clients do --------------------------------------------------------------------------------

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.number += 1
            body = b"%d:" % self.number + b"x" * self.random.choice((1, 20, 90, 350))
            made = message(body)
            if self.random.random() < 0.2:
                made.flags = 0
                self.leader.log.reserve(made)
                continue
            if self.random.random() < 0.3:
                made.extras = Extras()
                made.extras.source, made.extras.source_offset = bytes(16), self.number
                made.extras.source_epoch = self.number % 3
                made.extras.session, made.extras.channel = 7, self.random.randrange(3)
                made.extras.sequence = self.number
            self.leader.log.append(made, self.number)
            self.leader.waiting.append(made.offset)
            self.entries[made.offset] = Entry(body)

    def settle(self) -> None:
        log = self.leader.log
        offsets = [offset for offset in unsettled(log) if offset in self.entries]
        first = self.random.randrange(len(offsets) + 1) if self.random.random() < 0.4 else 0
        kind = self.random.choice((ACK, ACK, ACK, REJECT, DEAD_LETTER, RETURN))
        for offset in offsets[first : first + self.random.randint(1, 8)]:
            log.settle(offset, 0, kind)
            self.entries[offset].is_settled |= kind != RETURN

    def purge(self) -> None:
        log = self.leader.log
        log.purge(0, log.end)
        for entry in self.entries.values():
            entry.is_settled = True

    # -- replication ------------------------------------------------------------------------------------

    def round(self) -> None:
        log = self.leader.log
        log.close_batches()
        for entry in self.entries.values():
            if entry.is_settled and not entry.settled_by:
                entry.settled_by = log.batches.closed.end
        self.unreplicated.appended()
        self.leader.work()
        self.advance()
        self.leader.check_mark()

    def follow(self) -> None:
        """The follower takes some steps, writes, and answers."""
        side = self.other
        for _ in range(self.random.randint(1, 4)):
            if side.is_busy:
                break
            self.step()
        self.check_epochs(side)
        side.work()
        self.check_account()
        log = side.log
        is_whole = not side.is_busy and side.is_joined and side.follower.is_whole
        if is_whole and log.durable >= self.watermark:
            self.members.add(side.number)
        self.advance()
        side.check_mark()

    def check_account(self) -> None:
        """It has at least what the follower lacks, and nothing of one that has all, or is gone."""
        side, lead = self.other, self.leader.log
        peer = str(side.number)
        if not side.is_joined:
            self.unreplicated.leave(peer)
            assert self.account.by_peer == {}
            return
        lead.close_batches()
        self.unreplicated.appended()
        self.unreplicated.acknowledged(peer, side.log.durable)
        lacking = self.account.by_peer[peer]
        missing = raw_batches(self.leader.disk, lead, side.log.durable)
        assert lacking >= sum(len(data) for data in missing if last_of(data) >= side.log.durable)
        if side.log.durable >= lead.batches.closed.end:
            assert lacking == 0
            self.moves["nothing is lacking"] += 1

    def check_epochs(self, side: Side) -> None:
        """What a follower writes of its own, holes for instance, begins no epoch."""
        if side.is_joined and not side.is_busy:
            epochs = self.leader.log.batches.epochs.starts
            for batch in side.log.batches.closed.tail.all():
                # The leader's cleaner lets a batch of messages begin where the one before it ends.
                at = batch.last if batch.kind == MESSAGES else batch.base
                assert batch.epoch <= epoch_at(epochs, at), "an epoch that no leader has begun"

    def advance(self) -> None:
        mark = self.watermark
        for side in self.sides:
            if side.is_joined or side is self.leader:
                known = max(self.watermark, self.known)
                assert side.log.high_watermark <= known, "above what the members have"
        if 1 - self.leader.number not in self.members:
            mark = self.leader.durable
        elif self.other.is_joined:
            mark = min(self.leader.durable, self.other.durable)
        self.watermark = max(self.watermark, mark)
        self.leader.log.advance_high_watermark(self.watermark)
        if self.other.is_joined and not self.other.is_busy:
            log = self.other.log
            log.advance_high_watermark(min(self.watermark, log.durable))

    def step(self) -> None:
        side, lead = self.other, self.leader.log
        log = side.log
        lead.close_batches()
        if not side.is_joined:
            ends = log.end, lead.batches.closed.end
            end = common_end(log.batches.epochs.starts, ends[0], lead.batches.epochs.starts, ends[1])
            if end < log.end:
                self.truncate(side, end)
                return
            side.is_joined = True
            self.unreplicated.join(str(side.number), log.durable)
        if log.copies.awaits_snapshot or log.end < lead.copies.history_start:
            self.backfill(side)
            return
        for data in self.damaged(self.read(log.end, self.random.choice((1, 500, 3000)))):
            try:
                side.follower.append_raw(data)
            except NotCopied:
                self.moves["a batch is refused"] += 1
                return

    def read(self, first: int, max_bytes: int) -> list[bytes]:
        """What the leader hands out from offset ``first`` on."""
        answers: list[tuple[list[bytes], Exception | None]] = []
        self.leader.reader.read(first, max_bytes, lambda *answer: answers.append(answer))
        while not answers:
            self.leader.node.posted.pop(0)()
        found, error = answers[0]
        assert error is None, error
        return list(found)

    def damaged(self, found: list[bytes]) -> list[bytes]:
        if found and self.random.random() < 0.1:
            at = self.random.randrange(len(found))
            kind = self.random.randrange(3)
            if kind == 0:
                data = bytearray(found[at])
                data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
                found[at] = bytes(data)
            elif kind == 1:
                found.insert(at, found[at])
            else:
                del found[at]
        return found

    def truncate(self, side: Side, end: int) -> None:
        assert not (side.number in self.members and end < self.watermark), (
            "a member is cut below the watermark"
        )
        self.moves["truncation"] += 1
        if end < side.log.checkpoints.offset:
            assert side.number not in self.members, "the checkpoint of a member lies above the watermark"
            self.moves["truncation below a checkpoint"] += 1
        side.is_busy = True

        def done() -> None:
            side.is_busy = False
            assert side.log.failed is None, side.log.failed
            assert side.log.end <= end or side.log.end == 0
            assert not side.waiting or side.waiting[-1] < side.log.end, (
                "who waits for what is cut hears nothing"
            )
            side.durable = side.log.durable
            side.follower = Follower(side.log)

        truncate_later(side.log, side.node.sync, side.disk, "d", end, done)

    def backfill(self, side: Side) -> None:
        assert side.number not in self.members, "a member of the set needs a snapshot"
        found = snapshot(self.leader.log, self.leader.disk, "d")
        if found is None:
            self.leader.log.request_checkpoint()
            return
        end, state = found
        side.follower.begin_backfill()
        if not side.follower.is_awaiting:
            return
        if end < side.log.end:
            self.truncate(side, end)
            return
        self.moves["backfill"] += 1
        if side.log.end < end:
            found = self.read(side.log.end, self.random.choice((1, 500)))
            firsts = [side.log.end, *[last_of(data) + 1 for data in found]]
            items = list(zip(firsts, found, strict=False))
            if items and self.random.random() < 0.1:
                del items[self.random.randrange(len(items))]
            for first, data in items:
                try:
                    side.follower.backfill(first, data, end)
                except NotCopied:
                    return
            left = self.read(side.log.end, 1)
            if left and int.from_bytes(left[0][48:56], "little") < end:
                return
        if self.random.random() < 0.7 and is_valid(self.leader.log, end):
            side.follower.install(side.log.end, state)
            self.moves["snapshot"] += 1

    def shrink(self) -> None:
        self.members = {self.leader.number}
        self.advance()
