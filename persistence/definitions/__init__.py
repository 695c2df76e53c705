"""Definitions: virtual hosts, users, permissions and every durable exchange, queue and binding.

``records`` defines the rows and ``store`` keeps them. Below the store, ``database`` and ``statements`` use
SQL on the tables of ``schema``, which ``migrations`` bring up to date. ``codec`` encodes the change log. Only
this package imports SQLAlchemy.
"""

from persistence.definitions.errors import (
    DefinitionsError,
    NotADefinitionStore,
    RevTrimmed,
    SchemaTooNew,
    StoreFailed,
    StoreStopped,
)
from persistence.definitions.offline import read_queues
from persistence.definitions.records import (
    BindingRow,
    Change,
    Delete,
    DeleteBindings,
    DeleteVhost,
    ExchangeRow,
    Key,
    ParameterRow,
    PermissionRow,
    Put,
    QueueRow,
    Row,
    Snapshot,
    TopicPermissionRow,
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
    "DeleteVhost",
    "ExchangeRow",
    "Key",
    "NotADefinitionStore",
    "ParameterRow",
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
    "TopicPermissionRow",
    "UserRow",
    "VhostRow",
    "read_queues",
]
