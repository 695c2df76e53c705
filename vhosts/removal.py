"""Ends of bindings that go: exchanges and queues, with all that leads from them and to them.

The definition store comes first: what it refuses leaves everything as it was. Then an end is gone at once,
even with 100,000 bindings: publishes pass it over as soon as it is ``deleted``, and one change in the store
stands for all of its rows. Its bindings leave the exchanges that route by them afterwards, some in each turn
of the event loop, as so many would hold up everyone else. An end declared anew under the same name is another
object and has nothing to do with that.

An auto-delete exchange goes with its last binding as a source, and then its own bindings go, and so on:
together with what they go with, or later if they are very many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from amqp_router.protocol.errors import InternalError
from persistence.definitions.records import Change, Delete, DeleteBindings, ExchangeRow
from vhosts.bindings import Binding, Bindings, End, Pair, type_of
from vhosts.exchanges.exchange import Exchange
from vhosts.exchanges.router import RoutingTable
from vhosts.ports import InSlices

#: Units of one turn, some 2 ms: bindings, pairs, rows and ends that go are one each.
SLICE = 1000
#: An end with more stored bindings takes them along by a change for all of them, and others do not go with it
#: but after it.
ROWS_MAX = 256
#: The change for one that more exchanges lead to is a single one, for which the store reads all its bindings.
SOURCES_MAX = 64


class Removals:
    """What goes from one virtual host.

    ``submit(changes)`` stores them and returns the revision to wait for, or raises InternalError.
    """

    def __init__(
        self,
        table: RoutingTable,
        bindings: Bindings,
        *,
        in_slices: InSlices,
        submit: Callable[[Sequence[Change]], int],
    ) -> None:
        #: Units that the last call has used.
        self.spent = 0
        self._table = table
        self._bindings = bindings
        self._in_slices = in_slices
        self._submit = submit
        #: Pairs of which an end is gone, and auto-delete exchanges that may have to go; the last is next.
        self._agenda: list[Pair | Exchange] = []
        self._is_going_on = False

    def remove_binding(self, binding: Binding) -> int:
        """Remove ``binding``, which is here; returns the revision to wait for.

        Raises:
            InternalError: the definition store refuses; everything is as it was (541).
        """
        source = binding.source
        if source.auto_delete and self._bindings.is_last(binding):
            return self.remove_end(source)
        rev = self._submit([Delete.of(binding.row(self._table.vhost))]) if binding.is_durable() else 0
        self._bindings.remove(binding)
        source.unbind(binding)
        self._table.generation += 1
        return rev

    def remove_end(self, end: End, rows: Sequence[Change] = ()) -> int:
        """Remove the exchange ``end``, or the bindings of that queue, and ``rows`` from the store.

        Returns the revision to wait for.

        Raises:
            InternalError: the definition store refuses; everything is as it was (541).
        """
        self.spent = 0
        rev = self._take_out(end, rows)
        self._go_on()
        if self._agenda and not self._is_going_on:
            self._is_going_on = True
            self._in_slices(self._next_slice)
        return rev

    def _next_slice(self) -> bool:
        self.spent = 0
        self._go_on()
        self._is_going_on = bool(self._agenda)
        return not self._is_going_on

    def _go_on(self) -> None:
        """Do what is on the agenda until it is enough for one turn."""
        agenda = self._agenda
        while agenda and self.spent < SLICE:
            self.spent += 1
            item = agenda[-1]
            if isinstance(item, Exchange):
                agenda.pop()
                self._take_out_if_lonely(item)
            elif self._unbind_some(item):
                agenda.pop()
                self._bindings.forget(item)
                if item.source.auto_delete:
                    agenda.append(item.source)

    def _unbind_some(self, pair: Pair) -> bool:
        """Unbind what this turn has room for; True if nothing is left."""
        source = pair.source
        while pair.by_key:
            if self.spent >= SLICE:
                return False
            self.spent += 1
            source.unbind(self._bindings.pop_from(pair))
        return True

    def _take_out_if_lonely(self, exchange: Exchange) -> None:
        if exchange.deleted or self._bindings.has_source(exchange):
            return
        with suppress(InternalError):  # then it stays, like one that nothing was bound to yet
            self._take_out(exchange, ())

    def _take_out(self, end: End, rows: Sequence[Change]) -> int:
        """Let ``end`` go, and what goes together with it; their bindings are on the agenda then."""
        changes: list[Change] = []
        gone = self._going(end, changes)
        self.spent += len(gone) + len(changes)
        rev = self._submit([*changes, *rows])
        for each in gone:
            away, here = self._bindings.take(each)
            self._agenda += away
            self._agenda += here
            if isinstance(each, Exchange):
                del self._table.exchanges[each.name]
                self._bindings.account.kept -= each.memory_bytes()
                each.deleted = True
            if away or here or isinstance(each, Exchange):  # not for a reply queue that nothing is bound to
                self._table.generation += 1
        return rev

    def _going(self, first: End, changes: list[Change]) -> dict[End, None]:
        """``first``, and the exchanges that go together with it; ``changes`` takes what is to be stored."""
        bindings = self._bindings
        gone: dict[End, None] = {first: None}
        seen: dict[End, None] = {}
        to_visit = [first]
        while to_visit:
            end = to_visit.pop()
            away, here = bindings.pairs_of(end)
            changes += self._rows_of(end, away, here, seen)
            seen[end] = None
            if isinstance(end, Exchange) and end.durable:
                changes.append(Delete(ExchangeRow.kind, (self._table.vhost, end.name)))
            if len(here) > ROWS_MAX:
                continue
            for source in [pair.source for pair in here if pair.source.auto_delete]:
                if max(len(gone), len(changes)) > ROWS_MAX:
                    break
                if source not in gone and not bindings.has_source(source, without=gone):
                    gone[source] = None
                    to_visit.append(source)
        return gone

    def _rows_of(
        self, end: End, away: list[Pair], here: list[Pair], seen: dict[End, None]
    ) -> Sequence[Change]:
        """What becomes of the rows of ``end``'s bindings; those of ends ``seen`` are done with."""
        if not end.durable:
            return ()
        if len(away) + len(here) <= ROWS_MAX:
            stored = [pair for pair in away if pair.is_stored() and pair.destination not in seen]
            stored += [pair for pair in here if pair.is_stored() and pair.source not in seen]
            if sum(len(pair.by_key) for pair in stored) <= ROWS_MAX:
                vhost = self._table.vhost
                return [Delete.of(each.row(vhost)) for pair in stored for each in pair.by_key.values()]
        return self._all_rows_of(end, away, here)

    def _all_rows_of(self, end: End, away: list[Pair], here: list[Pair]) -> list[Change]:
        vhost, name = self._table.vhost, end.name
        changes = [DeleteBindings(vhost, source=name)] if away else []
        if len(here) > SOURCES_MAX:
            changes.append(DeleteBindings(vhost, destination=name, destination_type=type_of(end)))
        else:
            sources = [pair.source.name for pair in here if pair.is_stored()]
            changes += [DeleteBindings(vhost, source, name, type_of(end)) for source in sources]
        return list(changes)
