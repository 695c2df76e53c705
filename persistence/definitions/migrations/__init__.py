"""Upgrades the tables of a definition store to this release's schema, in one transaction.

Alembic runs the steps in ``versions``; ``HEAD`` names the last of them. Alembic itself is loaded only when
there is something to do.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect

from persistence.definitions.errors import NotADefinitionStore, SchemaTooNew

#: The schema of this release. Schemas count up, so a higher one was made by a later release.
HEAD = "0005"


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
    if not found and inspect(connection).get_table_names():
        raise NotADefinitionStore(path, "it holds tables of something else")
    _run(connection)


def schema_of(connection: Connection) -> str:
    """The schema that the store has now; empty if it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return "" if found is None else str(found)


def _run(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  slow to import, and most starts do not need it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    # Alembic reads options through configparser, where a percent sign in the path would begin a reference.
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
