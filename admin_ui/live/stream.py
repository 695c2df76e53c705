"""The endpoints: the stream of events, and the sparklines of a page of queues."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import orjson
from aiohttp import web

from admin_ui import body
from admin_ui.auth import MANAGEMENT, MONITORING, authenticate
from admin_ui.live.attention import ATTENTION
from admin_ui.live.documents import KINDS
from admin_ui.live.hub import Hub, Viewer
from admin_ui.live.rows import LISTS
from admin_ui.live.waiting import Since, waits_since
from admin_ui.live.work import Work
from admin_ui.replies import ApiError, bad_request, dumps
from admin_ui.state import STATE
from admin_ui.turns import Turns
from amqp_router.metrics import BASIC, QUEUE, Span

#: Seconds without an event after which a viewer gets a heartbeat, so that it knows that the stream is alive.
HEARTBEAT_S = 5.0
#: Limits: streams of one user at a time, and topics of one stream.
STREAMS_MAX = 24
TOPICS_MAX = 64
#: Bytes handed to the socket at a time.
WRITE_BYTES = 64 << 10
#: Queues in one call, and their history: ten minutes in 30 steps.
SPARKLINES_MAX = 100
SPARKLINE = Span(600, 20)
#: Findings in one answer.
FINDINGS_MAX = 1000
BODY_BYTES_MAX = 256 << 10

#: ``queue:VHOST/NAME``, each part percent-encoded.
TOPIC = re.compile(r"[a-z]+(:[\w.~!*'()%:-]+(/[\w.~!*'()%:-]*)?)?", re.ASCII)
HUB: web.AppKey[Hub] = web.AppKey("hub", Hub)


def add_routes(app: web.Application) -> None:
    """Register the endpoints."""
    hub = app[HUB] = Hub(app[STATE], app[ATTENTION])
    app.on_shutdown.append(hub.close)
    app.router.add_get("/admin/v1/events", _events, allow_head=False)
    app.router.add_get("/admin/v1/attention", _attention)
    app.router.add_post("/admin/v1/sparklines", _sparklines)


async def _events(request: web.Request) -> web.StreamResponse:
    identity = await authenticate(request)
    identity.require(MANAGEMENT)
    topics = _topics(request.query.get("topics", ""))
    hub = request.app[HUB]
    if hub.count(identity.name) >= STREAMS_MAX:
        raise ApiError(
            429, "too_many_requests", f"more than {STREAMS_MAX} streams", headers={"Retry-After": "10"}
        )
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await response.prepare(request)
    viewer = Viewer(request, identity, topics)
    hub.add(viewer)
    try:
        await _serve(hub, viewer, response)
    except ConnectionError:
        pass  # the page was closed
    finally:
        hub.remove(viewer)
    return response


def _topics(text: str) -> list[str]:
    topics = list(dict.fromkeys(text.split(",")))
    if len(topics) > TOPICS_MAX:
        raise bad_request(f"more than {TOPICS_MAX} topics")
    for topic in topics:
        kind, about = topic.partition(":")[::2]
        known = topic in LISTS or (kind in KINDS and (bool(about) or kind == "overview"))
        if not known or not TOPIC.fullmatch(topic):
            raise bad_request(f"unknown topic {topic[:100]!r}")
    return topics


async def _serve(hub: Hub, viewer: Viewer, response: web.StreamResponse) -> None:
    while not viewer.ended:
        try:
            await asyncio.wait_for(viewer.wake.wait(), HEARTBEAT_S)
        except TimeoutError:
            await response.write(b"event: heartbeat\ndata: \n\n")
            continue
        viewer.wake.clear()
        await _tell(hub, viewer, response)


async def _tell(hub: Hub, viewer: Viewer, response: web.StreamResponse) -> None:
    """Send what is new, in turns: all viewers of a topic have news at the same time."""
    turns = Turns()
    ready: list[bytes] = []
    size = 0
    while viewer.news and not viewer.ended:
        await turns.next()
        # The event is made now and not when the news came, so the viewer gets the newest state.
        topic, _ = viewer.news.popitem()
        pieces = hub.message(viewer, topic)
        if pieces is None:
            continue
        ready.append(b"event: %b\ndata: " % topic.encode())
        for piece in pieces:
            ready.append(piece)
            size += len(piece)
            if size >= WRITE_BYTES:
                await response.write(b"".join(ready))
                ready.clear()
                size = 0
            await turns.next()
        ready.append(b"\n\n")
    if ready:
        await response.write(b"".join(ready))


async def _attention(request: web.Request) -> web.Response:
    """What needs attention now, of what the caller may see: all of it, the worst first."""
    identity = await authenticate(request)
    identity.require(MANAGEMENT)
    state, attention = request.app[STATE], request.app[ATTENTION]
    work = Work()
    await attention.refresh(time.monotonic(), work)
    names = frozenset([name for name in state.broker.vhosts if identity.lists(name)])
    mine = attention.visible(names, identity.name, watches_node=identity.has(MONITORING))
    found = [finding async for finding in attention.all_dated(mine.worst[:FINDINGS_MAX], work)]
    document = {"findings": found, "total": mine.counts.total()}
    return web.Response(body=dumps(document), content_type="application/json")


async def _sparklines(request: web.Request) -> web.Response:
    """Of each of the queues named in the body: its messages, oldest first, null for unknown times; and since
    when its oldest ready message waits (``waiting.Since``), null if that is not known.
    """
    identity = await authenticate(request)
    identity.require(MANAGEMENT)
    state = request.app[STATE]
    columns = QUEUE.fields["messages"]
    series: list[list[int | None] | None] = []
    waiting: list[Since | None] = []
    for vhost, name in await _read_names(request):
        found = state.broker.vhosts.get(vhost) if identity.lists(vhost) else None
        queue = found.queues.get(name) if found is not None else None
        history = state.metrics.history(queue)
        waiting.append(None if queue is None else waits_since(queue, history))
        if history is None:
            series.append(None)
            continue
        samples = state.metrics.samples(history, columns, SPARKLINE, BASIC)
        values: list[int | None] = [None] * (SPARKLINE.age_s // SPARKLINE.step_s + 1 - len(samples))
        series.append(values + [value for value, _ in reversed(samples)])
    return web.Response(body=dumps({"series": series, "waiting": waiting}), content_type="application/json")


async def _read_names(request: web.Request) -> list[tuple[str, str]]:
    data = await body.read(request, BODY_BYTES_MAX)
    try:
        wanted: Any = orjson.loads(data)
        names = [(str(vhost), str(name)) for vhost, name in wanted["queues"]]
    except (ValueError, KeyError, TypeError):
        raise bad_request("not_json") from None
    if len(names) > SPARKLINES_MAX:
        raise bad_request(f"more than {SPARKLINES_MAX} queues")
    return names
