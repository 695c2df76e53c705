"""The lists of the pages: one short row for each object, and the changes since the last version."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias

from admin_ui.documents import connections, queues
from admin_ui.live.attention import change_in_a_minute, growth, is_stuck
from admin_ui.live.encoded import Encoded, Row
from admin_ui.live.work import Work
from admin_ui.state import State
from amqp_router.metrics import CONNECTION, EXCHANGE, INTERVAL_S, QUEUE, History
from vhosts.long_lists import passing
from vhosts.queues.state import FAILED

#: A queue without any change for this many samples is called idle.
IDLE_TICKS = 60 // INTERVAL_S

#: Rows read between two readings of the clock.
SLICE_ROWS = 64
#: If more rows than this are gone at once, viewers get the whole list again.
GONE_MAX = 4096
#: Which rows a viewer may see.
Sees: TypeAlias = Callable[[Row], bool]


class Rows:
    """The state of a list: rows by key, and the changes since the version before.

    Viewers with the same rights share what is encoded for them: ``rights`` is the same of two viewers who see
    the same rows.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.version = 0
        self._at = 0
        self._rows: dict[str, Row] = {}
        self._changed: list[Row] = []
        self._gone: list[Row] = []
        self._patches: dict[Hashable, Encoded] = {}
        #: The whole list, for viewers who see all of it; those for others may be many and are not kept.
        self._whole: Encoded | None = None

    async def read(self, rows: Iterable[Row], at: int, work: Work) -> None:
        """Take the current rows, in slices. Until that is done, viewers get the version before."""
        before, fresh = self._rows, {}
        changed: list[Row] = []
        kept = 0
        for count, row in enumerate(rows):
            key = row[0]
            was = before.get(key)
            kept += was is not None and key not in fresh
            if was is None or was != row:
                changed.append(row)
                was = row
            fresh[key] = was  # the old row if it is the same: freeing thousands of rows at once takes long
            if count % SLICE_ROWS == SLICE_ROWS - 1:
                await work.pause()
        gone = []
        if kept < len(before):
            for count, (key, was) in enumerate(before.items()):
                if key not in fresh:
                    gone.append(was)
                if count % 1024 == 1023:
                    await work.pause()
        self._at = at
        if changed or gone or not self.version:
            self._rows, self._changed, self._gone = fresh, changed, gone
            # Nobody has the version before if two are counted.
            self.version += 1 if len(gone) <= GONE_MAX else 2
            self._patches.clear()
            self._whole = None

    def whole(self, sees: Sees | None) -> Encoded:
        """Every row that the viewer may see; ``sees`` None: all of them."""
        if sees is None and self._whole is not None:
            return self._whole
        head = {"at": self._at, "full": True, "columns": self.columns}
        found = Encoded(head, list(self._rows.values()), sees)
        if sees is None:
            self._whole = found
        return found

    def patch(self, sees: Sees | None, rights: Hashable) -> Encoded:
        """The changes since the version before."""
        found = self._patches.get(rights)
        if found is None:
            gone = [row[0] for row in self._gone if sees is None or sees(row)]
            found = Encoded({"at": self._at, "gone": gone}, self._changed, sees)
            self._patches[rights] = found
        return found


QUEUE_COLUMNS = (
    "key",
    "vhost",
    "name",
    "type",
    "state",
    "ready",
    "unacked",
    "consumers",
    "in",
    "out",
    "ack",
    "durable",
    "exclusive",
    "auto_delete",
    "growth",
    "minute",
    "bytes",
    "length_max",
    "bytes_max",
    "policy",
)
EXCHANGE_COLUMNS = (
    "key",
    "vhost",
    "name",
    "type",
    "bindings",
    "in",
    "out",
    "inner_in",
    "inner_out",
    "unroutable",
    "durable",
    "internal",
    "auto_delete",
    "alternate",
)
#: The counters of the columns "in" to "unroutable".
EXCHANGE_COUNTERS = ("publish_in", "publish_out", "inner_in", "inner_out", "unroutable")
CONNECTION_COLUMNS = (
    "key",
    "vhost",
    "name",
    "client",
    "product",
    "peer_host",
    "peer_port",
    "user",
    "state",
    "channels",
    "in",
    "out",
    "connected_at",
)
USER = CONNECTION_COLUMNS.index("user")


def _key(vhost: str, name: str) -> str:
    return f"{len(vhost)}:{vhost}/{name}"


def state_of(queue: Any, history: History | None) -> str:
    """The state of a queue on the pages: RabbitMQ's ``crashed`` and ``running``, or ``stuck`` or ``idle``."""
    if queue.state == FAILED:
        return "crashed"
    if is_stuck(queue, history):
        return "stuck"
    idle = history is not None and history.seen - history.changed >= IDLE_TICKS
    return "idle" if idle else "running"


def length_limits(queue: Any) -> tuple[int | None, int | None]:
    """The limits of a queue, of ready messages and of the octets of their bodies; None where it has none."""
    settings = queue.view().settings()
    return settings.max_length, settings.max_length_bytes


def ready_bytes(queue: Any) -> int | None:
    """The octets of the bodies of the ready messages. None if they are not known: those that recovery found
    are not read to be counted, unless a limit needs it.
    """
    octets: int | None = queue.view().body_bytes()
    return octets


def queue_rows(state: State) -> Iterator[Row]:
    """Every queue."""
    metrics = state.metrics
    published, delivered, acked = (QUEUE.fields[name] for name in ("publish", "deliver_get", "ack"))
    for vhost in list(state.broker.vhosts.values()):
        for queue in passing(vhost.queues.values()):
            history = metrics.history(queue)
            brief = queues.brief(queue, "", totals=False)
            yield (
                _key(vhost.name, queue.name),
                vhost.name,
                queue.name,
                brief["type"],
                state_of(queue, history),
                queue.message_count(),
                queue.unacked_count,
                len(queue.consumers),
                metrics.rate(history, published),
                metrics.rate(history, delivered),
                metrics.rate(history, acked),
                brief["durable"],
                brief["exclusive"],
                brief["auto_delete"],
                growth(history),
                change_in_a_minute(history),
                ready_bytes(queue),
                *length_limits(queue),
                _policy(queue),
            )


def _policy(queue: Any) -> str | None:
    """The name of the policy that it obeys; those of operators are on its page."""
    applied = queue.policy
    return applied.policy.name if applied is not None and applied.policy is not None else None


def exchange_rows(state: State) -> Iterator[Row]:
    """Every exchange."""
    metrics = state.metrics
    fields = [EXCHANGE.fields[name] for name in EXCHANGE_COUNTERS]
    for vhost in list(state.broker.vhosts.values()):
        for exchange in passing(vhost.exchanges.values()):
            history = metrics.history(exchange)
            yield (
                _key(vhost.name, exchange.name),
                vhost.name,
                exchange.name,
                exchange.type,
                exchange.binding_count,
                *[metrics.rate(history, columns) for columns in fields],
                exchange.durable,
                exchange.internal,
                exchange.auto_delete,
                exchange.alternate,
            )


def connection_rows(state: State) -> Iterator[Row]:
    """Every connection that is open on a virtual host."""
    metrics = state.metrics
    received, sent = CONNECTION.fields["recv_oct"], CONNECTION.fields["send_oct"]
    for transport in state.broker.registry:
        machine = transport.machine
        if machine.vhost is None:
            continue  # in its handshake
        history = metrics.history(transport)
        name = connections.name(transport)
        product = [connections.client_says(transport, what) for what in ("product", "version")]
        peer_host, peer_port = transport.peer_address
        yield (
            name,
            machine.vhost.name,
            name,
            connections.client_says(transport, "connection_name"),
            " ".join(product).strip(),
            peer_host,
            peer_port,
            machine.user.name,
            connections.state_of(machine),
            len(machine.channels),
            metrics.rate(history, received),
            metrics.rate(history, sent),
            transport.connected_at_ms,
        )


LISTS: dict[str, tuple[tuple[str, ...], Callable[[State], Iterator[Row]]]] = {
    "queues": (QUEUE_COLUMNS, queue_rows),
    "exchanges": (EXCHANGE_COLUMNS, exchange_rows),
    "connections": (CONNECTION_COLUMNS, connection_rows),
}
