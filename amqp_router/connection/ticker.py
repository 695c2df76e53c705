"""Sends all output, once per turn of the event loop.

The order matters. First queues deliver, so that what they settle goes with this turn's log writes. Then the
logs are sealed and handed to the sync. Then confirms and sockets are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from amqp_router.protocol.tick import Tick
from vhosts.long_lists import look_at_new_objects
from vhosts.queues.handle import QueueHandle

#: Deliveries per tick before the sockets get their turn: in all, of a queue new on the agenda, and of one
#: that waits in line.
TICK_UNITS = 4096
FRESH_UNITS = 512
QUEUE_UNITS = 2048
#: Slices of long work in a turn of the loop, a millisecond each; others wait in line.
TICK_SLICES = 3
#: Microseconds of CPU after which no further one begins: a slow machine takes longer.
SLICES_US = 2000
#: Fixed cost of each queue, in deliveries.
TURN_UNITS = 8
#: New queues reached in a turn if each has one message. If there are more, those at both ends are reached.
FRESH_QUEUES = TICK_UNITS // 2 // (TURN_UNITS + 1)


class Ticker:
    """Runs the agenda of ``Tick``; one per node.

    ``start_round`` hands dirty logs to the sync, ``unexpected`` takes errors that are ours, and
    ``look_at_memory`` is called at the end of each turn. ``cpu_us`` is the CPU time of the loop's thread.
    ``ready_count`` says how many callbacks the loop still has in this turn: a handler that is the last one
    runs the agenda itself, which saves the loop another turn (a fifth of the CPU of a lone publisher that
    waits for each confirm).
    """

    __slots__ = (
        "_call_soon",
        "_cpu_us",
        "_look_at_memory",
        "_queued",
        "_ready_count",
        "_slices",
        "_start_round",
        "_tick",
        "_unexpected",
        "_waiting",
    )

    def __init__(
        self,
        tick: Tick,
        start_round: Callable[[], None],
        ready_count: Callable[[], int],
        unexpected: Callable[[str, BaseException], None],
        look_at_memory: Callable[[], None],
        cpu_us: Callable[[], int],
    ) -> None:
        self._cpu_us = cpu_us
        self._look_at_memory = look_at_memory
        self._unexpected = unexpected
        self._tick = tick
        self._start_round = start_round
        self._ready_count = ready_count
        self._slices: list[Callable[[], bool]] = []
        #: Queues that were not reached, or need more than their share. They count as touched.
        self._waiting: list[QueueHandle] = []
        #: Whether the loop holds a call of ``run``.
        self._queued = False
        tick.callback = self._run_queued
        tick.call_soon, self._call_soon = self._queue, tick.call_soon

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Run a handler of the event loop; the agenda runs at the end of this turn."""
        tick = self._tick
        tick.inside = True
        try:
            call(*args)
        finally:
            tick.inside = False
            if tick.scheduled:
                if self._ready_count() <= self._queued:
                    # A run that is queued does the slices; twice in a turn of the loop would be too much.
                    self._run(not self._queued)
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
        self._run(True)

    def _run(self, with_slices: bool) -> None:
        tick = self._tick
        if with_slices and self._slices:
            self._run_slices()
        if tick.queues or self._waiting:
            self._pump(tick)
        try:
            self._start_round()
        except Exception as error:  # a bug of ours; output that needs no sync must still leave
            self._unexpected("the start of a sync", error)
        if tick.channels:
            channels: list[Any] = tick.channels
            tick.channels = []
            for channel in channels:
                try:
                    channel.emit_confirms()
                except Exception as error:  # a bug of ours; the other channels go on
                    self._unexpected(f"channel {channel.number}", error)
        if tick.outputs:
            outputs: list[Any] = tick.outputs
            tick.outputs = []
            if len(outputs) > 1:
                outputs.sort(key=_waiting_bytes)  # so that a few octets do not wait for a mebibyte
            for output in outputs:
                output.dirty = False
                try:
                    output.owner.flush()
                except Exception as error:  # ours, or a message that cannot be read
                    output.owner.failed(error)
        self._look_at_memory()
        if tick.queues or tick.channels or tick.outputs or self._slices or self._waiting:
            if not self._queued:
                self._queue(self._run_queued)
        else:
            tick.scheduled = False

    def _run_slices(self) -> None:
        end = self._cpu_us() + SLICES_US
        slices = self._slices[:TICK_SLICES]
        self._slices = self._slices[TICK_SLICES:]
        for index, step in enumerate(slices):
            if index > 0 and self._cpu_us() >= end:
                self._slices[:0] = slices[index:]
                break
            try:
                if not step():
                    self._slices.append(step)
            except Exception as error:  # a bug of ours; the step would fail again and block all others
                self._unexpected("a slice of work", error)
        look_at_new_objects()

    def _pump(self, tick: Tick) -> None:
        """Let the queues on the agenda deliver.

        Half of the turn is for queues new on the agenda, a small share each. Queues that need more, or were
        not reached, wait in line for the other half. So a queue with one message does not wait for one with
        thousands.
        """
        fresh = cast(list[QueueHandle], tick.queues)  # the agenda lies below their layer
        tick.queues = []
        if len(fresh) > FRESH_QUEUES:
            fresh = _ends_first(fresh, FRESH_QUEUES // 2)
        waiting = self._waiting
        spent, more = self._turn_to(fresh, TICK_UNITS // 2, FRESH_UNITS)
        _, self._waiting = self._turn_to(waiting + more, TICK_UNITS - spent, QUEUE_UNITS)

    def _turn_to(self, queues: list[QueueHandle], budget: int, share: int) -> tuple[int, list[QueueHandle]]:
        """Deliver at most ``share`` messages of each queue; returns the cost, and the queues that need
        more.
        """
        spent = 0
        more: list[QueueHandle] = []
        for index, queue in enumerate(queues):
            if spent >= budget:
                return spent, queues[index:] + more
            try:
                done = queue.take_turn(share)
            except Exception as error:  # a bug of ours; the other queues go on
                self._unexpected(f"queue {queue.name}", error)
                continue
            spent += done + TURN_UNITS
            if done >= share:
                more.append(queue)
        return spent, more


def _ends_first(queues: list[QueueHandle], count: int) -> list[QueueHandle]:
    """``count`` from either end in turn, then the rest.

    A message to a thousand queues puts them all on the agenda. Queues before or after them must not wait for
    them.
    """
    ends = [queue for pair in zip(reversed(queues[-count:]), queues[:count], strict=True) for queue in pair]
    return ends + queues[count:-count]


def _waiting_bytes(output: Any) -> int:
    size: int = output.waiting_bytes()
    return size
