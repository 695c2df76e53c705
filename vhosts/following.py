"""Makes rows and changes of the definition store into exchanges, queues and bindings in memory.

A start loads what is stored. A node that follows another one applies the changes that the other has made,
in their order. Nothing is submitted here: the rows are stored already, or by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amqp_router.protocol.kept_table import read_arguments
from persistence.definitions.records import (
    BindingRow,
    Change,
    Delete,
    DeleteBindings,
    ExchangeRow,
    Key,
    Put,
    QueueRow,
    Row,
)
from vhosts.exchanges.exchange import Binding, End
from vhosts.exchanges.types import EXCHANGE_TYPES
from vhosts.ports import QueueFactory
from vhosts.queues.destination import Host
from vhosts.queues.handle import QueueHandle
from vhosts.removal import Removals
from vhosts.topology import Topology

#: The kinds of rows that are ends of bindings.
ENDS = (ExchangeRow.kind, QueueRow.kind)


class LoadError(Exception):
    """A stored exchange has a type that this program does not have."""


class Follower:
    """Changes one virtual host as the definition store tells. ``host`` is what its queues know of it."""

    def __init__(self, topology: Topology, removals: Removals, make_queue: QueueFactory, host: Host) -> None:
        self._topology = topology
        self._removals = removals
        self._make_queue = make_queue
        self._host = host

    def load(
        self,
        exchanges: Iterable[ExchangeRow],
        queues: Iterable[QueueRow],
        bindings: Iterable[BindingRow],
    ) -> list[BindingRow]:
        """See ``VirtualHost.load``."""
        for exchange_row in exchanges:
            self._check_type(exchange_row)
            self._put_exchange(exchange_row, 0)
        for queue_row in queues:
            self._put_queue(queue_row, 0)
        return [row for row in bindings if not self._put_binding(row)]

    def apply(self, changes: Sequence[Change], rev: int) -> None:
        """See ``VirtualHost.apply``."""
        for change in changes:
            if isinstance(change, Put) and isinstance(change.row, ExchangeRow):
                self._check_type(change.row)
        ends = {(each.kind, each.key) for each in changes if isinstance(each, Delete) and each.kind in ENDS}
        for change in changes:
            if isinstance(change, Put):
                self._put(change.row, rev)
            elif isinstance(change, DeleteBindings):
                self._delete_bindings(change, ends, rev)
            elif isinstance(change, Delete):
                self._delete(change, rev)

    def _put(self, row: Row, rev: int) -> None:
        if isinstance(row, ExchangeRow):
            self._put_exchange(row, rev)
        elif isinstance(row, QueueRow):
            self._put_queue(row, rev)
        elif isinstance(row, BindingRow):
            self._put_binding(row)

    def _put_exchange(self, row: ExchangeRow, rev: int) -> None:
        topology = self._topology
        made = topology.new_exchange(
            row.name,
            row.type,
            durable=True,
            auto_delete=row.auto_delete,
            internal=row.internal,
            arguments=read_arguments(row.arguments, 0)[0],
        )
        known = topology.exchanges.get(row.name)
        if known is not None:
            if known.durable and known.row(topology.name) == row:
                return
            self._delete_end(known, rev)
        made.definition_rev = rev
        topology.enter_exchange(made)

    def _put_queue(self, row: QueueRow, rev: int) -> None:
        topology = self._topology
        known = topology.queues.get(row.name)
        if known is not None:
            if known.durable and known.incarnation == row.incarnation:
                return
            self._delete_end(known, rev)
        queue = self._make_queue(
            vhost=self._host,
            name=row.name,
            durable=True,
            exclusive_owner=None,
            auto_delete=row.auto_delete,
            arguments=read_arguments(row.arguments, 0)[0],
            incarnation=row.incarnation,
        )
        queue.definition_rev = rev
        topology.enter_queue(queue)

    def _put_binding(self, row: BindingRow) -> bool:
        """False if an end is missing."""
        binding = self._binding(row)
        if binding is None:
            return False
        if self._topology.bindings.find(binding) is None:
            binding.source.bind(binding)
            self._topology.enter_binding(binding)
        return True

    def _binding(self, row: BindingRow) -> Binding | None:
        source = self._topology.exchanges.get(row.source)
        destination = self._end(row.destination_type, row.destination)
        if source is None or destination is None:
            return None
        return Binding(source, destination, row.routing_key, read_arguments(row.arguments, 0)[0])

    def _delete(self, change: Delete, rev: int) -> None:
        if change.kind in ENDS:
            name = change.key[1]
            assert isinstance(name, str)
            self._delete_end(self._end(change.kind, name), rev)
        elif change.kind == BindingRow.kind:
            # A key has the fields of its row, in their order.
            self._delete_binding(BindingRow(*change.key), rev)  # type: ignore[arg-type]

    def _delete_end(self, end: End | None, rev: int) -> None:
        if end is None:
            return
        self._removals.follow_removal(end, rev)
        if isinstance(end, QueueHandle):
            self._topology.leave_queue(end)
            end.delete(rev)

    def _delete_binding(self, row: BindingRow, rev: int) -> None:
        like = self._binding(row)
        binding = None if like is None else self._topology.bindings.find(like)
        if binding is not None:
            self._removals.forget_binding(binding, rev)

    def _delete_bindings(self, change: DeleteBindings, ends: set[tuple[str, Key]], rev: int) -> None:
        """Undo the bindings, except those that go with one of ``ends``, which is deleted in this change."""
        vhost, source, destination, kind = (
            change.vhost,
            change.source,
            change.destination,
            change.destination_type,
        )
        if (ExchangeRow.kind, (vhost, source)) in ends or (kind, (vhost, destination)) in ends:
            return
        bindings = self._topology.bindings
        if source is not None:
            exchange = self._topology.exchanges.get(source)
            found = [] if exchange is None else bindings.of_source(exchange)
        else:
            end = self._end(kind, destination or "")
            found = [] if end is None else bindings.of_destination(end)
        for binding in found:
            is_meant = destination is None or binding.key[1:3] == (destination, kind)
            if is_meant and binding.is_durable():
                self._removals.forget_binding(binding, rev)

    def _end(self, kind: str, name: str) -> End | None:
        if kind == QueueRow.kind:
            return self._topology.queues.get(name)
        return self._topology.exchanges.get(name)

    def _check_type(self, row: ExchangeRow) -> None:
        if row.type not in EXCHANGE_TYPES:
            raise LoadError(
                f"exchange '{row.name}' in vhost '{self._topology.name}' is of type '{row.type}', "
                "which is not registered"
            )
