"""Cuts the end of a log, which is for followers and tests only."""

from __future__ import annotations

from ...errors import CorruptLog, LogFailed
from ...files import Disk, join, read_file, replace_file
from ..format.checkpoint import FILE_NAME, NODE_FILE_NAME, LogState, newest, read_checkpoint, write_checkpoint
from ..sync.log_sync import LogSync
from .cutting import cut_all
from .queue_log import QueueLog
from .recovery import recover


def truncate(
    log: QueueLog, sync: LogSync, disk: Disk, data_dir: str, end: int, *, keep_as_orphan: bool
) -> None:
    """Cut off every batch that reaches ``end`` or beyond, and fold the rest again.

    The new end is that of the last batch completely below ``end``. The cut is durable when this returns. The
    log must not serve consumers. With ``keep_as_orphan`` a file keeps what is cut.

    Raises:
        LogFailed: settles below ``end`` are folded into a checkpoint above it and cannot be undone (nothing
            has changed); or the cut could not be made (the log is fenced).
    """
    _settle_down(log, sync, end)
    log.batches.drop()
    log.dirty = log.settles_dirty = log.checkpoints.is_due = False
    log.reader.forget()
    try:
        sync.release(log)
        _cut(log, disk, data_dir, end, keep_as_orphan)
        sync.marks.set(log)
    except (OSError, CorruptLog) as error:
        # Without an error number, because a half cut log must not continue.
        failure = LogFailed(str(error))
        log.fail(failure)
        raise failure from error


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
    elif end < log.checkpoints.offset:
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


def _cut(log: QueueLog, disk: Disk, data_dir: str, end: int, keep_as_orphan: bool) -> None:
    partition = log.partition
    directory = partition.directory
    state: LogState | None = None
    if log.checkpoints.offset:
        # An older checkpoint is not enough: cleaning may have removed settles that it does not have.
        for path in (join(directory, FILE_NAME), join(data_dir, NODE_FILE_NAME)):
            for found in read_checkpoint(disk, path)[1]:
                if (found.incarnation, found.recovery_offset) == (log.incarnation, log.checkpoints.offset):
                    # Both may have that offset, but the older one may name segments that are gone.
                    state = newest(found, state)
        if state is None:
            raise CorruptLog(directory, 0, f"the checkpoint at offset {log.checkpoints.offset} is missing")
    partition.reset()
    epoch, floor = log.epoch, log.redelivered_floor
    report = recover(log, disk, state, clean=False, limit=end)
    log.writer.sync()
    log.epoch = max(log.epoch, epoch + 1)
    log.redelivered_floor = min(floor, log.end)
    # The checkpoint comes first. Because of its epoch, the batches above it are ignored from now on, both in
    # a journal and, if the cut is interrupted, in the segments.
    write_checkpoint(disk, join(directory, FILE_NAME), [log.pack_state()], clean=False, now_us=0)
    log.checkpoints.offset = log.end
    if not report.cut_path:
        return
    if keep_as_orphan:
        tail = read_file(disk, report.cut_path)[report.cut_position :]
        tail += b"".join([read_file(disk, path) for path in report.cut_segments])
        replace_file(disk, join(directory, f"orphan-{log.end:020d}-{log.epoch}.log"), tail)
    cut_all(disk, directory, report)
