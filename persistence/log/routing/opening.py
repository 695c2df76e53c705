"""Finds or makes the partitions of a virtual host's routing log, and removes them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial

from amqp_router.protocol.tick import Tick

from ...errors import PersistenceError
from ...files import Disk, FileCache, join, read_file
from ..format.identity import DESCRIPTION_VERSION, DESCRIPTION_VERSIONS, WAY_OUT
from ..sync.marks import log_id, read_marks
from .layout import DIRECTORY, routing_id
from .partition import RoutingPartition
from .recorder import Backlog, Recorder
from .writer import RoutingWriter

logger = logging.getLogger(__name__)


class Opener:
    """Used at a start, and when a virtual host is made or deleted. Partitions are recovered by the caller."""

    def __init__(self, disk: Disk, data_dir: str, tick: Tick, backlog: Backlog, node: str) -> None:
        self.root = join(data_dir, DIRECTORY)
        self._disk = disk
        self._tick = tick
        self._backlog = backlog
        #: The id of the data directory: every node has routing logs of its own.
        self._node = node
        self._files = FileCache(disk, 64, write=True)
        self._marks = read_marks(disk, data_dir)
        #: Directories of deleted virtual hosts that the thread has not removed yet.
        self._removing: set[str] = set()

    def partitions(self, vhost: str, wanted: int, segment_bytes_max: int) -> list[RoutingPartition]:
        """The partitions of a virtual host's log; ``wanted`` is the number of a new one.

        Raises:
            PersistenceError: its description is not of this version, or cannot be read.
        """
        name = routing_id(vhost)
        directory = join(self.root, name)
        count, node = self._described(directory, wanted)
        description = {
            "version": DESCRIPTION_VERSION,
            "kind": "routing",
            "vhost": vhost,
            "partitions": count,
            "node": node,
        }
        found = []
        for number in range(count):
            place = join(directory, str(number))
            recorder = Recorder(place, self._tick, self._backlog, segment_bytes_max)
            writer = RoutingWriter(self._disk, self._files, place, node, description)
            owner = RoutingPartition(name, number, vhost, recorder, writer)
            mark = self._marks.get((log_id(name), number))
            if mark is not None:
                owner.mark = (mark.end, mark.segment, mark.position)
            found.append(owner)
        return found

    def _described(self, directory: str, wanted: int) -> tuple[int, str]:
        """Number of partitions of a routing log, existing or new, and the node in its salt.

        Raises:
            PersistenceError: its description is not of this version, or cannot be read.
        """
        path = join(directory, "log.json")
        try:
            description = json.loads(read_file(self._disk, path))
            version, partitions = description["version"], int(description["partitions"])
        except FileNotFoundError:
            return wanted, self._node
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise PersistenceError(f"{path} cannot be read: {error}") from error
        if version not in DESCRIPTION_VERSIONS or partitions < 1:
            raise PersistenceError(f"{path}: format version {version}, this release reads 0 to 2{WAY_OUT}")
        return partitions, str(description.get("node", self._node))

    def is_removing(self, vhost: str) -> bool:
        """Whether the thread has still to remove the log of a deleted virtual host of this name."""
        return routing_id(vhost) in self._removing

    def removal(self, name: str) -> Callable[[], None]:
        """The job for the thread that removes the directory ``name``."""
        self._removing.add(name)
        return partial(self._remove_files, name)

    def _remove_files(self, name: str) -> None:
        directory = join(self.root, name)
        try:
            self._files.drop_below(directory)
            if self._disk.exists(directory):
                self._disk.remove_tree(directory)
        except OSError as error:
            logger.warning("cannot remove the routing log of a deleted virtual host: %s", error)
        self._removing.discard(name)

    def close(self) -> None:
        """Close all files."""
        self._files.close()
