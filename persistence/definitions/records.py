"""What a definition store keeps: one frozen row per durable object, and changes of rows.

A row is what the store holds, a change is what alters it, and every change is whole: it replaces a row or
removes one, so applying it twice is the same as applying it once. Nothing here cascades. Whoever deletes a
virtual host or a queue also lists the rows that go with it; the order of changes then says everything, on
this node and on any other.

Names are ``str`` as the protocol decodes them (UTF-8, with ``surrogateescape`` for bytes that are not),
``arguments`` is an encoded AMQP table with its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias

#: Identifies a row among those of its kind.
Key: TypeAlias = tuple[str | bytes, ...]

#: An encoded AMQP table without entries.
NO_ARGUMENTS = b"\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class VhostRow:
    """A virtual host."""

    kind: ClassVar[str] = "vhost"
    name: str

    @property
    def key(self) -> Key:
        """What tells this row from others of its kind."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user of the internal directory; hash and algorithm are written as in RabbitMQ's definitions."""

    kind: ClassVar[str] = "user"
    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """What tells this row from others of its kind."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class PermissionRow:
    """What a user may do in a virtual host: three regular expressions over names."""

    kind: ClassVar[str] = "permission"
    user: str
    vhost: str
    configure: str
    write: str
    read: str

    @property
    def key(self) -> Key:
        """What tells this row from others of its kind."""
        return (self.user, self.vhost)


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """A durable exchange."""

    kind: ClassVar[str] = "exchange"
    vhost: str
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = NO_ARGUMENTS

    @property
    def key(self) -> Key:
        """What tells this row from others of its kind."""
        return (self.vhost, self.name)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A durable queue; ``incarnation`` names its log: a queue declared anew never meets its old content."""

    kind: ClassVar[str] = "queue"
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes
    incarnation: str

    @property
    def key(self) -> Key:
        """What tells this row from others of its kind."""
        return (self.vhost, self.name)


@dataclass(frozen=True, slots=True)
class BindingRow:
    """A binding between durable ends; ``destination_type`` is ``queue`` or ``exchange``."""

    kind: ClassVar[str] = "binding"
    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: bytes = NO_ARGUMENTS

    @property
    def key(self) -> Key:
        """All of it: two bindings that differ in their arguments alone are two bindings."""
        return (
            self.vhost,
            self.source,
            self.destination,
            self.destination_type,
            self.routing_key,
            self.arguments,
        )


Row: TypeAlias = VhostRow | UserRow | PermissionRow | ExchangeRow | QueueRow | BindingRow

#: Every kind of row, in an order in which they can be loaded: what a row names comes before it.
_TYPES: tuple[type[Row], ...] = (VhostRow, UserRow, PermissionRow, ExchangeRow, QueueRow, BindingRow)

#: What makes a row of each kind.
ROW_TYPES: dict[str, Callable[..., Row]] = {row_type.kind: row_type for row_type in _TYPES}

#: Field names of each kind, in the order of its constructor.
FIELDS: dict[str, tuple[str, ...]] = {
    row_type.kind: tuple(each.name for each in fields(row_type)) for row_type in _TYPES
}

_FIELD_VALUES = {kind: attrgetter(*names) for kind, names in FIELDS.items()}


def values_of(row: Row) -> tuple[Any, ...]:
    """The fields of ``row`` in the order of its constructor."""
    values = _FIELD_VALUES[row.kind](row)
    # attrgetter gives one attribute bare and several as a tuple; every other kind has several.
    return (values,) if row.kind == "vhost" else values


@dataclass(frozen=True, slots=True)
class Put:
    """Store ``row``, in place of the one with the same key if there is one."""

    row: Row

    @property
    def kind(self) -> str:
        """Kind of the row."""
        return self.row.kind

    @property
    def key(self) -> Key:
        """Key of the row."""
        return self.row.key


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the row of ``kind`` with ``key``; no row is no error."""

    kind: str
    key: Key

    @classmethod
    def of(cls, row: Row) -> Delete:
        """The change that removes ``row``."""
        return cls(row.kind, row.key)


@dataclass(frozen=True, slots=True)
class DeleteBindings:
    """Remove all bindings in ``vhost`` that come from ``source``, or lead to ``destination``, or both.

    One that has come before this change goes, one that comes behind it stays. None is any; with a source, the
    rows are found by the front of their key, otherwise all of the table is read. ``destination_type`` counts
    only beside a ``destination``.
    """

    kind: ClassVar[str] = "binding"
    vhost: str
    source: str | None = None
    destination: str | None = None
    destination_type: str = "queue"


Change: TypeAlias = Put | Delete | DeleteBindings


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows as of ``rev``, the last change contained; rev 0 is a store that nobody has written to."""

    rev: int
    vhosts: list[VhostRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    permissions: list[PermissionRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)

    def rows(self) -> Iterator[Row]:
        """Every row, what a row names before it."""
        yield from self.vhosts
        yield from self.users
        yield from self.permissions
        yield from self.exchanges
        yield from self.queues
        yield from self.bindings
