"""A virtual host: its exchanges, its queues and the bindings between them, and how they change.

Durable changes are first submitted to the definition store as rows; what belongs together is one submission.
If the store refuses it, memory stays as it was and the client gets an error (541). Otherwise memory changes
at once, and the client's reply waits for the revision that the store returned. A call that finds nothing to
change returns the revision of the change it relies on, which may not be committed yet.

Source: AMQP 0-9-1, classes exchange and queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from amqp_router.protocol.errors import ConnectionForced, InternalError
from amqp_router.protocol.kept_table import Arguments, encoded, keep
from persistence.definitions.records import (
    NO_ARGUMENTS,
    BindingRow,
    Change,
    Delete,
    ExchangeRow,
    Put,
    QueueRow,
    VhostRow,
)
from persistence.memory import MemoryBudget
from vhosts import arguments as args
from vhosts.binder import Binder
from vhosts.counters import Counters
from vhosts.dead_letters import DeadLetters
from vhosts.delays import Delays
from vhosts.direct_reply import ReplyQueues
from vhosts.errors import (
    default_exchange_refused,
    in_use,
    locked_queue,
    not_empty,
    queue_limit,
    system_exchange,
)
from vhosts.exchanges.exchange import Exchange
from vhosts.exchanges.types import exchange_type
from vhosts.feed import INTERNAL
from vhosts.following import Follower
from vhosts.limits import NO_LIMITS
from vhosts.obeying import Obedience
from vhosts.overdue import OverdueQueues
from vhosts.ports import DefinitionsPort, InSlices, QueueFactory
from vhosts.queues.destination import Destination, Host
from vhosts.queues.handle import QueueHandle
from vhosts.removal import SLICE, Removals
from vhosts.submitting import Submitter
from vhosts.topology import Topology

RESERVED_PREFIX = "amq."


class VirtualHost(Host):
    """Exchanges, queues and bindings under one name. The caller checks permissions."""

    def __init__(
        self,
        name: str,
        *,
        definitions: DefinitionsPort,
        make_queue: QueueFactory,
        generate_name: Callable[[str], str],
        in_slices: InSlices,
        account: MemoryBudget | None = None,
    ) -> None:
        super().__init__(name)
        #: Its description and tags.
        self.row = VhostRow(name)
        self.limits = NO_LIMITS
        #: Makes a unique name from a prefix.
        self.generate_name = generate_name
        self.counters = Counters()
        self.topology = topology = Topology(name, account or MemoryBudget(), in_slices)
        self.queues = topology.queues
        self.exchanges = topology.exchanges
        self.bindings = topology.bindings
        self.table = topology.table
        self._make_queue = make_queue
        self._submitter = Submitter(definitions)
        self._removals = Removals(
            self.table, self.bindings, in_slices=in_slices, submit=self._submitter.submit
        )
        self._delays = topology.passing.delays = Delays(topology, make_queue, self._submitter, self)
        self._binder = Binder(topology, self._removals, self._submitter)
        self._follower = Follower(topology, self._removals, make_queue, self)
        #: Its policies, and who obeys them.
        self.obedience = Obedience(topology, in_slices)
        #: Its queues for direct reply-to.
        self.replies = ReplyQueues(self, topology, make_queue, generate_name)
        self._overdue = OverdueQueues(self._remove_unused, in_slices)
        #: Messages that its queues give up.
        self.dead_letters: DeadLetters = DeadLetters(self.table, topology.account)

    @property
    def generation(self) -> int:
        """A number that every change of a route raises."""
        return self.table.generation

    def forget_routes(self, queue: Destination | None = None) -> None:
        """Invalidate all cached routes, because permissions have changed, or what ``queue`` logs."""
        self.topology.forget_routes(queue)

    # -- the definition store --------------------------------------------------------------------------

    def definitions_stored(self, rev: int) -> None:
        """Everything up to ``rev`` is stored."""
        self.table.unstored.stored(rev)

    def definitions_failed(self) -> None:
        """Nothing is stored for now. A removed queue or binding may come back after a restart, so messages
        that were routed without it are not safe.
        """
        self.table.unstored.failed()

    def definitions_recovered(self) -> None:
        """The store works again: remove what could not be removed."""
        self.table.unstored.recovered()
        self._removals.definitions_recovered()
        self._overdue.go_on()

    def queue_unused(self, queue: Destination) -> bool:
        """Remove ``queue``, which nobody uses any more; False if the definition store refuses.

        In that case it is removed when the store works again, unless it has a consumer by then.
        """
        assert isinstance(queue, QueueHandle)
        self.topology.feed.actor = INTERNAL
        return self._overdue.attempt(queue)

    def _remove_unused(self, queue: QueueHandle) -> int:
        self.remove_queue(queue)
        return self._removals.spent

    # -- start -----------------------------------------------------------------------------------------

    def load(
        self,
        exchanges: Iterable[ExchangeRow],
        queues: Iterable[QueueRow],
        bindings: Iterable[BindingRow],
    ) -> list[BindingRow]:
        """Load this virtual host from the definition store; returns the bindings that lack an end.

        Raises:
            LoadError: an exchange has a type that is not registered.
        """
        lost = self._follower.load(exchanges, queues, bindings)
        self._delays.drop_orphans()
        return lost

    def apply(self, changes: Sequence[Change], rev: int) -> None:
        """Change memory as ``changes`` tell, which another node has made or which are read from the store.

        ``rev`` is the revision that stores them here. Rows of other virtual hosts and of other kinds must not
        be among them. Applying changes twice has the effect of applying them once.

        Raises:
            LoadError: an exchange has a type that is not registered; nothing has changed.
        """
        self._follower.apply(changes, rev)

    # -- the end ---------------------------------------------------------------------------------------

    def begin_deletion(self, error: ConnectionForced, rev: int) -> None:
        """The virtual host is deleted, which revision ``rev`` stores. ``error`` is for whoever still declares
        something in it.
        """
        self.topology.gone = error
        self._submitter.is_over = True
        self._submitter.last_rev = rev

    def remove_some(self) -> bool:
        """Remove some of the queues and exchanges; True if none are left. The deletion is stored."""
        spent = 0
        while spent < SLICE:
            if self.queues:
                queue = self._removals.next_of(self.queues)
                spent += 1 + queue.consumer_count()
                self.remove_queue(queue)
            elif self.exchanges:
                spent += 1
                self._removals.remove_end(self._removals.next_of(self.exchanges))
            else:
                return True
            spent += self._removals.spent
        return False

    # -- exchanges -------------------------------------------------------------------------------------

    def find_exchange(self, name: str) -> Exchange:
        """The exchange ``name``.

        Raises:
            NotFound: there is none (404).
        """
        return self.topology.find_exchange(name)

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
    ) -> int:
        """Make the exchange, or check that the existing one is the same. ``passive``: only check that it
        exists.

        Returns the revision to wait for, 0 for none.

        Raises:
            AccessRefused: it is the default exchange (403).
            NotFound: ``passive``, and there is none (404).
            CommandInvalid: there is no such type (503).
            PreconditionFailed: the existing one differs, or an argument is wrong (406).
        """
        if name == "":
            raise default_exchange_refused()
        if passive:
            return self.find_exchange(name).definition_rev
        exchange_type(type_name)
        declared: args.ExchangeAttributes = {
            "type": type_name,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": arguments or {},
        }
        exchange = self.exchanges.get(name)
        if exchange is not None:
            args.check_exchange_equivalence(name, self.name, exchange.attributes(), declared)
            return exchange.definition_rev
        self.topology.check_room("exchange", name)
        exchange = self.topology.new_exchange(
            name,
            type_name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments or {},
        )
        if durable:
            exchange.definition_rev = self._submitter.submit([Put(exchange.row(self.name))])
        self.topology.enter_exchange(exchange)
        return exchange.definition_rev

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> int:
        """Remove the exchange and all bindings from it and to it. Nothing happens if it does not exist.

        Returns the revision to wait for.

        Raises:
            AccessRefused: it is the default exchange, or has the name of a system exchange (403).
            PreconditionFailed: ``if_unused``, and it has bindings (406).
        """
        if name == "":
            raise default_exchange_refused()
        if name.startswith(RESERVED_PREFIX):
            raise system_exchange(name, self.name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return self._submitter.last_rev
        if if_unused and self.bindings.has_source(exchange):
            raise in_use("exchange", name, self.name)
        return self._removals.remove_end(exchange)

    # -- queues ----------------------------------------------------------------------------------------

    def find_queue(self, name: str, owner: object) -> QueueHandle:
        """The queue ``name``, as the connection ``owner`` may use it.

        Raises:
            NotFound: there is none (404).
            ResourceLocked: it is exclusive to another connection (405).
        """
        return self.topology.find_queue(name, owner)

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        owner: object = None,
    ) -> tuple[QueueHandle, int]:
        """Make the queue, or check that the existing one is the same; returns it and the revision to wait
        for.

        An exclusive queue belongs to the connection ``owner``, is deleted with it, and is never durable.

        Raises:
            ResourceLocked: the existing one is exclusive to another connection, or ``exclusive`` differs
                (405).
            PreconditionFailed: the existing one differs, or an argument is wrong or not supported yet (406).
        """
        table = args.with_default_type(
            arguments or {},
            self.row.default_queue_type,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
        )
        stays = durable and not exclusive
        exclusive_owner = owner if exclusive else None
        queue = self.queues.get(name)
        if queue is not None:
            if queue.exclusive_owner is not exclusive_owner:
                raise locked_queue(name, self.name)
            current = (bool(queue.durable), bool(queue.auto_delete), queue.arguments)
            args.check_queue_equivalence(name, self.name, current, (stays, auto_delete, table))
            self.counters.queue_declared += 1
            queue.note_use()
            return queue, queue.definition_rev
        if 0 <= self.limits.max_queues <= len(self.queues):
            raise queue_limit(name, self.name, self.limits.max_queues)
        args.check_queue_arguments(
            name, self.name, table, durable=durable, exclusive=exclusive, auto_delete=auto_delete
        )
        self.topology.check_room("queue", name)
        queue = self._make_queue(
            vhost=self,
            name=name,
            durable=stays,
            exclusive_owner=exclusive_owner,
            auto_delete=auto_delete,
            arguments=keep(table),
            incarnation="",
        )
        if stays:
            row = QueueRow(
                self.name, name, auto_delete, encoded(table) if table else NO_ARGUMENTS, queue.incarnation
            )
            try:
                queue.definition_rev = self._submitter.submit([Put(row)])
            except InternalError:
                queue.delete(0)
                raise
        self.topology.enter_queue(queue)
        self.counters.queue_declared += 1
        self.counters.queue_created += 1
        return queue, queue.definition_rev

    def delete_queue(
        self, name: str, *, if_unused: bool = False, if_empty: bool = False, owner: object = None
    ) -> tuple[int, int]:
        """Remove the queue and its bindings. Nothing happens if it does not exist.

        Returns how many messages were ready, and the revision to wait for.

        Raises:
            ResourceLocked: it is exclusive to another connection (405).
            PreconditionFailed: ``if_empty`` and it is not empty, or ``if_unused`` and it has consumers (406).
        """
        queue = self.queues.get(name)
        if queue is None:
            return 0, self._submitter.last_rev
        self.topology.check_lock(queue, owner)
        if if_empty and not queue.is_empty():
            raise not_empty(name, self.name)
        if if_unused and not queue.is_unused():
            raise in_use("queue", name, self.name)
        return self.remove_queue(queue)

    def remove_queue(self, queue: QueueHandle) -> tuple[int, int]:
        """Remove ``queue``, which must exist, whoever owns it. Used for delete, and for auto-delete after its
        last consumer.

        Returns how many messages were ready, and the revision to wait for.

        Raises:
            InternalError: the definition store refuses; the queue stays (541).
        """
        rows: list[Change] = [Delete(QueueRow.kind, (self.name, queue.name))] if queue.durable else []
        rev = self._removals.remove_end(queue, rows)
        self.topology.leave_queue(queue)
        self.counters.queue_deleted += 1
        return queue.delete(rev), rev

    def remove_exclusive_queues(self, owner: object, limit: int) -> bool:
        """Remove up to ``limit`` of the queues that are exclusive to ``owner``; True if some are left.

        Removes fewer if they have many bindings or consumers.
        """
        spent = 0
        for queue in list(islice(self.topology.owned.get(owner, ()), limit)):
            spent += queue.consumer_count()
            self.remove_queue(queue)
            spent += self._removals.spent
            if spent >= SLICE:
                break
        return owner in self.topology.owned

    # -- bindings --------------------------------------------------------------------------------------

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, owner: object
    ) -> int:
        """Bind ``queue`` to ``exchange``, if it is not bound yet; returns the revision to wait for.

        Raises:
            AccessRefused: it is the default exchange (403).
            NotFound: one of the two does not exist; the exchange is named if both do not (404).
            ResourceLocked: the queue is exclusive to another connection (405).
            PreconditionFailed: the exchange cannot use the key or the arguments (406).
        """
        return self._binder.bind_queue(queue, exchange, routing_key, arguments, owner)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str, arguments: Arguments, owner: object
    ) -> int:
        """Undo ``bind_queue``. Nothing happens if the binding, queue or exchange does not exist.

        Raises:
            AccessRefused: it is the default exchange (403).
            ResourceLocked: the queue is exclusive to another connection (405).
        """
        return self._binder.unbind_queue(queue, exchange, routing_key, arguments, owner)

    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> int:
        """Bind the exchange ``destination`` to the exchange ``source``; returns the revision to wait for.

        Raises:
            AccessRefused: one of them is the default exchange (403).
            NotFound: one of them does not exist (404).
            PreconditionFailed: the source cannot use the key or the arguments (406).
        """
        return self._binder.bind_exchange(destination, source, routing_key, arguments)

    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> int:
        """Undo ``bind_exchange``. Nothing happens if the binding or exchange does not exist.

        Raises:
            AccessRefused: one of them is the default exchange (403).
        """
        return self._binder.unbind_exchange(destination, source, routing_key, arguments)
