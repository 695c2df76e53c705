"""A client that does nothing wrong, beside those that do: it must lose nothing and wait for nobody."""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Callable

from tests.interop.wire import Wire

QUEUE = "honest"
RATE = 100
#: Seconds that a delivery or a confirm may take in a test beside which others work: it says "never".
NEVER_S = 100.0
#: The same beside ``make soak``, which has a processor for the broker and says how long the longest took.
PATIENCE_S = 30.0


class Honest(threading.Thread):
    """Publishes with confirms to a durable queue of its own, half of it transient, and consumes it."""

    def __init__(
        self, port: int, patience_s: float = NEVER_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(daemon=True)
        self.patience_s = patience_s
        #: What tells how long something has taken, in seconds.
        self.clock = clock
        #: The longest that a confirm or a delivery took.
        self.longest_s = 0.0
        self.wire = Wire(port, heartbeat=60)
        self.wire.open_channel(1)
        self.wire.ok(1, "queue.declare", queue=QUEUE, durable=True)
        self.wire.ok(1, "queue.purge", queue=QUEUE)
        self.wire.ok(1, "basic.consume", queue=QUEUE)
        self.wire.open_channel(2, confirm=True)
        self.sent = self.delivered = 0
        self.unconfirmed: dict[int, float] = {}
        self.undelivered: deque[float] = deque()
        self.problem = ""
        self.ending = threading.Event()

    def run(self) -> None:
        try:
            begun = time.monotonic()
            while not self.problem and not (self.ending.is_set() and not self._waiting()):
                if not self.ending.is_set() and self.sent < (time.monotonic() - begun) * RATE:
                    self._publish(self.clock())
                self._receive(self.wire.receive_within(0.005))
                self._look(self.clock())
        except (OSError, AssertionError, ConnectionResetError) as error:
            self.problem = f"the honest client got {error!r}"

    def _waiting(self) -> bool:
        return bool(self.unconfirmed or self.undelivered)

    def _publish(self, now: float) -> None:
        self.sent += 1
        self.unconfirmed[self.sent] = now
        self.undelivered.append(now)
        self.wire.publish(2, "", QUEUE, struct.pack(">Q", self.sent) * 16, delivery_mode=1 + self.sent % 2)

    def _receive(self, got: object) -> None:
        if got is None or got.name == "heartbeat":
            return
        if got.name == "basic.deliver":
            (number,) = struct.unpack_from(">Q", got.body)
            self.delivered += 1
            if number != self.delivered:
                self.problem = f"the honest client got message {number} instead of {self.delivered}"
            self.undelivered.popleft()
            self.wire.send(1, "basic.ack", delivery_tag=got.delivery_tag)
        elif got.name == "basic.ack":
            tag = got.delivery_tag
            for number in [n for n in self.unconfirmed if n <= tag] if got.multiple else [tag]:
                self.unconfirmed.pop(number, None)
        else:
            self.problem = f"the honest client got {got}"

    def _look(self, now: float) -> None:
        oldest = min([*self.unconfirmed.values(), *list(self.undelivered)[:1]], default=now)
        self.longest_s = max(self.longest_s, now - oldest)
        if now - oldest > self.patience_s:
            what = f"{len(self.unconfirmed)} confirms, {len(self.undelivered)} deliveries"
            self.problem = f"the honest client waits for {what} for {now - oldest:.0f} s"

    def finish(self) -> str:
        """Wait for what is under way and close; the problem, or an empty text."""
        self.ending.set()
        begun = self.clock()
        while self.is_alive() and self.clock() < begun + self.patience_s + 10:
            self.join(1.0)
        if self.is_alive():
            return "the honest client hangs"
        self.wire.close()
        return self.problem
