"""Finds the data directories and their logs, and checks that every log with a mark is there.

Every log with a mark in the file ``synced`` must exist. Otherwise a missing folder or ``log.json`` would give
fewer rows without an error. A log that was deleted meanwhile has no mark when the marks are read again.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from . import layout
from .errors import CorruptLog, FormatVersionError, IncompleteDirectory, NotADataDirectory, OptionError
from .options import ReadOptions
from .schema import nearest
from .synced import Marks, read_marks

#: An error lists no more names than this.
_LISTED_MAX = 20


class Node(NamedTuple):
    """A data directory. Its broker made ``id`` once, and it belongs to the data."""

    id: str
    directory: str


class Described(NamedTuple):
    """The description of a log in ``log.json``; a routing log has no ``queue``, a queue's has no ``node``."""

    id: str
    directory: str
    vhost: str
    queue: str
    partitions: int
    node: str


def find_nodes(names: tuple[str, ...]) -> list[Node]:
    """The data directories, each once, also if it is named several times.

    Raises:
        NotADataDirectory, FormatVersionError: see there.
        OptionError: two of them are copies of one directory, so its rows would count twice.
    """
    places: dict[tuple[int, int], str] = {}
    nodes: dict[str, Node] = {}
    for directory in _directories(names):
        node = Node(read_stamp(directory), directory)
        status = os.stat(directory)
        if places.setdefault((status.st_dev, status.st_ino), directory) != directory:
            continue
        other = nodes.setdefault(node.id, node)
        if other is not node:
            raise OptionError(
                f"{other.directory} and {directory} are copies of one data directory (node {node.id}); "
                "name one of them, or every row would count twice"
            )
    return list(nodes.values())


def discover(node: Node, table: str) -> list[Described]:
    """The logs of a table, in the order of their ids."""
    found = [describe(node, table, log_id) for log_id in log_ids(node, table)]
    return [log for log in found if log is not None]


def log_ids(node: Node, table: str) -> list[str]:
    """The ids of the table's logs that have a folder, in order; without those that are being deleted."""
    names = _listed(log_root(node, table))
    return [name for name in names if not name.endswith(layout.DELETED_SUFFIX)]


def describe(node: Node, table: str, log_id: str) -> Described | None:
    """What the ``log.json`` of a log says; None if there is none (yet).

    Raises:
        CorruptLog, FormatVersionError: it is damaged, of another log or of another version.
    """
    directory = os.path.join(log_root(node, table), log_id)
    about = _description(directory)
    if about is None:
        return None
    vhost = layout.text(str(about.get("vhost", "")))
    is_queue = table == "messages"
    queue = layout.text(str(about.get("name", ""))) if is_queue else ""
    own = about.get("incarnation", log_id) if is_queue else layout.routing_id(about.get("vhost", ""))
    if own != log_id:
        path = os.path.join(directory, layout.DESCRIPTION)
        raise CorruptLog(path, 0, 0, f"this is the description of another log, {own!r}")
    node_id = "" if is_queue else str(about.get("node", ""))
    return Described(log_id, directory, vhost, queue, int(about.get("partitions", 1)), node_id)


def log_root(node: Node, table: str) -> str:
    """The folder of the table's logs."""
    return os.path.join(node.directory, layout.ROUTING if table == "routing" else layout.QUEUES)


def is_used(node: Node) -> bool:
    """Has a broker ever begun a log of any kind there?"""
    return any(os.path.isdir(log_root(node, table)) for table in ("messages", "routing"))


def check_promised(node: Node, found: list[Described], marks: Marks | None, options: ReadOptions) -> None:
    """Check that every log of the table with a mark exists.

    Raises:
        IncompleteDirectory: one does not, and still has its mark when the marks are read again.
        OSError: the marks cannot be read.
    """
    absent = list(_absent(node, found, marks, options))
    if not absent or not options.fail_on_data_loss:
        return
    again = read_marks(node.directory) if marks is not None else None
    for key, path, text in absent:
        # The mark of a deleted log is removed before its files.
        if marks is None or again is None or key in again:
            promised = again[key].end if again is not None and key in again else 0
            raise IncompleteDirectory(path, promised, text)


def _absent(
    node: Node, found: list[Described], marks: Marks | None, options: ReadOptions
) -> Iterator[tuple[tuple[str, int], str, str]]:
    """(key of the mark, path, what is wrong) of each missing log."""
    root = log_root(node, options.table)
    if marks is None:
        # Without marks nothing is promised. But a folder with segments cannot be a queue that is just being
        # made.
        described = {log.id for log in found}
        for log_id in log_ids(node, options.table):
            if log_id not in described and glob.glob(os.path.join(glob.escape(root), log_id, "*", "*.log")):
                yield (log_id, 0), os.path.join(root, log_id, layout.DESCRIPTION), "the file is missing"
        return
    is_routing = options.table == "routing"
    known = {layout.mark_id(log.id): log for log in found}
    for key, mark in marks.items():
        if not mark.end or (mark.epoch == layout.ROUTING_EPOCH) != is_routing:
            continue
        log_id, number = key
        log = known.get(log_id)
        if log is None:
            directory = os.path.join(root, log_id)
            description = os.path.join(directory, layout.DESCRIPTION)
            if not os.path.isdir(directory):
                yield key, directory, "this folder of a log is missing"
            elif not os.path.exists(description):
                yield key, description, "the file is missing"
        elif number >= log.partitions:
            text = f"the file knows no partition {number}, only {log.partitions}"
            yield key, os.path.join(log.directory, layout.DESCRIPTION), text
        elif wanted(log, options) and not os.path.isdir(os.path.join(log.directory, str(number))):
            yield key, os.path.join(log.directory, str(number)), "this folder of a partition is missing"


def wanted(log: Described, options: ReadOptions) -> bool:
    """Whether the options select the log."""
    selection = options.selection
    if selection.vhosts is not None and log.vhost not in selection.vhosts:
        return False
    return not log.queue or selection.queues is None or log.queue in selection.queues


def check_names(nodes: Iterable[Node], found: list[Described], options: ReadOptions) -> None:
    """Check that the virtual hosts, queues and partitions named by the options exist.

    Raises:
        OptionError: one does not; the text has the nearest name.
    """
    selection = options.selection
    for vhost in sorted(selection.vhosts or ()):
        known = {log.vhost for log in found}
        if vhost not in known:
            # It may have only logs of the other table.
            known |= {
                log.vhost
                for node in nodes
                for table in ("routing", "messages")
                for log in discover(node, table)
            }
            if vhost not in known:
                raise OptionError(unknown("vhosts", "virtual host", vhost, known))
    chosen = [log for log in found if wanted(log, options)]
    if options.table == "messages":
        known = {log.queue for log in found if selection.vhosts is None or log.vhost in selection.vhosts}
        for queue in sorted(selection.queues or ()):
            if queue not in known:
                raise OptionError(unknown("queues", "durable queue", queue, known))
    most = max((log.partitions for log in chosen), default=0)
    for number in sorted(selection.partitions or ()):
        if chosen and number >= most:
            raise OptionError(
                f"option 'partitions': there is no partition {number}; there are 0 to {most - 1}"
            )


def unknown(option: str, what: str, name: str, known: set[str]) -> str:
    """The error text for an unknown name; ``what`` is the kind of thing."""
    text = f"option {option!r}: there is no {what} {name!r}"
    listing = "these logs name none" if not known else nearest(name, sorted(known), _LISTED_MAX)
    return f'{text}; {listing} (a name with a comma or a blank at its ends is written as JSON: ["a,b"])'


def _directories(names: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for given in names:
        # Spark turns /x into file:/x, and users write file:///x.
        name = "/" + given.removeprefix("file:").lstrip("/") if given.startswith("file:/") else given
        if "://" in name:
            raise NotADataDirectory(f"{name}: only folders of the local file system (or mounted) can be read")
        if glob.has_magic(name) and not os.path.isdir(name):
            matches = sorted(glob.glob(name))
            if not matches:
                raise NotADataDirectory(f"{name}: nothing matches; name the folder given to --data-dir")
            found += matches
        else:
            found.append(name)
    return list(dict.fromkeys(os.path.abspath(name) for name in found))


def read_stamp(directory: str) -> str:
    """The node id of a data directory.

    Raises:
        NotADataDirectory, FormatVersionError: it is not a broker's data directory, or has another format
            version.
    """
    advice = "name the folder given to `amqp-router serve --data-dir`"
    if not os.path.isdir(directory):
        is_there = "is not a directory" if os.path.exists(directory) else "does not exist"
        raise NotADataDirectory(f"{directory} {is_there}; {advice}")
    path = os.path.join(directory, layout.STAMP)
    try:
        with open(path, encoding="utf-8") as file:
            stamp = json.load(file)
        found, node = int(stamp["layout"]), str(stamp["store_id"])
    except FileNotFoundError:
        raise NotADataDirectory(
            f"{directory} is not a data directory (it has no file {layout.STAMP}); {advice}"
        ) from None
    except PermissionError:
        raise NotADataDirectory(f"{directory}: permission denied; read it as the broker's user") from None
    except (ValueError, KeyError, TypeError):
        raise NotADataDirectory(f"{path} is damaged; restore it from a backup") from None
    if found != layout.DATA_LAYOUT:
        raise FormatVersionError(path, found, layout.DATA_LAYOUT)
    return node


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _description(directory: str) -> dict[str, Any] | None:
    """The content of ``log.json``; None if there is none (yet)."""
    path = os.path.join(directory, layout.DESCRIPTION)
    try:
        with open(path, encoding="utf-8") as file:
            about = json.load(file)
        version = about["version"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        raise CorruptLog(path, 0, 0, "is damaged; a start of the broker makes it anew") from None
    if version not in range(layout.LOG_VERSION + 1):
        raise FormatVersionError(path, version, layout.LOG_VERSION)
    return dict(about)
