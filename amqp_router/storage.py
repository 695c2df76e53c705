"""What a node keeps on disk apart from its definitions: the logs of its queues, and its routing logs."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import Any

from amqp_router import process
from amqp_router.protocol.tick import Tick
from persistence.errors import LogsWithoutDefinitions
from persistence.files import RealDisk
from persistence.log.queue.catalog import Catalog
from persistence.log.routing.logs import RoutingLogs, RoutingOptions
from persistence.log.sync._flush import Flusher
from persistence.log.sync.log_sync import LogSync
from persistence.memory import MemoryBudget
from persistence.options import LogOptions


class Storage:
    """The logs of one node.

    Args:
        settings: The node's options.
        loop: The event loop; ``post`` runs a call on it from any thread, ``enter`` as a handler.
        boot_id: Names this start in what it writes.
        store_id: Names the data directory for ever.
    """

    def __init__(
        self,
        settings: Any,
        loop: asyncio.AbstractEventLoop,
        *,
        tick: Tick,
        budget: MemoryBudget,
        post: Callable[[Callable[[], None]], Any],
        enter: Callable[..., None],
        wall_us: Callable[[], int],
        has_room_for_routing: Callable[[], bool],
        boot_id: str,
        store_id: str,
    ) -> None:
        self.data_dir = str(settings.data_dir)
        self.disk = disk = RealDisk()
        self._loop = loop
        options = LogOptions(
            segment_bytes_max=settings.segment_bytes,
            settle_delay_ms=settings.settle_sync_ms,
            descriptors_max=process.log_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        )
        self._flusher = Flusher()
        self.sync = LogSync(
            disk,
            self.data_dir,
            options,
            post=post,
            call_later=loop.call_later,
            wall_us=wall_us,
            flusher=self._flusher,
        )
        loop.add_reader(self._flusher.fileno(), enter, self.sync.flushed)
        self.catalog = Catalog(
            self.data_dir, self.sync, options, budget, disk=disk, boot_id=bytes.fromhex(boot_id)
        )
        #: None if it is switched off.
        self.routing: RoutingLogs | None = None
        if settings.routing_log:
            self.routing = RoutingLogs(
                disk,
                self.data_dir,
                RoutingOptions(
                    partitions=settings.routing_partitions,
                    bytes_max=settings.routing_log_bytes,
                    days=settings.routing_log_days,
                ),
                tick=tick,
                marks=self.sync.marks,
                post=post,
                call_later=loop.call_later,
                wall_us=wall_us,
                has_room=has_room_for_routing,
                node=store_id,
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
        self._loop.remove_reader(self._flusher.fileno())
        if self.routing is not None:
            self.routing.stop()
        self.catalog.stop()
