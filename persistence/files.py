"""The disk as a port, and the real one behind it.

All access to files goes through ``Disk``. Tests replace it by a simulated disk that fails, or loses unsynced
bytes and directory entries. Errors are ``OSError``. Callers must follow the rules of POSIX: data is durable
after ``File.sync``, a name (created, renamed, removed) after ``Disk.sync_directory`` of its directory.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from ._flush import Flusher as RealFlusher
from .file_system import open_file_system
from .plan import Flusher

#: Limits of one ``pwritev``: buffers, and bytes. Larger writes stall (4 MiB once took 12 ms).
_IOVEC_MAX = 512
_WRITE_BYTES_MAX = 1 << 20
#: Files that make room in a full cache: so many, if that is not more than half of it, and at least an eighth.
_CLOSED_AT_ONCE = 16


class File(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor, for the disk's flusher; -1 if it has none."""

    def size(self) -> int: ...

    def write(self, pieces: Sequence[bytes | memoryview], position: int) -> None:
        """Write ``pieces`` one after the other from ``position`` on, completely or with an error."""

    def read(self, count: int, position: int) -> bytes:
        """Up to ``count`` bytes; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make the content durable (fdatasync)."""

    def truncate(self, size: int) -> None: ...

    def will_need(self, position: int, count: int) -> None:
        """A hint that this range is read soon."""

    def close(self) -> None: ...


class Mapping(Protocol):
    """A file mapped into memory. Readers see stores at once; the system writes them to disk at some later
    time.
    """

    def store(self, data: bytes, position: int) -> None:
        """Put ``data`` at ``position``, inside the file."""

    def close(self) -> None: ...


class FileSystem(Protocol):
    """A file system as a whole."""

    def holds(self, path: str) -> bool: ...

    def sync(self) -> None:
        """Make all content and all names on it durable, or report an error since it was opened."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A file system. Paths are absolute or relative strings with ``/``."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File: ...

    def map(self, path: str, size: int) -> Mapping:
        """Map a file, made if missing, at ``size`` bytes; the space of new (zero) bytes is allocated."""

    def make_directory(self, path: str) -> None:
        """Create one directory (mode 0700); nothing happens if it is there."""

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it does not exist."""

    def exists(self, path: str) -> bool: ...

    def rename(self, old: str, new: str) -> None: ...

    def unlink(self, path: str) -> None:
        """Remove a file; nothing happens if it is gone."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it; nothing happens if it is gone."""

    def sync_directory(self, path: str) -> None: ...

    def file_system(self, path: str) -> FileSystem | None:
        """The file system of a directory, to sync all of it; None if that would not guarantee durability."""

    def flush_all(self) -> None:
        """Start writing back everything, which makes the many syncs that follow quick. It makes nothing
        durable.
        """

    def flusher(self) -> Flusher | None:
        """A new thread that carries out small plans; None if this disk has none."""


def join(*parts: str) -> str:
    """A path from its parts."""
    return "/".join(parts)


def parent(path: str) -> str:
    """The directory of a path."""
    return path.rpartition("/")[0]


class RealFile:
    """A file descriptor, and the path for error texts."""

    __slots__ = ("_fd", "_path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def write(self, pieces: Sequence[bytes | memoryview], position: int) -> None:
        pending: list[bytes | memoryview] = []
        size = 0
        for piece in pieces:
            if len(piece) > _WRITE_BYTES_MAX:
                view = memoryview(piece)
                for start in range(0, len(piece), _WRITE_BYTES_MAX):
                    part = view[start : start + _WRITE_BYTES_MAX]
                    position = self._flush(pending, size, position)
                    position = self._flush([part], len(part), position)
                    pending, size = [], 0
                continue
            if size + len(piece) > _WRITE_BYTES_MAX or len(pending) == _IOVEC_MAX:
                position = self._flush(pending, size, position)
                pending, size = [], 0
            pending.append(piece)
            size += len(piece)
        self._flush(pending, size, position)

    def _flush(self, pending: list[bytes | memoryview], size: int, position: int) -> int:
        while size > 0:
            try:
                written = os.pwritev(self._fd, pending, position)
            except OSError as error:
                error.filename = self._path
                raise
            position += written
            size -= written
            while written and written >= len(pending[0]):
                written -= len(pending[0])
                del pending[0]
            if written:
                pending[0] = memoryview(pending[0])[written:]
        return position

    def read(self, count: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, count, position)
            if len(data) == count or not data:
                return data
            # A signal or a large count may shorten a single read. The result may be short only at the file's
            # end.
            parts = [data]
            got = len(data)
            while got < count:
                data = os.pread(self._fd, count - got, position + got)
                if not data:
                    break
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            error.filename = self._path
            raise

    def sync(self) -> None:
        try:
            if hasattr(os, "fdatasync"):
                os.fdatasync(self._fd)
            else:
                os.fsync(self._fd)
        except OSError as error:
            error.filename = self._path
            raise

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            error.filename = self._path
            raise

    def will_need(self, position: int, count: int) -> None:
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, position, count, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        os.close(self._fd)


class RealMapping:
    """A shared mapping, which holds a descriptor."""

    __slots__ = ("_map",)

    def __init__(self, fd: int, size: int) -> None:
        self._map = mmap.mmap(fd, size)

    def store(self, data: bytes, position: int) -> None:
        self._map[position : position + len(data)] = data

    def close(self) -> None:
        self._map.close()


#: Modes of files and directories before the process's umask. The group may read, for other programs that read
#: logs (Spark); others may not.
FILE_MODE, DIRECTORY_MODE = 0o640, 0o750


class RealDisk:
    """The operating system's files."""

    def open(self, path: str, *, write: bool = False, create: bool = False) -> RealFile:
        flags = os.O_RDWR if write else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return RealFile(os.open(path, flags | os.O_CLOEXEC, FILE_MODE), path)

    def map(self, path: str, size: int) -> RealMapping:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            old = os.fstat(fd).st_size
            # Without allocated space, a store would raise a signal (SIGBUS) instead of an error.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)
            elif old < size:
                os.pwrite(fd, bytes(size - old), old)
            return RealMapping(fd, size)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(fd)

    def make_directory(self, path: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, DIRECTORY_MODE)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def file_system(self, path: str) -> FileSystem | None:
        return open_file_system(path)

    def flush_all(self) -> None:
        os.sync()

    def flusher(self) -> Flusher:
        return RealFlusher()


def read_file(disk: Disk, path: str) -> bytes:
    """The whole content of a file; ``FileNotFoundError`` if it is not there."""
    file = disk.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def replace_file(disk: Disk, path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace the file at ``path`` by ``data``. After a crash it has the old or the new content, never a
    mixture.
    """
    temporary = path + ".tmp"
    file = disk.open(temporary, write=True, create=True)
    try:
        file.truncate(0)
        file.write([data], 0)
        if durable:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    if durable:
        disk.sync_directory(parent(path))


class FileCache:
    """Open files by path. The least recently used are closed beyond a limit, or if the process has no
    descriptors.

    ``before_close`` is called with the path of a file that is about to be closed. A writer syncs a dirty file
    there, because errors of later write-back could not be seen without the descriptor. Several files are
    closed together. ``before_closing`` is called with their paths first, so that they can share one sync.
    """

    def __init__(
        self,
        disk: Disk,
        limit: int,
        *,
        write: bool,
        before_close: Callable[[str, File], None] | None = None,
        before_closing: Callable[[list[str]], None] | None = None,
    ) -> None:
        self._disk = disk
        self._limit = limit
        self._write = write
        self._before_close = before_close
        self._before_closing = before_closing
        self._files: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str, *, create: bool = False) -> File:
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        if len(self._files) >= self._limit:
            # Many at once, for one sync of all of them.
            many = max(self._limit // 8, min(self._limit // 2, _CLOSED_AT_ONCE))
            self._make_room(max(many, len(self._files) - self._limit + 1))
        file = self._open(path, write=self._write, create=create)
        self._files[path] = file
        return file

    def open_own(self, path: str) -> File:
        """A further descriptor of the file, which the caller closes."""
        return self._open(path)

    def __len__(self) -> int:
        return len(self._files)

    def _open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        try:
            return self._disk.open(path, write=write, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                raise
        self._make_room(len(self._files) // 2 + 1)
        return self._disk.open(path, write=write, create=create)

    def _make_room(self, count: int) -> None:
        paths = list(islice(self._files, count))
        if self._before_closing is not None:
            self._before_closing(paths)
        for path in paths:
            self._close(path)

    def __contains__(self, path: str) -> bool:
        """Whether the file is open, so that ``get`` neither opens nor closes one."""
        return path in self._files

    def _close(self, path: str) -> None:
        file = self._files.pop(path)
        try:
            if self._before_close is not None:
                self._before_close(path, file)
        finally:
            file.close()

    def drop(self, path: str) -> None:
        """Forget a file that is removed or replaced, without syncing it."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def drop_below(self, directory: str) -> None:
        """As ``drop``, for every open file below ``directory``."""
        for path in [path for path in self._files if path.startswith(directory + "/")]:
            self.drop(path)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
