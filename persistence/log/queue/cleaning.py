"""Finds segments with few live messages, and has them rewritten one at a time (``cleaner.py``)."""

from __future__ import annotations

import logging
from functools import partial

from ...errors import is_passing
from ...files import Disk
from ...loop import Timer
from ...options import LogOptions
from ..sync.log_sync import LogSync
from .cleaner import Cleaner
from .queue_log import QueueLog

logger = logging.getLogger(__name__)

#: Seconds between two slices of a cleaning.
_PAUSE_S = 0.005
#: Seconds between two searches for segments to clean.
_CHECK_S = 1.0


class Cleaning:
    """Runs on the event loop; the worker of the sync writes the new files."""

    def __init__(self, disk: Disk, sync: LogSync, options: LogOptions) -> None:
        self._disk = disk
        self._sync = sync
        self._loop = sync.loop
        self._slice_bytes = options.clean_slice_bytes
        self._cleaner: Cleaner | None = None
        self._slice_timer: Timer | None = None
        #: Logs with rounds since the last search for segments to clean.
        self._changed: dict[QueueLog, None] = {}
        self._check_timer: Timer | None = None
        self._stopped = False
        self.segments_cleaned = 0

    def note(self, log: QueueLog) -> None:
        """``log`` may have a segment to clean: look within a second."""
        self._changed[log] = None
        if self._check_timer is None and not self._stopped:
            self._check_timer = self._loop.call_later(_CHECK_S, self._check)

    def _check(self) -> None:
        """Search the logs of the last rounds for a segment to clean, without waiting for a checkpoint."""
        self._check_timer = None
        while self._changed and self._cleaner is None and not self._stopped:
            log = next(iter(self._changed))
            del self._changed[log]
            if not log.deleted:
                self.begin(log)
        if self._changed and not self._stopped:
            self._check_timer = self._loop.call_later(_CHECK_S, self._check)

    def begin(self, log: QueueLog) -> None:
        """Begin to rewrite a segment of ``log`` if one is worth it. A node rewrites one segment at a time."""
        if self._cleaner is None and not self._stopped and not log.copies.awaits_snapshot:
            segment = log.partition.cleanable()
            if segment is not None and segment.end <= log.high_watermark:
                self._cleaner = Cleaner(log, segment)
                self._slice_timer = self._loop.call_later(_PAUSE_S, self._clean)

    def _clean(self) -> None:
        """One slice of the current cleaning."""
        cleaner = self._cleaner
        if cleaner is None or self._stopped:
            return
        if cleaner.is_void:
            self._cleaner = None
            return
        try:
            if not cleaner.step(self._slice_bytes):
                self._slice_timer = self._loop.call_later(_PAUSE_S, self._clean)
                return
        except Exception as error:
            self._cleaner = None
            if is_passing(error):
                logger.warning("cannot rewrite a segment now: %s", error)
            else:
                cleaner.log.fail(error)
            return
        self._sync.jobs.beside(partial(self._write, cleaner))
        self._sync.start_round()

    def _write(self, cleaner: Cleaner) -> None:
        """Runs in the worker."""
        cleaner.write(self._disk)
        self._loop.post(partial(self._written, cleaner))

    def _written(self, cleaner: Cleaner) -> None:
        cleaner.is_written = True
        self.swap()

    def swap(self) -> None:
        """Replace the segment by the cleaned one as soon as that is safe; called after every round."""
        cleaner = self._cleaner
        if cleaner is None or not cleaner.is_written:
            return
        disk = self._disk
        if cleaner.error is None and not cleaner.is_void:
            if not cleaner.is_ready:
                return
            try:
                cleaner.finish(disk)
            except Exception as error:
                cleaner.error = error
            else:
                self.segments_cleaned += 1
                if cleaner.log.failed is None:
                    self._sync.marks.set(cleaner.log)
        self._cleaner = None
        if cleaner.error is not None:
            # The old file is unchanged.
            logger.warning("cannot rewrite a segment: %s", cleaner.error)
        jobs = self._sync.jobs
        jobs.beside(partial(cleaner.discard, disk))
        jobs.beside(partial(self._sync.committer.sync_names, cleaner.segment.directory))
        if cleaner.error is None and not cleaner.is_void:
            self.begin(cleaner.log)

    def stop(self) -> None:
        """Begin no further rewriting."""
        self._stopped = True
        for timer in (self._slice_timer, self._check_timer):
            if timer is not None:
                timer.cancel()
