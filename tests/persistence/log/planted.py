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
        "a log that was written with the clock ahead keeps its last time",
        LOG + "queue/ahead.py",
        "            turned = turn_back(log.batches, log.checkpoints, now_us)\n",
        "            turned = False\n",
    ),
    Planted(
        "a log goes back in time within a segment",
        LOG + "queue/times.py",
        "        partition.roll(batches.closed.end)\n",
        "        partition.active.last_ts = 0\n",
    ),
    Planted(
        "times fall within a segment of a copy",
        LOG + "queue/partition.py",
        "            or batch.base_ts < segment.last_ts\n",
        "",
        test="tests/persistence/log/queue/test_times.py",
    ),
    Planted(
        "a log has the latest of its times, not the last, after a start",
        LOG + "queue/fold.py",
        "    state.last_us = header.base_ts + header.max_ts_delta\n",
        "    state.last_us = max(state.last_us, header.base_ts + header.max_ts_delta)\n",
        test="tests/persistence/log/queue/test_times.py",
    ),
    Planted(
        "a clock that goes to and fro makes a segment each time",
        LOG + "queue/times.py",
        "        if is_crumbled(partition):\n",
        "        if False:\n",
        test="tests/persistence/log/queue/test_times.py",
    ),
    Planted(
        "times fall within a segment of the routing log",
        LOG + "routing/recorder.py",
        "            now_us < segment.last_ts\n            or size",
        "            size",
        test=ROUTING_TEST,
    ),
    Planted(
        "a clock that was behind makes the routing log remove what is young",
        LOG + "routing/retention.py",
        "            latest = max(latest, time_us)\n",
        "            latest = time_us\n",
        test=ROUTING_TEST,
    ),
    Planted(
        "who waits for what a truncation has left hears nothing",
        LOG + "queue/truncation.py",
        "    if log.high_watermark > watermark and log.listener is not None:\n",
        "    if False:\n",
        mix=4,
    ),
    Planted(
        "a new segment's name is not synced",
        LOG + "sync/writer.py",
        "            self._unsynced_names.append(self.directory)\n        # Nothing",
        "            pass\n        # Nothing",
    ),
    Planted(
        "a new log's directory is not synced",
        LOG + "sync/writer.py",
        "            parent(queue_directory),\n        ]",
        "        ]",
    ),
    Planted(
        "confirmed without a sync",
        "persistence/plan.py",
        "            target.file().sync()\n",
        "",
    ),
    Planted(
        "names are not synced when they are made",
        LOG + "sync/committer.py",
        "                submission.writer.sync_names()\n",
        "",
    ),
    Planted(
        "names of new logs are said to be synced before they are made",
        LOG + "sync/committer.py",
        "                    writer.make_ready(batches)\n",
        "                    writer.sync_names()\n                    writer.make_ready(batches)\n"
        "                    writer.synced_whole()\n",
    ),
    Planted(
        "the worker leaves a plan when a part of it is done",
        "persistence/plan.py",
        "            for write in self.writes:\n                write.carry_out()\n",
        "            for write in self.writes[:2]:\n                write.carry_out()\n",
    ),
    Planted(
        "a plan of which a part was carried out counts as done",
        "persistence/_flush.py",
        "        return error.errno or errno.EIO\n",
        "        return 0 if plan.done else error.errno or errno.EIO\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a log is removed while a plan is under way",
        LOG + "sync/removals.py",
        "            self._jobs.beside(partial(self._remove, writers))\n",
        "            self._jobs.worker.submit(partial(self._remove, writers))\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a checkpoint is written before the segment it speaks of is synced",
        LOG + "sync/committer.py",
        "        writer.make()\n        writer.sync()\n",
        "        writer.make()\n",
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
        "removed = [s for s in self._closed() if self.gone.is_gone(s) and s.end <= below]",
        "removed = [s for s in self._closed() if s.live == 0]",
        test="tests/persistence/log/queue/test_gone.py",
    ),
    Planted(
        "the epoch is not raised at start",
        LOG + "queue/epochs.py",
        "self.lead(max(state.epoch, self.last()) + 1)",
        "self.lead(max(state.epoch, self.last()))",
    ),
    Planted(
        "the journal is not replayed",
        LOG + "queue/catalog.py",
        "journal=self._last.entries(key)",
        "journal=()",
    ),
    Planted(
        "the journal is removed before its logs are synced",
        LOG + "sync/journal.py",
        "                elif writer.state is not State.CLEAN:",
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
        "            file.sync()\n            self.synced()\n",
        "            self.synced()\n",
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
        "            submission.batches = batches.closed.tail.all()\n",
        "            submission.batches = batches.closed.tail.all()[1:]\n",
    ),
    Planted(
        "the name of an empty segment that a killed process left counts as durable",
        LOG + "queue/recovery.py",
        "        is_synced = is_synced and active.size > 0\n",
        "",
        test="tests/persistence/log/sync/test_writer.py",
    ),
    Planted(
        "a log that goes on keeps the segments that the failed attempt has begun",
        LOG + "sync/writer.py",
        "            self._remove_after(segment, batches)\n",
        "",
        test="tests/persistence/log/sync/test_healing.py",
    ),
    Planted(
        "a log that goes on writes behind what half of a write left",
        "persistence/plan.py",
        "        self.target.file().write(self.pieces, self.position)\n",
        "        self.target.file().write(self.pieces, max(self.position, self.target.file().size()))\n",
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
        "        if log.writer.state is not State.CLEAN:\n"
        "            self._unsynced.append(log)\n        else:\n            self._opened(log)\n",
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
        "    generation = log.batches.generation\n    log.batches.generation += 1\n",
        "    generation = log.batches.generation\n",
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
        LOG + "queue/queue_log.py",
        "            return self.durable, *partition.synced_place()\n",
        "            return self.end, *partition.synced_place()\n",
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
        "                    self.sync.marks.keep(incarnation, partition, mark)",
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
        "a small round writes to a segment whose name is only said to be synced",
        LOG + "sync/writer.py",
        "            for path in self._unsynced_names:\n",
        "            for path in self._unsynced_names[:0]:\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the journal forgets the logs of a plan",
        LOG + "sync/journal.py",
        "            self._current.covered[writer] = None\n",
        "            pass\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a round overwrites the one before it in the journal",
        LOG + "sync/journal.py",
        "        self._size = end\n",
        "",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the synced position of a log moves before the sync has answered",
        LOG + "sync/writer.py",
        "        self.position = end\n",
        "        self.position = self.synced_to = end\n",
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
        "                submission.writer.failed = submission.error = plan.error\n",
        "",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a small round that failed in the journal is confirmed",
        LOG + "sync/log_sync.py",
        "        if error == 0:\n            plan.carried_out()",
        "        if error == 0 or len(plan.writes) > 1:\n            plan.carried_out()",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "a round is written to the beginning of the journal",
        LOG + "sync/journal.py",
        "return Write(self, self._size, pieces,",
        "return Write(self, 0, pieces,",
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
        "            self._end_plan(error, self._finish)\n",
        "            self._end_plan(error, self._finished)\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the flusher syncs the first file of a job",
        "persistence/_flush.py",
        "        sync(fd)\n",
        "        sync(plan.writes[0].target.file().fileno())\n",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the flusher does not sync",
        "persistence/_flush.py",
        "        sync(fd)\n",
        "",
        mix=SMALL_ROUNDS,
    ),
    Planted(
        "the flusher does not go on after a part of a write",
        "persistence/_flush.py",
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
        ' and not set(wanted) & {key.partition("/")[0] for key in self._journal}:',
        ":",
        mix=SMALL_ROUNDS,
    ),
]
