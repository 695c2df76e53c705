"""Cuts the end of a log: a torn tail, which is kept in a file, or what a truncation gives up."""

from __future__ import annotations

from errno import EDQUOT, ENOSPC

from ...files import Disk, join, read_file, replace_file
from ..format.checkpoint import LogState
from ..format.segment import INDEX_SUFFIX, SUFFIX
from .report import Report

#: Suffix of files that are not segments; readers ignore them.
ASIDE_SUFFIX = ".cut"


def cut_tail(disk: Disk, directory: str, folded: LogState, report: Report) -> None:
    """Cut what recovery found after the last good batch. Keep it in a file, unless a truncation had cut
    it.
    """
    if not report.cut_path:
        return
    if not report.is_leftover:
        tail = read_file(disk, report.cut_path)[report.cut_position :]
        if any(tail):
            path = join(directory, f"torn-{folded.recovery_offset:020d}-{folded.epoch}{ASIDE_SUFFIX}")
            report.kept_path = _keep_aside(disk, path, tail)
        _cut(disk, report.cut_path, report.cut_position)
    else:
        cut_all(disk, directory, report)


def _keep_aside(disk: Disk, path: str, tail: bytes) -> str:
    """Keep the bytes of a torn tail in a file; returns its path, or "" if the disk is full.

    The bytes were never confirmed, so a full disk must not stop the queue because of them.
    """
    path = free_path(disk, path)
    try:
        replace_file(disk, path, tail)
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        disk.unlink(path + ".tmp")
        return ""
    return path


def free_path(disk: Disk, path: str) -> str:
    """``path``, or ``path`` with a number if that file exists already."""
    number = 1
    free = path
    while disk.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def cut_all(disk: Disk, directory: str, report: Report) -> None:
    """Remove what a truncation cuts, from the end backwards."""
    for path in reversed(report.cut_segments):
        disk.unlink(path.removesuffix(SUFFIX) + INDEX_SUFFIX)
        disk.unlink(path)
    if report.cut_segments:
        # The removal must be durable before the cut. Otherwise a segment might remain that does not follow on
        # the one before it, which is rot.
        disk.sync_directory(directory)
    disk.unlink(report.cut_path.removesuffix(SUFFIX) + INDEX_SUFFIX)
    _cut(disk, report.cut_path, report.cut_position)
    disk.sync_directory(directory)


def _cut(disk: Disk, path: str, position: int) -> None:
    file = disk.open(path, write=True)
    try:
        file.truncate(position)
        file.sync()
    finally:
        file.close()
