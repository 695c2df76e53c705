"""Messages that a request takes from a queue, and what becomes of them."""

from __future__ import annotations

import asyncio

from admin_ui.asking import Answer
from amqp_router.broker import Broker
from amqp_router.protocol.flags import LOGGED, REJECT
from amqp_router.protocol.message import Message
from vhosts.queues.handle import QueueHandle

#: Messages returned or rejected in one turn of the event loop.
SLICE = 100


class _Question(Answer):
    """A question for a message, which counts as taken when it comes: the request may have gone by then."""

    def __init__(self, taken: Taken) -> None:
        super().__init__()
        self._taken = taken

    def got(self, message: Message | None, left: int) -> bool:
        """See ``Asker``."""
        is_taken = super().got(message, left)
        if is_taken and message is not None and not self._taken.is_acknowledged:
            self._taken.messages.append(message)
        return is_taken


class Taken:
    """Messages that were taken from a queue, and what becomes of them."""

    def __init__(self, queue: QueueHandle, *, requeue: bool, reject: bool) -> None:
        self.queue = queue
        self.requeue = requeue
        self.is_acknowledged = not requeue and not reject
        self.messages: list[Message] = []
        self.is_shown = True
        self.done = asyncio.Event()
        #: The question that was asked and whose answer was not looked at.
        self._question: _Question | None = None

    def take(self) -> Answer | None:
        """The queue's answer with its next ready message; None if it must be waited for (``answered``).

        Raises:
            AMQPError: the queue does not answer it.
        """
        question = self._question
        if question is None:
            question = self._question = _Question(self)
            self.queue.get(self.is_acknowledged, question)
        if question.waits:
            return None
        self._question = None
        if question.error is not None:
            raise question.error
        return question

    async def answered(self) -> None:
        """Wait until ``take`` has an answer.

        Raises:
            AMQPError: it does not come in time.
        """
        if self._question is not None:
            await self._question.wait(self.queue)

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
        if self._question is not None:
            self._question.waits = False
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
