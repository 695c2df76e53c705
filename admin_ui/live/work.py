"""Long work of the pages' data on the event loop, in slices that share the line of the requests."""

from __future__ import annotations

import time

from admin_ui.turns import TURN_S, line


class Work:
    """Divides work into slices (``await work.pause()``) and measures the time of the work itself."""

    def __init__(self) -> None:
        #: Seconds of the finished slices.
        self.busy_s = 0.0
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Stand in line if this slice has lasted long enough."""
        taken = time.perf_counter() - self._began
        if taken > TURN_S:
            self.busy_s += taken
            await line().turn()
            self._began = time.perf_counter()

    def end(self) -> float:
        """End the work; returns its seconds."""
        self.busy_s += time.perf_counter() - self._began
        return self.busy_s
