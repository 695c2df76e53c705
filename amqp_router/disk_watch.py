"""Watches the free space of the data directory's file system: alarm "disk", and a reserve to free space with.

Below the low-water mark the alarm "disk" is set: connections that publish wait, while consumers,
acknowledgements and deletes go on. The routing log stops at twice the mark, so that it never takes the space
that messages need. A file ``reserve`` holds a little space back. It is given up when the disk is all but
full, because acknowledgements, deletes and a start have to write something before they can free anything.

Source: RabbitMQ, "Memory and Disk Alarms" (``disk_free_limit``; how often it looks depends on the room left).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from amqp_router.connection.alarms import Alarms

RESERVE = "reserve"
RESERVE_BYTES_MAX = 16 << 20
#: Beside two segments, the default mark leaves this much for checkpoints and definitions.
CHECKPOINT_ROOM = 16 << 20
#: The default mark and the reserve are this part of a small file system at most.
PART = 20
#: The alarm is cleared at so many hundredths of the mark.
CLEAR_PERCENT = 120
#: The reserve goes when the room is below this part of the mark.
RELEASE_PART = 4
#: Bytes a second that could be written at most, for the time of the next look.
WRITE_RATE = 500_000_000
LOOK_S_MIN, LOOK_S_MAX, ALARMED_S = 0.05, 5.0, 0.25


class Timer(Protocol):
    """What ``call_later`` gives."""

    def cancel(self) -> None: ...


class DiskWatch:
    """``limit`` is the option ``disk_free_limit`` in bytes, 0 for the default mark.

    ``halt`` stops the routing log; ``statvfs`` is the operating system's.
    """

    def __init__(
        self,
        directory: Path,
        limit: int,
        *,
        segment_bytes: int,
        alarms: Alarms,
        call_later: Callable[[float, Callable[[], None]], Timer],
        event: Callable[..., None],
        halt: Callable[[], None],
        statvfs: Callable[[str], Any] = os.statvfs,
    ) -> None:
        self._directory = str(directory)
        self._path = str(directory / RESERVE)
        self._alarms = alarms
        self._call_later = call_later
        self._event = event
        self._halt = halt
        self._statvfs = statvfs
        self._timer: Timer | None = None
        total = self._look_at_disk()[0]
        #: Bytes of free space below which publishers wait.
        self.mark = limit or min(2 * segment_bytes + CHECKPOINT_ROOM, total // PART)
        self._reserve = min(RESERVE_BYTES_MAX, total // PART, self.mark)
        self._room = 0
        self._held = self._size_of_reserve() > 0

    def start(self) -> None:
        """Look for the first time, before anything is written, and again from now on."""
        self._look()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def has_room_for_routing(self) -> bool:
        """Whether the routing log may write (again)."""
        return self._room * 100 >= 2 * self.mark * CLEAR_PERCENT

    def _look(self) -> None:
        free = self._look_at_disk()[1]
        # A reserve that was given up is missing: the room is what would be left beside it.
        self._room = free - (0 if self._held else self._reserve)
        cleared_at = self.mark * CLEAR_PERCENT // 100
        if self._room < self.mark:
            self._alarms.set("disk")
        elif self._room >= cleared_at:
            self._alarms.clear("disk")
        if self._held and self._room < self.mark // RELEASE_PART:
            self._release(free)
        elif not self._held and self._room >= cleared_at:
            self._take()
        if self._room < 2 * self.mark:
            self._halt()
        self._timer = self._call_later(self._next_look_s(), self._look)

    def _next_look_s(self) -> float:
        if "disk" in self._alarms:
            return ALARMED_S if not self._held else LOOK_S_MIN
        return min(LOOK_S_MAX, max(LOOK_S_MIN, (self._room - self.mark) / WRITE_RATE))

    def _look_at_disk(self) -> tuple[int, int]:
        """Size of the file system and what is free of it, in bytes; 0 of both if it does not answer."""
        try:
            found = self._statvfs(self._directory)
        except OSError:
            return 0, 0
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def _size_of_reserve(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def _take(self) -> None:
        try:
            file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, self._reserve)
            finally:
                os.close(file)
        except OSError as error:  # without it the broker is as any other program
            self._event(logging.DEBUG, "no disk reserve", reason=error)
            self._unlink()
            return
        self._held = True

    def _release(self, free: int) -> None:
        self._event(logging.WARNING, "disk reserve given up", bytes=self._size_of_reserve(), free=free)
        self._unlink()
        self._held = False

    def _unlink(self) -> None:
        try:
            os.unlink(self._path)
        except OSError:
            return
