"""The history of one object: rings of rows, one ring for each step of a policy.

Source: RabbitMQ, "Management", "Configuring sample retention policies".
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TypeAlias

INTERVAL_S = 5
#: Seconds between samples, and how far back they reach.
Policy: TypeAlias = tuple[tuple[int, int], ...]
GLOBAL: Policy = ((5, 600), (60, 3600), (600, 28800), (1800, 86400))
BASIC: Policy = ((5, 600), (60, 3600))
Row: TypeAlias = tuple[int, ...]


class History:
    """What was sampled of one object.

    Ticks count ``INTERVAL_S`` since 1970. A ring has a row of ``width`` integers per slot; the row of a tick
    stands in slot ``tick // step % slots``.
    """

    __slots__ = ("changed", "first", "last", "previous", "rings", "seen")

    def __init__(self, tick: int, row: Row) -> None:
        #: The tick this object was first seen at; there is nothing before.
        self.first = tick
        #: The newest tick.
        self.seen = tick
        #: The newest tick at which something had changed.
        self.changed = tick
        self.last = row
        #: The row of the tick before.
        self.previous = row
        self.rings: list[array[int]] | None = None

    def record(self, tick: int, row: Row, policy: Policy) -> None:
        """Take the row of ``tick``, which is newer than all before; skipped ticks repeat the row before."""
        rings = self.rings
        if rings is not None:
            width = len(row)
            seen = self.seen
            for (interval, reach), ring in zip(policy, rings, strict=True):
                step, slots = interval // INTERVAL_S, reach // interval + 1
                now, last = tick // step, self.last
                for missed in range(max(seen // step + 1, now - slots + 1), now):
                    at = missed % slots * width
                    ring[at : at + width] = array("q", last)
                if tick % step == 0:
                    at = now % slots * width
                    ring[at : at + width] = array("q", row)
                elif seen // step != now:  # the tick that this slot belongs to was skipped
                    at = now % slots * width
                    ring[at : at + width] = array("q", last)
        self.previous = self.last
        if row != self.last:
            self.changed = tick
            self.last = row
        self.seen = tick

    def begin_anew(self) -> None:
        """Forget all rows but the newest."""
        self.first = self.seen
        self.previous = self.last
        self.rings = None

    def keep(self, policy: Policy) -> int:
        """Begin to keep rows; returns the bytes that takes. All slots hold what was true until now."""
        self.rings = [array("q", self.last) * (reach // interval + 1) for interval, reach in policy]
        return sum(ring.itemsize * len(ring) for ring in self.rings)

    def bytes_kept(self) -> int:
        """Memory of the rings."""
        return sum(ring.itemsize * len(ring) for ring in self.rings) if self.rings is not None else 0

    def value(self, columns: tuple[int, ...]) -> int:
        """A field at the newest tick."""
        return sum([self.last[column] for column in columns])

    def change(self, columns: tuple[int, ...]) -> int:
        """How much a field grew since the tick before."""
        last, previous = self.last, self.previous
        if last is previous:
            return 0
        return sum([last[column] - previous[column] for column in columns])

    def at(self, tick: int, columns: tuple[int, ...], policy: Policy) -> int | None:
        """A field at ``tick``, from the finest ring that reaches there; None before there was anything."""
        if tick < self.first or tick > self.seen:
            return None
        if tick == self.seen or self.rings is None:
            return self.value(columns)
        width = len(self.last)
        for (interval, reach), ring in zip(policy, self.rings, strict=True):
            if (self.seen - tick) * INTERVAL_S <= reach:
                slots = reach // interval + 1
                at = tick // (interval // INTERVAL_S) % slots * width
                return sum([ring[at + column] for column in columns])
        return None


@dataclass(frozen=True, slots=True)
class Span:
    """Which samples are wanted: how far back, and how far apart, in seconds."""

    age_s: int
    step_s: int
