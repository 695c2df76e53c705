"""A queue whose answers come later, as if its leader were another node.

A question to it (``get``, ``count``, ``consume``, ``cancel``, ``purge``, ``remove``) goes to the leader. That
acts on it (``act``), and its answer comes back (``arrive``). The test says when, and in which order between
those who asked. In between the link may break (``lose``): then whoever asked hears that the queue is not
there.

A consumer that starts may get a message from the leader before the answer arrives; it comes right behind the
answer, or goes back if nobody waits for it. So does a message that the leader sends to a consumer that ends.

Publishing and settling, and deliveries to consumers that have started, work as in a queue of this node. So do
the queues of direct reply-to, which are on the client's node whatever its other queues are.
"""

from __future__ import annotations

from collections.abc import Callable

from amqp_router.protocol.errors import AMQPError, NotFound
from amqp_router.protocol.flags import ACK
from amqp_router.protocol.message import Message
from vhosts.direct_reply import is_reply_name
from vhosts.queues.destination import UNHEARD, Asker
from vhosts.queues.handle import Consumer
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


class Link(Consumer):
    """A consumer as the leader knows it. What is sent to it is on its way while the link is not ``open``."""

    def __init__(self, queue: LateQueue, consumer: Consumer) -> None:
        super().__init__()
        self.queue = queue
        self.consumer = consumer
        self.tag, self.no_ack, self.priority = consumer.tag, False, consumer.priority
        self.exclusive, self.timeout_ms = consumer.exclusive, consumer.timeout_ms
        self.open = False
        self.on_its_way: list[Message] = []
        self.has_gone = False

    def ready(self) -> bool:
        return bool(self.consumer.ready()) and (self.open or not self.on_its_way)

    def deliver(self, message: Message) -> None:
        self.on_its_way.append(message)
        if self.open:
            self.arrive()

    def arrive(self) -> None:
        """What is on its way reaches the consumer, or goes back if that is not ready."""
        messages, self.on_its_way = self.on_its_way, []
        for message in messages:
            if not self.consumer.ready() or not self.queue.recall(message):
                self.queue.return_unsent(message)
                continue
            self.consumer.deliver(message)
            if self.consumer.no_ack:
                self.queue.settle(message, ACK)

    def give_back(self) -> None:
        """What is on its way does not arrive."""
        messages, self.on_its_way = self.on_its_way, []
        for message in reversed(messages):
            self.queue.return_unsent(message)

    def timeout_set(self) -> None:
        self.consumer.timeout_set()

    def cancelled(self) -> None:
        self.has_gone = True
        if self.open:
            self.consumer.cancelled()


class LateQueue(Queue):
    """Its questions wait in ``questions``."""

    def __init__(self, services: object) -> None:
        super().__init__(services)
        self.questions: list[Question] = []
        self.links: dict[Consumer, Link] = {}
        self.is_lost = False
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

    def consume(self, consumer: Consumer, asker: Asker) -> None:
        if is_reply_name(self.name):
            super().consume(consumer, asker)
            return
        link = Link(self, consumer)

        def act() -> Callable[[], None]:
            try:
                if self.deleted:
                    raise self.unavailable()
                self.add_consumer(link)
            except AMQPError as error:
                refusal = error
                return lambda: asker.refused(refusal)
            self.links[consumer] = link
            return lambda: self._start(link, asker)

        self.questions.append(Question(asker, act))

    def _start(self, link: Link, asker: Asker) -> None:
        if not asker.started():
            self._leave(link)
            return
        link.open = True
        link.arrive()
        if link.has_gone:
            link.consumer.cancelled()
        else:
            self.wake(link.consumer)

    def cancel(self, consumer: Consumer, asker: Asker) -> None:
        link = self.links.get(consumer)
        if link is None:
            super().cancel(consumer, asker)
            return
        link.open = False

        def act() -> Callable[[], None]:
            self._leave(link, stays=True)
            return lambda: self._end(link, asker)

        self.questions.append(Question(asker, act))

    def _leave(self, link: Link, *, stays: bool = False) -> None:
        """The leader forgets a consumer; what is on its way to it goes back, or (``stays``) stays there."""
        self.links.pop(link.consumer, None)
        super().cancel(link, UNHEARD)
        if not stays:
            link.give_back()

    def _end(self, link: Link, asker: Asker) -> None:
        if self.is_lost:
            link.give_back()
        else:
            link.arrive()
        asker.ended()

    def grant(self, consumer: Consumer, messages: int, octets: int) -> None:
        consumer.credit += messages
        consumer.octets += octets
        self.wake(consumer)

    def wake(self, consumer: Consumer) -> None:
        super().wake(self.links.get(consumer, consumer))

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
        self.is_lost = True
        for question in questions:
            question.asker.refused(self.unavailable())
            question.arrive()
        self.is_lost = False

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
