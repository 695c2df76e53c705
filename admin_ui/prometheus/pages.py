"""The three pages that Prometheus scrapes.

A page is made in slices, as a list is, and sent while it is made. It needs no login on its own port
(``metrics_port``), and the tag ``monitoring`` on the admin port.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from admin_ui.auth import MONITORING, VERIFIER, Verifier, authenticate
from admin_ui.live.attention import ATTENTION, Attention
from admin_ui.live.findings import ORDER
from admin_ui.live.work import Work
from admin_ui.middlewares import add_headers, errors
from admin_ui.prometheus import node
from admin_ui.prometheus.objects import FAMILIES, Family
from admin_ui.prometheus.text import CONTENT_TYPE, Metric, head, labels_text, sample
from admin_ui.prometheus.totals import Totals
from admin_ui.replies import Body, bad_request, not_found
from admin_ui.state import STATE, State
from admin_ui.turns import Turns
from amqp_router.nearest import did_you_mean

#: Objects read between two looks at the clock.
TURN_OBJECTS = 32
PREFIX = "rabbitmq_"
DETAILED = "rabbitmq_detailed_"
CLUSTER = "rabbitmq_cluster_"
#: RabbitMQ's families with nothing in them here; asking for one is no error.
EMPTY = frozenset(
    (
        "auth_attempt_detailed_metrics",
        "channel_process_metrics",
        "channel_queue_exchange_metrics",
        "ra_metrics",
    )
)

TOTALS: web.AppKey[Totals] = web.AppKey("totals", Totals)


class Page:
    """A page while it is made."""

    def __init__(self, request: web.Request) -> None:
        self.state: State = request.app[STATE]
        self.turns = Turns()
        self._body = Body(request, {"Content-Type": CONTENT_TYPE})

    def add(self, samples: Iterable[node.Sample], prefix: str = PREFIX) -> None:
        """Add metrics of the node."""
        for each in samples:
            name = each.name.replace(PREFIX, prefix, 1) if each.name.startswith(PREFIX) else each.name
            text = [head(name, each.kind, each.help)]
            text += [sample(name, labels, value) for labels, value in each.values]
            self._body.add("".join(text).encode())

    async def objects(self, family: Family, vhosts: frozenset[str], prefix: str, seen: set[str]) -> None:
        """Add the metrics of a family that are not ``seen``, with a sample for every object."""
        for metric in family.metrics:
            name = prefix + metric.name
            if name in seen:
                continue
            seen.add(name)
            lines = [head(name, metric.kind, metric.help)]
            for thing in family.things(self.state, vhosts):
                lines.append(sample(name, family.labels(thing), metric.read(thing)))
                if len(lines) == TURN_OBJECTS:
                    self._body.add("".join(lines).encode())
                    lines.clear()
                    await self._body.pass_on(self.turns)
            self._body.add("".join(lines).encode())

    async def sums(self, families: Iterable[Family], vhosts: frozenset[str]) -> dict[str, float]:
        """Add the sums over all objects; returns them."""
        found: dict[str, float] = {}
        for family in families:
            metrics: list[Metric] = [each for each in family.metrics if each.name not in found]
            sums = [0.0] * len(metrics)
            for count, thing in enumerate(family.things(self.state, vhosts)):
                for i, metric in enumerate(metrics):
                    sums[i] += metric.read(thing)
                if count % TURN_OBJECTS == TURN_OBJECTS - 1:
                    await self.turns.next()
            for metric, value in zip(metrics, sums, strict=True):
                found[metric.name] = value
                name = PREFIX + metric.name
                text = head(name, metric.kind, metric.help) + sample(name, "", int(value))
                self._body.add(text.encode())
        return found

    async def of_vhosts(self, name: str, vhosts: frozenset[str]) -> None:
        """Add one of `CLUSTER_FAMILIES`."""
        found = [vhost for vhost in self.state.broker.vhosts.values() if vhost.name in vhosts]
        if name == "vhost_status":
            values = [(labels_text(vhost=vhost.name), 1) for vhost in found]
            text = "Whether a given vhost is running"
            self.add([node.Sample(f"{CLUSTER}vhost_status", "gauge", text, list(values))])
            return
        metric, text = {
            "exchange_names": ("exchange_name", "Enumerates exchanges without any additional info"),
            "exchange_bindings": ("exchange_bindings", "Number of bindings for an exchange"),
        }[name]
        metric = CLUSTER + metric
        lines = [head(metric, "gauge", text)]
        for vhost in found:
            for exchange in list(vhost.exchanges.values()):
                labels = labels_text(vhost=vhost.name, exchange=exchange.name, type=exchange.type)
                number = 1 if name == "exchange_names" else exchange.binding_count
                lines.append(sample(metric, labels, number))
                if len(lines) == TURN_OBJECTS:
                    self._body.add("".join(lines).encode())
                    lines.clear()
                    await self._body.pass_on(self.turns)
        self._body.add("".join(lines).encode())

    async def finish(self) -> web.StreamResponse:
        """End the page."""
        return await self._body.finish()


def _all_vhosts(state: State) -> frozenset[str]:
    return frozenset(state.broker.vhosts)


async def _whole_node(page: Page, request: web.Request) -> None:
    state = page.state
    totals = await request.app[TOTALS].read(page.turns)
    page.add(node.identity(state))
    page.add(node.alarms(state))
    page.add(node.churn(state, totals))
    page.add(node.coarse(state))
    page.add(node.limits(state))
    page.add(node.input_output(state))
    page.add(node.attempts(state))
    page.add(node.messages(totals))
    page.add(node.own(state))
    attention = request.app[ATTENTION]
    await attention.refresh(time.monotonic(), Work())
    found = attention.findings.counts
    values = [(labels_text(kind=kind), found[kind]) for kind in ORDER]
    text = 'What the pages list under "Needs attention", by kind'
    page.add([node.Sample("amqp_router_findings", "gauge", text, list(values))])


async def aggregated(request: web.Request) -> web.StreamResponse:
    """``/metrics``: sums over all objects."""
    page = Page(request)
    await _whole_node(page, request)
    summed = [family for family in FAMILIES if family.is_summed]
    sums = await page.sums(summed, _all_vhosts(page.state))
    page.add(node.counts(page.state, int(sums["queue_consumers"]), request.app[TOTALS].publishers))
    return await page.finish()


async def per_object(request: web.Request) -> web.StreamResponse:
    """``/metrics/per-object``: a sample for every object."""
    page = Page(request)
    vhosts = _all_vhosts(page.state)
    await _whole_node(page, request)
    # The sums of these are among the totals of the node, under the same names.
    seen = {f"{PREFIX}{name}_total" for name, _ in node.SUMS}
    for family in FAMILIES:
        await page.objects(family, vhosts, PREFIX, seen)
    page.add(node.counts(page.state, await _consumers(page), request.app[TOTALS].publishers))
    return await page.finish()


async def _consumers(page: Page) -> int:
    consumers = 0
    for vhost in list(page.state.broker.vhosts.values()):
        for count, queue in enumerate(list(vhost.queues.values())):
            consumers += len(queue.consumers)
            if count % 256 == 255:
                await page.turns.next()
    return consumers


async def detailed(request: web.Request) -> web.StreamResponse:
    """``/metrics/detailed?family=...&vhost=...``: the families that are asked for."""
    wanted = dict.fromkeys(request.query.getall("family", []))
    for name in wanted:
        if name not in KNOWN:
            hint = did_you_mean(name, sorted(KNOWN)) or f"there are {', '.join(sorted(KNOWN))}"
            raise bad_request(f"unknown family {name}; {hint}")
    page = Page(request)
    vhosts = frozenset(request.query.getall("vhost", [])) or _all_vhosts(page.state)
    page.add(node.identity(page.state))
    seen: set[str] = set()
    for name in wanted:
        if name in NODE_FAMILIES:
            page.add(NODE_FAMILIES[name](page.state), DETAILED)
        elif name == "connection_churn_metrics":
            page.add(node.churn(page.state, await request.app[TOTALS].read(page.turns)), DETAILED)
        elif name in CLUSTER_FAMILIES:
            await page.of_vhosts(name, vhosts)
        for family in FAMILIES:
            if family.name == name:
                await page.objects(family, vhosts, DETAILED, seen)
    return await page.finish()


NODE_FAMILIES: dict[str, Callable[[State], Iterable[node.Sample]]] = {
    "auth_attempt_metrics": node.attempts,
    "node_coarse_metrics": node.coarse,
    "node_metrics": node.limits,
    "node_persister_metrics": node.input_output,
}
CLUSTER_FAMILIES = frozenset(("exchange_bindings", "exchange_names", "vhost_status"))
#: Every name that ``family`` may have.
KNOWN = (
    {family.name for family in FAMILIES}
    | NODE_FAMILIES.keys()
    | CLUSTER_FAMILIES
    | EMPTY
    | {"connection_churn_metrics"}
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
PAGES: dict[str, Handler] = {
    "/metrics": aggregated,
    "/metrics/per-object": per_object,
    "/metrics/detailed": detailed,
}


def add_routes(app: web.Application) -> None:
    """Serve the pages on the admin port, to those who may monitor."""
    app[TOTALS] = Totals(app[STATE])
    for path, page in PAGES.items():
        app.router.add_get(path, _for_monitors(page))


def _for_monitors(page: Handler) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        identity = await authenticate(request)
        identity.require(MONITORING)
        return await page(request)

    return handler


def make_app(state: State, attention: Attention) -> web.Application:
    """The application of the port for Prometheus, which needs no login."""
    app = web.Application(middlewares=[errors])
    app[STATE] = state
    app[ATTENTION] = attention
    app[VERIFIER] = Verifier(state)
    app[TOTALS] = Totals(state)
    app.on_response_prepare.append(add_headers)
    for path, page in PAGES.items():
        app.router.add_get(path, page)
    app.router.add_get("/{path:.*}", _elsewhere)
    return app


async def _elsewhere(request: web.Request) -> web.StreamResponse:
    raise not_found()
