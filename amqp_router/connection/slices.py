"""The work of one connection that is too much for one turn of the event loop.

A single frame may cause such work: one nack can return a million messages, and a closed channel can have
thousands of consumers. All of it goes through ``Slices``: ``add`` takes a step, and the machine handles no
further frame while ``waiting`` is True. So no frame can overtake what the client sent before it. If a chunk
waits, each of its turns does a slice. Otherwise the node's ticker does the slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class SlicesNode(Protocol):
    """The node as this module needs it."""

    def in_slices(self, step: Callable[[], bool]) -> None:
        """Call ``step()`` once per tick until it returns True."""

    def cpu_us(self) -> int:
        """CPU time of the event loop's thread in microseconds."""

    def unexpected(self, where: str, error: BaseException) -> None:
        """Log a bug of ours with its traceback."""


class Slices:
    """Steps in order; each is called until it returns True. ``peer`` names the client."""

    __slots__ = ("busy", "handed", "node", "peer", "steps", "units", "waiting")

    def __init__(self, node: SlicesNode, peer: str) -> None:
        self.node = node
        self.peer = peer
        #: Enqueues and settles that the chunk being handled has caused.
        self.units = 0
        self.steps: deque[Callable[[], bool]] = deque()
        #: Whether there is a step.
        self.waiting = False
        #: Whether the node's ticker runs the steps, as no chunk is being handled.
        self.handed = False
        #: Whether a chunk is being handled.
        self.busy = False

    def add(self, step: Callable[[], bool]) -> None:
        """Call ``step()``, now if it is the only one, until it returns True."""
        self.steps.append(step)
        self.waiting = True
        if len(self.steps) == 1:
            self.run()
        if not self.busy:
            self.hand_over()

    def run(self) -> bool:
        """Do a slice of the first step; True if no step is left."""
        steps = self.steps
        while steps:
            step = steps[0]
            try:
                done = step()
            except Exception as error:  # a bug of ours; the step would fail again and block those behind it
                self.node.unexpected(f"connection {self.peer}", error)
                done = True
            if not done:
                return False
            steps.popleft()
        self.waiting = False
        return True

    def hand_over(self) -> None:
        """Let the ticker run the remaining steps, because no chunk is being handled that would."""
        if self.waiting and not self.handed:
            self.handed = True
            self.node.in_slices(self._run_handed)

    def _run_handed(self) -> bool:
        self.handed = not self.run()
        return not self.handed
