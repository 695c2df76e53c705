import { html } from "../lib/html.mjs";
import { Act, Arguments, Card, Facts, Pill, State } from "../components/bits.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, mayClose, Title, Waiting } from "../components/detail.mjs";
import { RangePicker, SHORT, usePoints } from "../components/ranges.mjs";
import { Table } from "../components/table.mjs";
import { bytes, clock, count, duration, rate } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { href } from "../lib/location.mjs";
import { channelPath, connectionPath, queuePath, segment } from "../lib/routes.mjs";

const COUNTERS = ["recv_oct", "send_oct"];
const SERIES = [
  { label: "from the client", colour: "blue", area: true },
  { label: "to the client", colour: "violet" },
];

export function Connection({ route, me }) {
  const { name } = route;
  const topic = `connection:${segment(name)}`;
  const path = `/api/connections/${segment(name)}`;
  const event = useTopic(topic);
  const connection = event?.connection;
  // Nothing is asked about what is not there: that would be an error in the browser's console.
  const known = connection ? path : null;
  const points = usePoints({
    topic,
    pick: (data) => data.connection,
    path: known,
    ranges: SHORT,
    kinds: ["data_rates"],
    levels: [],
    counters: COUNTERS,
  });
  if (!connection) return html`<${Waiting} event=${event} noun="connection" name=${name} list="connections" />`;
  const now = (key) => bytes(points.rate(key) ?? connection[`${key}_details`]?.rate ?? 0);
  const client = connection.user_provided_name || connection.client_properties?.connection_name;
  const may = mayClose(me, connection.user);
  return html`<div class="detail">
    <${Title} kind="Connection" acts=${may && html`<${Act} act="objects.closeConnection" danger what=${{ name, client }}>Close<//>`} name=${client || name} pills=${[connection.protocol, connection.vhost !== "/" && `vhost ${connection.vhost}`]}>
      <${State} state=${connection.state} />
    <//>
    <${Figures} figures=${[
      ["From the client", now("recv_oct"), "/s"],
      ["To the client", now("send_oct"), "/s"],
      ["Channels", count(connection.channels)],
      ["Open for", duration(event.at - connection.connected_at)],
    ]} />
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${SHORT} path=${connectionPath(name)} /></div>
    <${Chart} id="data-rates" title="Data" unit="bytes per second" series=${SERIES} data=${points.rates} span=${points.span} format=${bytes} axis=${bytes} binary />
    <${Channels} channels=${event.channels} />
    <${Consumers} consumers=${event.consumers} total=${event.consumers_total} vhost=${connection.vhost} client=${client} may=${may} />
    <div class="two">
      <${Card} title="Connection" id="facts">
        <${Facts} facts=${[
          ["Address", name],
          ["User", connection.user],
          ["Virtual host", connection.vhost],
          ["Since", clock(connection.connected_at, { day: true })],
          ["Authentication", connection.auth_mechanism],
          ["TLS", connection.ssl ? `${connection.ssl_protocol}, ${connection.ssl_cipher}` : "no"],
          ["Client certificate", connection.peer_cert_subject || "none"],
          ["Heartbeat", connection.timeout ? `${connection.timeout} s` : "none"],
          ["Largest frame", bytes(connection.frame_max)],
          ["Channel limit", count(connection.channel_max)],
          ["Received", `${bytes(connection.recv_oct)} in ${count(connection.recv_cnt)} reads`],
          ["Sent", `${bytes(connection.send_oct)} in ${count(connection.send_cnt)} writes`],
        ]} />
      <//>
      <${Card} title="What the client says of itself" id="client">
        <${Arguments} table=${connection.client_properties} />
        ${!Object.keys(connection.client_properties ?? {}).length && html`<p class="none">Nothing.</p>`}
      <//>
    </div>
  </div>`;
}

function Channels({ channels }) {
  const per = (row, key) => rate(row.message_stats?.[`${key}_details`]?.rate ?? 0);
  const columns = [
    { label: "Channel", numeric: true, class: "n", cell: (row) => html`<a href=${href(channelPath(row.name))} aria-label=${`Channel ${row.number}`}>${row.number}</a>` },
    { label: "State", class: "mid", cell: (row) => html`<${State} state=${row.state} />` },
    { label: "Mode", class: "mid", cell: (row) => html`${row.confirm && html`<${Pill}>confirms<//>`}${row.transactional && html`<${Pill}>transactions<//>`}` },
    { label: "Consumers", numeric: true, class: "n mid", cell: (row) => count(row.consumer_count) },
    { label: "Prefetch", title: "0: no limit", numeric: true, class: "n wide", cell: (row) => count(row.prefetch_count || row.global_prefetch_count) },
    { label: "Unacked", numeric: true, class: "n", cell: (row) => count(row.messages_unacknowledged) },
    { label: "Unconfirmed", numeric: true, class: "n wide", cell: (row) => count(row.messages_unconfirmed) },
    { label: "Publish/s", numeric: true, class: "n", cell: (row) => per(row, "publish") },
    { label: "Deliver/s", numeric: true, class: "n", cell: (row) => per(row, "deliver_get") },
    { label: "Ack/s", numeric: true, class: "n wide", cell: (row) => per(row, "ack") },
  ];
  return html`<${Card} title="Channels" id="channels" extra=${html`<${Pill}>${count(channels.length)}<//>`}>
    ${channels.length
      ? html`<${Table} columns=${columns} rows=${channels} caption="Channels" rowKey=${(row) => row.number} />`
      : html`<p class="none">No channel is open.</p>`}
  <//>`;
}

function Consumers({ consumers, total, vhost, client, may }) {
  const columns = [
    { label: "Queue", cell: (row) => html`<a class="name" href=${href(queuePath(vhost, row.queue))} title=${row.queue}>${row.queue}</a>` },
    { label: "Tag", class: "mid", cell: (row) => html`<code class="name" title=${row.tag}>${row.tag}</code>` },
    { label: "Channel", numeric: true, class: "n mid", cell: (row) => row.channel },
    { label: "Prefetch", numeric: true, class: "n", cell: (row) => (row.prefetch ? count(row.prefetch) : "none") },
    { label: "Mode", class: "wide", cell: (row) => html`<${Pill}>${row.no_ack ? "automatic" : "acknowledges"}<//>` },
    { label: "Unacked", numeric: true, class: "n", cell: (row) => (row.no_ack ? "–" : count(row.unacked)) },
    { label: "Ready there", title: "Messages ready in the queue", numeric: true, class: "n", cell: (row) => count(row.ready) },
    may && {
      label: "Act", class: "acts-column",
      cell: (row) => html`<${Act} act="objects.closeConsumer" label=${`Close the consumer ${row.tag}`} what=${{ vhost, queue: row.queue, tag: row.tag, channel: row.channel_name, client, unacked: row.unacked }}>Close<//>`,
    },
  ].filter(Boolean);
  return html`<${Card} title="Consumers" id="consumers" extra=${html`<${Pill}>${count(total)}<//>`}>
    ${consumers.length
      ? html`<${Table} columns=${columns} rows=${consumers} caption="Consumers" rowKey=${(row) => `${row.channel}/${row.tag}`} />`
      : html`<p class="none">This connection has no consumers.</p>`}
    ${total > consumers.length && html`<p class="note">The first ${consumers.length} are shown.</p>`}
  <//>`;
}
