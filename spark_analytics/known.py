"""The queues and exchanges that routing logs know, to check the options ``queues`` and ``exchanges``.

A name is known if a kept event names it, or if a durable queue or exchange has it now. Therefore a misspelt
name is an error, an idle queue or exchange has no rows, and a deleted one has the rows that are left of it.
"""

from __future__ import annotations

import glob
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from . import layout
from .discovery import Described, Node, discover, unknown, wanted
from .errors import CorruptLog, OptionError
from .names import read_names
from .options import ReadOptions


def check_routed_names(nodes: Iterable[Node], found: list[Described], options: ReadOptions) -> None:
    """Check that each name in the options ``queues`` and ``exchanges`` exists or existed.

    Raises:
        OptionError: neither a kept event nor a declaration has the name; the text has the nearest one.
    """
    selection = options.selection
    queues, exchanges = set(selection.queues or ()), set(selection.exchanges or ())
    if not queues and not exchanges:
        return
    known_queues, known_exchanges = _declared(nodes, selection.vhosts)
    # Names files are read only as far as they are needed, because there may be many.
    for log in found:
        for path in sorted(glob.glob(os.path.join(glob.escape(log.directory), "*", "*.names")), reverse=True):
            if queues <= known_queues and exchanges <= known_exchanges:
                return
            if not wanted(log, options):
                continue
            try:
                salt = layout.salt_of(log.node, log.id, int(Path(path).parent.name))
                names = read_names(os.path.dirname(path), int(Path(path).stem), salt)
            except (CorruptLog, OSError):
                return  # It may have the name. If its segment is read, that raises the right error.
            known_queues.update(*names.queue_names)
            known_exchanges.update(names.exchange_names)
    for queue in sorted(queues - known_queues):
        raise OptionError(unknown("queues", "queue", queue, known_queues))
    for exchange in sorted(exchanges - known_exchanges):
        raise OptionError(unknown("exchanges", "exchange", exchange, known_exchanges))


def _declared(nodes: Iterable[Node], vhosts: Collection[str] | None) -> tuple[set[str], set[str]]:
    """Names of durable queues and exchanges that exist now."""
    queues: set[str] = set()
    exchanges = {"", *(f"amq.{kind}" for kind in ("direct", "fanout", "headers", "match", "topic"))}
    for node in nodes:
        for log in discover(node, "messages"):
            if vhosts is None or log.vhost in vhosts:
                queues.add(log.queue)
        for vhost, exchange in _exchanges(node.directory):
            if vhosts is None or vhost in vhosts:
                exchanges.add(exchange)
    return queues, exchanges


def _exchanges(directory: str) -> Iterator[tuple[str, str]]:
    """(virtual host, name) of the durable exchanges; none if their database is missing or cannot be read.

    A copy is read: SQLite changes files beside a database in WAL mode even when it only reads.
    """
    source = os.path.join(directory, layout.DEFINITIONS)
    with tempfile.TemporaryDirectory(prefix="amqp-router-") as scratch:
        copy = os.path.join(scratch, layout.DEFINITIONS)
        try:
            shutil.copyfile(source, copy)
            if os.path.exists(source + "-wal"):
                shutil.copyfile(source + "-wal", copy + "-wal")
            with closing(sqlite3.connect(copy)) as connection:
                rows = connection.execute("SELECT vhost, name FROM exchanges").fetchall()
        except (OSError, sqlite3.Error):
            return
    for vhost, name in rows:
        yield layout.text(str(vhost)), layout.text(str(name))
