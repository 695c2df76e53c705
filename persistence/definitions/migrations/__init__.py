"""Upgrades the tables of a definition store to this release's schema, in one transaction.

Alembic runs the steps in ``versions``; ``HEAD`` names the last of them. Alembic itself, which takes 10 MB of
memory, is loaded only for a store of an earlier schema. A new store gets its tables at once.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect

from persistence.definitions.errors import NotADefinitionStore, SchemaTooNew
from persistence.definitions.schema import METADATA

#: The schema of this release. Schemas count up, so a higher one was made by a later release.
HEAD = "0005"
#: Alembic's own table.
_VERSION_TABLE = """CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""


def upgrade(connection: Connection, path: Path) -> None:
    """Bring the store behind ``connection`` to ``HEAD`` within its running transaction.

    Raises:
        SchemaTooNew: a later release wrote it.
        NotADefinitionStore: the file has tables, but not ours.
    """
    found = schema_of(connection)
    if found == HEAD:
        return
    if found > HEAD:
        raise SchemaTooNew(path, found, HEAD)
    if found:
        _run(connection)
    elif inspect(connection).get_table_names():
        raise NotADefinitionStore(path, "it holds tables of something else")
    else:
        _create(connection)


def schema_of(connection: Connection) -> str:
    """The schema that the store has now; empty if it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return "" if found is None else str(found)


def _create(connection: Connection) -> None:
    """Make what all steps together lead to; a test compares the two."""
    METADATA.create_all(connection, checkfirst=False)
    connection.exec_driver_sql("INSERT INTO store VALUES (0)")
    connection.exec_driver_sql(_VERSION_TABLE)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (HEAD,))


def _run(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  slow to import, and most starts do not need it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # Alembic reads options through configparser, where a percent sign in the path would begin a reference.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
