"""Questions to a queue that a request waits for (``vhosts.queues.destination.Asker``).

A queue of this node answers within the call, another perhaps later, or not at all: then the request fails
after ``ANSWER_S``, and what comes later is not taken.
"""

from __future__ import annotations

import asyncio

from amqp_router.channel.asking import ANSWER_S
from amqp_router.protocol.errors import AMQPError
from amqp_router.protocol.message import Message
from vhosts.queues.destination import Asker
from vhosts.queues.handle import QueueHandle


class Answer(Asker):
    """One question, and its answer when that is there."""

    def __init__(self) -> None:
        #: Whether the answer is outstanding and somebody waits for it.
        self.waits = True
        self.error: AMQPError | None = None
        #: The answer to a get; None if no message was ready.
        self.message: Message | None = None
        #: How many messages are left (get), or were removed.
        self.count = 0
        #: The revision of the definitions with which a removal is stored.
        self.rev = 0
        self._there = asyncio.Event()

    def got(self, message: Message | None, left: int) -> bool:
        """See ``Asker``."""
        if not self.waits:
            return False
        self.message, self.count = message, left
        self._arrived()
        return True

    def removed(self, count: int, rev: int) -> None:
        """See ``Asker``."""
        if self.waits:
            self.count, self.rev = count, rev
            self._arrived()

    def refused(self, error: AMQPError) -> None:
        """See ``Asker``."""
        if self.waits:
            self.error = error
            self._arrived()

    def _arrived(self) -> None:
        self.waits = False
        self._there.set()

    async def wait(self, queue: QueueHandle) -> None:
        """Wait until ``queue`` has answered.

        Raises:
            AMQPError: the queue does not do it, or does not answer in time.
        """
        if self.waits:
            try:
                await asyncio.wait_for(self._there.wait(), ANSWER_S)
            except TimeoutError:
                if self.waits:
                    self.error = queue.no_answer()
            finally:
                self.waits = False
        if self.error is not None:
            raise self.error
