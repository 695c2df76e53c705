"""The moves of messages that run on this node, and the last ones that have ended.

A move does its work in slices of the event loop (``vhosts.moves``). Once a second somebody looks at all of
them: at their rates, whether one that waits for an alarm may go on, and whether a source does not answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from amqp_router.broker import Broker
from amqp_router.channel.asking import ANSWER_S
from vhosts.move_target import Target
from vhosts.moves import Move, Surroundings
from vhosts.queues.handle import QueueHandle

#: Moves that run at a time on a node.
RUNNING_MAX = 32
#: Moves that have ended and are still told of.
ENDED_MAX = 100
#: Seconds between two looks at them, and over how many of these the rate is taken.
LOOK_S = 1.0
RATE_LOOKS = 5


@dataclass
class Known:
    """A move with what is told of it. Times are in ms since 1970."""

    number: int
    move: Move
    #: The name of who began it.
    user: str
    target: dict[str, Any]
    began: int
    ended: int | None = None
    #: Seconds that the source has not answered.
    silent_s: float = 0.0
    #: How many messages were moved at the last looks.
    looks: deque[int] = field(default_factory=lambda: deque([0], RATE_LOOKS + 1))

    def document(self, now_ms: int) -> dict[str, Any]:
        """What is told of it; ``rate`` is messages a second."""
        move = self.move
        return {
            "id": self.number,
            "vhost": move.source.vhost.name,
            "queue": move.source.name,
            "to": self.target,
            "user": self.user,
            "state": move.state,
            "reason": move.reason,
            "count": move.limit,
            "moved": move.moved,
            "left": max(0, move.limit - move.moved),
            "rate": self._rate(now_ms),
            "began": self.began,
            "ended": self.ended,
        }

    def _rate(self, now_ms: int) -> float:
        if self.ended is None and len(self.looks) > 1:
            return (self.looks[-1] - self.looks[0]) / ((len(self.looks) - 1) * LOOK_S)
        took_ms = (now_ms if self.ended is None else self.ended) - self.began
        return round(self.move.moved * 1000 / max(took_ms, 1), 1)


class Moves:
    """All moves of a node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._running: dict[int, Known] = {}
        self._ended: deque[Known] = deque(maxlen=ENDED_MAX)
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether no further one may begin."""
        return len(self._running) >= RUNNING_MAX

    def all(self) -> list[Known]:
        """Those that run and those that have ended, the newest first."""
        return [*reversed(self._running.values()), *reversed(self._ended)]

    def find(self, number: int) -> Known | None:
        """The move of that number, unless it ended long ago."""
        return self._running.get(number) or next(
            (each for each in self._ended if each.number == number), None
        )

    def begin(
        self, source: QueueHandle, target: Target, limit: int, user: str, about: dict[str, Any]
    ) -> Known:
        """Begin a move of ``limit`` messages at most."""
        broker = self._broker
        node = Surroundings(
            broker.in_slices, broker.budget, broker.tick, broker.wall_us, lambda: bool(broker.alarms.on)
        )
        self._last += 1
        move = Move(source, target, limit, node, self._over)
        known = Known(self._last, move, user, about, self.now_ms())
        self._running[known.number] = known
        self._tell("move began", known)
        broker.enter(move.go_on)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        return known

    def stop(self, known: Known) -> None:
        """Let a move take no more messages; those on its way still arrive."""
        self._broker.enter(known.move.stop)

    def close(self) -> None:
        """The node stops: let all of them end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for known in list(self._running.values()):
            self.stop(known)

    def now_ms(self) -> int:
        """The time of day."""
        return self._broker.wall_us() // 1000

    def _look(self) -> None:
        self._timer = None
        for known in list(self._running.values()):
            move = known.move
            known.looks.append(move.moved)
            known.silent_s = known.silent_s + LOOK_S if move.waits_for_answer else 0.0
            if known.silent_s > ANSWER_S:
                self._broker.enter(move.fail, move.source.no_answer().text)
            else:
                self._broker.enter(move.go_on)
        if self._running:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _over(self, move: Move) -> None:
        for number, known in self._running.items():
            if known.move is move:
                del self._running[number]
                known.ended = self.now_ms()
                self._ended.append(known)
                self._tell("move ended", known, state=move.state, moved=move.moved, reason=move.reason)
                return

    def _tell(self, event: str, known: Known, **facts: object) -> None:
        move = known.move
        to = ", ".join(f"{name} {value!r}" for name, value in known.target.items())
        self._broker.event(
            logging.INFO,
            event,
            id=known.number,
            queue=move.source.name,
            vhost=move.source.vhost.name,
            to=to,
            by=known.user,
            **{name: fact for name, fact in facts.items() if fact != ""},
        )
