import { html, useMemo } from "../lib/html.mjs";
import { Act, Arguments, Card, Facts, Pill, State } from "../components/bits.mjs";
import { Bindings } from "../components/bindings.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, mayClose, Title, Waiting } from "../components/detail.mjs";
import { Moves } from "../components/moves.mjs";
import { RangePicker, SHORT, usePoints } from "../components/ranges.mjs";
import { Table } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { bytes, clock, count, plural, rate } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { href } from "../lib/location.mjs";
import { connectionPath, documentPath, queuePath, segment } from "../lib/routes.mjs";
import { features } from "./queues.mjs";

const LEVELS = ["messages_ready", "messages_unacknowledged"];
const COUNTERS = ["publish", "deliver_get", "ack", "redeliver"];
const LENGTH_SERIES = [
  { label: "ready", colour: "blue", area: true },
  { label: "unacked", colour: "amber" },
];
const RATE_SERIES = [
  { label: "in", colour: "blue" },
  { label: "out", colour: "violet" },
  { label: "ack", colour: "green", dash: true },
  { label: "redeliver", colour: "amber" },
];

export function Queue({ route, me }) {
  const { vhost, name } = route;
  const topic = `queue:${segment(vhost)}/${segment(name)}`;
  const path = documentPath("queues", vhost, name);
  const event = useTopic(topic);
  const queue = event?.queue;
  // Nothing is asked about what is not there: that would be an error in the browser's console.
  const known = queue ? path : null;
  const points = usePoints({
    topic,
    pick: (data) => data.queue,
    path: known,
    ranges: SHORT,
    kinds: ["lengths", "msg_rates"],
    levels: LEVELS,
    counters: COUNTERS,
  });
  const bindings = useGet(known && `${path}/bindings`, 10);
  if (!queue) return html`<${Waiting} event=${event} noun="queue" name=${name} list="queues" />`;
  const stats = queue.message_stats ?? {};
  const now = (key) => rate(points.rate(key) ?? stats[`${key}_details`]?.rate ?? 0);
  const may = me.acts.includes(vhost);
  const what = { vhost, name };
  const acts = may && html`
    <${Act} act="messages.publish" what=${{ vhost, exchange: "", key: name }}>Publish<//>
    <${Act} act="messages.getMessages" what=${what}>Get messages<//>
    <${Act} act="moves.moveMessages" what=${{ ...what, ready: queue.messages_ready, vhosts: me.acts }}>Move messages<//>
    <${Act} act="objects.purge" danger what=${{ ...what, ready: queue.messages_ready }}>Purge<//>
    <${Act} act="objects.deleteQueue" danger what=${{ ...what, messages: queue.messages, consumers: queue.consumers }}>Delete<//>`;
  return html`<div class="detail">
    <${Title} kind="Queue" acts=${acts} name=${name} pills=${[queue.durable ? "durable" : null, ...features(queue), vhost === "/" ? null : `vhost ${vhost}`]}>
      <${State} state=${event.state} />
    <//>
    <${Figures} figures=${[
      ["Ready", count(queue.messages_ready)],
      ["Unacked", count(queue.messages_unacknowledged)],
      ["In", now("publish"), "/s"],
      ["Out", now("deliver_get"), "/s"],
      ["Acked", now("ack"), "/s"],
      ["Consumers", count(queue.consumers)],
    ]} />
    <${Moves} path=${path} vhost=${vhost} name=${name} may=${may} />
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${SHORT} path=${queuePath(vhost, name)} /></div>
    <div class="two">
      <${Chart} id="queue-lengths" title="Messages" series=${LENGTH_SERIES} data=${points.levels} span=${points.span} format=${count} group=${topic} />
      <${Chart} id="queue-rates" title="Rates" unit="per second" series=${RATE_SERIES} data=${points.rates} span=${points.span} format=${rate} group=${topic} />
    </div>
    <${Consumers} queue=${queue} total=${event.consumers_total} clients=${event.clients} me=${me} />
    <${Bindings} id="bindings" title="Bindings to this queue" side="source" bindings=${bindings.data} error=${bindings.error}
      bind=${may && html`<${Act} act="objects.bindTo" what=${{ ...what, kind: "queue" }}>Bind<//>`} mayUnbind=${may} none="This queue is bound to no exchange." />
    <${Settings} queue=${queue} />
  </div>`;
}

const consumerKey = (row) => row.channel_details.name + row.consumer_tag;

function Consumers({ queue, total, clients, me }) {
  const consumers = queue.consumer_details ?? [];
  // Who holds most comes first. Rows do not move while figures change, or one would close the wrong consumer.
  const keys = consumers.map(consumerKey).join("\n");
  const places = useMemo(
    () => new Map([...consumers].sort((a, b) => b.unacked - a.unacked).map((row, place) => [consumerKey(row), place])),
    [keys],
  );
  const ordered = [...consumers].sort((a, b) => places.get(consumerKey(a)) - places.get(consumerKey(b)));
  const columns = [
    {
      label: "Client",
      cell: (row) => {
        const { connection_name: name, peer_host: host, peer_port: port } = row.channel_details;
        return html`<a class="name" href=${href(connectionPath(name))} title=${name}>${clients[name] || `${host}:${port}`}</a>`;
      },
    },
    { label: "Channel", numeric: true, class: "n mid", cell: (row) => row.channel_details.number },
    { label: "Tag", cell: (row) => html`<code class="name" title=${row.consumer_tag}>${row.consumer_tag}</code>` },
    { label: "User", class: "wide", cell: (row) => row.channel_details.user },
    { label: "Unacked", title: "Messages that it has got and not acknowledged", numeric: true, class: "n", cell: (row) => (row.ack_required ? count(row.unacked) : "–") },
    { label: "Prefetch", numeric: true, class: "n mid", cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "none") },
    {
      label: "Mode",
      class: "mid",
      cell: (row) => html`<${Pill}>${row.ack_required ? "acknowledges" : "automatic"}<//>${row.exclusive && html`<${Pill}>exclusive<//>`}${row.active === false && html`<${Pill}>waits<//>`}`,
    },
    consumers.some((row) => mayClose(me, row.channel_details.user)) && {
      label: "Act",
      class: "acts-column",
      cell: (row) => mayClose(me, row.channel_details.user) && html`<${Act} act="objects.closeConsumer" label=${`Close the consumer ${row.consumer_tag}`} what=${{
        vhost: queue.vhost, queue: queue.name, tag: row.consumer_tag, channel: row.channel_details.name, client: clients[row.channel_details.connection_name],
        unacked: row.unacked,
      }}>Close<//>`,
    },
  ].filter(Boolean);
  return html`<${Card} title="Consumers" id="consumers" extra=${html`<${Pill}>${count(queue.consumers)}<//>`}>
    ${consumers.length
      ? html`<${Table} columns=${columns} rows=${ordered} caption="Consumers" rowKey=${consumerKey} />`
      : html`<p class="none">${queue.messages_ready > 0 ? `Nobody consumes; ${plural(queue.messages_ready, "message")} ${queue.messages_ready === 1 ? "waits" : "wait"}.` : "Nobody consumes."}</p>`}
    ${total > consumers.length && html`<p class="note">The first ${consumers.length} are shown.</p>`}
  <//>`;
}

/** What holds for the queue, and where each setting comes from. */
function Settings({ queue }) {
  const yes = (value) => (value ? "yes" : "no");
  return html`<${Card} title="Effective settings" id="settings">
    <${Facts} facts=${[
      ["Durable", yes(queue.durable)],
      ["Exclusive", queue.owner_pid_details ? `yes, of ${queue.owner_pid_details.name}` : yes(queue.exclusive)],
      ["Deleted with its last consumer", yes(queue.auto_delete)],
      ["Type", queue.type],
      queue.policy && ["Policy", queue.policy],
      queue.operator_policy && ["Operator policy", queue.operator_policy],
      ["Messages", `${count(queue.messages)}, of them ${count(queue.messages_ready)} ready`],
      ["Their bodies", `${bytes(queue.message_bytes)}, of them ${bytes(queue.message_bytes_ready)} ready`],
      queue.consumers > 0 && ["Consumer capacity", `${Math.round(100 * queue.consumer_capacity)} % of the last seconds`],
      ["Held in memory", `${plural(queue.messages_ram, "message")}, ${bytes(queue.memory)}`],
      queue.messages_paged_out > 0 && ["Transient, put aside on disk", `${plural(queue.messages_paged_out, "message")}, ${bytes(queue.message_bytes_paged_out)}`],
      ["Kept in its log", queue.durable ? plural(queue.messages_persistent, "message") : "no: the queue is transient"],
      queue.idle_since && ["Idle since", clock(Date.parse(queue.idle_since), { day: true })],
      ["Node", queue.node],
    ]} />
    <${Arguments} table=${queue.arguments} source="from its declaration" />
    <${Arguments} table=${queue.effective_policy_definition} source="from policy" />
    ${!Object.keys(queue.arguments ?? {}).length && html`<p class="none">Declared without arguments.</p>`}
  <//>`;
}
