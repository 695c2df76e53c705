"""One sync for everything on a file system (``syncfs`` of Linux, man page syncfs(2)).

It is as good as a sync of every file and directory on a local file system; one behind a server of its own
(FUSE, network) may make nothing durable by it. So it is used only on those known to. Since Linux 5.8 it
reports errors of write-back since ``open_file_system``.
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
        """Whether ``path`` is on it, too, and not behind a link to another one."""
        return os.stat(path).st_dev == self._device

    def sync(self) -> None:
        """Make everything on it durable, names too.

        Raises:
            OSError: something could not be written since it was opened, whosever it was.
        """
        if ctypes.CDLL(None, use_errno=True).syncfs(self._fd):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), self._path)

    def close(self) -> None:
        os.close(self._fd)


def open_file_system(path: str) -> RealFileSystem | None:
    """The file system of the directory ``path``; None if one sync for all of it is no promise there."""
    if sys.platform != "linux" or _linux() < _LINUX_MIN:
        return None
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(AttributeError):  # a C library without these calls
        library = ctypes.CDLL(None, use_errno=True)
        # A structure that begins with a long, the type; the rest is of no interest.
        about = (ctypes.c_long * 64)()
        if hasattr(library, "syncfs") and not library.fstatfs(fd, about) and about[0] in _KNOWN:
            return RealFileSystem(fd, path)
    os.close(fd)
    return None


def _linux() -> tuple[int, ...]:
    numbers = platform.release().split("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdecimal())
