"""The default exchange, whose name is the empty string. Every queue is always bound to it by its own name.

A publish to one queue by its name is looked up by ``RouteCache.find`` and does not come here.

Source: AMQP 0-9-1, section 3.1.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vhosts.exchanges.exchange import NOT_REPEATABLE, Binding, Exchange, Routable
from vhosts.queues.handle import QueueHandle

NO_QUEUES: Mapping[str, QueueHandle] = {}


class DefaultExchange(Exchange):
    """Looks up the virtual host's ``queues`` and ``reply_queues`` by name. Nobody binds to it or unbinds.

    Its routes are not cached, because short-lived reply queues would push everything else out of the caches.
    """

    decided_by = NOT_REPEATABLE

    def __init__(
        self, queues: Mapping[str, QueueHandle], reply_queues: Mapping[str, QueueHandle] = NO_QUEUES
    ) -> None:
        super().__init__("", "direct", durable=True)
        self._queues = queues
        self._reply_queues = reply_queues

    def route(self, message: Routable) -> Iterator[Binding | int]:
        """See ``Exchange``. The bindings exist only in the answer."""
        for key in message.keys:
            queue = self._queues.get(key) or self._reply_queues.get(key)
            if queue is not None and not queue.internal:
                yield Binding(self, queue, queue.name, {})
            else:
                yield 1  # a visit, too: CC may have 20,000 of them
