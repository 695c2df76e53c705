"""Which log belongs to which queue: the definitions say it by an id, ``log.json`` by the queue's name.

They differ when the definitions are lost or damaged. A queue that is deleted and declared again looks the
same if the broker is killed before the old log is removed: its row has no folder yet, and a folder of no row
has its name. The change log of the definitions tells the two apart: it has the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from persistence.definitions import QueueRow
from persistence.errors import CorruptLog, PersistenceError
from persistence.files import Disk, join
from persistence.log.queue.catalog import Catalog
from persistence.log.sync.writer import read_description


class MisplacedLogs(PersistenceError):
    """A queue's row names a folder that is missing, and a folder of no row says that it is the queue's."""


@dataclass(frozen=True, slots=True)
class StrayLog:
    """A folder below ``queues`` that no row names; ``about`` is its ``log.json``, empty if unreadable."""

    incarnation: str
    about: dict[str, Any]

    @property
    def queue(self) -> tuple[Any, Any]:
        """Virtual host and name."""
        return self.about.get("vhost"), self.about.get("name")


def stray_logs(disk: Disk, data_dir: str, folders: Iterable[str], rows: Iterable[QueueRow]) -> list[StrayLog]:
    """The ``folders`` of no row, by name."""
    known = {row.incarnation for row in rows}
    found = []
    for folder in sorted(set(folders) - known):
        try:
            about = read_description(disk, join(data_dir, "queues", folder)) or {}
        except (CorruptLog, OSError):
            about = {}
        found.append(StrayLog(folder, about))
    return found


def misplaced(
    disk: Disk,
    data_dir: str,
    rows: Iterable[QueueRow],
    strays: Iterable[StrayLog],
    was_put: Callable[[QueueRow], bool],
) -> Iterator[tuple[QueueRow, StrayLog]]:
    """Rows without a folder, each with a stray log of its queue; not those declared anew a moment ago.

    ``was_put`` says whether the change log has that row.
    """
    by_queue = {stray.queue: stray for stray in strays}
    if not by_queue:
        return
    for row in rows:
        stray = by_queue.get((row.vhost, row.name))
        if stray is None or disk.exists(join(data_dir, "queues", row.incarnation)):
            continue
        if not was_put(row):
            yield row, stray


def refuse_misplaced(
    disk: Disk, data_dir: str, catalog: Catalog, rows: list[QueueRow], was_put: Callable[[QueueRow], bool]
) -> None:
    """See that no queue would begin empty beside its own log.

    Raises:
        MisplacedLogs: one would.
    """
    strays = stray_logs(disk, data_dir, catalog.incarnations(), rows)
    for row, stray in misplaced(disk, data_dir, rows, strays, was_put):
        raise MisplacedLogs(
            f"{data_dir}/definitions.sqlite: queue {row.name!r} in virtual host {row.vhost!r} has its log in "
            f"queues/{row.incarnation}, which is missing, while queues/{stray.incarnation} says that it is "
            f"the log of this queue; `amqp-router log adopt --data-dir {data_dir}` gives it to the queue, or "
            "move the folder from queues/ into quarantine/ to begin without it"
        )
