"""Bugs planted into channel, queue and connection, one at a time, to see that the tests find each.

Every entry is a textual change; ``test_planted.py`` makes it in a copy of the tree and lets the model walk,
or runs the tests named, which must fail. One that survives means that they have gone blind somewhere. The log
has its own list (``tests/persistence/log/planted.py``).
"""

from __future__ import annotations

from tests.planting import Planted

QUEUE = "vhosts/queues/queue.py"
STANDING = "vhosts/queues/standing.py"
MORTAL = "vhosts/queues/mortal.py"
ORDER = "vhosts/queues/ready/fifo.py"
DELIVERY = "amqp_router/channel/delivery.py"
PUBLISHING = "amqp_router/channel/publishing.py"
DURABLE = "tests/test_durable_queues.py"
EXPIRY = "tests/vhosts/queues/test_expiry.py"
LIMITS = "tests/vhosts/queues/test_limits.py"
DEAD = "tests/vhosts/test_dead_letters.py"
MIRRORED = "tests/vhosts/queues/test_mirrored.py"
#: The walk that is about the ends of messages.
ENDINGS = "tests.model.endings.walk"

PLANTED = [
    Planted(
        "a message is delivered above the high watermark of its copies",
        "vhosts/queues/ready/fifo.py",
        "            return None\n        ring[head] = None\n",
        "            pass\n        ring[head] = None\n",
        MIRRORED,
    ),
    Planted(
        "a message with a priority is delivered above the high watermark of its copies",
        "vhosts/queues/ready/priority.py",
        "if log is not None and offset >= log.copies.visible_end and found.flags & flags.LOGGED:",
        "if log is None and found.flags & flags.LOGGED:",
        MIRRORED,
    ),
    Planted(
        "a queue with copies does not deliver when the high watermark rises",
        STANDING,
        "        if log.copies.mirrored:\n            self.touch()\n",
        "",
        MIRRORED,
    ),
    Planted(
        "who waits for a message that was cut waits on",
        STANDING,
        "        self.receipts.refuse_from(offset)\n",
        "        pass\n",
        MIRRORED,
    ),
    Planted(
        "offsets that a cut gave back are confirmed to their first publisher",
        "vhosts/queues/receipts.py",
        "        self.end = min(self.end, offset)\n",
        "",
        MIRRORED,
    ),
    Planted(
        "returned messages come in the order of their return",
        ORDER,
        "        heappush(self.requeued, (message.offset, message))",
        "        self.requeued.append((message.offset, message))",
    ),
    Planted(
        "a returned message is not marked",
        QUEUE,
        "        message.flags |= flags.REDELIVERED\n",
        "",
    ),
    Planted(
        "a return is not recorded for the next start",
        QUEUE,
        "            log.settle(message.offset, message.gap, flags.RETURN)\n",
        "            pass\n",
    ),
    Planted(
        "confirmed before the watermark",
        STANDING,
        "self.receipts.reached(log.high_watermark)",
        "self.receipts.reached(log.end)",
    ),
    Planted(
        "confirmed before the definition is stored",
        STANDING,
        "        if self.definition_rev:\n            return\n",
        "",
    ),
    Planted(
        "the page log is not read",
        ORDER,
        "        if self.pager is not None:\n            try:\n",
        "        if False:\n            try:\n",
    ),
    Planted(
        "a transient message overtakes the backlog",
        ORDER,
        "        elif not self._page(message):\n            return False\n",
        "        else:\n            self._push(message, size)\n",
    ),
    Planted(
        "the window that is dropped loses its first message",
        ORDER,
        "            self.cursor = self._window_start()\n",
        "            self.cursor = self._window_start() + 1\n",
    ),
    Planted(
        "a purge takes what is unacknowledged",
        ORDER,
        "self.log.purge(self._window_start(), self.log.end)",
        "self.log.purge(0, self.log.end)",
    ),
    Planted(
        "a delivery without acknowledgement stays in the log",
        QUEUE,
        "                consumer.deliver(message)\n                self._gone(message, flags.ACK)\n",
        "                consumer.deliver(message)\n",
    ),
    Planted(
        "a confirm waits for a place that no sync covers",
        STANDING,
        "        self.receipts.wait(run)\n",
        "        self.receipts.end = log.end\n        self.receipts.wait(run)\n",
        "tests/channel/test_publishing.py",
    ),
    Planted(
        "what one queue refused is not synced for the others",
        QUEUE,
        "            elif logged:\n",
        "            elif False:\n",
        "tests/channel/test_publishing.py",
    ),
    Planted(
        "an acknowledgement of a settled tag is taken for another's",
        DELIVERY,
        "        if tag < self.base:\n            return self.older.count > 0 and self.older.holds(tag)\n",
        "",
        "tests/channel/test_delivery.py",
    ),
    Planted(
        "multiple passes over what is old",
        DELIVERY,
        "        while self.older.count > 0 and done < SETTLE_SLICE:\n",
        "        while False:\n",
        "tests/channel/test_delivery.py",
    ),
    Planted(
        "multiple covers one too many",
        DELIVERY,
        "        current = self.base\n        while current <= last and done < SETTLE_SLICE:\n",
        "        current = self.base\n        last = min(last + 1, self.next_tag - 1)\n"
        "        while current <= last and done < SETTLE_SLICE:\n",
    ),
    Planted(
        "the channel's limit wakes one queue only",
        DELIVERY,
        "            if before <= 0 < before + count:\n",
        "            if False:\n",
        "tests/channel/test_consuming.py",
    ),
    Planted(
        "a failed log's publishes are confirmed",
        "vhosts/publishing/ports.py",
        "        if failed:\n            self.failed = True\n",
        "",
    ),
    Planted(
        "a publish from before confirm.select has a number",
        PUBLISHING,
        "        sequence = 0\n        if self.confirming:\n            sequence = self.next_sequence\n",
        "        sequence = self.next_sequence\n        if self.confirming:\n",
    ),
    Planted(
        "a publish that a queue refused is confirmed",
        PUBLISHING,
        "self.confirms.settle(sequence, sequence, outcome & _NOT_TAKEN != 0)",
        "self.confirms.settle(sequence, sequence, False)",
    ),
    Planted(
        "a confirm covers what is not settled",
        "amqp_router/channel/confirms.py",
        "            if low > last > top:\n",
        "            if last > top:\n",
    ),
    Planted(
        "a reply does not wait for the definitions",
        "amqp_router/channel/channel.py",
        "        is_stored = rev <= self.connection.commits.committed\n",
        "        is_stored = True\n",
    ),
    Planted(
        "the fast way takes a body of several frames for one",
        "amqp_router/protocol/frames.py",
        "            if size != body_size:\n                return _IRREGULAR\n",
        "",
        "tests/connection/test_fast_way.py",
    ),
    Planted(
        "the fast way is taken in the midst of another channel's content",
        "amqp_router/connection/dispatch.py",
        "or channel.content.args is not None:\n            return False",
        "or False:\n            return False",
        "tests/connection/test_fast_way.py",
    ),
    Planted(
        "the count of starts is not durable",
        "amqp_router/cluster/standalone.py",
        'json.dumps({"boots": boots}).encode())',
        'json.dumps({"boots": boots}).encode(), durable=False)',
        "tests/cluster/test_standalone.py",
    ),
    Planted(
        "the epoch is not the registry's",
        "amqp_router/queue_maker.py",
        "        log.epoch = self._leaders.lead(queue.incarnation, log.epoch).epoch",
        "        self._leaders.lead(queue.incarnation, log.epoch)",
        DURABLE,
    ),
    Planted(
        "a publisher to a deleted queue is answered before the deletion is stored",
        QUEUE,
        "        self.services.deleted(self, rev)\n",
        "        self.services.deleted(self, rev)\n        self.removal_stored()\n",
        "tests/channel/test_publishing.py",
    ),
    Planted(
        "what goes nowhere because of a removal is confirmed before the removal is stored",
        "vhosts/exchanges/router.py",
        "        if table.unstored.rev:\n",
        "        if False:\n",
    ),
    Planted(
        "publishers that wait for a removal do not hear that the store fails",
        "vhosts/unstored.py",
        "        self._settle(list(self._waiting), failed=True)\n",
        "",
    ),
    Planted(
        "a failing store confirms what waits for a removal",
        "vhosts/unstored.py",
        "        if self._is_failing:\n            run.settled(True)\n",
        "        if self._is_failing:\n            run.settled(False)\n",
    ),
    Planted(
        "publishers to a queue that is not stored do not hear that the store fails",
        "amqp_router/commits.py",
        "            queue.definition_failed(error)\n",
        "            pass\n",
    ),
    Planted(
        "a log is removed before its row",
        "amqp_router/commits.py",
        "        if rev <= self.committed:\n            waiter",
        "        if True:\n            waiter",
        DURABLE,
    ),
    Planted(
        "an expired message is delivered",
        QUEUE,
        "            if message.deadline_us != 0 and message.deadline_us < now_us:\n",
        "            if False:\n",
        EXPIRY,
    ),
    Planted(
        "the longer of two times to live counts",
        "vhosts/queues/expiry.py",
        "message.expire_ms * 1000 < left_us):",
        "message.expire_ms * 1000 > left_us):",
        EXPIRY,
    ),
    Planted(
        "a restart begins a message's time anew",
        "persistence/log/format/messages.py",
        "        if message.deadline_us != 0:\n",
        "        if False:\n",
        EXPIRY,
    ),
    Planted(
        "a returned message has no deadline",
        QUEUE,
        "        if message.deadline_us != 0:\n            self.expiry.is_timed = True\n",
        "        if False:\n            self.expiry.is_timed = True\n",
        EXPIRY,
    ),
    Planted(
        "a queue with a consumer expires",
        QUEUE,
        "if self.expiry.expires_us > 0 and len(self.consumers) == 0:",
        "if self.expiry.expires_us > 0:",
        EXPIRY,
    ),
    Planted(
        "a get is no use of a queue",
        QUEUE,
        "        if self.expiry.expires_us:\n            self.note_use()\n        message",
        "        message",
        EXPIRY,
    ),
    Planted(
        "a message is refused although a ready consumer makes room",
        QUEUE,
        "        if self.has_due():\n            self.pump(_AT_ONCE_UNITS)",
        "        if False:\n            self.pump(_AT_ONCE_UNITS)",
        LIMITS,
    ),
    Planted(
        "one message too many may stay",
        "vhosts/queues/limits.py",
        "ready.count > self.length or",
        "ready.count > self.length + 1 or",
        LIMITS,
    ),
    Planted(
        "octets that were delivered before the count are counted",
        ORDER,
        "start = max(self.uncounted_from, self._window_start())",
        "start = self.uncounted_from",
        LIMITS,
    ),
    Planted(
        "a dead letter is settled before its targets are safe",
        "vhosts/dead_letters.py",
        "            self._unsafe[number] = letter\n",
        "            self._unsafe[number] = letter\n            self._settle(letter, stays=False)\n",
        DEAD,
    ),
    Planted(
        "a cycle that nobody rejected goes on",
        "vhosts/queues/death.py",
        "                queues.add(name.decode(",
        "                (name.decode(",
        DEAD,
    ),
    Planted(
        "a rejection does not break a cycle",
        "vhosts/queues/death.py",
        '            if known.get("reason") == ("S", REJECTED.encode()):\n                break\n',
        "",
        DEAD,
    ),
    Planted(
        "a dead letter keeps its expiration",
        "vhosts/queues/death.py",
        'self.properties.pop("expiration", None)',
        'self.properties.get("expiration", None)',
        DEAD,
    ),
    Planted(
        "the next head does not expire after a drop by a policy",
        QUEUE,
        "                    done = self._expire(done, budget)  # the next head\n",
        "                    pass\n",
        walk=ENDINGS,
    ),
    Planted(
        "nobody looks at the next head after a drop by a publish",
        QUEUE,
        "                done = self._expire(done, TRIM_UNITS)  # the next head, or set the timer for it\n",
        "                pass\n",
        walk=ENDINGS,
    ),
    Planted(
        "a message that is over counts as dropped",
        MORTAL,
        "is_over = message.deadline_us != 0 and message.deadline_us <= now_us",
        "is_over = False",
        walk=ENDINGS,
    ),
    Planted(
        "a message comes back once less than it may",
        QUEUE,
        "if message.delivery_count > self.delivery_limit:",
        "if message.delivery_count >= self.delivery_limit > 0:",
        walk=ENDINGS,
    ),
    Planted(
        "the delivery limit counts as a rejection",
        MORTAL,
        "self._bury(message, DELIVERY_LIMIT)",
        'self._bury(message, "rejected")',
        walk=ENDINGS,
    ),
    Planted(
        "deaths are not counted",
        "vhosts/queues/death.py",
        'entry = {**known, "count": ("l", _count(known) + 1)}',
        'entry = {**known, "count": ("l", _count(known))}',
        walk=ENDINGS,
    ),
    Planted(
        "a letter of the last process is sent twice after a clean stop",
        "vhosts/dead_letters.py",
        "letter.is_old = message.offset < max(log.redelivered_floor, epochs.continued_at)",
        "letter.is_old = message.offset < log.redelivered_floor",
        DEAD,
    ),
    Planted(
        "a letter does not say the epoch of its message",
        "vhosts/dead_letters.py",
        "            extras.source_epoch = epochs.at(message.offset)\n",
        "",
        DEAD,
    ),
    Planted(
        "a channel is closed before its deliveries are too old",
        "amqp_router/channel/ack_watch.py",
        "        if now_us - marked_us < age_us:",
        "        if now_us - marked_us < age_us // 2:",
        walk=ENDINGS,
    ),
    Planted(
        "consumers do not hear of a timeout that a policy sets",
        MORTAL,
        "if self.ack_timeout_ms and len(self.consumers) > 0:",
        "if False:",
        "tests/channel/test_ack_watch.py",
    ),
    Planted(
        "a queue takes one more than its limit before it refuses",
        "vhosts/queues/limits.py",
        "return ready.count < self.length and",
        "return ready.count <= self.length and",
        walk=ENDINGS,
    ),
    Planted(
        "a priority above the highest counts as none",
        "vhosts/queues/ready/priority.py",
        "number = min(message.priority, len(self._levels) - 1)",
        "number = message.priority if message.priority < len(self._levels) else 0",
        walk=ENDINGS,
    ),
    Planted(
        "the larger of two limits counts",
        "vhosts/queues/settings.py",
        "found[field] = min(given)",
        "found[field] = max(given)",
        walk=ENDINGS,
    ),
    Planted(
        "a policy goes before an argument",
        "vhosts/queues/settings.py",
        "        if argument is not None:\n            found[field] = argument[1].decode(",
        "        if argument is not None and not any(key in each for each in policies):\n"
        "            found[field] = argument[1].decode(",
        walk=ENDINGS,
    ),
    Planted(
        "a refused message is not dead-lettered",
        QUEUE,
        "if self.buries and self.limits.overflow == REJECT_PUBLISH_DLX:",
        "if False:",
        walk=ENDINGS,
    ),
    Planted(
        "a deleted queue dead-letters what is rejected",
        QUEUE,
        "elif self.buries and not self.deleted:",
        "elif self.buries:",
        DEAD,
    ),
    Planted(
        "a consumer gets what a closed channel gives back before it is trimmed",
        QUEUE,
        "        if self.trims_first:\n            done",
        "        if False:\n            done",
        LIMITS,
    ),
    Planted(
        "a consumer gets what comes back to a full queue before it is trimmed",
        QUEUE,
        "            self._trim_returned(TRIM_UNITS)\n        if message.deadline_us",
        "            pass\n        if message.deadline_us",
        walk=ENDINGS,
    ),
]
