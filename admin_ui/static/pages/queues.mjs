import { html, useEffect, useRef, useState } from "../lib/html.mjs";
import { Act, Empty, firstSteps, Pill, Snippet, Spark, State } from "../components/bits.mjs";
import { ListPage } from "../components/table.mjs";
import { sparklines } from "../lib/api.mjs";
import { count, rate } from "../lib/format.mjs";
import { href, param } from "../lib/location.mjs";
import { queuePath } from "../lib/routes.mjs";

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
  ].filter(Boolean);
}

export function Queues({ me }) {
  const { sparks, ask } = useSparklines();
  const several = me.vhosts.length > 1;
  const columns = [
    {
      id: "name",
      label: "Queue",
      get: (row) => row.name,
      class: "first",
      cell: (row) => html`<div class="cell-name">
        <a class="name" href=${href(queuePath(row.vhost, row.name))} title=${row.name}>${row.name}</a>
        ${several && row.vhost !== "/" && html`<${Pill} kind="plain">${row.vhost}<//>`}
        ${features(row).map((text) => html`<${Pill} key=${text}>${text}<//>`)}
      </div>`,
    },
    { id: "state", label: "State", get: (row) => row.state, class: "wide state-column", cell: (row) => html`<${State} state=${row.state} />` },
    { id: "ready", label: "Ready", numeric: true, get: (row) => row.ready, class: "n", cell: (row) => count(row.ready) },
    { id: "unacked", label: "Unacked", numeric: true, get: (row) => row.unacked, class: "n mid", cell: (row) => count(row.unacked) },
    {
      id: "trend",
      label: "10 min",
      title: "Messages in the queue over the last 10 minutes",
      class: "spark-column",
      cell: (row) => html`<${Spark} values=${sparks.get(row.key)} label="Messages over the last 10 minutes" />`,
    },
    { id: "in", label: "In/s", title: "Messages published to it per second", numeric: true, get: (row) => row.in, class: "n mid", cell: (row) => rate(row.in) },
    { id: "out", label: "Out/s", title: "Deliveries and gets per second", numeric: true, get: (row) => row.out, class: "n mid", cell: (row) => rate(row.out) },
    { id: "ack", label: "Ack/s", title: "Acknowledgements per second", numeric: true, get: (row) => row.ack, class: "n wide", cell: (row) => rate(row.ack) },
    {
      id: "consumers",
      label: "Consumers",
      numeric: true,
      get: (row) => row.consumers,
      class: "n",
      cell: (row) => html`<span class=${row.consumers === 0 && row.ready > 0 ? "warn-text" : ""}>${count(row.consumers)}</span>`,
    },
  ];
  const declare = me.acts.length > 0 && html`<${Act} act="objects.declareQueue" what=${{ vhosts: me.acts, vhost: param("vhost") }} fresh>Declare a queue<//>`;
  const empty = html`<${Empty} title="No queues yet">
    <p>Queues are declared by clients. This program declares one, publishes to it and takes the message back
      (<code>pip install pika</code>):</p>
    <${Snippet} text=${firstSteps(me.amqp_port)} label="A first program with pika" />
    ${declare}
  <//>`;
  return html`<${ListPage} topic="queues" noun="queue" columns=${columns} fields=${FIELDS} examples=${EXAMPLES}
    empty=${empty} acts=${declare} onVisible=${ask} initialSort="name" />`;
}

/** Ten minutes of each queue on the page, asked for when the page changes and every 20 seconds. */
function useSparklines() {
  const [sparks, setSparks] = useState(new Map());
  const rows = useRef([]);
  const load = async () => {
    const shown = rows.current;
    if (!shown.length || document.hidden) return;
    try {
      const answer = await sparklines(shown.map((row) => [row.vhost, row.name]));
      setSparks(new Map(shown.map((row, i) => [row.key, answer.series[i]])));
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
  return { sparks, ask };
}
