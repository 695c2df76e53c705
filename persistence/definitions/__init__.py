"""Definitions: virtual hosts, users, permissions and every durable exchange, queue and binding.

``records`` says what is kept, ``store`` keeps it. Below the store, ``database`` and ``statements`` speak SQL,
on the tables of ``schema`` that ``migrations`` bring up to date; ``codec`` writes the change log. Nothing
outside this package knows SQLAlchemy.
"""

from persistence.definitions.errors import (
    DefinitionsError,
    NotADefinitionStore,
    RevTrimmed,
    SchemaTooNew,
    StoreFailed,
    StoreStopped,
)
from persistence.definitions.reading import read_queues
from persistence.definitions.records import (
    BindingRow,
    Change,
    Delete,
    DeleteBindings,
    ExchangeRow,
    Key,
    PermissionRow,
    Put,
    QueueRow,
    Row,
    Snapshot,
    UserRow,
    VhostRow,
)
from persistence.definitions.store import Accepted, Conflict, DefinitionStore, Post

__all__ = [
    "Accepted",
    "BindingRow",
    "Change",
    "Conflict",
    "DefinitionStore",
    "DefinitionsError",
    "Delete",
    "DeleteBindings",
    "ExchangeRow",
    "Key",
    "NotADefinitionStore",
    "PermissionRow",
    "Post",
    "Put",
    "QueueRow",
    "RevTrimmed",
    "Row",
    "SchemaTooNew",
    "Snapshot",
    "StoreFailed",
    "StoreStopped",
    "UserRow",
    "VhostRow",
    "read_queues",
]
