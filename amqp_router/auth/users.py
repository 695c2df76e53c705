"""The broker's own directory of users and their permissions.

Memory changes at once and the store soon after, as for every definition: methods that change something return
the rev to wait for. ``generation`` rises with every change, so that whoever keeps a verdict can see that it
is old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from amqp_router.auth.passwords import (
    DEFAULT_ALGORITHM,
    SALT_SIZE,
    check_hash,
    hash_password,
    verify_password,
)
from amqp_router.auth.permissions import Permissions, compile_permission
from persistence.definitions import (
    Change,
    Delete,
    PermissionRow,
    Put,
    Snapshot,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)

#: As many random bytes as asked for (``os.urandom``).
RandomBytes: TypeAlias = Callable[[int], bytes]

DEFAULT_VHOST = "/"
DEFAULT_USER = "guest"
DEFAULT_PASSWORD = b"guest"
ADMINISTRATOR = "administrator"
#: Tags of users who may see what happens in all virtual hosts, and the exchange that tells it.
SEE_ALL = frozenset({ADMINISTRATOR, "monitoring"})
EVENT_EXCHANGE = "amq.rabbitmq.event"


class DefinitionsPort(Protocol):
    """Where changes are stored."""

    def submit(self, changes: Sequence[Change]) -> int:
        """Take changes, all or none; returns their rev."""


class Users:
    """Users and permissions. They change through these methods only, the rows are frozen."""

    def __init__(self, definitions: DefinitionsPort, random_bytes: RandomBytes) -> None:
        #: Users by name.
        self.users: dict[str, UserRow] = {}
        #: Permissions by (user, virtual host).
        self.permissions: dict[tuple[str, str], PermissionRow] = {}
        #: Topic permissions by (user, virtual host, exchange).
        self.topic_permissions: dict[tuple[str, str, str], TopicPermissionRow] = {}
        #: Rises with every change.
        self.generation = 0
        #: Called after every change.
        self.on_change: Callable[[], None] = _ignore
        self._definitions = definitions
        self._random_bytes = random_bytes

    def load(
        self,
        users: Iterable[UserRow],
        permissions: Iterable[PermissionRow],
        topic_permissions: Iterable[TopicPermissionRow] = (),
    ) -> None:
        """Take over what the store holds."""
        self.topic_permissions = {(row.user, row.vhost, row.exchange): row for row in topic_permissions}
        self.users = {row.name: row for row in users}
        self.permissions = {(row.user, row.vhost): row for row in permissions}
        self._changed()

    def put_user(self, name: str, password: bytes, tags: Iterable[str] = ()) -> int:
        """Add a user, or change password and tags of one. An empty password means that none will do."""
        password_hash = hash_password(password, self._random_bytes(SALT_SIZE)) if password else ""
        return self.put_user_hash(name, password_hash, DEFAULT_ALGORITHM, tags)

    def put_user_hash(
        self, name: str, password_hash: str, hashing_algorithm: str, tags: Iterable[str] = ()
    ) -> int:
        """As ``put_user``, from a hash as RabbitMQ's definitions have it.

        Raises:
            ValueError: the name is empty, or the hash cannot be one of the algorithm.
        """
        if not name:
            raise ValueError("a user's name cannot be empty")
        check_hash(password_hash, hashing_algorithm)
        known = self.users.get(name, UserRow(name, "", ""))
        row = replace(
            known, password_hash=password_hash, hashing_algorithm=hashing_algorithm, tags=tuple(tags)
        )
        rev = self._definitions.submit([Put(row)])
        self.users[name] = row
        self._changed()
        return rev

    def set_limits(
        self, name: str, *, max_connections: int | None = None, max_channels: int | None = None
    ) -> int:
        """Change ``max_connections`` or ``max_channels`` of a user; a negative number lifts the limit.

        Raises:
            KeyError: there is no such user.
        """
        row = self.users[name]
        if max_connections is not None:
            row = replace(row, max_connections=max_connections)
        if max_channels is not None:
            row = replace(row, max_channels=max_channels)
        rev = self._definitions.submit([Put(row)])
        self.users[name] = row
        self._changed()
        return rev

    def delete_user(self, name: str) -> int:
        """Delete a user with all its permissions.

        Raises:
            KeyError: there is no such user.
        """
        gone = [row for row in self.permissions.values() if row.user == name]
        topics = [row for row in self.topic_permissions.values() if row.user == name]
        changes = [*map(Delete.of, gone), *map(Delete.of, topics), Delete.of(self.users[name])]
        rev = self._definitions.submit(changes)
        del self.users[name]
        for row in topics:
            del self.topic_permissions[row.user, row.vhost, row.exchange]
        self._drop_permissions(gone)
        return rev

    def set_permission(self, user: str, vhost: str, *, configure: str, write: str, read: str) -> int:
        """Let a user into a virtual host, to do what the patterns say.

        Raises:
            KeyError: there is no such user.
            ValueError: a pattern is no regular expression.
        """
        self.users[user]
        for pattern in (configure, write, read):
            compile_permission(pattern)
        row = PermissionRow(user, vhost, configure, write, read)
        rev = self._definitions.submit([Put(row)])
        self.permissions[user, vhost] = row
        self._changed()
        return rev

    def clear_permission(self, user: str, vhost: str) -> int:
        """Keep a user out of a virtual host.

        Raises:
            KeyError: it is not let in.
        """
        row = self.permissions[user, vhost]
        rev = self._definitions.submit([Delete.of(row)])
        self._drop_permissions([row])
        return rev

    def set_topic_permission(self, user: str, vhost: str, exchange: str, *, write: str, read: str) -> int:
        """Let a user publish to a topic exchange, and bind to it, only with routing keys that match.

        Raises:
            KeyError: there is no such user.
            ValueError: a pattern is no regular expression.
        """
        self.users[user]
        for pattern in (write, read):
            compile_permission(pattern)
        row = TopicPermissionRow(user, vhost, exchange, write, read)
        rev = self._definitions.submit([Put(row)])
        self.topic_permissions[user, vhost, exchange] = row
        self._changed()
        return rev

    def clear_topic_permissions(self, user: str, vhost: str, exchange: str | None = None) -> int:
        """Remove the topic permissions of a user in a virtual host, for one exchange or all."""
        gone = [
            row
            for row in self.topic_permissions.values()
            if (row.user, row.vhost) == (user, vhost) and exchange in (None, row.exchange)
        ]
        rev = self._definitions.submit([Delete.of(row) for row in gone])
        for row in gone:
            del self.topic_permissions[row.user, row.vhost, row.exchange]
        self._changed()
        return rev

    def enter_permission(self, row: PermissionRow) -> None:
        """Take over ``row``, which is stored together with something else."""
        self.permissions[row.user, row.vhost] = row
        self._changed()

    def forget_vhost(self, vhost: str) -> None:
        """Forget all permissions in a virtual host, which is deleted with its rows."""
        for key in [key for key in self.topic_permissions if key[1] == vhost]:
            del self.topic_permissions[key]
        self._drop_permissions([row for row in self.permissions.values() if row.vhost == vhost])

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over the rows of users and permissions among ``changes``, which are stored already."""
        for change in changes:
            if isinstance(change, Put):
                row = change.row
                if isinstance(row, UserRow):
                    self.users[row.name] = row
                elif isinstance(row, PermissionRow):
                    self.permissions[row.user, row.vhost] = row
                elif isinstance(row, TopicPermissionRow):
                    self.topic_permissions[row.user, row.vhost, row.exchange] = row
            elif isinstance(change, Delete):
                key: tuple[Any, ...] = change.key
                if change.kind == UserRow.kind:
                    self.users.pop(key[0], None)
                elif change.kind == PermissionRow.kind:
                    self.permissions.pop((key[0], key[1]), None)
                elif change.kind == TopicPermissionRow.kind:
                    self.topic_permissions.pop((key[0], key[1], key[2]), None)
        self._changed()

    def verify(self, name: str, password: bytes) -> bool:
        """Whether there is such a user, with this password."""
        row = self.users.get(name)
        return row is not None and verify_password(password, row.password_hash, row.hashing_algorithm)

    def permissions_of(self, user: str, vhost: str) -> Permissions | None:
        """A user's permissions in a virtual host, which follow all changes; None if it is not let in now."""
        if (user, vhost) not in self.permissions:
            return None
        return Permissions(
            user,
            vhost,
            find=lambda: self.permissions.get((user, vhost)),
            find_topic=lambda exchange: self.topic_permissions.get((user, vhost, exchange)),
            generation=lambda: self.generation,
            may_read=lambda exchange: exchange != EVENT_EXCHANGE or self._may_see_all(user),
        )

    def _may_see_all(self, user: str) -> bool:
        row = self.users.get(user)
        return row is not None and not SEE_ALL.isdisjoint(row.tags)

    def _drop_permissions(self, rows: Iterable[PermissionRow]) -> None:
        for row in rows:
            del self.permissions[row.user, row.vhost]
        self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self.on_change()


@dataclass(frozen=True)
class FirstStart:
    """The administrator and the virtual host that a start on an empty data directory makes."""

    user: str = DEFAULT_USER
    password: bytes = field(default=DEFAULT_PASSWORD, repr=False)
    vhost: str = DEFAULT_VHOST


def first_definitions(random_bytes: RandomBytes, first: FirstStart | None = None) -> Snapshot:
    """What a new broker starts with: a virtual host, and a user who may do all there."""
    first = first or FirstStart()
    password_hash = hash_password(first.password, random_bytes(SALT_SIZE))
    return Snapshot(
        rev=0,
        vhosts=[VhostRow(first.vhost, "Default virtual host")],
        users=[UserRow(first.user, password_hash, DEFAULT_ALGORITHM, (ADMINISTRATOR,))],
        permissions=[PermissionRow(first.user, first.vhost, ".*", ".*", ".*")],
    )


def _ignore() -> None:
    """What is called before anybody listens."""
