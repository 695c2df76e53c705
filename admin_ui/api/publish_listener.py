"""What becomes of one publish over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from amqp_router.broker import Broker
from amqp_router.protocol.message import Message
from vhosts.publishing.outcome import Outcome
from vhosts.publishing.ports import Listener, Run


class Publish(Listener):
    """One publish; the listener of its publisher (``vhosts.publishing.ports.Listener``)."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.outcome = Outcome.LATER
        self.failed = False
        self.settled = asyncio.Event()

    def published(self, number: int, outcome: int, message: Message) -> None:
        """See ``Listener``."""
        self.outcome = Outcome(outcome)
        if not self.outcome & Outcome.WAITS:
            self.failed = bool(self.outcome & Outcome.FAILED)
            self.settled.set()

    def run_done(self, run: Run) -> None:
        """See ``Listener``."""
        self.failed = bool(run.failed)
        self.settled.set()

    def in_slices(self, step: Callable[[], bool]) -> None:
        """See ``Listener``."""
        self.broker.in_slices(step)
