"""A disk in memory that forgets what was not synced.

What POSIX promises and no more: file content is durable after ``sync`` of the file, a name after
``sync_directory`` of its directory. ``power_loss`` keeps all that is durable and a seeded part of the rest:
of each file's unsynced writes a prefix with a torn end, or any sectors; of each directory's unsynced changes
a prefix. A failed sync loses the pages for good, as Linux does, and the next one succeeds; a failed write
may have written a part. A descriptor may take a part of a write only, and none is given out twice: who uses
one that is closed is found out.
"""

from __future__ import annotations

import errno
import importlib.util
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import persistence
from persistence.plan import Plan

SECTOR = 64
#: Of a file up to this size a copy is made durable sooner than several writes one by one.
COPIED_BYTES_MAX = 8192
#: Of a write through a descriptor no more is taken at once.
PWRITE_BYTES_MAX = 300


class PowerLoss(BaseException):
    """The machine stops in the middle of an operation."""


class Inode:
    __slots__ = ("durable", "has_lost", "now", "pending")

    def __init__(self) -> None:
        self.now = bytearray()
        self.durable = bytearray()
        #: (position, bytes), or (size, None) for a truncation.
        self.pending: list[tuple[int, bytes | None]] = []
        #: Whether a failed sync has lost writes, which are in ``now`` alone.
        self.has_lost = False

    def make_durable(self) -> None:
        """All pending writes are durable."""
        pending = self.pending
        if len(pending) > 1 and not self.has_lost and len(self.now) <= COPIED_BYTES_MAX:
            self.durable[:] = self.now  # which is what they come to
        else:
            for position, data in pending:
                _apply(self.durable, position, data)
        pending.clear()


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        if position < len(content):
            del content[position:]
        else:
            content.extend(bytes(position - len(content)))
        return
    if position == len(content):
        content += data
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


class SimFile:
    __slots__ = ("_disk", "_inode", "_number", "_open", "_path", "_write")

    def __init__(self, disk: SimDisk, path: str, inode: Inode, write: bool) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._write = write
        self._open = True
        self._number = number = disk.descriptors_given = disk.descriptors_given + 1
        disk.descriptors[number] = self

    def fileno(self) -> int:
        assert self._open
        return self._number

    def size(self) -> int:
        return len(self._inode.now)

    def write(self, pieces: Sequence[bytes | memoryview], position: int) -> None:
        assert self._write
        assert self._open
        disk = self._disk
        if disk.hook is None and disk.steps_left < 0:  # no step can fail
            # Many pieces are a batch's: their places in the file are found together.
            pending, start = self._inode.pending, position
            copies = [bytes(piece) for piece in pieces]
            for data in copies:
                pending.append((position, data))
                position += len(data)
            self._show(copies[0] if len(copies) == 1 else b"".join(copies), start)
            return
        for piece in pieces:
            data = bytes(piece)
            try:
                disk.step("write", self._path)
            except OSError:
                # As on a disk that fills up: a part has been written.
                self._put(data[: len(data) // 2], position)
                raise
            self._put(data, position)
            position += len(data)

    def _put(self, data: bytes, position: int) -> None:
        self._inode.pending.append((position, data))
        self._show(data, position)

    def _show(self, data: bytes, position: int) -> None:
        """Who reads sees ``data``."""
        now = self._inode.now
        if position == len(now):
            now += data
        elif position < len(now):
            now[position : position + len(data)] = data
        else:
            _apply(now, position, data)

    def read(self, count: int, position: int) -> bytes:
        assert self._open
        disk = self._disk
        if disk.hook is not None:  # no power fails while something is read
            disk.step("read", self._path)
        return bytes(self._inode.now[position : position + count])

    def sync(self) -> None:
        assert self._open
        disk = self._disk
        try:
            if disk.hook is not None or disk.steps_left >= 0:
                disk.step("sync", self._path)
        except OSError:
            # The pages are marked clean although they never reached the disk.
            self._inode.pending.clear()
            self._inode.has_lost = True
            raise
        self._inode.make_durable()

    def truncate(self, size: int) -> None:
        disk = self._disk
        if disk.hook is not None or disk.steps_left >= 0:
            disk.step("write", self._path)
        self._inode.pending.append((size, None))
        _apply(self._inode.now, size, None)

    def will_need(self, position: int, count: int) -> None:
        pass

    def close(self) -> None:
        assert self._open
        self._open = False
        self._disk.descriptors.pop(self._number, None)


class SimMapping:
    def __init__(self, inode: Inode) -> None:
        self._inode = inode
        self._open = True

    def store(self, data: bytes, position: int) -> None:
        assert self._open
        assert position + len(data) <= len(self._inode.now)
        self._inode.pending.append((position, data))
        _apply(self._inode.now, position, data)

    def close(self) -> None:
        assert self._open
        self._open = False


class SimFileSystem:
    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def holds(self, path: str) -> bool:
        return self._disk.exists(path)

    def sync(self) -> None:
        disk = self._disk
        disk.step("sync_file_system", "")
        for path in list(disk.pending):
            for changes in disk.pending.pop(path):
                _apply_names(disk.durable_names, changes)
        for inode in disk.names.values():
            if inode is not None:
                inode.make_durable()

    def close(self) -> None: ...


def plain_flush() -> Any:
    """The module ``_flush`` as it stands in Python, whether it is compiled or not."""
    path = Path(persistence.__file__).with_name("_flush.py")
    spec = importlib.util.spec_from_file_location("persistence._plain_flush", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SimFlusher:
    """The thread that carries out small plans on a simulated disk: does so when told to.

    ``on_done`` is posted after a plan, as the loop calls who watches the descriptor.
    """

    write_and_sync = staticmethod(plain_flush().write_and_sync)

    def __init__(self, disk: SimDisk) -> None:
        self.busy = False
        self.on_done: Callable[[], None]
        self.post: Callable[[Callable[[], None]], Any]
        #: Whether the other thread has nothing to do, which may close files.
        self.may_begin: Callable[[], bool]
        self._disk = disk
        self._plan: Plan | None = None
        self._error = 0

    @property
    def has_job(self) -> bool:
        """Whether there is something to run."""
        return self._plan is not None

    @property
    def count(self) -> int:
        """Writes of the plan; the last of several is the journal's."""
        return len(self._plan.writes) if self._plan is not None else 0

    def submit(self, plan: Plan) -> None:
        assert not self.busy, "one plan at a time"
        assert self.may_begin(), "a plan for the flusher beside the worker's job"
        assert all(type(piece) is bytes for write in plan.writes for piece in write.pieces)
        self.busy = True
        self._plan = plan

    def run(self) -> None:
        """Carry out the plan, and let the loop hear of it later."""
        assert self._plan is not None
        self._error = self.write_and_sync(self._plan, self._disk.pwrite, self._disk.fdatasync)
        self._plan = None
        self.post(self.on_done)

    def finish(self) -> int:
        if not self.busy or self._plan is not None:
            return -1
        self.busy = False
        return self._error

    def wait(self) -> int:
        assert self.busy
        if self._plan is not None:
            self.run()
        return self.finish()

    def stop(self) -> None:
        assert not self.busy


class SimDisk:
    def __init__(self) -> None:
        #: Path -> inode, or None for a directory.
        self.names: dict[str, Inode | None] = {"": None}
        self.durable_names: dict[str, Inode | None] = {"": None}
        #: Directory -> changes (path, inode | None | "gone"), in order; a rename is one change of two.
        self.pending: defaultdict[str, list[list[tuple[str, Inode | str | None]]]] = defaultdict(list)
        #: Open files by descriptor.
        self.descriptors: dict[int, SimFile] = {}
        self.descriptors_given = 0
        #: Called before every operation with (operation, path); raises what should happen.
        self.hook: Callable[[str, str], None] | None = None
        #: Operations left until the power fails; -1 = never.
        self.steps_left = -1
        #: What happened to which kind of file.
        self.events: Counter[str] = Counter()
        self._end_process: Callable[[], None] = lambda: None

    def begin_process(self, end: Callable[[], None]) -> None:
        """Another process works on this disk: the last one is ended, and this one by calling ``end``."""
        self._end_process()
        self._end_process = end

    def fail(
        self, operation: str, part: str = "", *, error: int = errno.EIO, after: int = 0, once: bool = False
    ) -> None:
        """Let such operations on paths with ``part`` fail from the ``after``-th on, or that one alone.

        Without ``once`` the fault lasts until ``hook`` is None again. A failing write writes a part.
        """
        left = after

        def hook(name: str, path: str) -> None:
            nonlocal left
            if name == operation and part in path:
                if left == 0:
                    if once:
                        self.hook = None
                    raise OSError(error, "simulated", path)
                left -= 1

        self.hook = hook

    def step(self, operation: str, path: str) -> None:
        if self.hook is not None:
            self.hook(operation, path)
        if self.steps_left >= 0 and operation != "read":
            if self.steps_left == 0:
                raise PowerLoss
            self.steps_left -= 1

    def _naming_step(self, operation: str, path: str) -> None:
        """The step of an operation that is counted."""
        self.events[_event(operation, path)] += 1
        if self.hook is not None or self.steps_left >= 0:
            self.step(operation, path)

    @property
    def open_files(self) -> int:
        return len(self.descriptors)

    def forget_files(self) -> None:
        """The process is gone, and its descriptors with it."""
        self.descriptors.clear()

    def scrap(self) -> None:
        """Nobody uses it any more: what is left of its processes, in cycles, keeps no contents."""
        for inode in [*self.names.values(), *self.durable_names.values()]:
            if inode is not None:
                inode.now.clear()
                inode.durable.clear()
                inode.pending.clear()

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        """As ``os.pwrite``."""
        assert fd in self.descriptors, "a write through a descriptor that is closed"
        part = bytes(data[:PWRITE_BYTES_MAX])
        self.descriptors[fd].write([part], position)
        return len(part)

    def fdatasync(self, fd: int) -> None:
        """As ``os.fdatasync``."""
        assert fd in self.descriptors, "a sync through a descriptor that is closed"
        self.descriptors[fd].sync()

    def _change(self, directory: str, changes: list[tuple[str, Inode | str | None]]) -> None:
        names = self.names
        for path, inode in changes:
            if isinstance(inode, str):
                names.pop(path, None)
            else:
                names[path] = inode
        self.pending[directory].append(changes)

    def open(self, path: str, *, write: bool = False, create: bool = False) -> SimFile:
        inode = self.names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            directory = path.rpartition("/")[0]
            if directory not in self.names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
            self._naming_step("create", path)
            inode = Inode()
            self._change(directory, [(path, inode)])
        return SimFile(self, path, inode, write)

    def map(self, path: str, size: int) -> SimMapping:
        file = self.open(path, write=True, create=True)
        if file.size() < size:
            file.truncate(size)
        file.close()
        inode = self.names[path]
        assert inode is not None
        return SimMapping(inode)

    def make_directory(self, path: str) -> None:
        if path not in self.names:
            self._naming_step("create", path)
            self._change(path.rpartition("/")[0], [(path, None)])

    def list(self, path: str) -> list[str]:
        prefix = path + "/"
        start = len(prefix)
        return sorted([n[start:] for n in self.names if n.startswith(prefix) and n.find("/", start) < 0])

    def exists(self, path: str) -> bool:
        return path in self.names

    def rename(self, old: str, new: str) -> None:
        self._naming_step("rename", new)
        directory = new.rpartition("/")[0]
        file = self.names.get(old)
        if file is not None:  # it has nothing below it
            self._change(directory, [(old, "gone"), (new, file)])
            return
        moved = [(n, i) for n, i in self.names.items() if n == old or n.startswith(old + "/")]
        assert moved, old
        changes: list[tuple[str, Inode | str | None]] = [(name, "gone") for name, _ in moved]
        changes += [(new + name[len(old) :], inode) for name, inode in moved]
        self._change(directory, changes)

    def unlink(self, path: str) -> None:
        if path in self.names:
            self._naming_step("unlink", path)
            self._change(path.rpartition("/")[0], [(path, "gone")])

    def remove_tree(self, path: str) -> None:
        if path not in self.names:
            return
        gone = [n for n in self.names if n == path or n.startswith(path + "/")]
        for name in sorted(gone, key=len, reverse=True):
            self._naming_step("unlink", name)
            self._change(name.rpartition("/")[0], [(name, "gone")])

    def sync_directory(self, path: str) -> None:
        if self.hook is not None or self.steps_left >= 0:
            self.step("sync_directory", path)
        for changes in self.pending.pop(path, []):
            _apply_names(self.durable_names, changes)

    def file_system(self, path: str) -> SimFileSystem:
        return SimFileSystem(self)

    def flush_all(self) -> None:
        """Nothing: only a sync makes durable."""

    def flusher(self) -> SimFlusher:
        return SimFlusher(self)

    def power_loss(self, random: Random) -> None:
        """What a power failure leaves; ``names`` and content are that from now on."""
        for changes in self.pending.values():
            for change in changes[: random.randint(0, len(changes))]:
                _apply_names(self.durable_names, change)
        self.pending.clear()
        names = self.durable_names
        reachable = {n: i for n, i in names.items() if _has_parents(names, n)}
        for inode in reachable.values():
            if inode is not None:
                _lose(inode, random)
        self.names = dict(reachable)
        self.durable_names = dict(reachable)
        self.hook = None
        self.steps_left = -1
        self.forget_files()


@lru_cache(maxsize=4096)
def _event(operation: str, path: str) -> str:
    return f"{operation} {_kind(path)}"


def _kind(path: str) -> str:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name[dot:] if dot >= 0 else name if name == "checkpoint" else "directory"


def _apply_names(names: dict[str, Inode | None], changes: Sequence[tuple[str, Inode | str | None]]) -> None:
    for path, inode in changes:
        if isinstance(inode, str):
            names.pop(path, None)
        else:
            names[path] = inode


def _has_parents(names: dict[str, Inode | None], path: str) -> bool:
    while path:
        path = path.rpartition("/")[0]
        if path not in names:
            return False
    return True


def _lose(inode: Inode, random: Random) -> None:
    """Keep a part of the unsynced writes."""
    content = inode.durable
    pending = inode.pending
    if pending and random.random() < 0.5:
        keep = random.randint(0, len(pending))
        for position, data in pending[:keep]:
            _apply(content, position, data)
        if keep < len(pending):
            position, data = pending[keep]
            if data:
                _apply(content, position, data[: random.randint(0, len(data))])
    else:
        for position, data in pending:
            if data is None:
                if random.random() < 0.5:
                    _apply(content, position, data)
                continue
            for start in range(0, len(data), SECTOR):
                if random.random() < 0.6:
                    _apply(content, position + start, data[start : start + SECTOR])
    inode.pending = []
    inode.has_lost = False
    inode.durable = content
    inode.now = bytearray(content)
