import { html } from "../lib/html.mjs";
import { Act, Card, Facts, Loading, Meter, Pill, Snippet, State } from "../components/bits.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, Refused, Title } from "../components/detail.mjs";
import { ALL, RangePicker, useSamples } from "../components/ranges.mjs";
import { Table } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { bytes, count, duration, rate } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { href, useFragment } from "../lib/location.mjs";
import { listPath, segment } from "../lib/routes.mjs";

/** The accounts of memory that clients can fill, and what happens at their limits. */
const ACCOUNTS = {
  contents: ["Messages in queues", "then they go to disk"],
  held: ["Output that clients have not read, messages on their way in, definitions to be written", "the limit of all accounts together"],
  kept: ["Declared queues, exchanges and bindings, cached routes", "then declarations are refused"],
};
const CHURN = [
  ["Connections", "connection_created", "opened", "connection_closed", "closed"],
  ["Channels", "channel_created", "opened", "channel_closed", "closed"],
  ["Queues", "queue_created", "created", "queue_deleted", "deleted"],
];
const MEMORY = [
  { label: "process", colour: "blue", area: true },
  { label: "messages", colour: "violet" },
  { label: "output and input", colour: "amber" },
  { label: "declared", colour: "green", dash: true },
];
const DISK = [{ label: "free", colour: "blue", area: true }];
const FILES = [
  { label: "descriptors", colour: "blue", area: true },
  { label: "connections", colour: "violet" },
];
const TRAFFIC = [
  { label: "written", colour: "blue" },
  { label: "read", colour: "violet" },
];
const COME_AND_GO = [
  { label: "connections opened", colour: "blue" },
  { label: "connections closed", colour: "blue", dash: true },
  { label: "channels opened", colour: "violet" },
  { label: "channels closed", colour: "violet", dash: true },
  { label: "queues created", colour: "green" },
  { label: "queues deleted", colour: "green", dash: true },
];
const CHARTS = [
  { levels: ["mem_used", "account_contents", "account_held", "account_kept"] },
  { levels: ["disk_free"] },
  { levels: ["fd_used", "sockets_used"] },
  { counters: ["io_write_bytes", "io_read_bytes"] },
  { counters: ["connection_created", "connection_closed", "channel_created", "channel_closed", "queue_created", "queue_deleted"] },
];
const PROTOCOLS = {
  amqp: "AMQP 0-9-1",
  "amqp/ssl": "AMQP 0-9-1 with TLS",
  http: "HTTP: these pages and the API",
  https: "HTTPS: these pages and the API",
  "http/prometheus": "Prometheus: /metrics, without a login",
};

/** What a Prometheus needs to scrape this node; without a port for it, over the admin port with an API token. */
function scrape(listeners) {
  const own = listeners.find((one) => one.protocol === "http/prometheus");
  const host = (address) => (["0.0.0.0", "::"].includes(address) ? location.hostname : address.includes(":") ? `[${address}]` : address);
  const target = own ? `${host(own.ip_address)}:${own.port}` : location.host;
  const how = own ? "" : `\n    scheme: ${location.protocol.slice(0, -1)}\n    authorization: {credentials_file: /etc/prometheus/amqp-router}`;
  return `scrape_configs:\n  - job_name: amqp-router${how}\n    static_configs: [{targets: ["${target}"]}]`;
}

export function NodePage({ me }) {
  const node = useGet(`/api/nodes/${segment(me.node)}`, 5);
  const live = useTopic("overview")?.node;
  const overview = useGet("/api/overview", 10);
  const points = useSamples({ path: `/api/nodes/${segment(me.node)}`, ranges: ALL, kinds: ["node_stats"], charts: CHARTS });
  const one = node.data;
  useFragment(Boolean(one && overview.data));
  if (node.error) return html`<${Refused} error=${node.error} />`;
  if (!one || !overview.data) return html`<${Loading} rows=${10} />`;
  const acts = me.tags.includes("administrator") && html`
    <${Act} act="admin.renameCluster" what=${{ name: overview.data.cluster_name }}>Name the cluster<//>
    <${Act} act="admin.forgetHistories">Forget histories<//>`;
  const alarms = [one.mem_alarm && "memory alarm", one.disk_free_alarm && "disk alarm"].filter(Boolean);
  return html`<div class="detail">
    <${Title} kind="Node" name=${one.name} pills=${[me.version, one.compiled ? "compiled" : "uncompiled"]} acts=${acts}>
      <${State} state=${alarms.length ? "flow" : "running"} />${alarms.map((text) => html`<${Pill} kind="warn" key=${text}>${text}<//>`)}
    <//>
    <${Figures} figures=${[
      ["Up for", duration(live?.uptime ?? one.uptime)],
      ["Memory", bytes(one.mem_used)],
      ["Disk free", bytes(one.disk_free)],
      ["Descriptors", count(one.fd_used)],
      ["Loop lag", one.loop_lag_ms < 10 ? one.loop_lag_ms.toFixed(1) : count(one.loop_lag_ms), " ms"],
      ["Processors", count(one.processors)],
    ]} />
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${ALL} path=${listPath("node")} /></div>
    <div class="two">
      <${Chart} id="node-memory" title="Memory" series=${MEMORY} data=${points.columns[0]} span=${points.span} format=${bytes} axis=${bytes} binary group="node" />
      <${Chart} id="node-disk" title="Disk" series=${DISK} data=${points.columns[1]} span=${points.span} format=${bytes} axis=${bytes} binary group="node" />
      <${Chart} id="node-files" title="Descriptors" series=${FILES} data=${points.columns[2]} span=${points.span} format=${count} group="node" />
      <${Chart} id="node-traffic" title="Disk traffic" unit="bytes per second" series=${TRAFFIC} data=${points.columns[3]} span=${points.span} format=${bytes} axis=${bytes} binary group="node" />
    </div>
    <${Chart} id="node-churn" title="What comes and goes" unit="per second" series=${COME_AND_GO} data=${points.columns[4]} span=${points.span} format=${rate} group="node" />
    <div class="two">
      <${Memory} node=${one} accounts=${live?.accounts} />
      <${Card} title="Disk and descriptors" id="disk">
        <div class="meters">
          <${Meter} name="File descriptors" used=${one.fd_used} total=${one.fd_total} text=${`${count(one.fd_used)} of ${count(one.fd_total)}`} />
          <${Meter} name="Connections" used=${one.sockets_used ?? 0} total=${one.sockets_total} text=${`${count(one.sockets_used ?? 0)} of ${count(one.sockets_total)}`} />
        </div>
        <${Facts} facts=${[
          ["Disk free", bytes(one.disk_free)],
          ["Publishers wait below", bytes(one.disk_free_limit)],
          ["Written", `${bytes(one.io_write_bytes_details?.rate ?? 0)}/s, ${bytes(one.io_write_bytes ?? 0)} so far`],
          ["Read", `${bytes(one.io_read_bytes_details?.rate ?? 0)}/s, ${bytes(one.io_read_bytes ?? 0)} so far`],
          ["Data directory", html`<code>${one.db_dir}</code>`],
        ]} />
      <//>
    </div>
    <div class="two">
      <${Churn} node=${one} />
      <${Ports} listeners=${overview.data.listeners} />
    </div>
    <${Card} title="Prometheus" id="prometheus">
      <div class="form"><p class="form-text">For <code>prometheus.yml</code>${overview.data.listeners?.some((one) => one.protocol === "http/prometheus") ? "." : html`, with an <a href=${href(listPath("tokens"))}>API token</a> for <b>monitoring</b> in the file.`}</p>
        <${Snippet} text=${scrape(overview.data.listeners ?? [])} label="What Prometheus needs" /></div>
    <//>
    <${Card} title="Process" id="process">
      <${Facts} facts=${[
        ["Cluster", overview.data.cluster_name],
        ["Process id", one.os_pid],
        ["Runtime", overview.data.erlang_full_version],
        ["Threads", `${count(one.proc_used)} of ${count(one.proc_total)}`],
        ["Loop lag, the highest", `${one.loop_lag_highest_ms < 10 ? one.loop_lag_highest_ms.toFixed(1) : count(one.loop_lag_highest_ms)} ms`],
        ["Exchange types", one.exchange_types.map((type) => type.name).join(", ")],
        ["Authentication", one.auth_mechanisms.map((mechanism) => mechanism.name).join(", ")],
        ["Clients see RabbitMQ", overview.data.rabbitmq_version],
      ]} />
    <//>
  </div>`;
}

/** Where memory goes: the accounts that clients can fill, with their limits, and the rest. */
function Memory({ node, accounts }) {
  const parts = Object.entries(accounts ?? {}).map(([name, [used, limit]]) => [...(ACCOUNTS[name] ?? [name, ""]), used, limit]);
  const rest = Math.max(0, node.mem_used - parts.reduce((sum, [, , used]) => sum + used, 0));
  parts.push(["Program, connections and everything else", "", rest, 0]);
  const columns = [
    { label: "Account", class: "whole", cell: ([name]) => name },
    { label: "Memory", numeric: true, class: "amount", cell: ([, , used]) => bytes(used) },
    { label: "Limit", numeric: true, class: "amount", cell: ([, effect, , limit]) => (limit ? html`<span title=${effect}>${bytes(limit)}</span>` : html`<span class="muted">none</span>`) },
  ];
  return html`<${Card} title="Memory by account" id="memory">
    <div class="meters"><${Meter} name="Used" used=${node.mem_used} total=${node.mem_limit} text=${`${bytes(node.mem_used)} of ${bytes(node.mem_limit)}`} /></div>
    <${Table} columns=${columns} rows=${parts} caption="Memory by account" rowKey=${([name]) => name} />
  <//>`;
}

function Churn({ node }) {
  const figure = (key) => html`${rate(node[`${key}_details`]?.rate ?? 0)}/s<div class="given">${count(node[key] ?? 0)} so far</div>`;
  const columns = [
    { label: "What", cell: ([label]) => label },
    { label: "Come", numeric: true, class: "whole right", cell: ([, came, word]) => html`<span title=${word}>${figure(came)}</span>` },
    { label: "Go", numeric: true, class: "whole right", cell: ([, , , went, word]) => html`<span title=${word}>${figure(went)}</span>` },
  ];
  return html`<${Card} title="Churn" id="churn"><${Table} columns=${columns} rows=${CHURN} caption="Churn" rowKey=${([label]) => label} /><//>`;
}

function Ports({ listeners }) {
  const columns = [
    { label: "Protocol", class: "whole", cell: (row) => PROTOCOLS[row.protocol] ?? row.protocol },
    { label: "Address", class: "mid", cell: (row) => html`<code>${row.ip_address}</code>` },
    { label: "Port", numeric: true, class: "n", cell: (row) => row.port },
  ];
  return html`<${Card} title="Ports" id="ports"><${Table} columns=${columns} rows=${listeners ?? []} caption="Ports" rowKey=${(row) => `${row.protocol}${row.port}`} /><//>`;
}
