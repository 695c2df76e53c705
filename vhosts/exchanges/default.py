"""The default exchange, named by the empty string: every queue is bound to it by its name, always.

Publishing to one queue by its name does not come here, but is looked up by ``RouteCache.find``.

Source: AMQP 0-9-1, section 3.1.3.1; semantics 2.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vhosts.bindings import Binding
from vhosts.exchanges.exchange import NOT_REPEATABLE, Exchange, Routable
from vhosts.queues.handle import QueueHandle


class DefaultExchange(Exchange):
    """Looks up ``queues``, those of the virtual host, by name. Nobody binds to it or unbinds from it.

    What it finds is not remembered, or reply queues would keep every route cache empty.
    """

    decided_by = NOT_REPEATABLE

    def __init__(self, queues: Mapping[str, QueueHandle]) -> None:
        super().__init__("", "direct", durable=True)
        self._queues = queues

    def route(self, message: Routable) -> Iterable[Binding | int]:
        """See ``Exchange``; the bindings are made for the answer."""
        queues = [self._queues[key] for key in message.keys if key in self._queues]
        return [Binding(self, queue, queue.name, {}) for queue in queues]
