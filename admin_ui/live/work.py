"""Long work on the event loop, in slices."""

from __future__ import annotations

import asyncio
import time

#: Time of one slice (s).
SLICE_S = 0.004


class Work:
    """Lets others have their turn (``await work.pause()``), and knows how long this work itself took."""

    def __init__(self) -> None:
        #: Time taken in slices that are over (s).
        self.busy_s = 0.0
        self._began = time.perf_counter()

    async def pause(self) -> None:
        """Give others their turn if this slice has lasted long enough."""
        taken = time.perf_counter() - self._began
        if taken > SLICE_S:
            self.busy_s += taken
            await asyncio.sleep(0)
            self._began = time.perf_counter()

    def end(self) -> float:
        """The work is done; returns the time it took (s)."""
        self.busy_s += time.perf_counter() - self._began
        return self.busy_s
