"""The internal queues of a virtual host's delayed-message exchanges: made when first needed, gone with their
exchange.
"""

from __future__ import annotations

from amqp_router.protocol.errors import InternalError
from persistence.definitions.records import NO_ARGUMENTS, Delete, Put, QueueRow
from vhosts.exchanges.delayed import DelayedExchange
from vhosts.exchanges.exchange import Exchange
from vhosts.ports import QueueFactory
from vhosts.queues.delayed import PREFIX
from vhosts.queues.destination import Host
from vhosts.queues.handle import QueueHandle
from vhosts.submitting import Submitter
from vhosts.topology import Topology


class Delays:
    """See ``vhosts.exchanges.exchange.Surroundings``. ``host`` is the virtual host as queues know it."""

    def __init__(
        self, topology: Topology, make_queue: QueueFactory, submitter: Submitter, host: Host
    ) -> None:
        self._topology = topology
        self._make_queue = make_queue
        self._submitter = submitter
        self._host = host

    def queue_of(self, exchange: Exchange) -> QueueHandle:
        """Its queue, which is made if there is none.

        Raises:
            InternalError: the definition store refuses (541).
            PreconditionFailed: the definitions take too much memory (406).
        """
        topology = self._topology
        name = PREFIX + exchange.name
        known = topology.queues.get(name)
        if known is not None:
            return known
        topology.check_room("queue", name)
        queue = self._make_queue(
            vhost=self._host,
            name=name,
            durable=exchange.durable,
            exclusive_owner=None,
            auto_delete=False,
            arguments={},
            incarnation="",
        )
        if exchange.durable:
            row = QueueRow(topology.name, name, False, NO_ARGUMENTS, queue.incarnation)
            try:
                queue.definition_rev = self._submitter.submit([Put(row)])
            except InternalError:
                queue.delete(0)
                raise
        topology.enter_queue(queue)
        return queue

    def drop_queue_of(self, exchange: Exchange) -> None:
        """``exchange`` is deleted. If the definition store refuses, the next start removes its queue."""
        queue = self._topology.queues.get(PREFIX + exchange.name)
        if queue is not None:
            self._drop(queue)

    def drop_orphans(self) -> None:
        """Remove the queues whose exchange is gone: a crash came between the two."""
        topology = self._topology
        for queue in [queue for queue in topology.queues.values() if queue.internal]:
            exchange = topology.exchanges.get(queue.name[len(PREFIX) :])
            if not isinstance(exchange, DelayedExchange):
                self._drop(queue)

    def _drop(self, queue: QueueHandle) -> None:
        topology = self._topology
        try:
            rows = [Delete(QueueRow.kind, (topology.name, queue.name))] if queue.durable else []
            rev = self._submitter.submit(rows) if rows else 0
        except InternalError:
            return
        topology.leave_queue(queue)
        queue.delete(rev)
