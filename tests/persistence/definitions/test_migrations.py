"""From any earlier schema to this release's, or not at all."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import autogenerate, command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from persistence.definitions import (
    DefinitionStore,
    NotADefinitionStore,
    Put,
    SchemaTooNew,
    UserRow,
    VhostRow,
    migrations,
)
from persistence.definitions.schema import METADATA
from tests.persistence.definitions.support import Loop, started, wait


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "definitions.db"


def schema(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def step_to(path: Path, schema: str, *statements: tuple[str, tuple[bytes, ...]]) -> None:
    """Let the steps make a store of an earlier schema, or the last one, and execute ``statements`` in it."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, schema)
        for text, values in statements:
            connection.exec_driver_sql(text, values)
    engine.dispose()


def rows(path: Path) -> list[list[tuple[object, ...]]]:
    """What is in the tables."""
    with sqlite3.connect(path) as connection:
        return [
            connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("store", "alembic_version")
        ]


def test_a_new_store_is_what_the_steps_lead_to(path: Path, tmp_path: Path) -> None:
    started(path, Loop()).flush_and_stop()
    other = tmp_path / "other.db"
    step_to(other, "head")
    assert [(name, _plain(sql)) for name, sql in schema(path)] == [
        (name, _plain(sql)) for name, sql in schema(other)
    ]
    assert rows(path) == rows(other) == [[(0,)], [(migrations.HEAD,)]]


def test_the_steps_lead_to_the_tables_that_the_code_uses(path: Path) -> None:
    step_to(path, "head")
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert autogenerate.compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert migrations.schema_of(connection) == migrations.HEAD
    engine.dispose()


def test_keys_and_layout_are_the_same_too(path: Path) -> None:
    """Alembic's comparison looks at neither."""
    step_to(path, "head")
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as connection:
        wanted = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name").all()
    found = [each for each in schema(path) if "alembic_version" not in each[0]]
    assert [(name, _plain(sql)) for name, sql in found] == [(name, _plain(sql)) for name, sql in wanted]
    engine.dispose()


def _plain(sql: str | None) -> str:
    return " ".join((sql or "").split())


def test_head_is_the_last_step_and_steps_count_up() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [migrations.HEAD]
    steps = [each.revision for each in script.walk_revisions()]
    assert steps == sorted(steps, reverse=True)


def test_a_second_start_changes_nothing(path: Path) -> None:
    started(path, Loop()).flush_and_stop()
    before = schema(path)
    started(path, Loop()).flush_and_stop()
    assert schema(path) == before


def test_virtual_hosts_of_the_first_schema_keep_their_names(path: Path) -> None:
    step_to(path, "0001", ("INSERT INTO vhosts VALUES ('/'), (?)", (b"\xff\x80",)))
    store = started(path, Loop())
    assert store.snapshot().vhosts == [VhostRow("/"), VhostRow("\udcff\udc80")]
    store.flush_and_stop()


def test_users_of_an_earlier_schema_have_no_limits(path: Path) -> None:
    step_to(path, "0003", ("INSERT INTO users VALUES (?, 'h', 'a', '[\"t\"]')", (b"\xff",)))
    store = started(path, Loop())
    assert store.snapshot().users == [UserRow("\udcff", "h", "a", ("t",), -1, -1)]
    store.flush_and_stop()


def test_a_later_schema_is_refused_and_left_alone(path: Path) -> None:
    loop = Loop()
    store = started(path, loop)
    wait(store, loop, store.submit([Put(VhostRow("/"))]))
    store.flush_and_stop()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        SchemaTooNew, match=rf"{path}: definitions have schema '9999', .* up to '0005'; start"
    ):
        started(path, Loop())
    assert path.read_bytes() == before


def test_a_database_of_something_else_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cats (name)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NotADefinitionStore, match="tables of something else"):
        started(path, Loop())
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_what_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"no database, but longer than a page header of SQLite would be" * 50)
    before = path.read_bytes()
    with pytest.raises(NotADefinitionStore, match="not a database"):
        started(path, Loop())
    assert path.read_bytes() == before


@pytest.mark.parametrize("earlier", ["", "0003"])
def test_a_migration_that_fails_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch, earlier: str
) -> None:
    if earlier:
        step_to(path, earlier)
    else:
        path.touch()
    before = schema(path)
    name = "_run" if earlier else "_create"

    def broken(connection: object) -> None:
        run(connection)  # type: ignore[arg-type]  # a connection
        raise RuntimeError("power cut")

    run = getattr(migrations, name)
    monkeypatch.setattr(migrations, name, broken)
    with pytest.raises(RuntimeError, match="power cut"):
        started(path, Loop())
    monkeypatch.setattr(migrations, name, run)
    assert schema(path) == before
    started(path, Loop()).flush_and_stop()


@pytest.mark.parametrize("name", ["100%", "a b?c#d&e", "ü€", "%(here)s"])
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    loop = Loop()
    path = tmp_path / name / f"{name}.db"
    store = started(path, loop)
    wait(store, loop, store.submit([Put(VhostRow("/"))]))
    assert path.exists()
    store.flush_and_stop()
    assert DefinitionStore(path, loop.post).committed == 0
    assert started(path, loop).snapshot().vhosts == [VhostRow("/")]


def test_an_ordinary_start_does_not_load_alembic(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "_run", None)
    started(path, Loop()).flush_and_stop()
    monkeypatch.setattr(migrations, "_create", None)
    started(path, Loop()).flush_and_stop()


def test_a_new_store_does_not_load_alembic(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from persistence.definitions.database import Database; "
        "Database(Path(sys.argv[1]), revs_kept=9).open(); sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
