"""Reads each watched topic once for all viewers, and notifies them of changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Hashable, Iterable

from aiohttp import web

from admin_ui.auth import ADMINISTRATOR, MONITORING, Identity
from admin_ui.live import documents
from admin_ui.live.attention import Attention
from admin_ui.live.rows import LISTS, USER, Rows, Sees
from admin_ui.live.work import Work
from admin_ui.replies import dump_steps
from admin_ui.sessions import current
from admin_ui.state import STATE, State
from admin_ui.turns import line

PERIOD_S = 1.0
#: Largest share of the event loop's time for reading. If reading takes longer, it is done less often.
SHARE = 0.02
#: Viewers looked at between two readings of the clock.
SLICE_VIEWERS = 16


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

    def sees(self, topic: str) -> tuple[Sees | None, Hashable]:
        """The rows of a list that the viewer may see, None for all; and what viewers who see the same rows
        have in common.
        """
        name = self.identity.name
        if topic == "connections":
            if self.identity.has(MONITORING):
                return None, None
            return (lambda row: bool(row[USER] == name)), name
        seen = self._seen_vhosts()
        return (None, None) if seen is None else (lambda row: row[1] in seen, seen)

    def shares(self, topic: str) -> Hashable:
        """What viewers to whom a topic that is no list looks the same have in common."""
        identity = self.identity
        if identity.has(ADMINISTRATOR):
            return None
        if identity.has(MONITORING) and topic == "overview":
            # They see connections and figures of the whole node, and totals of their virtual hosts.
            return MONITORING, self._seen_vhosts()
        return identity.name

    def _seen_vhosts(self) -> frozenset[str] | None:
        """The virtual hosts in lists; None: all of them."""
        vhosts = self.request.app[STATE].broker.vhosts
        seen = frozenset([name for name in vhosts if self.identity.lists(name)])
        return None if len(seen) == len(vhosts) else seen

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
        #: Events of this period by topic and `Viewer.shares`.
        self._events: dict[tuple[str, Hashable], bytes] = {}
        #: Viewers who came since the last reading.
        self._new: set[Viewer] = set()
        self._attention = attention
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def count(self, name: str) -> int:
        """The number of a user's streams."""
        return sum([viewer.identity.name == name for viewer in self._viewers])

    def add(self, viewer: Viewer) -> None:
        """Notify ``viewer`` of its topics from now on."""
        self._viewers.add(viewer)
        self._new.add(viewer)
        self._hurry.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="admin live")

    def remove(self, viewer: Viewer) -> None:
        """The stream is closed."""
        self._viewers.discard(viewer)
        self._new.discard(viewer)

    async def close(self, app: web.Application) -> None:
        """End every stream, because the server stops."""
        for viewer in self._viewers:
            viewer.end()
        if self._task is not None:
            self._task.cancel()

    def message(self, viewer: Viewer, topic: str) -> Iterable[bytes] | None:
        """The next event of a topic for ``viewer``, in pieces; None if it has everything."""
        rows = self._lists.get(topic)
        if rows is not None:
            sent = viewer.sent.get(topic)
            if sent == rows.version:
                return None
            viewer.sent[topic] = rows.version
            sees, rights = viewer.sees(topic)
            return rows.patch(sees, rights) if sent == rows.version - 1 else rows.whole(sees)
        if topic in LISTS:
            return None  # not watched at the last reading; the next one tells
        key = topic, viewer.shares(topic)
        if key in self._events:
            return (self._events[key],)
        document = documents.build(viewer.request, viewer.identity, topic, self._attention)
        return _encoded(document, self._events, key)

    async def _run(self) -> None:
        try:
            while self._viewers:
                began = time.monotonic()
                self._hurry.clear()
                busy = await self._tried(new=False)
                while not await self._is_time(began, busy):
                    busy += await self._tried(new=True)
        finally:
            self._task = None
            self._lists.clear()
            self._events = {}

    async def _is_time(self, began: float, busy: float) -> bool:
        """Wait; True when the next reading is due, False if a new viewer came long before.

        ``began`` is the time of the last reading, which took ``busy`` seconds. If reading is quick, a new
        viewer hastens the next one; 200 that open a page one after the other are not 200 readings of 10,000
        queues.
        """
        rest = max(PERIOD_S, busy / SHARE) - (time.monotonic() - began)
        try:
            await asyncio.wait_for(self._hurry.wait(), max(0.01, rest))
        except TimeoutError:
            return True
        self._hurry.clear()
        return time.monotonic() - began >= busy / SHARE

    async def _tried(self, *, new: bool) -> float:
        """Read for all viewers, or only what the new ones need; returns the seconds that it took."""
        await line().turn()
        work = Work()
        try:
            await (self._read_new(work) if new else self._read(work))
        except Exception as error:
            self._state.broker.unexpected("the live pages", error)
        return work.end()

    async def _read(self, work: Work) -> None:
        """Read every watched topic."""
        self._new.clear()
        watched: dict[str, list[Viewer]] = {}
        for count, viewer in enumerate(list(self._viewers)):
            if count % SLICE_VIEWERS == SLICE_VIEWERS - 1:
                await work.pause()
            if not viewer.is_welcome():
                viewer.end()
                continue
            for topic in viewer.topics:
                watched.setdefault(topic, []).append(viewer)
        for gone in self._lists.keys() - watched.keys():
            del self._lists[gone]
        await self._search(watched, work)
        self._events = {}
        for topic, viewers in watched.items():
            if topic in LISTS:
                await self._read_list(topic, work)
            for viewer in viewers:
                if topic not in LISTS or viewer.sent.get(topic) != self._lists[topic].version:
                    viewer.tell(topic)

    async def _read_new(self, work: Work) -> None:
        """Read lists that nobody watched at the last reading; tell the new viewers of all their topics."""
        viewers = list(self._new)
        self._new.clear()
        for viewer in viewers:
            await self._search(viewer.topics, work)
            for topic in viewer.topics:
                if topic in LISTS and topic not in self._lists:
                    await self._read_list(topic, work)
                viewer.tell(topic)

    async def _search(self, topics: Iterable[str], work: Work) -> None:
        """Look for what needs attention, if it is shown."""
        if any(topic.startswith("overview") for topic in topics):
            await self._attention.refresh(time.monotonic(), work)

    async def _read_list(self, topic: str, work: Work) -> None:
        columns, read = LISTS[topic]
        if topic not in self._lists:
            rows = Rows(columns)
            await rows.read(read(self._state), int(time.time() * 1000), work)
            self._lists[topic] = rows
        else:
            await self._lists[topic].read(read(self._state), int(time.time() * 1000), work)


def _encoded(
    document: documents.Event, events: dict[tuple[str, Hashable], bytes], key: tuple[str, Hashable]
) -> Generator[bytes]:
    """The event as JSON, which is put among ``events``. Empty pieces come before it if it takes long."""
    data = yield from dump_steps(document)
    events[key] = data
    yield data
