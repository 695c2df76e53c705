"""Everything that leaves, leaves here, once per turn of the loop.

The order matters: queues deliver first, so that what they settle goes with this turn's log writes; then the
logs are sealed and handed to the sync; then confirms and sockets are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp_router.protocol.tick import Tick

#: Deliveries per queue and per tick before the others, and the sockets, get their turn.
QUEUE_UNITS = 2048
TICK_UNITS = 4096
#: What turning to a queue costs beside its deliveries, in deliveries.
TURN_UNITS = 8


class Ticker:
    """Runs the agenda of ``Tick``; one per node.

    ``start_round`` hands dirty logs to the sync, ``unexpected`` takes errors that are ours. ``ready_count``
    says how many callbacks the loop still has in this turn: a handler that is the last one runs the agenda
    itself, which saves the loop another turn (a fifth of the CPU of a lone publisher that waits for each
    confirm).
    """

    def __init__(
        self,
        tick: Tick,
        start_round: Callable[[], None],
        ready_count: Callable[[], int],
        unexpected: Callable[[str, BaseException], None],
    ) -> None:
        self._unexpected = unexpected
        self._tick = tick
        self._start_round = start_round
        self._ready_count = ready_count
        self._slices: list[Callable[[], bool]] = []
        #: Whether the loop holds a call of ``run``.
        self._queued = False
        tick.callback = self._run_queued
        tick.call_soon, self._call_soon = self._queue, tick.call_soon

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Run a handler of the loop; what it put on the agenda runs at the end of this turn."""
        tick = self._tick
        tick.inside = True
        try:
            call(*args)
        finally:
            tick.inside = False
            if tick.scheduled:
                if self._ready_count() <= self._queued:
                    self.run()
                elif not self._queued:
                    self._queue(self._run_queued)

    def _queue(self, callback: Callable[[], None]) -> None:
        self._queued = True
        self._call_soon(callback)

    def _run_queued(self) -> None:
        self._queued = False
        if self._tick.scheduled:
            self.run()

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` once per tick until it returns True."""
        self._slices.append(step)
        self._tick.wake()

    def run(self) -> None:
        """One turn."""
        tick = self._tick
        if self._slices:
            self._run_slices()
        if tick.queues:
            self._pump(tick)
        try:
            self._start_round()
        except Exception as error:  # ours; what needs no sync must still leave
            self._unexpected("the start of a sync", error)
        if tick.channels:
            channels: list[Any] = tick.channels
            tick.channels = []
            for channel in channels:
                try:
                    channel.emit_confirms()
                except Exception as error:  # ours; the other channels must not suffer for it
                    self._unexpected(f"channel {channel.number}", error)
        if tick.outputs:
            outputs: list[Any] = tick.outputs
            tick.outputs = []
            for output in outputs:
                output.dirty = False
                try:
                    output.owner.flush()
                except (
                    Exception
                ) as error:  # ours, or a message that cannot be read; only that connection ends
                    output.owner.failed(error)
        if tick.queues or tick.channels or tick.outputs or self._slices:
            if not self._queued:
                self._queue(self._run_queued)
        else:
            tick.scheduled = False

    def _run_slices(self) -> None:
        slices = self._slices
        self._slices = []
        for step in slices:
            try:
                if not step():
                    self._slices.append(step)
            except Exception as error:  # ours; it would only fail again, and keep all else from running
                self._unexpected("a slice of work", error)

    def _pump(self, tick: Tick) -> None:
        queues: list[Any] = tick.queues
        tick.queues = []
        left = TICK_UNITS
        for index, queue in enumerate(queues):
            if left <= 0:
                tick.queues = queues[index:] + tick.queues  # still marked dirty
                return
            queue.dirty = False
            units = min(left, QUEUE_UNITS)
            try:
                done = queue.pump(units)
            except Exception as error:  # ours; the other queues must not suffer for it
                self._unexpected(f"queue {queue.name}", error)
                continue
            left -= done + TURN_UNITS
            if done >= units:
                queue.touch()
