"""What a node keeps on disk apart from its definitions: the logs of its queues, and its routing logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from amqp_router.cluster import NodeIdentity
from amqp_router.protocol.tick import Tick
from persistence.errors import LogsWithoutDefinitions
from persistence.files import Disk
from persistence.log.queue.catalog import Catalog
from persistence.log.routing.logs import RoutingLogs, RoutingOptions
from persistence.log.sync.log_sync import LogSync
from persistence.loop import Loop
from persistence.memory import MemoryBudget
from persistence.options import LogOptions
from persistence.plan import Flusher
from persistence.worker import Worker


class Threads(NamedTuple):
    """The threads that wait for the disk. A worker that is None is made: a thread of its own."""

    #: The disk's, for small rounds of the sync. Whoever made it calls ``LogSync.flushed`` when it is done.
    flusher: Flusher | None
    #: Does the other rounds.
    worker: Worker | None = None
    #: Writes and removes page files.
    janitor: Worker | None = None


@dataclass(frozen=True, slots=True)
class RoutingSetup:
    """How routes are recorded; ``has_room`` says whether the disk has room for that."""

    options: RoutingOptions
    has_room: Callable[[], bool]


class Storage:
    """The logs of one node. No routes are recorded without ``setup``."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        loop: Loop,
        threads: Threads,
        options: LogOptions,
        setup: RoutingSetup | None,
        *,
        identity: NodeIdentity,
        tick: Tick,
        budget: MemoryBudget,
    ) -> None:
        self.data_dir = data_dir
        self.disk = disk
        self.sync = LogSync(
            disk,
            data_dir,
            options,
            post=loop.post,
            call_later=loop.call_later,
            clock=loop.clock,
            wall_us=loop.wall_us,
            worker=threads.worker,
            flusher=threads.flusher,
        )
        self.catalog = Catalog(
            data_dir,
            self.sync,
            options,
            budget,
            disk=disk,
            boot_id=bytes.fromhex(identity.boot_id),
            janitor=threads.janitor,
        )
        #: None if it is switched off.
        self.routing: RoutingLogs | None = None
        if setup is not None:
            self.routing = RoutingLogs(
                disk,
                data_dir,
                setup.options,
                tick=tick,
                marks=self.sync.marks,
                post=loop.post,
                call_later=loop.call_later,
                wall_us=loop.wall_us,
                has_room=setup.has_room,
                node=identity.store_id,
                account=budget,
            )

    def refuse_logs_of_others(self, definitions: object) -> None:
        """The ``definitions`` are new: logs beside them mean that the old ones are gone.

        Raises:
            LogsWithoutDefinitions: there are some.
        """
        names = self.catalog.incarnations()
        if names:
            raise LogsWithoutDefinitions(
                f"{definitions}: holds no definitions, but {self.data_dir}/queues has the logs of "
                f"{len(names)} queues; restore definitions.sqlite (and its -wal, if any) from a backup, or "
                f"let `amqp-router log adopt --data-dir {self.data_dir}` make definitions of the logs, "
                "or move the folders from queues/ into quarantine/ to begin without them"
            )

    def stop(self) -> None:
        """Write and sync everything, mark the logs clean, release all files."""
        if self.routing is not None:
            self.routing.stop()
        self.catalog.stop()
