"""``amqp-router log adopt``: definitions for logs that have none, made from what each says of itself.

For a data directory whose ``definitions.sqlite`` is lost, or names a wrong folder for a queue. The logs stay
as they are; what is written is the definitions alone.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp_router.auth.users import DEFAULT_USER, first_definitions
from amqp_router.datadir import DataDirectory
from amqp_router.exit_codes import LogDirectoryError
from amqp_router.log_rows import StrayLog, misplaced, stray_logs
from amqp_router.log_text import escaped
from amqp_router.protocol.errors import FieldError
from amqp_router.protocol.fields import Field, Table, decode_table, encode_table
from amqp_router.protocol.kept_table import read_arguments
from persistence.definitions import (
    Change,
    DefinitionStore,
    PermissionRow,
    Put,
    QueueRow,
    Snapshot,
    VhostRow,
)
from persistence.definitions.records import NO_ARGUMENTS
from persistence.files import RealDisk
from persistence.log.sync.committer import DELETED_SUFFIX

NOT_IN_LOGS = (
    "not in the logs: exchanges, bindings, users, permissions, and queues that never had a persistent "
    "message; declare them again"
)


def adopt(data_dir: Path) -> tuple[list[str], bool]:
    """Store a queue for each log that has none; lines on what was done, and whether no log is left over.

    Raises:
        LogDirectoryError: there are no logs.
        DataDirError: a broker runs on the directory, or it is not ours.
        DefinitionsError: the definitions that are there cannot be read or written.
    """
    if not (data_dir / "queues").is_dir():
        raise LogDirectoryError(f"{data_dir}: has no folder queues; name a data directory")
    directory = DataDirectory.open(data_dir)
    try:
        calls: list[Callable[[], None]] = []
        store = DefinitionStore(data_dir / "definitions.sqlite", calls.append)
        store.start()
        try:
            return _Adoption(data_dir, store).run()
        finally:
            store.flush_and_stop()
            if store.failed is not None:
                raise store.failed
    finally:
        directory.close()


class _Adoption:
    """One run: what is to be stored, and what to say of it."""

    def __init__(self, data_dir: Path, store: DefinitionStore) -> None:
        self._data_dir = str(data_dir)
        self._store = store
        self._snapshot = store.snapshot()
        self._changes: list[Change] = []
        self._lines: list[str] = []
        self._left = 0

    def run(self) -> tuple[list[str], bool]:
        if self._snapshot.rev == 0:
            self._snapshot = first_definitions(os.urandom)
            self._changes += [Put(row) for row in self._snapshot.rows()]
        disk = RealDisk()
        rows = self._snapshot.queues
        folders = [
            name for name in os.listdir(f"{self._data_dir}/queues") if not name.endswith(DELETED_SUFFIX)
        ]
        strays = stray_logs(disk, self._data_dir, folders, rows)
        moved = {
            stray.incarnation: row
            for row, stray in misplaced(disk, self._data_dir, rows, strays, self._store.was_put)
        }
        names = {(row.vhost, row.name) for row in rows}
        queues = [stray.queue for stray in strays]
        for stray in strays:
            if not _is_described(stray):
                self._leave(stray, "its log.json cannot be read")
            elif queues.count(stray.queue) > 1:
                self._leave(stray, "another log is of the same queue: move one of them into quarantine/")
            elif stray.incarnation in moved:
                self._give(moved[stray.incarnation], stray)
            elif stray.queue in names:
                self._leave(
                    stray, "the queue has another log; the next start moves this one into quarantine/"
                )
            else:
                self._make(stray)
        if self._changes:
            self._store.submit(self._changes)
        adopted = len(strays) - self._left
        self._lines.append(f"{adopted} logs adopted, {len(rows)} queues were defined already")
        if adopted and not rows:
            self._lines.append(NOT_IN_LOGS)
        return self._lines, not self._left

    def _leave(self, stray: StrayLog, reason: str) -> None:
        self._left += 1
        self._lines.append(f"left: queues/{escaped(stray.incarnation)} {_names(stray)}: {reason}")

    def _give(self, row: QueueRow, stray: StrayLog) -> None:
        """The queue has its own log again; all else of its row stays."""
        self._changes.append(
            Put(QueueRow(row.vhost, row.name, row.auto_delete, row.arguments, stray.incarnation))
        )
        self._lines.append(
            f"adopted: queues/{stray.incarnation} {_names(stray)}, in place of {row.incarnation}"
        )

    def _make(self, stray: StrayLog) -> None:
        vhost, name = stray.queue
        arguments, lost = _arguments(stray.about)
        if vhost not in [row.name for row in self._snapshot.vhosts]:
            self._make_vhost(vhost)
        auto_delete = stray.about.get("auto_delete")
        if not isinstance(auto_delete, bool):
            lost.append("whether it is an auto-delete queue: taken for none")
        self._changes.append(Put(QueueRow(vhost, name, auto_delete is True, arguments, stray.incarnation)))
        text = f"adopted: queues/{escaped(stray.incarnation)} {_names(stray)}"
        self._lines.append(f"{text}; not restored: {'; '.join(lost)}" if lost else text)

    def _make_vhost(self, vhost: str) -> None:
        rows: list[VhostRow | PermissionRow] = [VhostRow(vhost)]
        if DEFAULT_USER in [row.name for row in self._snapshot.users]:
            rows.append(PermissionRow(DEFAULT_USER, vhost, ".*", ".*", ".*"))
        self._changes += [Put(row) for row in rows]
        self._snapshot = _with_vhost(self._snapshot, vhost)
        self._lines.append(f"virtual host '{escaped(vhost)}' made")


def _with_vhost(snapshot: Snapshot, vhost: str) -> Snapshot:
    return Snapshot(
        snapshot.rev,
        [*snapshot.vhosts, VhostRow(vhost)],
        snapshot.users,
        snapshot.permissions,
        snapshot.exchanges,
        snapshot.queues,
        snapshot.bindings,
    )


def _is_described(stray: StrayLog) -> bool:
    vhost, name = stray.queue
    return isinstance(vhost, str) and isinstance(name, str)


def _names(stray: StrayLog) -> str:
    if not _is_described(stray):
        return "(unknown queue)"
    vhost, name = stray.queue
    return f"(queue '{escaped(name)}' in virtual host '{escaped(vhost)}')"


def _arguments(about: dict[str, Any]) -> tuple[bytes, list[str]]:
    """The queue's arguments as an encoded table, and what of them is lost.

    ``arguments_table`` has them exactly. A log of an earlier build has but ``arguments``, for people.
    """
    encoded = about.get("arguments_table")
    if isinstance(encoded, str):
        try:
            octets = base64.b64decode(encoded, validate=True)
            if read_arguments(octets, 0)[1] == len(octets):
                return octets, []
        except (ValueError, FieldError):
            pass
        return NO_ARGUMENTS, ["its arguments: arguments_table in log.json is damaged"]
    table: Table = {}
    lost = []
    plain = about.get("arguments")
    for name, value in plain.items() if isinstance(plain, dict) else ():
        field = _field(value)
        if field is None:
            lost.append(f"argument '{escaped(name)}'")
        else:
            table[name] = field
    if not table and not lost and "arguments_table" not in about:
        lost.append("arguments, if they were large")
    return encode_table(table) if table else NO_ARGUMENTS, lost


def _field(value: Any) -> Field | None:
    """A value that ``log.json`` shows with its tag, if it says it exactly."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        return None
    tag, content = value
    if tag in ("S", "x") and isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    try:
        octets = encode_table({"": (tag, content)})
        decoded = decode_table(octets, 0)[0][""]
    except (FieldError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return decoded if decoded == (tag, content) else None
