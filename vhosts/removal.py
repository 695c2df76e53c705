"""Removal of exchanges and queues together with all bindings from them and to them.

The definition store comes first: if it refuses the change, everything stays as it was. Then the exchange or
queue is gone at once, even with 100,000 bindings: publishes skip it as soon as it is ``deleted``, and one
change in the store stands for all of its rows. Its bindings are removed from the exchanges that route by them
afterwards, some in each turn of the event loop, because so many would hold up all clients. An exchange or
queue that is declared again under the same name is another object and is not affected.

An auto-delete exchange is deleted with its last binding as a source. Its own bindings are then removed, which
may delete further exchanges. This happens in the same change, or later if the bindings are very many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from amqp_router.protocol.errors import InternalError
from amqp_router.protocol.kept_table import KeptTable
from persistence.definitions.records import Change, Delete, DeleteBindings, ExchangeRow
from vhosts.bindings import Bindings, Pair
from vhosts.exchanges.exchange import Binding, End, Exchange, type_of
from vhosts.exchanges.router import RoutingTable
from vhosts.ports import InSlices
from vhosts.spread_map import Entries

T = TypeVar("T")

#: Units of one turn, some 1 ms. Each binding, pair, row, exchange and queue that is removed is one unit; a
#: binding of a headers exchange takes 4 µs or more.
SLICE = 200
#: Each 128 octets of a binding's arguments are one more: a headers exchange forgets each argument.
ARGUMENTS_SHIFT = 7
#: What one of them costs its client, in enqueues.
REMOVAL_UNITS = 8
#: If an exchange or queue has more stored bindings, one change deletes them all, and exchanges that must go
#: because of it are deleted after it instead of with it.
ROWS_MAX = 256
#: If more exchanges lead to it, one change deletes its bindings, for which the store reads all its bindings.
SOURCES_MAX = 64


class Removals:
    """The removals of one virtual host.

    ``submit(changes)`` stores the changes and returns the revision to wait for, or raises InternalError.
    """

    def __init__(
        self,
        table: RoutingTable,
        bindings: Bindings,
        *,
        in_slices: InSlices,
        submit: Callable[[Sequence[Change]], int],
    ) -> None:
        #: Units used by the last call.
        self.spent = 0
        self._table = table
        self._bindings = bindings
        self._in_slices = in_slices
        self._submit = submit
        #: Auto-delete exchanges that should have been deleted when the definition store refused.
        self._overdue: dict[Exchange, None] = {}
        #: The pairs of deleted ends by their other ends, and auto-delete exchanges that may have to be
        #: deleted. The last one is next.
        self._agenda: list[Entries[End, Pair] | Exchange] = []
        #: The same for the removals that ``follow_removal`` has made.
        self._followed: list[Entries[End, Pair]] = []
        self._is_going_on = False
        #: Names of those that ``next_of`` gives.
        self._leaving: list[str] = []

    def remove_binding(self, binding: Binding) -> int:
        """Remove ``binding``, which must exist; returns the revision to wait for.

        Raises:
            InternalError: the definition store refuses; everything is as it was (541).
        """
        source = binding.source
        if source.auto_delete and self._bindings.is_last(binding):
            return self.remove_end(source)
        rev = self._submit([Delete.of(binding.row(self._table.vhost))]) if binding.is_durable() else 0
        self.forget_binding(binding, rev)
        return rev

    def forget_binding(self, binding: Binding, rev: int) -> None:
        """Remove ``binding`` from memory; ``rev`` stores that."""
        if rev:
            self._table.unstored.note_exchange(binding.source.name, rev)
        self._bindings.remove(binding)
        binding.source.unbind(binding)
        self._table.changed()

    def follow_removal(self, end: End, rev: int) -> None:
        """Remove the exchange ``end``, or the bindings of the queue ``end``, from memory;
        ``rev`` stores that.

        Durable auto-delete exchanges that lose their last binding stay: another change removes them.
        """
        self.spent = 0
        self._followed += self._forget(end, rev)
        self._go_on()
        self._go_on_in_slices()

    def remove_end(self, end: End, rows: Sequence[Change] = ()) -> int:
        """Remove the exchange ``end``, or the bindings of the queue ``end``, and delete ``rows`` from the
        store.

        Returns the revision to wait for.

        Raises:
            InternalError: the definition store refuses; everything is as it was (541).
        """
        self.spent = 0
        rev = self._take_out(end, rows)
        self._go_on()
        self._bindings.account.work += REMOVAL_UNITS * self.spent
        self._go_on_in_slices()
        return rev

    def next_of(self, things: Mapping[str, T]) -> T:
        """One of ``things``, of which the caller removes one after the other until none is left."""
        # By a list of names: to find its first or last entry, a dict passes all that are gone once more.
        while True:
            if not self._leaving:
                self._leaving = list(things)
            thing = things.get(self._leaving.pop())
            if thing is not None:
                return thing

    def definitions_recovered(self) -> None:
        """The definition store goes on: what it kept from going goes now."""
        self._agenda += self._overdue
        self._overdue = {}
        self._go_on_in_slices()

    def _go_on_in_slices(self) -> None:
        if (self._agenda or self._followed) and not self._is_going_on:
            self._is_going_on = True
            self._in_slices(self._next_slice)

    def _next_slice(self) -> bool:
        self.spent = 0
        if self._bindings.feed.is_behind:
            return False
        self._go_on()
        self._is_going_on = bool(self._agenda or self._followed)
        return not self._is_going_on

    def _go_on(self) -> None:
        """Work on the agenda up to the limit of one turn."""
        agenda, followed = self._agenda, self._followed
        while (agenda or followed) and self.spent < SLICE:
            self.spent += 1
            last = agenda[-1] if agenda else None
            if isinstance(last, Exchange):
                agenda.pop()
                self._take_out_if_lonely(last)
            elif last is not None:
                source = self._remove_pair(last)
                if not last:
                    agenda.pop()
                if source is not None and source.auto_delete:
                    agenda.append(source)
            else:
                source = self._remove_pair(followed[-1])
                if not followed[-1]:
                    followed.pop()
                if source is not None and source.auto_delete and not source.durable:
                    agenda.append(source)

    def _remove_pair(self, pairs: Entries[End, Pair]) -> Exchange | None:
        """Remove the last one of ``pairs``, or what of it this turn has room for.

        Returns the source of the pair if it is removed.
        """
        other, pair = pairs.popitem()
        if not self._unbind_some(pair):
            pairs[other] = pair
            return None
        self._bindings.forget(pair)
        return pair.source

    def _unbind_some(self, pair: Pair) -> bool:
        """Remove as many bindings as this turn has room for; True if none is left."""
        source = pair.source
        while pair.by_key:
            if self.spent >= SLICE:
                return False
            binding = self._bindings.pop_from(pair)
            self.spent += 1 + _argument_units(binding)
            source.unbind(binding)
        return True

    def _take_out_if_lonely(self, exchange: Exchange) -> None:
        if exchange.deleted or self._bindings.has_source(exchange):
            return
        try:
            self._take_out(exchange, ())
        except InternalError:
            self._overdue[exchange] = None

    def _take_out(self, end: End, rows: Sequence[Change]) -> int:
        """Remove ``end`` and what goes together with it, and put their bindings on the agenda."""
        changes: list[Change] = []
        gone = self._going(end, changes)
        self.spent += len(gone) + len(changes)
        rev = self._submit([*changes, *rows])
        for each in gone:
            self._agenda += self._forget(each, rev)
            if isinstance(each, Exchange):
                each.leave()
        return rev

    def _forget(self, end: End, rev: int) -> list[Entries[End, Pair]]:
        """Remove ``end`` from memory. Returns its pairs, whose bindings are still to be removed."""
        away, here = self._bindings.take(end)
        if rev:
            self._note_unstored(end, here, rev)
        if isinstance(end, Exchange):
            del self._table.exchanges[end.name]
            self._bindings.account.kept -= end.memory_bytes()
            end.deleted = True
        if away or here or isinstance(end, Exchange):  # a reply queue without bindings changes no route
            self._table.changed()
        return [pairs for pairs in (away, here) if pairs]

    def _note_unstored(self, end: End, here: Entries[End, Pair], rev: int) -> None:
        unstored = self._table.unstored
        if isinstance(end, Exchange):
            unstored.note_exchange(end.name, rev)
        else:
            unstored.note_queue(end.name, rev)
        if len(here) > ROWS_MAX:
            unstored.note_many(rev)
            return
        for pair in here.values():
            if pair.is_stored():
                unstored.note_exchange(pair.source.name, rev)

    def _going(self, first: End, changes: list[Change]) -> dict[End, None]:
        """``first`` and the exchanges that go together with it. The changes to store are added to
        ``changes``.
        """
        bindings = self._bindings
        gone: dict[End, None] = {first: None}
        seen: dict[End, None] = {}
        to_visit = [first]
        while to_visit:
            end = to_visit.pop()
            away, here = bindings.pairs_of(end, ROWS_MAX + 1)
            changes += self._rows_of(end, away, here, seen)
            seen[end] = None
            if isinstance(end, Exchange) and end.durable:
                changes.append(Delete(ExchangeRow.kind, (self._table.vhost, end.name)))
            if len(here) > ROWS_MAX:
                continue
            for source in [pair.source for pair in here if pair.source.auto_delete]:
                if source.durable and not first.durable:
                    continue  # it goes after it: an exclusive queue goes whatever the definition store says
                if max(len(gone), len(changes)) > ROWS_MAX:
                    break
                if source not in gone and not bindings.has_source(source, without=gone):
                    gone[source] = None
                    to_visit.append(source)
        return gone

    def _rows_of(
        self, end: End, away: list[Pair], here: list[Pair], seen: dict[End, None]
    ) -> Sequence[Change]:
        """The changes that delete the rows of ``end``'s bindings, without those of the ends in ``seen``.

        ``away`` and ``here`` are complete unless they have more than ``ROWS_MAX`` pairs.
        """
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


def _argument_units(binding: Binding) -> int:
    arguments = binding.arguments
    return len(arguments.octets) >> ARGUMENTS_SHIFT if isinstance(arguments, KeptTable) else 0
