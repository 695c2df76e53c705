"""One sync of a whole file system in place of one for each of many logs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...files import Disk, FileSystem
from .writer import PartitionWriter

logger = logging.getLogger(__name__)


class SyncTogether:
    """Makes what many writers have written durable at once; until ``open`` it does nothing.

    An error does not say whose it is. Then each writer has to sync for itself: its own file and directory
    still report what concerns them, since every file that is not synced is open.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file_system: FileSystem | None = None

    def open(self, directory: str) -> None:
        """Use the file system of ``directory``. Errors of write-back are reported from here on.

        Raises:
            OSError: the directory cannot be opened.
        """
        self._file_system = self._disk.file_system(directory)

    @property
    def is_available(self) -> bool:
        """Whether the file system is known to make everything durable by one sync."""
        return self._file_system is not None

    def sync(self, writers: Sequence[PartitionWriter]) -> None:
        """Sync ``writers``; those that are not ``CLEAN`` afterwards need a sync of their own."""
        if self._file_system is None:
            # Then those syncs find less to write.
            self._disk.flush_all()
            return
        try:
            self._file_system.sync()
            for writer in writers:
                if writer.failed is None and self._file_system.holds(writer.directory):
                    writer.synced_whole()
        except OSError as error:
            logger.warning("logs are synced one by one: %s", error)

    def close(self) -> None:
        """Let go of the file system."""
        if self._file_system is not None:
            self._file_system.close()
            self._file_system = None
