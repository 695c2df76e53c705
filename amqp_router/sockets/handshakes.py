"""TLS handshakes in progress on one listener: how many, how long, and how much of a turn they take.

A handshake costs a signature, up to a few milliseconds, before anybody has logged in. So in each turn of the
event loop handshakes take a bounded time; the others wait in turn, address by address. So does what a client
has sent after its handshake, if it takes long to decrypt (``tls``). Clients that do not go on are closed when
their time is over, and sooner when too many have begun: then the oldest of the address that has most of them.
Each address is named in the log once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from amqp_router import logs
from amqp_router.auth.throttle import network
from amqp_router.connection.turn import turn_of

#: Seconds that handshakes may take in one turn of the event loop; one that has begun is finished.
TURN_S = 0.002
#: Handshakes in progress at a time.
OPEN_MAX = 512


class Handshake(Protocol):
    """A connection in its TLS handshake."""

    #: The client's address.
    host: str

    def step(self) -> None:
        """Go on with what has arrived."""

    def refuse(self, reason: str) -> None:
        """End it."""


class Handshakes:
    """The handshakes of one listener, each of which has ``timeout_s`` seconds.

    ``what`` names them in the log. Headers of the PROXY protocol are bounded in the same way.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        event: Callable[..., None],
        *,
        timeout_s: float,
        what: str = "TLS handshake",
        open_max: int = OPEN_MAX,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._loop = loop
        #: The turns in which those who shake hands read.
        self.turns = turn_of(loop)
        self._event = event
        self._timeout_s = timeout_s
        self._what = what
        self._open_max = open_max
        self._clock = clock
        self._seldom = logs.Seldom()
        #: Handshakes in progress by address, the oldest first, with the timer of each.
        self._open: dict[str, dict[Handshake, asyncio.TimerHandle]] = {}
        #: Handshakes that can go on, by address; the address whose turn is next comes first.
        self._waiting: dict[str, OrderedDict[Handshake, None]] = {}
        self._is_scheduled = False
        #: Handshakes in progress, and those that failed since the start.
        self.count = 0
        self.failed_total = 0

    def came(self, handshake: Handshake) -> None:
        """A client has connected."""
        timer = self._loop.call_later(self._timeout_s, handshake.refuse, f"the {self._what} timed out")
        self._open.setdefault(network(handshake.host), {})[handshake] = timer
        self.count += 1
        if self.count > self._open_max:
            most = max(self._open.values(), key=len)
            next(iter(most)).refuse(f"too many connections in their {self._what}, most from this address")

    def gone(self, handshake: Handshake) -> None:
        """A handshake is finished, or its connection is closed; no error if that is known."""
        address = network(handshake.host)
        mine = self._open.get(address, {})
        timer = mine.pop(handshake, None)
        if timer is None:
            return
        timer.cancel()
        self.count -= 1
        if not mine:
            del self._open[address]

    def failed(self, host: str, reason: str) -> None:
        """Count a failed handshake, and tell the log."""
        self.failed_total += 1
        if self._seldom.due(network(host)):
            self._event(logging.WARNING, f"{self._what} failed", peer=host, reason=reason)

    def ask(self, handshake: Handshake) -> None:
        """Call ``handshake.step()`` when it is its turn, once however often this is asked for until then."""
        self._waiting.setdefault(network(handshake.host), OrderedDict())[handshake] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        end = self._clock() + TURN_S
        while self._waiting:
            address = next(iter(self._waiting))
            mine = self._waiting.pop(address)
            handshake, _ = mine.popitem(last=False)
            if mine:
                self._waiting[address] = mine  # behind the other addresses
            handshake.step()
            if self._clock() >= end:
                break
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._loop.call_soon(self._turn)
