"""One sync for everything on a file system (``syncfs`` of Linux, man page syncfs(2)).

On a local file system it is as good as a sync of every file and directory. On one with a server of its own
(FUSE, network) it may make nothing durable. Therefore it is used only on file systems in ``_KNOWN``. Since
Linux 5.8 it reports all errors of write-back since ``open_file_system``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys

#: ``f_type`` of statfs(2): ext2 to ext4, XFS, Btrfs, F2FS, tmpfs.
_KNOWN = {0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994}
_LINUX_MIN = (5, 8)


class RealFileSystem:
    """The file system of a directory."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path
        self._device = os.fstat(fd).st_dev

    def holds(self, path: str) -> bool:
        """Whether ``path``, with links followed, is on this file system."""
        return os.stat(path).st_dev == self._device

    def sync(self) -> None:
        """Make all content and all names on the file system durable.

        Raises:
            OSError: any write-back to the file system has failed since it was opened, of any process.
        """
        if ctypes.CDLL(None, use_errno=True).syncfs(self._fd):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), self._path)

    def close(self) -> None:
        os.close(self._fd)


def open_file_system(path: str) -> RealFileSystem | None:
    """The file system of the directory ``path``; None if ``syncfs`` does not guarantee durability there."""
    if sys.platform != "linux" or _linux() < _LINUX_MIN:
        return None
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(AttributeError):  # a C library without these calls
        library = ctypes.CDLL(None, use_errno=True)
        # struct statfs begins with the type, a long. The rest is not used.
        about = (ctypes.c_long * 64)()
        if hasattr(library, "syncfs") and not library.fstatfs(fd, about) and about[0] in _KNOWN:
            return RealFileSystem(fd, path)
    os.close(fd)
    return None


def _linux() -> tuple[int, ...]:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdecimal())
