import { html, useMemo } from "../lib/html.mjs";
import { Attention } from "../components/attention.mjs";
import { Card, Empty, Facts, firstSteps, Loading, Meter, Pill, Snippet, Spark } from "../components/bits.mjs";
import { Chart } from "../components/chart.mjs";
import { ALL, RangePicker, SHORT, useRange, usePoints } from "../components/ranges.mjs";
import { useGet } from "../lib/api.mjs";
import { bytes, count, duration, plural, rate, signed } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { href, param } from "../lib/location.mjs";
import { documentPath, listPath, segment } from "../lib/routes.mjs";
import { growth, levelsOf, padded, ratesOf } from "../lib/series.mjs";

const LEVELS = ["messages_ready", "messages_unacknowledged"];
const COUNTERS = ["publish", "deliver_get", "ack", "confirm", "redeliver", "unroutable"];
/** Ten minutes in steps of 20 seconds. */
const SPARK_POINTS = 31;
const LENGTH_SERIES = [
  { label: "ready", colour: "blue", area: true },
  { label: "unacked", colour: "amber" },
];
const RATE_SERIES = [
  { label: "publish", colour: "blue" },
  { label: "deliver", colour: "violet" },
  { label: "ack", colour: "green", dash: true },
  { label: "confirm", colour: "teal", dash: true },
  { label: "redeliver", colour: "amber" },
  { label: "unroutable", colour: "red" },
];

/** RabbitMQ counts what was returned and what was dropped apart; here both are what no queue wanted. */
function withUnroutable(document) {
  const stats = document?.message_stats;
  if (!stats) return document;
  const unroutable = (stats.return_unroutable ?? 0) + (stats.drop_unroutable ?? 0);
  const returned = stats.return_unroutable_details?.samples ?? [];
  const dropped = new Map((stats.drop_unroutable_details?.samples ?? []).map((s) => [s.timestamp, s.sample]));
  const samples = returned.map((s) => ({ timestamp: s.timestamp, sample: s.sample + (dropped.get(s.timestamp) ?? 0) }));
  return { ...document, message_stats: { ...stats, unroutable, unroutable_details: { samples } } };
}

export function Overview({ me }) {
  const vhost = param("vhost");
  const topic = vhost ? `overview:${segment(vhost)}` : "overview";
  const event = useTopic(topic);
  // Nothing is asked about what is not there: that would be an error in the browser's console.
  const path = !vhost ? "/api/overview" : event?.overview ? documentPath("vhosts", vhost) : null;
  const ranges = vhost ? SHORT : ALL;
  const points = usePoints({
    topic,
    pick: (data) => withUnroutable(data.overview),
    path,
    ranges,
    kinds: ["lengths", "msg_rates"],
    levels: LEVELS,
    counters: COUNTERS,
    refine: withUnroutable,
  });
  const history = useGet(path && `${path}?lengths_age=600&lengths_incr=20&msg_rates_age=600&msg_rates_incr=20`, 10).data;
  const range = useRange(ranges);
  if (!event) return html`<${Loading} rows=${12} />`;
  if (event.gone) {
    return html`<${Empty} title="There is no virtual host of this name">
      <p class="gone-name">${vhost}</p>
      <p>Or you have no permission there. <a href=${listPath("overview")}>All virtual hosts</a></p>
    <//>`;
  }
  const overview = event.overview;
  const quiet = me.vhosts.length > 0 && event.queues === 0 && event.connections === 0 && !overview.message_stats?.publish;
  return html`<div class="overview">
    ${!quiet && html`<${Attention} event=${event} me=${me} />`}
    <${Tiles} event=${event} overview=${overview} points=${points} history=${history} />
    ${quiet && html`<${Welcome} me=${me} />`}
    <div class="overview-grid">
      <div class="charts">
        <div class="charts-bar"><h2>Messages</h2><${RangePicker} path=${listPath("overview")} ranges=${ranges} /></div>
        <${Chart} id="lengths" title="Queued messages" series=${LENGTH_SERIES} data=${points.levels} span=${points.span}
          format=${count} group="overview" />
        <${Chart} id="rates" title="Message rates" unit="per second" series=${RATE_SERIES} data=${points.rates}
          span=${points.span} format=${rate} group="overview" />
        ${range !== "live" && html`<p class="note">Times before the broker started are empty. Drag to zoom, double-click to go back.</p>`}
      </div>
      <div class="aside">
        <${Node} node=${event.node} me=${me} />
      </div>
    </div>
  </div>`;
}

function Tiles({ event, overview, points, history }) {
  const totals = overview.queue_totals ?? overview;
  const stats = overview.message_stats ?? {};
  const flat = useMemo(() => ({ ...history, ...history?.queue_totals, ...history?.message_stats }), [history]);
  const spark = (columns) => columns.map((column) => padded(column, SPARK_POINTS));
  const levels = useMemo(() => spark(levelsOf(flat, LEVELS).columns), [flat]);
  const rates = useMemo(() => spark(ratesOf(flat, ["publish", "deliver_get"]).columns), [flat]);
  const now = (key) => points.rate(key) ?? stats[`${key}_details`]?.rate ?? 0;
  // The history comes every ten seconds; the newest value is the one that the tile shows.
  const change = (values, now) => {
    const grown = growth([...values, now]);
    if (grown === null || values.every((value) => value === null)) return "\u00a0";
    const since = values.includes(null) ? "since the start" : "in 10 min";
    return grown ? `${signed(grown)} ${since}` : `steady ${since}`;
  };
  return html`<div class="tiles">
    <${Tile} label="Ready" value=${count(totals.messages_ready ?? 0)} note=${change(levels[0], totals.messages_ready ?? 0)} values=${levels[0]} kind="c-blue" />
    <${Tile} label="Unacked" value=${count(totals.messages_unacknowledged ?? 0)} note=${change(levels[1], totals.messages_unacknowledged ?? 0)} values=${levels[1]} kind="c-amber" />
    <${Tile} label="Published" value=${rate(now("publish"))} unit="/s" note=${`${count(stats.publish ?? 0)} since the start`} values=${rates[0]} kind="c-blue" />
    <${Tile} label="Delivered" value=${rate(now("deliver_get"))} unit="/s" note=${`${count(stats.deliver_get ?? 0)} since the start`} values=${rates[1]} kind="c-violet" />
    <${Tile} label="Queues" value=${count(event.queues)} note=${plural(event.consumers, "consumer")} link=${listPath("queues")} />
    <${Tile} label="Connections" value=${count(event.connections)} note=${plural(event.channels, "channel")} link=${listPath("connections")} />
  </div>`;
}

function Tile({ label, value, unit, note, values, kind, link }) {
  const body = html`<span class="tile-label">${label}</span>
    <span class="tile-value num">${value}${unit && html`<small>${unit}</small>`}</span>
    <span class="tile-note num">${note}</span>
    ${values && html`<${Spark} values=${values} kind=${kind} label=${`${label}, the last 10 minutes`} />`}`;
  return link ? html`<a class="tile" href=${href(link)}>${body}</a>` : html`<div class="tile">${body}</div>`;
}

function Welcome({ me }) {
  return html`<section class="card welcome">
    <div>
      <h2>The broker is ready, and nothing is connected yet</h2>
      <p>Any AMQP 0-9-1 client works. This one declares a queue, publishes a message and gets it back. Run it and watch this page.</p>
      <p><code>pip install pika</code>, then:</p>
    </div>
    <${Snippet} text=${firstSteps(me)} label="A first program with pika" />
  </section>`;
}

function Node({ node, me }) {
  return html`<${Card} title="Node" id="node">
    ${node &&
    html`<div class="meters">
      <${Meter} name="Memory" used=${node.mem_used} total=${node.mem_limit} text=${`${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`} />
      <${Meter} name="File descriptors" used=${node.fd_used} total=${node.fd_total} text=${`${count(node.fd_used)} of ${count(node.fd_total)}`} />
    </div>`}
    <${Facts} facts=${[
      ["Name", me.node],
      ["Version", me.version],
      ["Build", me.compiled ? "compiled" : html`<${Pill} kind="warn">uncompiled<//>`],
      node && ["Up for", duration(node.uptime)],
      node && ["Disk free", bytes(node.disk_free)],
      node && ["Loop lag", `${node.loop_lag_ms < 10 ? node.loop_lag_ms.toFixed(1) : Math.round(node.loop_lag_ms)} ms`],
      [me.amqp_tls ? "AMQP with TLS" : "AMQP", `${me.amqp_host}:${me.amqp_port}`],
      node && ["Prometheus", html`<a href=${href(`${listPath("node")}#prometheus`)}>What it needs</a>`],
    ]} />
  <//>`;
}
