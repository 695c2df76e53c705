"""The internal queue of a delayed-message exchange, where messages wait until they are due.

Nobody consumes from it, binds it or publishes to it by name. It is a queue of the virtual host all the same:
listed, durable if its exchange is, and its log is like any other's. What is due goes the way of dead letters
(``vhosts.dead_letters``), which publishes it to the exchange and settles it here when all targets have it
safe: a crash never loses it, and no target that is a log takes it twice.

A record of its log has the due time, so a restart delays nothing.
"""

from __future__ import annotations

from functools import partial

from amqp_router.protocol.frames import NO_EXPIRY
from amqp_router.protocol.message import Extras, Message, build_message
from amqp_router.protocol.properties import headers_named, with_header
from vhosts.exchanges.delayed import DELAY, delay_ms, without_delay
from vhosts.policies import Definition
from vhosts.queues.queue import Queue
from vhosts.queues.ready.due import Delayed, DueOrder
from vhosts.queues.settings import QueueSettings

#: Before the name of the exchange. Clients cannot declare such names.
PREFIX = "amq.delayed."
#: The cost of a publish beside that of other queues, in enqueues: the headers are read once more.
PUBLISH_UNITS = 20
#: Messages dropped in one turn of the event loop, some 4 µs each, when the exchange is deleted or all are
#: cancelled.
DROP_SLICE = 1000
#: The smallest payload of body frames that every AMQP client accepts.
FRAME_PAYLOAD_MIN = 4088


class DelayQueue(Queue):
    """Its order (``ready``) is a ``DueOrder``."""

    @property
    def exchange(self) -> str:
        """The exchange that its messages go to."""
        return self.name[len(PREFIX) :]

    def own_settings(self) -> QueueSettings:
        """See ``Queue``."""
        return QueueSettings(dead_letter_exchange=self.exchange, is_delayed=True)

    def obey(self, definition: Definition) -> None:
        """Policies do not say when a message leaves."""

    def publish(self, message: Message) -> bool:
        """See ``Queue``. False also if there is no room in memory for a further due time."""
        order = self.order
        if not order.has_room():
            return False
        delay = delay_ms(headers_named(message.properties(), DELAY))
        self.budget.work += PUBLISH_UNITS
        message.extras = _extras(message.extras, self.tick.now_us + delay * 1000)
        message.expire_ms = NO_EXPIRY  # its own time to live begins when it is released
        if not super().publish(message):
            return False
        self.expiry.is_timed = True
        self.touch()
        return True

    def pump(self, budget: int) -> int:
        """See ``Queue``. Very many that were cancelled leave in slices."""
        done = super().pump(budget)
        return max(done, budget) if self.order.is_skipping else done

    def _drop_ready(self, *, settle: bool) -> None:
        step = partial(self.order.take_all().drop, DROP_SLICE, settle, self._dropped)
        if not step():
            self.services.in_slices(step)

    @property
    def order(self) -> DueOrder:
        """The delayed messages."""
        assert isinstance(self.ready, DueOrder)
        return self.ready

    def drop(self, delayed: Delayed) -> bool:
        """Drop one message; False if it does not wait here, perhaps not any more."""
        message = self.order.remove(delayed)
        if message is None:
            return False
        self._dropped(message)
        self.touch()
        return True


def released(message: Message) -> Message:
    """What is published when ``message``, which has its content, is due.

    Raises:
        FieldError: its properties are malformed.
    """
    properties = message.properties()
    delay = headers_named(properties, DELAY)
    if delay:
        properties = with_header(properties, DELAY, without_delay(delay))
    payload = max(message.frame_payload, FRAME_PAYLOAD_MIN)
    return build_message(message.route, properties, message.body(), payload)


def routing_key_of(message: Message) -> str:
    """The routing key with which it was published."""
    return message.route[message.route[0] + 2 :].decode("utf-8", "surrogateescape")


def _extras(known: Extras | None, due_us: int) -> Extras:
    """``known`` with a due time, as an object of its own."""
    extras = Extras()
    if known is not None:
        for name in Extras.__slots__:
            setattr(extras, name, getattr(known, name))
    extras.due_us = due_us
    return extras
