"""Long work on the event loop, in slices."""

from __future__ import annotations

import asyncio
import time

#: Time of one slice (s).
SLICE_S = 0.004


class Work:
    """Divides work into slices (``await work.pause()``) and measures the time of the work itself."""

    def __init__(self) -> None:
        #: Seconds of the finished slices.
        self.busy_s = 0.0
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Give the event loop its turn if this slice has lasted long enough."""
        taken = time.perf_counter() - self._began
        if taken > SLICE_S:
            self.busy_s += taken
            await asyncio.sleep(0)
            self._began = time.perf_counter()

    def end(self) -> float:
        """End the work; returns its seconds."""
        self.busy_s += time.perf_counter() - self._began
        return self.busy_s
