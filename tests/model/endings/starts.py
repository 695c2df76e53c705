"""Ends of the node, and what its logs must have when it starts again.

A message that was given up is in its queue, in the queue of its dead letter, or after a crash in both; never
in neither, if it was safe. What is in both is not taken twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from random import Random

from amqp_router.connection.states import ConnectionState
from amqp_router.protocol.flags import REDELIVERED
from amqp_router.protocol.message import Extras, Message
from persistence.log.sync.marks import log_id
from tests.model.endings.lists import KINDS, Entry, ModelQueue
from tests.model.endings.wire import read, serial_of
from tests.model.endings.world import FANOUT, Clock, World
from tests.persistence.log.simdisk import PowerLoss

#: Where the power fails: the operation before which it does, whether it is at the log of a queue whose
#: messages die (or of a queue that gets letters), and whether letters are under way then.
CRASH_POINTS: dict[str, tuple[str, str, bool]] = {
    "before a letter is written": ("write", "target", True),
    "between write and sync of a letter": ("sync", "target", True),
    "before a letter's place in the journal": ("write", ".journal", True),
    "between write and sync of the journal with a letter": ("sync", ".journal", True),
    "before the end of a dead message is written": ("write", "source", False),
    "between write and sync of the end of a dead message": ("sync", "source", False),
    "before a segment in which messages expired is removed": ("unlink", "source", False),
    "before a checkpoint of expired messages is in place": ("rename", "source", False),
}


class Walker(World):
    """A world whose node may end."""

    def leave(self) -> None:
        """All clients are gone at once: nothing that one gives back goes to another."""
        self.close_all_but_one(*self.peers)
        self.node.busy = True
        for peer in self.peers:
            peer.client.drop()
            peer.client.machine.state = ConnectionState.CLOSED
        self.node.busy = False
        self.node.quiet()
        assert not self.node.faults, self.node.faults
        self._received = []
        for peer in self.peers:
            for channel in peer.channels.values():
                self.give_back(channel)
        self.lists.rest()

    def restart(self) -> None:
        """A clean stop and a start."""
        self.moves["clean restart"] += 1
        self.leave()
        self.node.stop()
        self.reopen(clean=True)

    def kill(self) -> None:
        """The process dies; what it wrote stays in the page cache, synced or not."""
        self.moves["kill -9"] += 1
        self.definitions.lose()
        self.disk.forget_files()
        self.reopen(clean=False)

    def crash(self, seed: int) -> None:
        """The power fails while nothing is being written."""
        self.moves["power fails"] += 1
        self.lose_power(seed)

    def crash_unheard(self, seed: int) -> None:
        """A round is synced and definitions are stored, and the power fails before the loop hears of it."""
        self.moves["power fails before the loop hears"] += 1
        while self.node.work():
            pass
        self.definitions.commit(1)
        self.lose_power(seed)

    def crash_in_stop(self, steps: int, seed: int) -> None:
        """The power fails ``steps`` operations into a clean stop, or right after it."""
        self.leave()
        self.disk.steps_left = steps
        with contextlib.suppress(PowerLoss):
            self.node.stop()
            self.moves["power fails after a clean stop"] += 1
            self.disk.power_loss(Random(seed))
            self.reopen(clean=True)
            return
        self.moves["power fails in a clean stop"] += 1
        self.lose_power(seed, clean=None)

    def crash_at(self, point: str, after: int, seed: int) -> bool:
        """The power fails at one of ``CRASH_POINTS``, if the node comes there; whether it did."""
        operation, where, is_under_way = CRASH_POINTS[point]
        left = after

        def hook(name: str, path: str) -> None:
            nonlocal left
            if name != operation or left < 0:
                if left < 0:
                    raise PowerLoss
                return
            letters = self.node.vhost.dead_letters
            if self._is_at(where, path) and bool(letters._unsafe) is is_under_way:
                left -= 1
                if left < 0:
                    raise PowerLoss

        self.disk.hook = hook
        try:
            self._provoke(Random(seed))
        except PowerLoss:
            self.moves[f"power fails {point}"] += 1
            self.disk.hook = None
            self.lose_power(seed)
            return True
        finally:
            self.disk.hook = None
        self.moves[f"({point}: not reached)"] += 1
        return False

    def _is_at(self, where: str, path: str) -> bool:
        if where.startswith("."):
            return path.endswith(where)
        gives_up = [each for each in self.lists.queues.values() if each.kind.durable and _dies(each)]
        targets = [self.lists.queues.get(each.rules.key or "") for each in gives_up]
        queues = gives_up if where == "source" else [each for each in targets if each is not None]
        return any(f"/{each.incarnation}/" in f"{path}/" for each in queues)

    def _provoke(self, random: Random) -> None:
        """Messages that expire and are dropped, with letters, while others are published."""
        for _ in range(4):
            for name in ("c", "q"):
                if random.random() < 0.7:
                    count = random.randint(1, 6)
                    says = [
                        self.says("", name, persistent=True, priority=None, ms=random.choice((None, 100)))
                        for _ in range(count)
                    ]
                    self.publish(says, [random.choice((10, 60))] * count)
            if random.random() < 0.7:
                self.settle_down()
            self.sleep(random.choice((0.2, 0.7, 1.6)))
            self.work()
        self.settle_down()
        for _ in range(3):
            self.sleep(0.5)
            self.node.settle()
        self.settle_down()

    def lose_power(self, seed: int, *, clean: bool | None = False) -> None:
        self.definitions.lose()
        self.disk.power_loss(Random(seed))
        self.reopen(clean=clean)

    def reopen(self, *, clean: bool | None) -> None:
        """Start again and compare; None: the last stop may have been clean, ask the node."""
        known = {queue.incarnation: queue for queue in (*self.past.values(), *self.lists.queues.values())}
        rows = {row.incarnation: row for row in self.definitions.of_kind("queue")}
        for queue in known.values():
            is_stored = queue.incarnation in rows
            assert not (is_stored and queue.deleted and queue.was_removed), f"{queue.name} came back"
            if queue.kind.durable and queue.was_declared and not queue.deleted:
                assert is_stored, f"{queue.name} is lost"
        self._received = []
        feature = "restart" if clean else "kill -9"
        for queue in self.lists.queues.values():
            for entry in queue.entries.values():
                if not entry.ended:
                    self.lists.note(queue, entry, feature)
        self.start(Clock(round(self.clock.now + self.random.choice((0.01, 0.01, 1.0)), 6)))
        assert clean in (None, self.node.catalog.was_clean)
        is_clean = self.node.catalog.was_clean
        self.past = {}
        bound = {row.destination for row in self.definitions.of_kind("binding")}
        fresh = {
            row.incarnation: ModelQueue(
                KINDS[row.name],
                row.incarnation,
                known[row.incarnation].arguments,
                self.policy_of(row.name),
                self.lists.now_us,
            )
            for row in rows.values()
        }
        for incarnation, queue in fresh.items():
            self._recover(known[incarnation], queue, is_clean=is_clean)
            queue.was_declared = True
            queue.is_bound = queue.name in bound
        for incarnation, queue in fresh.items():
            self._find_letters(known[incarnation], queue, fresh)
            self._compare_with_log(known[incarnation], queue, fresh, is_clean=is_clean)
        self.lists.queues = {queue.name: queue for queue in fresh.values()}
        self.connect()

    def _recover(self, before: ModelQueue, fresh: ModelQueue, *, is_clean: bool) -> None:
        """Fill ``fresh`` with what the log gave back, and compare each message with what it was."""
        log = self.node.queue(before.name).log
        assert log is not None
        messages, _ = log.read(0, log.end, 1 << 20, 1 << 30)
        for message in messages:
            length = message.route[0]
            exchange = message.route[1 : 1 + length].decode()
            says, _ = read(message.properties(), exchange, message.route[2 + length :].decode())
            where = f"{serial_of(message.body())} {says.deaths} in {before.name}"
            likes = [
                each
                for each in before.entries.values()
                if each.shown == (serial_of(message.body()), says.deaths) and each.key not in fresh.entries
            ]
            entry = min(likes, key=partial(_unlike, message), default=None)
            assert entry is not None, f"{where} was never there, is there twice, or was settled durably"
            assert entry.logged, f"{where} is not of the log"
            is_over = entry.ended and not entry.may_stay
            assert not (is_clean and is_over and not before.deleted), f"{where} was settled"
            assert (message.body(), says) == (entry.body, entry.says), where
            assert message.deadline_us == (entry.deadline_us or 0), f"the deadline of {where}"
            is_redelivered = bool(message.flags & REDELIVERED)
            if is_clean and not entry.letters and not entry.may_stay and not before.deleted:
                assert is_redelivered == entry.redelivered, f"redelivered flag of {where}"
                assert message.delivery_count == entry.returns, f"returns of {where}"
            else:
                assert is_clean or is_redelivered, f"{where} is not marked after a crash"
                assert message.delivery_count <= entry.returns, f"{where} returned {message.delivery_count}"
            kept = Entry(entry.serial, entry.body, entry.says, entry.marks)
            kept.copy = entry.copy
            kept.deadline_us = entry.deadline_us
            kept.redelivered, kept.returns = is_redelivered, message.delivery_count
            kept.places = {count: place for count, place in entry.places.items() if count <= kept.returns}
            kept.origin = entry.origin
            kept.logged = kept.safe = True
            kept.is_old = True
            kept.offset, kept.epoch = message.offset, log.batches.epochs.at(message.offset)
            fresh.entries[kept.key] = kept
            fresh.recover(kept)

    def _find_letters(self, before: ModelQueue, fresh: ModelQueue, all_fresh: dict[str, ModelQueue]) -> None:
        """Which letters of messages that are back the log has, or has had."""
        log = self.node.queue(before.name).log
        assert log is not None
        for queue in all_fresh.values():
            for entry in queue.entries.values():
                origin = (queue.incarnation, *entry.key)
                letters = [each for each in before.entries.values() if each.origin == origin]
                extras = Extras()
                extras.source, extras.source_offset = log_id(queue.incarnation), entry.offset
                extras.source_epoch = entry.epoch
                has_letter = log.taken.has_letter(extras)
                if has_letter:
                    fresh.letters.add(origin)
                    assert letters or origin in before.letters, f"{entry.serial} was never sent"
                for letter in letters:
                    assert has_letter or letter.key not in fresh.entries, f"{letter.serial} is not known"

    def _compare_with_log(
        self, before: ModelQueue, fresh: ModelQueue, all_fresh: dict[str, ModelQueue], *, is_clean: bool
    ) -> None:
        """Nothing that must be there is missing."""
        if before.deleted:
            return
        for key, entry in before.entries.items():
            if not entry.logged or entry.ended or key in fresh.entries:
                continue
            if entry.safe or is_clean:
                where = f"{entry.serial} in {before.name}"
                assert entry.letters, f"{where} is lost"
                for target, letter in entry.letters:
                    assert _is_somewhere(target, letter, all_fresh), f"{where} and its letter are lost"


def _unlike(message: Message, entry: Entry) -> tuple[bool, bool, bool]:
    """How little ``message`` of the log is ``entry``, of those that look like it."""
    was_elsewhere = entry.is_old and entry.offset != message.offset
    return was_elsewhere, message.deadline_us != (entry.deadline_us or 0), entry.ended


def _is_somewhere(queue: ModelQueue, entry: Entry, fresh: dict[str, ModelQueue]) -> bool:
    """Whether a message is in its queue, was done with, or lives on in its letters."""
    if entry.ended or queue.deleted or queue.incarnation not in fresh:
        return True
    if entry.key in fresh[queue.incarnation].entries:
        return True
    return bool(entry.letters) and all(_is_somewhere(*each, fresh) for each in entry.letters)


def _dies(queue: ModelQueue) -> bool:
    return queue.rules.ttl is not None or queue.rules.is_limited


__all__ = ["CRASH_POINTS", "FANOUT", "Callable", "Walker"]
