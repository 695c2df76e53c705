"""Messages that a request takes from a queue, and what becomes of them."""

from __future__ import annotations

import asyncio

from amqp_router.broker import Broker
from amqp_router.protocol.flags import LOGGED, REJECT
from amqp_router.protocol.message import Message
from vhosts.queues.handle import QueueHandle

#: Messages returned or rejected in one turn of the event loop.
SLICE = 100


class Taken:
    """Messages that were taken from a queue, and what becomes of them."""

    def __init__(self, queue: QueueHandle, *, requeue: bool, reject: bool) -> None:
        self.queue = queue
        self.requeue = requeue
        self.is_acknowledged = not requeue and not reject
        self.messages: list[Message] = []
        self.is_shown = True
        self.done = asyncio.Event()

    def take(self) -> Message | None:
        """The next ready message of the queue, with its content; None if there is none."""
        message = self.queue.get(self.is_acknowledged)
        if message is not None and not self.is_acknowledged:
            self.messages.append(message)
        return message

    def let_go(self, message: Message) -> None:
        """The content of ``message`` was read."""
        if self.is_acknowledged:
            return
        if message.flags & LOGGED:
            message.content = None
        else:
            self.queue.put_aside(message)

    def finish(self, broker: Broker, *, is_shown: bool) -> None:
        """Return or reject the messages, in slices; ``done`` is set at the end.

        If they are not shown to the client after all, they come back as they were.
        """
        if not self.messages:
            self.done.set()
            return
        self.messages.reverse()
        self.is_shown = is_shown
        if self.requeue or not is_shown:
            self.queue.begin_return()
        broker.in_slices(self._next_slice)

    def _next_slice(self) -> bool:
        for _ in range(min(SLICE, len(self.messages))):
            message = self.messages.pop()
            if not self.is_shown:
                self.queue.return_unsent(message)
            elif self.requeue:
                self.queue.requeue(message)
            else:
                self.queue.settle(message, REJECT)
        if self.messages:
            return False
        if self.requeue or not self.is_shown:
            self.queue.end_return()
        self.done.set()
        return True
