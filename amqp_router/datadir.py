"""The data directory: whose it is, who uses it now, and which version wrote it.

    <data_dir>/amqp-router.json   the stamp: layout version, store id, version that made it. Written once.
    <data_dir>/lock               held with flock(2) while a broker runs; contains that broker's process id.

Everything else in it belongs to the packages that get the path (queue logs, definitions). The kernel drops
the lock with the process, however that ends, so nothing has to be cleaned up by hand.

A new directory is closed to others. One that is there keeps its owner and mode, since whoever made it may
have had a reason (a volume of a container): what others may do there is told.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import uuid
from pathlib import Path

from amqp_router.version import VERSION
from persistence.files import RealDisk, replace_file

STAMP = "amqp-router.json"
LOCK = "lock"
#: What a group may be let read: folders of logs, and files that readers of logs need.
LOGS = ("queues", "routing")
READ_BESIDE_LOGS = (STAMP, "synced", "logs.checkpoint")
#: Raised when a broker of the version before could not use what this one writes.
LAYOUT = 1


class DataDirError(Exception):
    """The directory cannot be used: the text is one line that names it, the reason and the way out."""


class DataDirectory:
    """A data directory that this process holds. Made by `open`; `close` gives it back."""

    def __init__(self, path: Path, store_id: str, lock: int, warnings: list[str]) -> None:
        self.path = path
        #: What of its owner and mode the operator should know.
        self.warnings = warnings
        #: Names this store for ever; a copy of the directory is the same store.
        self.store_id = store_id
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, group_reads: bool = False) -> DataDirectory:
        """Make the directory if it is not there, lock it and check its stamp.

        With ``group_reads`` its group may read the logs, those too that are there.

        Raises:
            DataDirError: not writable, held by another broker, not ours, or of a newer layout.
        """
        path = path.absolute()
        try:
            return cls._open(path, group_reads)
        except OSError as error:
            reason = os.strerror(error.errno or errno.EIO).lower()
            raise DataDirError(f"data directory {path}: {reason}; choose another with --data-dir") from None

    @classmethod
    def _open(cls, path: Path, group_reads: bool) -> DataDirectory:
        if not path.exists():
            made = [path, *(above for above in path.parents if not above.exists())]
            path.mkdir(mode=0o750 if group_reads else 0o700, parents=True)
            for directory in made:
                RealDisk().sync_directory(str(directory.parent))
        if not path.is_dir():
            raise DataDirError(f"data directory {path}: is not a directory; choose another with --data-dir")
        _refuse_foreign(path)
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(lock, path)
            store_id = _read_stamp(path) or _write_stamp(path)
        except BaseException:
            os.close(lock)
            raise
        warnings = _open_to_group(path) if group_reads else []
        return cls(path, store_id, lock, warnings + _warnings(path, group_reads))

    def close(self) -> None:
        """Let another broker use the directory."""
        os.close(self._lock)


def _refuse_foreign(path: Path) -> None:
    """A directory of something else is left alone: we would mix our files into it and delete some one day."""
    if (path / STAMP).exists():
        return
    others = sorted(entry.name for entry in path.iterdir() if entry.name not in (LOCK, STAMP + ".tmp"))
    if others:
        raise DataDirError(
            f"data directory {path}: holds files that are not amqp-router's ({others[0]!r}); "
            "name an empty or a new folder with --data-dir"
        )


def _warnings(path: Path, group_reads: bool) -> list[str]:
    found = path.stat()
    warnings = []
    if found.st_uid != os.geteuid():
        warnings.append(f"it belongs to user {found.st_uid}, the broker runs as user {os.geteuid()}")
    wanted = 0o750 if group_reads else 0o700
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if mode & ~wanted:
        warnings.append(f"its mode {mode:04o} lets others in; `chmod {wanted:o} {path}` keeps them out")
    return warnings


def _open_to_group(path: Path) -> list[str]:
    """Let the group read the logs of a directory that was closed to it; returns what did not work."""
    if path.stat().st_mode & 0o050 == 0o050:
        return []
    try:
        for name in LOGS:
            for folder, _, files in os.walk(path / name):
                os.chmod(folder, 0o750)
                for file in files:
                    os.chmod(os.path.join(folder, file), 0o640)
        for name in READ_BESIDE_LOGS:
            if (path / name).exists():
                (path / name).chmod(0o640)
        path.chmod(0o750)
    except OSError as error:
        return [f"{error.filename} cannot be opened to the group: {os.strerror(error.errno or errno.EIO)}"]
    return []


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        raise DataDirError(
            f"data directory {path}: in use by another broker (process {holder}); "
            "stop that one or choose another with --data-dir"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _read_stamp(path: Path) -> str | None:
    """The store id of a directory in use; None if it is new."""
    try:
        stamp = json.loads((path / STAMP).read_text())
        layout, store_id = int(stamp["layout"]), str(stamp["store_id"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataDirError(
            f"data directory {path}: {STAMP} is damaged; restore it from a backup "
            "or choose another directory with --data-dir"
        ) from None
    if layout > LAYOUT:
        made_by = stamp.get("made_by", "a newer version")
        raise DataDirError(
            f"data directory {path}: has layout {layout} of {made_by}, this is amqp-router {VERSION} "
            f"which knows layouts up to {LAYOUT}; run that version or a newer one"
        )
    return store_id


def _write_stamp(path: Path) -> str:
    """Mark the directory as ours, so that it is there after a crash or not at all."""
    store_id = str(uuid.uuid4())
    stamp = {"layout": LAYOUT, "store_id": store_id, "made_by": f"amqp-router {VERSION}"}
    replace_file(RealDisk(), str(path / STAMP), json.dumps(stamp).encode())
    return store_id
