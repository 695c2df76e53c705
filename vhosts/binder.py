"""Bind and unbind: queues to exchanges, and exchanges to exchanges."""

from __future__ import annotations

from amqp_router.protocol.errors import InternalError
from amqp_router.protocol.kept_table import Arguments
from persistence.definitions.records import Put
from vhosts.arguments import check_binding_arguments
from vhosts.errors import default_exchange_refused
from vhosts.exchanges.exchange import Binding, Exchange
from vhosts.queues.handle import QueueHandle
from vhosts.removal import Removals
from vhosts.submitting import Submitter
from vhosts.topology import Topology


class Binder:
    """The bindings of one virtual host, as clients make and undo them.

    Each method returns the revision to wait for.
    """

    def __init__(self, topology: Topology, removals: Removals, submitter: Submitter) -> None:
        self._topology = topology
        self._removals = removals
        self._submitter = submitter

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, owner: object
    ) -> int:
        """See ``VirtualHost.bind_queue``."""
        source = self._topology.bindable(exchange)
        return self._bind(source, self._topology.find_queue(queue, owner), routing_key, arguments)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, owner: object
    ) -> int:
        """See ``VirtualHost.unbind_queue``."""
        if exchange == "":
            raise default_exchange_refused()
        topology = self._topology
        source, destination = topology.exchanges.get(exchange), topology.queues.get(queue)
        binding = topology.find_binding(source, destination, routing_key, arguments)
        if binding is None:
            return self._submitter.last_rev
        topology.check_lock(topology.queues[queue], owner)
        return self._removals.remove_binding(binding)

    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> int:
        """See ``VirtualHost.bind_exchange``."""
        if destination == "":
            raise default_exchange_refused()
        from_exchange = self._topology.bindable(source)
        return self._bind(from_exchange, self._topology.find_exchange(destination), routing_key, arguments)

    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> int:
        """See ``VirtualHost.unbind_exchange``."""
        if "" in (destination, source):
            raise default_exchange_refused()
        exchanges = self._topology.exchanges
        binding = self._topology.find_binding(
            exchanges.get(source), exchanges.get(destination), routing_key, arguments
        )
        return self._submitter.last_rev if binding is None else self._removals.remove_binding(binding)

    def _bind(
        self, source: Exchange, destination: QueueHandle | Exchange, routing_key: str, arguments: Arguments
    ) -> int:
        topology, submitter = self._topology, self._submitter
        check_binding_arguments(source.name, topology.name, arguments)
        binding = Binding(source, destination, routing_key, arguments)
        if topology.bindings.find(binding) is not None:
            return submitter.last_rev if binding.is_durable() else 0
        topology.check_room("binding of exchange", source.name)
        # First, because the exchange may refuse the arguments.
        source.bind(binding)
        try:
            rev = submitter.submit([Put(binding.row(topology.name))]) if binding.is_durable() else 0
        except InternalError:
            source.unbind(binding)
            raise
        topology.enter_binding(binding)
        source.bound(binding)
        return rev
