"""Reads each watched topic once for all viewers, and notifies them of changes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from aiohttp import web

from admin_ui.auth import ADMINISTRATOR, MONITORING, Identity
from admin_ui.live import documents
from admin_ui.live.attention import Attention
from admin_ui.live.rows import LISTS, USER, Row, Rows
from admin_ui.live.work import Work
from admin_ui.replies import dumps
from admin_ui.sessions import current
from admin_ui.state import STATE, State

PERIOD_S = 1.0
#: Largest share of the event loop's time for reading. If reading takes longer, it is done less often.
SHARE = 0.02
#: Rows read between two readings of the clock.
SLICE_ROWS = 64


class Viewer:
    """One stream: its topics, and the version of each list that was sent."""

    def __init__(self, request: web.Request, identity: Identity, topics: list[str]) -> None:
        self.request = request
        self.identity = identity
        self.topics = topics
        self.sent: dict[str, int] = {}
        #: Topics with news.
        self.news: dict[str, None] = {}
        self.wake = asyncio.Event()
        self.ended = False
        self._by_session = current(request) is not None
        self._generation = self._users_generation()

    def sees(self, topic: str) -> Callable[[Row], bool] | None:
        """The rows of a list that the viewer may see; None: all."""
        identity = self.identity
        if topic == "connections":
            if identity.has(MONITORING):
                return None
            return lambda row: bool(row[USER] == identity.name)
        vhosts = self.request.app[STATE].broker.vhosts
        seen = {name for name in vhosts if identity.lists(name)}
        return None if len(seen) == len(vhosts) else (lambda row: row[1] in seen)

    def tell(self, topic: str) -> None:
        """Note that a topic has news."""
        self.news[topic] = None
        self.wake.set()

    def end(self) -> None:
        """Close the stream. The page opens another one and is authenticated again."""
        self.ended = True
        self.wake.set()

    def is_welcome(self) -> bool:
        """Whether the viewer may still watch. The call also keeps its session alive."""
        if self._generation != self._users_generation():
            return False
        return not self._by_session or current(self.request) is not None

    def _users_generation(self) -> int:
        return int(self.request.app[STATE].broker.users.generation)


class Hub:
    """All viewers of a node, and the state of their topics."""

    def __init__(self, state: State, attention: Attention) -> None:
        self._state = state
        self._viewers: set[Viewer] = set()
        self._lists: dict[str, Rows] = {}
        #: Events of this period by topic and user (one entry for all users who see everything).
        self._events: dict[tuple[str, str], bytes] = {}
        self._attention = attention
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def count(self, name: str) -> int:
        """The number of a user's streams."""
        return sum([viewer.identity.name == name for viewer in self._viewers])

    def add(self, viewer: Viewer) -> None:
        """Notify ``viewer`` of its topics from now on."""
        self._viewers.add(viewer)
        self._hurry.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="admin live")

    def remove(self, viewer: Viewer) -> None:
        """The stream is closed."""
        self._viewers.discard(viewer)

    async def close(self, app: web.Application) -> None:
        """End every stream, because the server stops."""
        for viewer in self._viewers:
            viewer.end()
        if self._task is not None:
            self._task.cancel()

    def message(self, viewer: Viewer, topic: str) -> bytes | None:
        """The next event of a topic for ``viewer``; None if it has everything."""
        rows = self._lists.get(topic)
        if rows is not None:
            sent = viewer.sent.get(topic)
            if sent == rows.version:
                return None
            viewer.sent[topic] = rows.version
            sees = viewer.sees(topic)
            return rows.patch(sees) if sent == rows.version - 1 else rows.whole(sees)
        # Viewers who see everything share one event. Others have one for each user.
        identity = viewer.identity
        key = topic, "" if identity.has(ADMINISTRATOR) else identity.name
        if key not in self._events:
            self._events[key] = dumps(documents.build(viewer.request, identity, topic, self._attention))
        return self._events[key]

    async def _run(self) -> None:
        try:
            while self._viewers:
                began = time.monotonic()
                self._hurry.clear()
                busy = 0.0
                try:
                    busy = await self._read()
                except Exception as error:
                    self._state.broker.unexpected("the live pages", error)
                rest = max(PERIOD_S, busy / SHARE) - (time.monotonic() - began)
                # A new viewer does not wait for the next period.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), max(0.01, rest))
        finally:
            self._task = None
            self._lists.clear()
            self._events.clear()

    async def _read(self) -> float:
        """Read every watched topic; returns the seconds that it took."""
        work = Work()
        watched: dict[str, list[Viewer]] = {}
        for viewer in self._viewers:
            if not viewer.is_welcome():
                viewer.end()
                continue
            for topic in viewer.topics:
                watched.setdefault(topic, []).append(viewer)
        for gone in self._lists.keys() - watched.keys():
            del self._lists[gone]
        if any(topic.startswith("overview") for topic in watched):
            await self._attention.refresh(time.monotonic(), work)
        self._events.clear()
        for topic, viewers in watched.items():
            if topic in LISTS:
                await self._read_list(topic, work)
            for viewer in viewers:
                if topic not in LISTS or viewer.sent.get(topic) != self._lists[topic].version:
                    viewer.tell(topic)
        return work.end()

    async def _read_list(self, topic: str, work: Work) -> None:
        columns, read = LISTS[topic]
        rows: dict[str, Row] = {}
        for count, row in enumerate(read(self._state)):
            rows[row[0]] = row
            if count % SLICE_ROWS == SLICE_ROWS - 1:
                await work.pause()
        if topic not in self._lists:
            self._lists[topic] = Rows(columns)
        self._lists[topic].replace(rows, int(time.time() * 1000))
