"""Cuts the end of a log. The worker does it, and a crash in the middle is finished by the next start.

The state at the new end is computed from the newest checkpoint. A checkpoint of that state, which says that
what lies behind it is to be cut, comes before the cut, and one without that before the next batch. Both have
the log's generation, which every truncation raises; so they are newer than all checkpoints before.

A log that is not mirrored is not cut below its checkpoint, since settles that are folded in there cannot be
undone. A copy of another node's log is: it is emptied, and awaits a snapshot of that log
(``awaits_snapshot``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...errors import CorruptLog, LogFailed
from ...files import Disk, join, read_file, replace_file
from ..format.checkpoint import (
    FILE_NAME,
    NODE_FILE_NAME,
    LogState,
    newest,
    pack_log,
    read_checkpoint,
    write_checkpoint,
)
from ..sync.log_sync import LogSync
from ..sync.marks import sync_marks
from .cutting import cut_all
from .queue_log import QueueLog
from .recovery import recover
from .saving import pack_state
from .times import go_on


def truncate(
    log: QueueLog, sync: LogSync, disk: Disk, data_dir: str, end: int, *, keep_as_orphan: bool
) -> None:
    """Cut off every batch that reaches ``end`` or beyond, and fold the rest again. Blocks.

    The new end is that of the last batch completely below ``end``. The cut is durable when this returns. The
    log must not serve consumers. With ``keep_as_orphan`` a file keeps what is cut.

    Raises:
        LogFailed: settles below ``end`` are folded into a checkpoint above it and cannot be undone (nothing
            has changed); or the cut could not be made (the log is fenced).
    """
    _settle_down(log, sync, end)
    _leave(log)
    try:
        sync.release(log)
        watermark = log.high_watermark
        cut(log, disk, data_dir, end, keep_as_orphan)
        _is_cut(log, sync, watermark)
    except (OSError, CorruptLog) as error:
        raise _fence(log, error) from error


def truncate_later(
    log: QueueLog,
    sync: LogSync,
    disk: Disk,
    data_dir: str,
    end: int,
    on_done: Callable[[], None],
    *,
    keep_as_orphan: bool = False,
) -> None:
    """As ``truncate``, of a mirrored log and in the worker; other logs go on meanwhile.

    Nothing may be done with the log before ``on_done`` is called, on the event loop. If the cut could not be
    made, the log is fenced then.
    """
    log.batches.generation += 1
    watermark = log.high_watermark
    _leave(log)
    # It takes no part in rounds, and what is read of it is gone. Nobody hears of this.
    log.failed = LogFailed("the log is being truncated")

    def begin() -> None:
        # All rounds that had batches of this log are over, on the loop, too.
        sync.marks.clear(log)
        sync.jobs.beside(work)

    def work() -> None:
        error: Exception | None = None
        try:
            sync.committer.empty_journal()
            sync_marks(disk, data_dir)
            log.writer.sync()
            log.writer.forget()
            cut(log, disk, data_dir, end, keep_as_orphan)
        except Exception as caught:
            error = caught
        sync.loop.post(partial(done, error))

    def done(error: Exception | None) -> None:
        log.failed = None
        if error is None:
            _is_cut(log, sync, watermark)
        else:
            _fence(log, error)
        on_done()

    sync.jobs.beside(lambda: _post(sync, begin))


def _is_cut(log: QueueLog, sync: LogSync, watermark: int) -> None:
    """Tell who waits: what was cut is refused, and what is left of a log without copies is durable.

    ``watermark`` was the high watermark before.
    """
    sync.marks.set(log)
    if not log.copies.follows:
        go_on(log.batches, log.checkpoints, sync.loop.wall_us())
    log.refuse_from(log.end)
    if log.high_watermark > watermark and log.listener is not None:
        log.listener.on_high_watermark(log)


def _post(sync: LogSync, call: Callable[[], None]) -> None:
    sync.loop.post(call)


def _leave(log: QueueLog) -> None:
    """Forget everything that is not written."""
    log.batches.drop()
    log.saving.held.clear()
    log.due.clear()
    log.checkpoints.is_due = False
    log.reader.forget()


def _fence(log: QueueLog, error: Exception) -> LogFailed:
    # Without an error number, because a half cut log must not continue.
    failure = LogFailed(str(error))
    log.fail(failure)
    return failure


def _settle_down(log: QueueLog, sync: LogSync, end: int) -> None:
    """Wait for the round under way; its batches count only if the truncation to ``end`` is refused.

    Raises:
        LogFailed: it is.
    """
    generation = log.batches.generation
    log.batches.generation += 1
    work = sync.settle_down()
    refusal = ""
    if log.checkpoints.is_unsure:
        refusal = "a checkpoint could not be written yet"
    elif end < log.checkpoints.offset and not log.copies.mirrored:
        refusal = f"offset {end} lies below the checkpoint at {log.checkpoints.offset}"
    if not refusal:
        return
    log.batches.generation = generation
    for submission in work.submissions if work is not None else ():
        if submission.log is log and submission.error is None and submission.end > log.durable:
            # Not counted, they would be written again after an error, into segments that may be gone.
            log.written(submission.end, submission.generation)
            sync.marks.set(log)
    raise LogFailed(refusal)


def newest_checkpoint(log: QueueLog, disk: Disk, data_dir: str) -> LogState | None:
    """The newest durable checkpoint of ``log``; None if it never had one.

    Raises:
        CorruptLog, OSError: it cannot be read.
    """
    state: LogState | None = None
    for path in (join(log.partition.directory, FILE_NAME), join(data_dir, NODE_FILE_NAME)):
        for found in read_checkpoint(disk, path)[1]:
            if (found.incarnation, found.partition) == (log.incarnation, log.number):
                # Both may have the same offset, but the older one may name segments that are gone.
                state = newest(found, state)
    return state


def cut(log: QueueLog, disk: Disk, data_dir: str, end: int, keep_as_orphan: bool) -> None:
    """Make the cut. No round has anything of ``log``, and the journal has no batch of it.

    Raises:
        CorruptLog, OSError: it could not be made.
    """
    partition = log.partition
    directory = partition.directory
    log.writer.make()
    state: LogState | None = None
    if log.checkpoints.offset:
        # An older checkpoint is not enough: cleaning may have removed settles that it does not have.
        state = newest_checkpoint(log, disk, data_dir)
        if state is None:
            raise CorruptLog(directory, 0, f"the checkpoint at offset {log.checkpoints.offset} is missing")
    for segment in partition.segments:
        log.writer.leave(segment)
    partition.reset()
    if state is not None and end < state.recovery_offset:
        _empty(log, disk)
        return
    epoch, floor = log.epoch, log.redelivered_floor
    report = recover(log, disk, state, clean=False, limit=end)
    log.writer.sync()
    if log.copies.mirrored:
        log.batches.epochs.follow()
    else:
        log.epoch = max(log.epoch, epoch + 1)
    log.redelivered_floor = min(floor, log.end)
    path = join(directory, FILE_NAME)
    # The checkpoint comes first: if the cut is interrupted, the start goes on with it.
    parts = [pack_state(log, is_cut=bool(report.cut_path))]
    write_checkpoint(disk, path, parts, clean=False, now_us=log.batches.last_us)
    log.checkpoints.offset = log.end
    if not report.cut_path:
        return
    if keep_as_orphan:
        tail = read_file(disk, report.cut_path)[report.cut_position :]
        tail += b"".join([read_file(disk, path) for path in report.cut_segments])
        replace_file(disk, join(directory, f"orphan-{log.end:020d}-{log.epoch}.log"), tail)
    cut_all(disk, directory, report)
    write_checkpoint(disk, path, [pack_state(log)], clean=False, now_us=log.batches.last_us)


def _empty(log: QueueLog, disk: Disk) -> None:
    """Cut everything: settles below the new end are not known, and messages that they hit may be gone."""
    state = LogState(log.incarnation, log.number)
    state.generation = log.batches.generation
    state.is_cut = state.awaits_snapshot = True
    state.last_us = log.batches.last_us
    path = join(log.partition.directory, FILE_NAME)
    write_checkpoint(disk, path, [pack_log(state)], clean=False, now_us=state.last_us)
    recover(log, disk, state, clean=False)
    log.batches.epochs.follow()
    log.checkpoints.offset = 0
    log.redelivered_floor = 0
