"""Bugs planted into the log, one at a time, to see that the model finds each.

Every entry is a textual change; ``test_planted.py`` makes it in a copy of the tree and walks seeds until one
fails. One that survives means that the model has gone blind somewhere.
"""

from __future__ import annotations

from tests.persistence.log.world import SMALL_ROUNDS
from tests.planting import Planted

LOG = "persistence/log/"
ROUTING_TEST = "tests/persistence/log/routing/test_routing_log.py"

PLANTED = [
    Planted(
        "a new segment's name is not synced",
        LOG + "sync/writer.py",
        "                self._disk.sync_directory(self.directory)",
        "                pass",
    ),
    Planted(
        "a new log's directory is not synced",
        LOG + "sync/writer.py",
        "        self._disk.sync_directory(parent(queue_directory))",
        "        pass",
    ),
    Planted(
        "confirmed without a sync",
        LOG + "sync/committer.py",
        "            try:\n                submission.writer.sync()\n",
        "            try:\n                pass\n",
    ),
    Planted(
        "a checkpoint is written before the segment it speaks of is synced",
        LOG + "sync/committer.py",
        "        writer.create()\n        writer.sync()\n",
        "        writer.create()\n",
    ),
    Planted(
        "segments are removed before the checkpoint is durable",
        LOG + "format/checkpoint.py",
        "replace_file(disk, path, pack_file(parts, clean=clean, now_us=now_us))",
        "replace_file(disk, path, pack_file(parts, clean=clean, now_us=now_us), durable=False)",
    ),
    Planted(
        "a segment with a live message is removed",
        LOG + "queue/gone.py",
        "        return segment.live == 0\n",
        "        return segment.live <= 1\n",
    ),
    Planted(
        "a log that keeps its messages for a time has them rewritten away",
        LOG + "queue/partition.py",
        "                and self.gone.is_sparse(segment, options.clean_live_ratio)\n",
        "                and 0 < segment.live < segment.records * options.clean_live_ratio\n",
        test="tests/persistence/log/queue/test_gone.py",
    ),
    Planted(
        "a log that keeps its messages for a time drops settled segments",
        LOG + "queue/partition.py",
        "removed = [s for s in self._closed() if self.gone.is_gone(s)]",
        "removed = [s for s in self._closed() if s.live == 0]",
        test="tests/persistence/log/queue/test_gone.py",
    ),
    Planted(
        "the epoch is not raised at start",
        LOG + "queue/batches.py",
        "self.epoch = max(state.epoch, self._previous_epoch) + 1",
        "self.epoch = max(state.epoch, self._previous_epoch)",
    ),
    Planted(
        "the journal is not replayed",
        LOG + "queue/catalog.py",
        "journal=self._last.entries(incarnation)",
        "journal=()",
    ),
    Planted(
        "the journal is removed before its logs are synced",
        LOG + "sync/journal.py",
        "                elif writer.dirty:",
        "                elif False:",
    ),
    Planted(
        "a sync of the file system is only said to be done",
        LOG + "sync/together.py",
        "            self._file_system.sync()\n",
        "",
    ),
    Planted(
        "logs whose file system reported an error count as synced",
        LOG + "sync/together.py",
        """            self._file_system.sync()
""",
        """            try:
                self._file_system.sync()
            except OSError:
                pass
""",
        test="tests/persistence/log/sync/test_together.py",
    ),
    Planted(
        "the journal of a log that failed is removed",
        LOG + "sync/journal.py",
        "            if not oldest.is_kept:",
        "            if True:",
        seeds=400,
        mix=1,
    ),
    Planted(
        "a dirty descriptor is closed without a sync",
        LOG + "sync/writer.py",
        "        file.sync()\n        self._synced = self._position\n",
        "        self._synced = self._position\n",
    ),
    Planted(
        "a failed round is confirmed",
        LOG + "sync/log_sync.py",
        "            if submission.error is not None:\n                self._submission_failed",
        "            if submission.error is not None and False:\n                self._submission_failed",
    ),
    Planted(
        "what a failed sync may have dropped is not written again",
        LOG + "sync/writer.py",
        "        self._write_again(file)\n",
        "",
        test="tests/persistence/log/sync/test_healing.py",
    ),
    Planted(
        "a log that goes on leaves out what it could not write",
        LOG + "queue/queue_log.py",
        "            submission.batches = batches.tail.all()\n",
        "            submission.batches = batches.tail.all()[1:]\n",
    ),
    Planted(
        "a log that goes on writes behind what half of a write left",
        LOG + "sync/writer.py",
        "            self._position = first.position\n",
        "            self._position = max(self._position, first.position)\n",
    ),
    Planted(
        "segments of a checkpoint that failed are never removed",
        LOG + "sync/checkpoints.py",
        "        self._unremoved += removed\n",
        "",
        test="tests/persistence/log/sync/test_healing.py",
    ),
    Planted(
        "what a killed process left is not synced",
        LOG + "queue/catalog.py",
        "        if log.writer.dirty:\n            self._unsynced.append(log)\n        else:\n"
        "            self._opened(log)\n",
        "        self._opened(log)\n",
        test="tests/persistence/log/queue/test_recovery.py",
    ),
    Planted(
        "a mark speaks of the segments although a journal has the log",
        LOG + "queue/recovery.py",
        "        if is_journal_whole and not journal:\n",
        "        if is_journal_whole:\n",
        test="tests/persistence/log/queue/test_recovery.py",
    ),
    Planted(
        "what a failed sync may have dropped is not written again",
        LOG + "queue/recovery.py",
        "        _rewrite(disk, active, report.synced_position)",
        "        pass",
        mix=1,
    ),
    Planted(
        "after a crash nothing is marked redelivered",
        LOG + "queue/queue_log.py",
        "self.redelivered_floor = self.end if unclean else state.redelivered_floor",
        "self.redelivered_floor = state.redelivered_floor",
    ),
    Planted(
        "a clean stop's mark is kept after the start",
        LOG + "queue/last_process.py",
        "write_checkpoint(disk, path, parts, clean=False, now_us=0)",
        "write_checkpoint(disk, path, parts, clean=True, now_us=0)",
    ),
    Planted(
        "settles are written before the messages they settle",
        LOG + "queue/batches.py",
        """        if self._builder.count:
            self._close_messages()
        if self._runs.count:
            self._place_settles()
""",
        """        if self._runs.count:
            self._place_settles()
        if self._builder.count:
            self._close_messages()
""",
    ),
    Planted(
        "a purge forgets what it must keep",
        LOG + "queue/fold.py",
        "settles.purge(control.up_to, control.kept)",
        "settles.purge(control.up_to, [])",
    ),
    Planted(
        "a checkpoint keeps places above its offset",
        LOG + "format/checkpoint.py",
        "    settles.cut(state.recovery_offset)\n",
        "",
    ),
    Planted(
        "returns are not in the checkpoint",
        LOG + "format/checkpoint.py",
        "    count, returns = settles.pack_returns()",
        "    count, returns = 0, b''",
    ),
    Planted(
        "a sync from before a truncation counts",
        LOG + "queue/truncation.py",
        "    log.batches.generation += 1\n",
        "",
        test="tests/persistence/log/queue/test_queue_log.py",
    ),
    Planted(
        "a truncated tail comes back from the journal",
        LOG + "queue/recovery.py",
        "        if header.base < end or header.epoch < epoch:",
        "        if header.base < end:",
        seeds=400,
        mix=4,
    ),
    Planted(
        "a rewritten segment does not wait for the checkpoint of its settles",
        LOG + "queue/cleaner.py",
        "self.is_written and self.log.checkpoints.durable >= self._checkpoint",
        "self.is_written",
        test="tests/persistence/log/queue/test_cleaner.py",
    ),
    Planted(
        "a torn tail is taken for rot",
        LOG + "format/scanner.py",
        "                and header.unsynced_back < at\n",
        "",
    ),
    Planted(
        "the mark is stored before the sync",
        LOG + "sync/marks.py",
        "log.durable, base, position, log.start)",
        "log.end, base, position, log.start)",
        test="tests/persistence/log/sync/test_marks.py",
    ),
    Planted(
        "recovery does not look at the marks",
        LOG + "queue/completeness.py",
        "    return max(known, mark.end)",
        "    return known",
        test="tests/persistence/log/queue/test_recovery.py",
    ),
    Planted(
        "a start forgets the mark of a log that it cannot open",
        LOG + "queue/catalog.py",
        "                    self.sync.marks.keep(incarnation, 0, mark)",
        "                    pass",
        test="tests/persistence/log/queue/test_recovery.py",
    ),
    Planted(
        "the mark from before a truncation is looked at",
        LOG + "queue/completeness.py",
        "    if mark is None or (state is not None and mark.epoch < state.epoch):",
        "    if mark is None:",
        test="tests/persistence/log/queue/test_recovery.py",
    ),
    Planted(
        "a journal is removed before the marks are synced",
        LOG + "sync/journal.py",
        "                    sync_marks(self._disk, self._directory)\n",
        "",
        test="tests/persistence/log/queue/test_recovery.py",
    ),
    Planted(
        "a deleted log keeps its mark",
        LOG + "sync/log_sync.py",
        "        self.marks.clear(log)\n        self._removals.add(log.writer)",
        "        self._removals.add(log.writer)",
        test="tests/persistence/log/sync/test_marks.py",
    ),
    Planted(
        "names of the routing log are not synced before the batches that use them",
        LOG + "routing/writer.py",
        "            file.write([names], self._names_position)\n            file.sync()\n",
        "            file.write([names], self._names_position)\n",
        test=ROUTING_TEST,
    ),
    Planted(
        "the routing log is marked as synced when it is only written",
        LOG + "routing/writer.py",
        "                self._files.get(self.segment.path).sync()\n",
        "                pass\n",
        test=ROUTING_TEST,
    ),
    Planted(
        "ids of the last segment are used in the next",
        LOG + "routing/names.py",
        "        self.serial += 1\n",
        "        self.serial = 1\n",
        test=ROUTING_TEST,
    ),
    Planted(
        "publishes of different sizes are one run",
        LOG + "routing/recorder.py",
        "            and size == self._size\n",
        "",
        test=ROUTING_TEST,
    ),
    Planted(
        "a damaged segment of the routing log is gone on in",
        LOG + "format/scanner.py",
        "    if witness >= 0:\n",
        "    if False:\n",
        test=ROUTING_TEST,
    ),
    Planted(
        "a small round forgets that the segment's name is not synced",
        LOG + "sync/writer.py",
        "        if not self.created or self.failed is not None or self._names_dirty:",
        "        if not self.created or self.failed is not None:",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the journal forgets the logs of a small round",
        LOG + "sync/journal.py",
        "        self._cover(submissions, self._quick_size)",
        "        self._cover((), self._quick_size)",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round overwrites the one before it in the journal",
        LOG + "sync/journal.py",
        "        self._cover(submissions, self._quick_size)",
        "        self._cover(submissions, 0)",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round by the journal leaves its logs clean",
        LOG + "sync/writer.py",
        "        self.dirty = True\n        self._position = batches[-1]",
        "        self._position = batches[-1]",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round while the worker has a job",
        LOG + "sync/jobs.py",
        "self.flusher is not None and self.worker.is_idle",
        "self.flusher is not None",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a job for the worker while the flusher has one",
        LOG + "sync/jobs.py",
        "        if self.is_flushing:\n            self._deferred.append(job)",
        "        if False:\n            self._deferred.append(job)",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "what waits for the end of a small round is forgotten",
        LOG + "sync/jobs.py",
        "        for job in deferred:\n            self.beside(job)\n",
        "",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round that failed is confirmed",
        LOG + "sync/log_sync.py",
        "submissions[0].writer.quick_done(error)",
        "submissions[0].writer.quick_done(0)",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round that failed in the journal is confirmed",
        LOG + "sync/log_sync.py",
        "        elif error == 0:\n            self.committer",
        "        elif True:\n            self.committer",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round is written to the beginning of the journal",
        LOG + "sync/journal.py",
        "self._file.fileno(), self._size, pieces",
        "self._file.fileno(), 0, pieces",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "settling down does not wait for a small round",
        LOG + "sync/log_sync.py",
        "        error = self.jobs.flushed(wait=True)\n",
        "        error = -1\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "settling down begins another round",
        LOG + "sync/log_sync.py",
        "            self._end_quickly(error, self._finish)\n",
        "            self._end_quickly(error, self._finished)\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the flusher syncs the first file of a job",
        LOG + "sync/_flush.py",
        "        system.fdatasync(fd) if",
        "        system.fdatasync(writes[0][0]) if",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the flusher does not sync",
        LOG + "sync/_flush.py",
        '        system.fdatasync(fd) if hasattr(system, "fdatasync") else system.fsync(fd)\n',
        "",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the flusher does not go on after a part of a write",
        LOG + "sync/_flush.py",
        "            while done < len(data):",
        "            if done < len(data):",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a journal that is kept is overwritten",
        LOG + "queue/catalog.py",
        "        self.sync.committer.journal.go_on_after(journals)\n",
        "",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "journals are removed though a log did not open",
        LOG + "queue/last_process.py",
        "        if self._journal_paths and not set(wanted) & set(self._journal):",
        "        if self._journal_paths:",
        mix=SMALL_ROUNDS,
    ),
]
