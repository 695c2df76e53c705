"""Incidents: when what needs attention began and ended, kept over restarts of the broker.

A finding (``admin_ui.live.attention``) that is there at one search and still at the next is one incident. It
has ended when it was missing for a minute. The newest `KEPT_MAX` incidents are kept in ``incidents.json`` in
the data directory, those that go on first. The search takes two hundredths of the time at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from aiohttp import web

from admin_ui.auth import MONITORING
from admin_ui.endpoints import Call, Endpoint
from admin_ui.live.attention import Attention, visible_to
from admin_ui.live.findings import Finding
from admin_ui.live.work import Work
from admin_ui.state import State

FILE = "incidents.json"
#: Seconds between two searches, and the part of the time that they may take.
PERIOD_S = 15.0
SHARE = 0.02
#: An incident has ended when it was not found for so long (ms).
GONE_MS = 60_000
KEPT_MAX = 200
#: What tells one finding from another of its kind.
KEY = ("kind", "vhost", "name")


@dataclass
class Incident:
    """One incident. Times are milliseconds since 1970."""

    #: The finding as it was last seen.
    finding: Finding
    began: int
    #: When it was last seen.
    seen: int
    #: When it ended; None while it goes on.
    ended: int | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Its identity among those that go on."""
        return key_of(self.finding)


def key_of(finding: Finding) -> tuple[str, ...]:
    """What tells a finding from others."""
    return tuple(str(finding.get(name, "")) for name in KEY)


class Incidents:
    """All incidents that are kept."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, ...], Incident] = {}
        #: Those that have ended, the newest last.
        self._ended: list[Incident] = []

    def __iter__(self) -> Iterator[Incident]:
        """Those that go on, then the others, the newest first."""
        yield from sorted(self._open.values(), key=lambda each: -each.began)
        yield from reversed(self._ended)

    def note(self, findings: Iterable[Finding], now: int) -> bool:
        """Take the findings of a search at ``now``; returns whether an incident began or ended."""
        changed = False
        for finding in findings:
            known = self._open.get(key_of(finding))
            if known is not None:
                known.finding, known.seen = finding, now
            elif len(self._open) < KEPT_MAX:
                began = min(now, int(finding.get("since", now)))
                self._open[key_of(finding)] = Incident(finding, began, now)
                changed = True
        for key, incident in list(self._open.items()):
            if now - incident.seen > GONE_MS:
                incident.ended = incident.seen
                self._ended.append(self._open.pop(key))
                changed = True
        del self._ended[: max(0, len(self._ended) + len(self._open) - KEPT_MAX)]
        return changed

    def dump(self) -> list[dict[str, Any]]:
        """Everything, for the file. The findings are not copied: that takes longer than to write them out."""
        return [
            {"finding": each.finding, "began": each.began, "seen": each.seen, "ended": each.ended}
            for each in (*self._ended, *self._open.values())
        ]

    def load(self, kept: list[dict[str, Any]]) -> None:
        """Take over what ``dump`` gave.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        for each in kept[-KEPT_MAX:]:
            incident = Incident(dict(each["finding"]), int(each["began"]), int(each["seen"]), each["ended"])
            if incident.ended is None:
                self._open[incident.key] = incident
            else:
                self._ended.append(incident)


class Recorder:
    """Searches regularly, and keeps the file."""

    def __init__(self, state: State, attention: Attention, clock: Callable[[], float] = time.time) -> None:
        self.incidents = Incidents()
        self._state = state
        self._attention = attention
        self._clock = clock
        self._path = Path(state.broker.settings.data_dir) / FILE
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Load the file and begin."""
        self.load()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="admin incidents")

    async def stop(self) -> None:
        """End; what is known is written."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.store()

    async def _run(self) -> None:
        busy = 0.0
        while True:
            await asyncio.sleep(max(PERIOD_S, busy / SHARE))
            try:
                busy = await self.look()
            except Exception as error:
                self._state.broker.unexpected("the search for incidents", error)

    async def look(self) -> float:
        """Search once; returns the seconds that it took."""
        work = Work()
        await self._attention.refresh(time.monotonic(), work)
        worst = islice(self._attention.findings, KEPT_MAX)
        findings = [each async for each in self._attention.all_dated(worst, work)]
        if self.incidents.note(findings, int(self._clock() * 1000)):
            await work.pause()
            await self.store()
        return work.end()

    def load(self) -> None:
        """Load the file of the last run. One that cannot be read is ignored."""
        try:
            self.incidents.load(json.loads(self._path.read_bytes())["incidents"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._state.broker.event(
                logging.WARNING, "incidents not taken over", file=self._path, reason=error
            )

    async def store(self) -> None:
        """Write the file, in a thread. It is not synced: a crash may lose what began last.

        An error is only logged.
        """
        data = json.dumps({"incidents": self.incidents.dump()}).encode()
        try:
            await asyncio.to_thread(_write, self._path, data)
        except OSError as error:
            self._state.broker.event(logging.WARNING, "incidents not kept", file=self._path, reason=error)


def _write(path: Path, data: bytes) -> None:
    fresh = path.with_suffix(".tmp")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(path)


RECORDER: web.AppKey[Recorder] = web.AppKey("incidents", Recorder)


def every(call: Call) -> list[dict[str, Any]]:
    """Incidents of what the caller may see: those that go on first, then the newest."""
    found = list(call.request.app[RECORDER].incidents)
    names = frozenset([name for name in call.state.broker.vhosts if call.identity.lists(name)])
    visible = visible_to(
        [each.finding for each in found],
        names,
        call.identity.name,
        watches_node=call.identity.has(MONITORING),
    )
    shown = {id(finding) for finding in visible}
    return [
        {"began": each.began, "seen": each.seen, "ended": each.ended, **_without_times(each.finding)}
        for each in found
        if id(each.finding) in shown
    ]


def _without_times(finding: Finding) -> Finding:
    return {name: value for name, value in finding.items() if name not in ("since", "longer")}


ENDPOINTS = [Endpoint("/incidents", every)]
