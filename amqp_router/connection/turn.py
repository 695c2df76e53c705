"""One turn of the event loop, which all connections share.

The loop calls everybody who has something to read, one after the other, and only then looks for others. With
500 connections that each bring a millisecond of work, a turn took half a second. So a turn has an end: who is
called after it reads in the next turn, before those that come then. The kernel is asked for as many
connections as were served lately, and goes round among those that are ready. Connections whose chunk was too
much work stand in a line, and have half of the turn: one that sends little does not wait for all of them.
So do connections that are lost when the turn has taken long: each may have thousands of channels.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from collections import deque
from collections.abc import Callable
from math import ceil, inf
from time import monotonic
from typing import Any

from vhosts.long_lists import look_at_new_objects

#: Seconds after which nobody else reads in a turn, and of these for the line, which comes first.
TURN_S = 0.004
LINE_S = 0.002
#: Descriptors that the kernel is asked for.
EVENTS_MIN, EVENTS_MAX = 16, 1024
#: What the kernel says of a descriptor, and what asyncio is told of it. No system without epoll comes here.
_IN, _OUT = getattr(select, "EPOLLIN", 1), getattr(select, "EPOLLOUT", 4)
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Turn:
    """What connections may take of a turn. One that nobody begins never ends."""

    __slots__ = (
        "_enter",
        "_line",
        "_serves",
        "_unexpected",
        "call_soon",
        "end",
        "events_max",
        "line_end",
        "served",
        "skipped",
    )

    def __init__(self) -> None:
        #: When it ends for those who read and for the line, on the clock of the event loop.
        self.end = self.line_end = inf
        #: Reads in this turn, and those that were put off.
        self.served = 0
        self.skipped = 0
        #: Descriptors that the kernel is asked for in the next turn.
        self.events_max = EVENTS_MAX
        #: Connections with work left; each call goes on with one.
        self._line: deque[Callable[[], None]] = deque()
        #: Whether the loop will call for the line.
        self._serves = False
        #: The loop's and the node's, once there is a node (``serve``).
        self.call_soon: Callable[[Callable[[], None]], object]
        self._enter: Callable[..., None]
        self._unexpected: Callable[[str, BaseException], None]

    def serve(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        enter: Callable[..., None],
        unexpected: Callable[[str, BaseException], None],
    ) -> None:
        """Be the turn of a node: ``enter`` runs a handler, ``unexpected`` takes errors that are ours."""
        self.call_soon, self._enter, self._unexpected = call_soon, enter, unexpected

    def begin(self) -> None:
        """Those who have something to read are about to be called."""
        now = monotonic()
        self.line_end = now + LINE_S
        self.end = now + TURN_S

    def is_over(self) -> None:
        """Everybody has been called. The next turn may call more, or fewer if this one was too long."""
        if self.skipped:
            self.events_max = max(EVENTS_MIN, self.served)
        elif self.events_max < EVENTS_MAX:
            self.events_max = min(2 * self.events_max, EVENTS_MAX)
        self.served = self.skipped = 0

    def may_read(self) -> bool:
        """Whether one more may read now; the first one of a turn always may."""
        if self.served and monotonic() > self.end:
            self.skipped += 1
            return False
        self.served += 1
        return True

    def line_up(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on()`` once, behind those that stand in the line."""
        self._line.append(go_on)
        self._call()

    def in_time(self, call: Callable[[], None]) -> None:
        """Call ``call()`` once: now while the line has time and nobody stands in it, else behind those."""
        if self._line or monotonic() > self.line_end:
            self.line_up(call)
        else:
            call()

    def _call(self) -> None:
        if not self._serves:
            self._serves = True
            self.call_soon(self._enter_line)

    def _enter_line(self) -> None:
        self._enter(self._go_on)

    def _go_on(self) -> None:
        """Go on with those that stand in the line: at least one, and none twice."""
        self._serves = False
        line = self._line
        for _ in range(len(line)):
            go_on = line.popleft()
            try:
                go_on()
            except Exception as error:  # a bug of ours; the others go on
                self._unexpected("a connection that went on", error)
            look_at_new_objects()
            now = monotonic()
            if now > self.line_end:
                self.end = max(self.end, now + TURN_S - LINE_S)
                break
        if line:
            self._call()


class Gate:
    """Called in place of a socket's read: lets it read now, or in the next turn."""

    __slots__ = ("_call_soon", "_read", "_socket", "_turn", "_waits")

    def __init__(self, turn: Turn, socket: Any, read: Callable[[], None]) -> None:
        self._turn = turn
        self._socket = socket
        self._read = read
        self._call_soon = turn.call_soon
        #: Whether it reads in the next turn, whatever the loop says until then.
        self._waits = False

    def __call__(self) -> None:
        if self._waits:
            return
        if self._turn.may_read():
            self._read()
        else:
            self._waits = True
            self._call_soon(self._again)

    def _again(self) -> None:
        self._waits = False
        if self._socket.is_reading():
            self()


def gate(turn: Turn, socket: asyncio.BaseTransport) -> None:
    """Let ``socket`` read within the turns of ``turn``; no error if it already does.

    asyncio has no public name for what it calls when there is something to read. A socket without it reads
    whenever it can, and so does one whose turns no node serves.
    """
    read = getattr(socket, "_read_ready_cb", None)
    is_served = getattr(turn, "call_soon", None) is not None
    if read is not None and is_served and not isinstance(read, Gate):
        setattr(socket, "_read_ready_cb", Gate(turn, socket, read))  # noqa: B010  no public name


class Poll:
    """Asks the kernel who is ready, and tells ``turn`` of its end and beginning: once in each turn."""

    __slots__ = ("_ask", "_keys", "turn")

    def __init__(
        self, ask: Callable[[float, int], list[tuple[int, int]]], keys: dict[int, selectors.SelectorKey]
    ) -> None:
        self.turn = Turn()
        self._ask = ask
        self._keys = keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See ``selectors.BaseSelector``. The kernel is asked for no more than the turn can serve."""
        turn = self.turn
        turn.is_over()
        seconds = -1.0
        if timeout is not None:
            seconds = timeout
            # In whole milliseconds, or it would not wait at all.
            seconds = 0.0 if seconds <= 0 else ceil(seconds * 1e3) * 1e-3
        ready: list[tuple[selectors.SelectorKey, int]] = []
        try:
            for descriptor, event in self._ask(seconds, min(turn.events_max, len(self._keys) or 1)):
                key = self._keys.get(descriptor)
                if key is not None:
                    events = 0
                    if event & ~_IN:
                        events |= _WRITE
                    if event & ~_OUT:
                        events |= _READ
                    ready.append((key, events & key.events))
        except InterruptedError:
            pass
        turn.begin()
        return ready


class TurnSelector(selectors.DefaultSelector):
    """A selector that goes by ``Poll``, whose method takes the place of its own."""

    def __init__(self) -> None:
        super().__init__()
        kernel: Any = self._selector  # type: ignore[attr-defined]
        poll = Poll(kernel.poll, self._fd_to_key)  # type: ignore[attr-defined]
        self.turn = poll.turn
        self.select = poll.select  # type: ignore[method-assign]


def make_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose turns end; a plain one where the system has no ``epoll``."""
    if not hasattr(select, "epoll"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(TurnSelector())


def turn_of(loop: asyncio.AbstractEventLoop) -> Turn:
    """The turns of ``loop``; they never end if it was not made by ``make_loop``."""
    selector = getattr(loop, "_selector", None)
    return selector.turn if isinstance(selector, TurnSelector) else Turn()
