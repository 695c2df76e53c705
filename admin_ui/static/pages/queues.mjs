import { html, useEffect, useRef, useState } from "../lib/html.mjs";
import { Act, Empty, firstSteps, Pill, Snippet, Spark, State } from "../components/bits.mjs";
import { ListPage } from "../components/table.mjs";
import { sparklines } from "../lib/api.mjs";
import { bytes, count, duration, plural, rate, signed } from "../lib/format.mjs";
import { href, param } from "../lib/location.mjs";
import { queuePath } from "../lib/routes.mjs";
import { timeToFull } from "../lib/series.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name },
  vhost: { kind: "text", get: (row) => row.vhost },
  type: { kind: "text", get: (row) => row.type },
  state: { kind: "text", get: (row) => row.state },
  ready: { kind: "number", get: (row) => row.ready },
  unacked: { kind: "number", get: (row) => row.unacked },
  messages: { kind: "number", get: (row) => row.ready + row.unacked },
  consumers: { kind: "number", get: (row) => row.consumers },
  in: { kind: "number", get: (row) => row.in },
  out: { kind: "number", get: (row) => row.out },
  ack: { kind: "number", get: (row) => row.ack },
  growth: { kind: "number", get: (row) => row.growth },
  minute: { kind: "number", get: (row) => row.minute },
  bytes: { kind: "number", get: (row) => row.bytes ?? 0 },
  policy: { kind: "text", get: (row) => row.policy ?? "" },
  limited: { kind: "flag", get: (row) => row.length_max !== null || row.bytes_max !== null },
  durable: { kind: "flag", get: (row) => row.durable },
  exclusive: { kind: "flag", get: (row) => row.exclusive },
  autodelete: { kind: "flag", get: (row) => row.auto_delete },
};
const EXAMPLES = ["ready:>1000", "consumers:0 ready:>0", "growth:>100", "state:stuck", "type:classic durable:no", "name~eu"];

export function features(row) {
  return [
    row.durable ? null : "transient",
    row.exclusive ? "exclusive" : null,
    row.auto_delete ? "auto-delete" : null,
    row.type === "classic" ? null : row.type,
    row.policy ? `policy ${row.policy}` : null,
    row.length_max != null ? `at most ${count(row.length_max)}` : null,
    row.bytes_max != null ? `at most ${bytes(row.bytes_max)}` : null,
  ].filter(Boolean);
}

export function Queues({ me }) {
  const { sparks, waiting, ask } = useSparklines();
  const [chosen, setChosen] = useState(new Set());
  const selection = me.acts.length > 0 && {
    chosen,
    set: setChosen,
    may: (row) => me.acts.includes(row.vhost),
    bar: (rows) => html`<b>${plural(rows.length, "queue")} selected</b>
      <${Act} act="moves.moveMany" what=${{ queues: rows, vhosts: me.acts, done: () => setChosen(new Set()) }}>Move messages<//>
      <${Act} act="objects.purgeMany" danger what=${{ queues: rows, done: () => setChosen(new Set()) }}>Purge<//>
      <${Act} act="objects.deleteMany" danger what=${{ queues: rows, done: () => setChosen(new Set()) }}>Delete<//>
      <button type="button" class="link" onClick=${() => setChosen(new Set())}>Select none</button>`,
  };
  const sum = (rows, key) => rows.reduce((all, row) => all + (row[key] ?? 0), 0);
  const several = me.vhosts.length > 1;
  const columns = [
    {
      id: "name",
      label: "Queue",
      get: (row) => row.name,
      class: "first named",
      total: (rows) => `All ${plural(rows.length, "queue")}`,
      cell: (row) => html`<div class="cell-name">
        <a class="name" href=${href(queuePath(row.vhost, row.name))} title=${row.name}>${row.name}</a>
        ${several && row.vhost !== "/" && html`<${Pill} kind="plain">${row.vhost}<//>`}
        ${features(row).map((text) => html`<${Pill} key=${text}>${text}<//>`)}
      </div>`,
    },
    { id: "state", label: "State", get: (row) => row.state, class: "wide state-column", cell: (row) => html`<${State} state=${row.state} />` },
    { id: "ready", label: "Ready", numeric: true, get: (row) => row.ready, class: "n", total: (rows) => count(sum(rows, "ready")), cell: (row) => count(row.ready) },
    { id: "unacked", label: "Unacked", numeric: true, get: (row) => row.unacked, class: "n mid", total: (rows) => count(sum(rows, "unacked")), cell: (row) => count(row.unacked) },
    {
      id: "bytes", label: "Bytes", title: "Bodies of the ready messages; – where they are not counted since the start", numeric: true, get: (row) => row.bytes ?? -1, class: "n wide",
      total: (rows) => bytes(sum(rows, "bytes")), cell: (row) => bytes(row.bytes ?? NaN),
    },
    {
      id: "oldest", label: "Oldest", title: "How long the oldest ready message waits, where that is known", numeric: true, class: "n wide",
      cell: (row) => (row.ready ? age(waiting.get(row.key)) : ""),
    },
    {
      id: "trend",
      label: "10 min",
      title: "Messages in the queue over the last 10 minutes",
      class: "spark-column",
      cell: (row) => html`<${Spark} values=${sparks.get(row.key)} label="Messages over the last 10 minutes" />`,
    },
    {
      id: "minute", label: "+/min", title: "Ready messages more, or fewer, than a minute ago", numeric: true, get: (row) => row.minute, class: "n wide",
      total: (rows) => signed(sum(rows, "minute")), cell: (row) => html`<span class=${row.growth > 0 ? "warn-text" : ""}>${signed(row.minute)}</span>`,
    },
    {
      id: "full", label: "Full in", title: "When the queue reaches its limit at the growth of the last minute; only of queues with x-max-length or x-max-length-bytes", numeric: true, off: true, class: "n wide",
      get: (row) => -timeToFull(row), cell: (row) => fullIn(row),
    },
    { id: "in", label: "In/s", title: "Messages published to it per second", numeric: true, get: (row) => row.in, class: "n mid", total: (rows) => rate(sum(rows, "in")), cell: (row) => rate(row.in) },
    { id: "out", label: "Out/s", title: "Deliveries and gets per second", numeric: true, get: (row) => row.out, class: "n mid", total: (rows) => rate(sum(rows, "out")), cell: (row) => rate(row.out) },
    { id: "ack", label: "Ack/s", title: "Acknowledgements per second", numeric: true, off: true, get: (row) => row.ack, class: "n wide", total: (rows) => rate(sum(rows, "ack")), cell: (row) => rate(row.ack) },
    {
      id: "consumers",
      label: "Consumers",
      numeric: true,
      get: (row) => row.consumers,
      class: "n",
      total: (rows) => count(sum(rows, "consumers")),
      cell: (row) => html`<span class=${row.consumers === 0 && row.ready > 0 ? "warn-text" : ""}>${count(row.consumers)}</span>`,
    },
  ];
  const declare = me.acts.length > 0 && html`<${Act} act="objects.declareQueue" what=${{ vhosts: me.acts, vhost: param("vhost") }} fresh>Declare a queue<//>`;
  const empty = html`<${Empty} title="No queues yet">
    <p>Queues are declared by clients. This program declares one, publishes to it and takes the message back
      (<code>pip install pika</code>):</p>
    <${Snippet} text=${firstSteps(me)} label="A first program with pika" />
    ${declare}
  <//>`;
  return html`<${ListPage} topic="queues" noun="queue" columns=${columns} fields=${FIELDS} examples=${EXAMPLES}
    empty=${empty} acts=${declare} onVisible=${ask} choice="queue-columns" selection=${selection} initialSort="name" />`;
}

function fullIn(row) {
  if (row.length_max === null && row.bytes_max === null) return html`<span class="muted">no limit</span>`;
  const seconds = timeToFull(row);
  if (seconds === Infinity) return html`<span class="muted">does not grow</span>`;
  return seconds === 0 ? html`<b class="warn-text">full</b>` : html`<span class=${seconds < 3600 ? "warn-text" : ""}>${duration(seconds * 1000)}</span>`;
}

/** "3 min", "> 1 h", or that nobody knows. */
function age(found) {
  if (!found) return html`<span class="muted" title="Not known: the queue has priorities, or no history yet">–</span>`;
  const [since, longer] = found;
  // Its larger unit is enough here: "3 min", "2 h".
  return `${longer ? "> " : ""}${duration(Math.max(1000, Date.now() - since)).split(" ").slice(0, 2).join(" ")}`;
}

/** Ten minutes of each queue on the page, and since when its oldest message waits, asked for when the page changes and every 20 seconds. */
function useSparklines() {
  const [sparks, setSparks] = useState(new Map());
  const [waiting, setWaiting] = useState(new Map());
  const rows = useRef([]);
  const load = async () => {
    const shown = rows.current;
    if (!shown.length || document.hidden) return;
    try {
      const answer = await sparklines(shown.map((row) => [row.vhost, row.name]));
      setSparks(new Map(shown.map((row, i) => [row.key, answer.series[i]])));
      setWaiting(new Map(shown.map((row, i) => [row.key, answer.waiting[i]])));
    } catch {
      // the table is useful without, and the connection light tells of what is wrong
    }
  };
  useEffect(() => {
    const timer = setInterval(load, 20_000);
    return () => clearInterval(timer);
  }, []);
  const ask = (shown) => {
    rows.current = shown;
    load();
  };
  return { sparks, waiting, ask };
}
