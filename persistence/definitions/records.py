"""What a definition store keeps: one frozen row per durable object, and changes of rows.

The store holds rows, and changes alter them. A change replaces or removes whole rows, so applying it twice
has the same effect as applying it once. Deletions do not cascade: whoever deletes a queue also lists the rows
that are deleted with it; only ``DeleteVhost`` stands for all rows of a virtual host. Therefore the ordered
changes alone determine the result.

Names are ``str`` as the protocol decodes them (UTF-8, with ``surrogateescape`` for bytes that are not),
``arguments`` is an encoded AMQP table with its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import ClassVar, TypeAlias

#: Identifies a row among those of its kind.
Key: TypeAlias = tuple[str | bytes, ...]

#: An encoded AMQP table without entries.
NO_ARGUMENTS = b"\x00\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class VhostRow:
    """A virtual host, with what RabbitMQ calls its metadata."""

    kind: ClassVar[str] = "vhost"
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    #: The type of queues that are declared without one; empty for classic.
    default_queue_type: str = ""
    tracing: bool = False

    @property
    def key(self) -> Key:
        """Identity of the row within its kind."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user of the internal directory; hash and algorithm are written as in RabbitMQ's definitions."""

    kind: ClassVar[str] = "user"
    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...] = ()
    #: Limits; a negative number means that there is none.
    max_connections: int = -1
    max_channels: int = -1

    @property
    def key(self) -> Key:
        """Identity of the row within its kind."""
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
        """Identity of the row within its kind."""
        return (self.user, self.vhost)


@dataclass(frozen=True, slots=True)
class TopicPermissionRow:
    """Which routing keys of a topic exchange a user may write and read: regular expressions."""

    kind: ClassVar[str] = "topic_permission"
    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    @property
    def key(self) -> Key:
        """Identity of the row within its kind."""
        return (self.user, self.vhost, self.exchange)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A runtime parameter: a policy, a limit; or a global parameter, without virtual host and component.

    ``value`` is JSON.
    """

    kind: ClassVar[str] = "parameter"
    vhost: str
    component: str
    name: str
    value: str

    @property
    def key(self) -> Key:
        """Identity of the row within its kind."""
        return (self.vhost, self.component, self.name)


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
        """Identity of the row within its kind."""
        return (self.vhost, self.name)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A durable queue. ``incarnation`` names its log, so a queue that is declared again never gets old
    content.
    """

    kind: ClassVar[str] = "queue"
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes
    incarnation: str

    @property
    def key(self) -> Key:
        """Identity of the row within its kind."""
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
        """All fields: bindings that differ only in their arguments are different bindings."""
        return (
            self.vhost,
            self.source,
            self.destination,
            self.destination_type,
            self.routing_key,
            self.arguments,
        )


Row: TypeAlias = (
    VhostRow
    | UserRow
    | PermissionRow
    | TopicPermissionRow
    | ParameterRow
    | ExchangeRow
    | QueueRow
    | BindingRow
)

#: Every kind of row, in loading order: rows that another row refers to come before it.
_TYPES: tuple[type[Row], ...] = (
    VhostRow,
    UserRow,
    PermissionRow,
    TopicPermissionRow,
    ParameterRow,
    ExchangeRow,
    QueueRow,
    BindingRow,
)

#: The class of each kind of row.
ROW_TYPES: dict[str, Callable[..., Row]] = {row_type.kind: row_type for row_type in _TYPES}

#: Field names of each kind, in the order of its constructor.
FIELDS: dict[str, tuple[str, ...]] = {
    row_type.kind: tuple(each.name for each in fields(row_type)) for row_type in _TYPES
}

_FIELD_VALUES = {kind: attrgetter(*names) for kind, names in FIELDS.items()}


def values_of(row: Row) -> tuple[object, ...]:
    """The fields of ``row`` in the order of its constructor."""
    values: tuple[object, ...] = _FIELD_VALUES[row.kind](row)
    return values


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
    """Remove the row of ``kind`` with ``key``, if there is one."""

    kind: str
    key: Key

    @classmethod
    def of(cls, row: Row) -> Delete:
        """The change that removes ``row``."""
        return cls(row.kind, row.key)


@dataclass(frozen=True, slots=True)
class DeleteBindings:
    """Remove all bindings in ``vhost`` that come from ``source``, or lead to ``destination``, or both.

    It removes bindings stored before this change and none stored after it. None means any. With a source, the
    rows are found by the front of their key; without one, the whole table is read. ``destination_type`` is
    used only together with ``destination``.
    """

    kind: ClassVar[str] = "binding"
    vhost: str
    source: str | None = None
    destination: str | None = None
    destination_type: str = "queue"


@dataclass(frozen=True, slots=True)
class DeleteVhost:
    """Remove the virtual host ``vhost`` and all rows that belong to it.

    It removes what was stored before this change and nothing stored after it.
    """

    kind: ClassVar[str] = "vhost"
    vhost: str


Change: TypeAlias = Put | Delete | DeleteBindings | DeleteVhost


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows as of ``rev``, the last change contained. Rev 0 is an empty store."""

    rev: int
    vhosts: list[VhostRow] = field(default_factory=list)
    users: list[UserRow] = field(default_factory=list)
    permissions: list[PermissionRow] = field(default_factory=list)
    exchanges: list[ExchangeRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    bindings: list[BindingRow] = field(default_factory=list)
    parameters: list[ParameterRow] = field(default_factory=list)
    topic_permissions: list[TopicPermissionRow] = field(default_factory=list)

    def rows(self) -> Iterator[Row]:
        """Every row; rows that another row refers to come before it."""
        yield from self.vhosts
        yield from self.users
        yield from self.permissions
        yield from self.topic_permissions
        yield from self.parameters
        yield from self.exchanges
        yield from self.queues
        yield from self.bindings
