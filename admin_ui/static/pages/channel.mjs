import { html } from "../lib/html.mjs";
import { Act, Arguments, Card, Facts, Loading, Pill, State } from "../components/bits.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, Gone, mayClose, Refused, Title } from "../components/detail.mjs";
import { RangePicker, SHORT, useSamples } from "../components/ranges.mjs";
import { Table } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { count, rate } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { channelPath, connectionPath, documentPath, queuePath } from "../lib/routes.mjs";
import { shortName } from "./channels.mjs";

const PUBLISHED = ["publish", "confirm", "return_unroutable", "drop_unroutable"];
const DELIVERED = ["deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "ack", "redeliver"];
const CHARTS = [{ counters: PUBLISHED }, { counters: DELIVERED }];
const PUBLISHED_SERIES = [
  { label: "published", colour: "blue", area: true },
  { label: "confirmed", colour: "teal", dash: true },
  { label: "returned", colour: "amber" },
  { label: "dropped", colour: "red" },
];
const DELIVERED_SERIES = [
  { label: "delivered", colour: "violet", area: true },
  { label: "without acks", colour: "blue" },
  { label: "got", colour: "teal" },
  { label: "got without acks", colour: "teal", dash: true },
  { label: "got nothing", colour: "red", dash: true },
  { label: "acked", colour: "green", dash: true },
  { label: "redelivered", colour: "amber" },
];

export function Channel({ route, me }) {
  const { name } = route;
  // Asked of the list: an answer that the channel is gone would be an error in the browser's console.
  const list = useGet(`/admin/v1/channels?page=1&page_size=100&name=${encodeURIComponent(name)}`, 5);
  const channel = list.data?.items.find((one) => one.name === name);
  const path = channel ? documentPath("channels", name) : null;
  const consumers = useGet(path, 5).data?.consumer_details ?? null;
  const points = useSamples({ path, ranges: SHORT, kinds: ["msg_rates"], charts: CHARTS });
  if (list.error) return html`<${Refused} error=${list.error} />`;
  if (!list.data) return html`<${Loading} rows=${10} />`;
  if (!channel) return html`<${Gone} noun="channel" name=${name} list="channels" />`;
  const now = (key) => rate(channel.message_stats?.[`${key}_details`]?.rate ?? 0);
  const limit = (number) => (number ? count(number) : "none");
  const connection = channel.connection_details.name;
  return html`<div class="detail">
    <${Title} kind="Channel" name=${channel.client ? `${channel.client} (${channel.number})` : shortName(channel)}
      pills=${[channel.confirm && "confirms", channel.transactional && "transactions", channel.vhost !== "/" && `vhost ${channel.vhost}`]}>
      <${State} state=${channel.state} />
    <//>
    <${Figures} figures=${[
      ["Unacked", count(channel.messages_unacknowledged)],
      ["Unconfirmed", channel.confirm ? count(channel.messages_unconfirmed) : "–"],
      ["Published", now("publish"), "/s"],
      ["Delivered", now("deliver_get"), "/s"],
      ["Acked", now("ack"), "/s"],
      ["Consumers", count(channel.consumer_count)],
    ]} />
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${SHORT} path=${channelPath(name)} /></div>
    <div class="two">
      <${Chart} id="channel-in" title="From the client" unit="per second" series=${PUBLISHED_SERIES} data=${points.columns[0]} span=${points.span} format=${rate} group="channel" />
      <${Chart} id="channel-out" title="To the client" unit="per second" series=${DELIVERED_SERIES} data=${points.columns[1]} span=${points.span} format=${rate} group="channel" />
    </div>
    <${Consumers} consumers=${consumers} total=${channel.consumer_count} client=${channel.client} may=${mayClose(me, channel.user)} />
    <${Card} title="Channel" id="facts">
      <${Facts} facts=${[
        ["Connection", html`<a class="name" href=${href(connectionPath(connection))} title=${connection}>${channel.client || connection}</a>`],
        ["Number", channel.number],
        ["User", channel.user],
        ["Virtual host", channel.vhost],
        ["Prefetch of a new consumer", limit(channel.prefetch_count)],
        ["Prefetch of the channel", limit(channel.global_prefetch_count)],
        ["Messages of an open transaction", count(channel.messages_uncommitted)],
        ["Acks of an open transaction", count(channel.acks_uncommitted)],
      ]} />
    <//>
  </div>`;
}

function Consumers({ consumers, total, client, may }) {
  const columns = [
    { label: "Queue", cell: (row) => html`<a class="name" href=${href(queuePath(row.queue.vhost, row.queue.name))} title=${row.queue.name}>${row.queue.name}</a>` },
    { label: "Tag", cell: (row) => html`<code class="name" title=${row.consumer_tag}>${row.consumer_tag}</code>` },
    { label: "Prefetch", numeric: true, class: "n mid", cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "none") },
    { label: "Mode", class: "mid", cell: (row) => html`<${Pill}>${row.ack_required ? "acknowledges" : "automatic"}<//>${row.exclusive && html`<${Pill}>exclusive<//>`}${!row.active && html`<${Pill}>waits<//>`}` },
    { label: "Arguments", class: "wide", cell: (row) => html`<${Arguments} table=${row.arguments} />` },
    may && {
      label: "Act", class: "acts-column",
      cell: (row) => html`<${Act} act="objects.closeConsumer" label=${`Close the consumer ${row.consumer_tag}`} what=${{ vhost: row.queue.vhost, queue: row.queue.name, tag: row.consumer_tag, channel: row.channel_details.name, client }}>Close<//>`,
    },
  ].filter(Boolean);
  return html`<${Card} title="Consumers" id="consumers" extra=${html`<${Pill}>${count(total)}<//>`}>
    ${consumers?.length
      ? html`<${Table} columns=${columns} rows=${consumers} caption="Consumers" rowKey=${(row) => row.consumer_tag} />`
      : html`<p class="none">${consumers || !total ? "This channel has no consumers." : "Loading …"}</p>`}
  <//>`;
}
