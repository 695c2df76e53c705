"""A queue whose answers come later, as if its leader were another node.

A question to it (``get``, ``count``, ``purge``, ``remove``) goes to the leader, which acts on it (``act``),
and its answer comes back (``arrive``). The test says when, and in which order between those who asked. In
between the link may break (``lose``): then whoever asked hears that the queue is not there.

Publishing, consuming and settling work as in a queue of this node.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.errors import AMQPError, NotFound
from amqp_router.protocol.flags import ACK
from amqp_router.protocol.message import Message
from vhosts.queues.destination import Asker
from vhosts.queues.queue import Queue


class Question:
    """One question on its way."""

    def __init__(self, asker: Asker, act: Callable[[], Callable[[], None]]) -> None:
        self.asker = asker
        self._act = act
        #: Gives the asker its answer; None before the leader has acted.
        self._answer: Callable[[], None] | None = None

    def act(self) -> None:
        """The question reaches the leader."""
        if self._answer is None:
            self._answer = self._act()

    def arrive(self) -> None:
        """The answer reaches the asker."""
        self.act()
        assert self._answer is not None
        self._answer()


class LateQueue(Queue):
    """Its questions wait in ``questions``."""

    def __init__(self, services: object) -> None:
        super().__init__(services)
        self.questions: list[Question] = []
        #: Bodies of the messages that were purged, or went with the queue.
        self.purged: list[bytes] = []
        #: Messages that were taken and not settled when the queue was deleted.
        self.out_at_end = 0

    def get(self, no_ack: bool, asker: Asker) -> None:
        def act() -> Callable[[], None]:
            if self.deleted:
                return lambda: asker.refused(self.unavailable())
            message = self.take(False)
            left = self.message_count()
            return lambda: self._give(asker, message, left, no_ack=no_ack)

        self.questions.append(Question(asker, act))

    def _give(self, asker: Asker, message: Message | None, left: int, *, no_ack: bool) -> None:
        if message is None:
            asker.got(None, left)
        elif not asker.got(message, left):
            self.return_unsent(message)
        elif no_ack:
            self.settle(message, ACK)

    def count(self, asker: Asker) -> None:
        def act() -> Callable[[], None]:
            if self.deleted:
                return lambda: asker.refused(self.unavailable())
            ready, consumers = self.message_count(), self.consumer_count()
            return lambda: asker.counted(ready, consumers)

        self.questions.append(Question(asker, act))

    def purge(self, asker: Asker) -> None:
        def act() -> Callable[[], None]:
            self.note_ready()
            count = self.empty()
            return lambda: asker.removed(count, 0)

        self.questions.append(Question(asker, act))

    def remove(self, asker: Asker, if_unused: bool, if_empty: bool) -> None:
        def act() -> Callable[[], None]:
            if self.deleted:
                return lambda: asker.removed(0, 0)
            ready = self.ready_bodies()
            try:
                count, rev = self.vhost.delete_queue(self.name, if_unused=if_unused, if_empty=if_empty)
            except AMQPError as error:
                refusal = error
                return lambda: asker.refused(refusal)
            self.purged += ready
            return lambda: asker.removed(count, rev)

        self.questions.append(Question(asker, act))

    def delete(self, rev: int) -> int:
        self.out_at_end = self.unacked_count
        return super().delete(rev)

    def lose(self) -> None:
        """The link breaks: whoever asked hears that the queue is not there, and the leader takes back what it
        has given.
        """
        questions, self.questions = self.questions, []
        for question in questions:
            question.asker.refused(self.unavailable())
            question.arrive()

    def unavailable(self) -> AMQPError:
        return NotFound(f"home node of queue '{self.name}' is down")

    def note_ready(self) -> None:
        self.purged += self.ready_bodies()

    def ready_bodies(self) -> list[bytes]:
        taken = list(iter(lambda: self.take(False), None))
        bodies = [message.body() for message in taken]
        for message in reversed(taken):
            self.return_unsent(message)
        return bodies
