import { html } from "../lib/html.mjs";
import { Empty, firstSteps, Pill, Snippet, State } from "../components/bits.mjs";
import { ListPage } from "../components/table.mjs";
import { bytes, count, duration } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { connectionPath } from "../lib/routes.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => `${row.client} ${row.name}` },
  vhost: { kind: "text", get: (row) => row.vhost },
  user: { kind: "text", get: (row) => row.user },
  state: { kind: "text", get: (row) => row.state },
  product: { kind: "text", get: (row) => row.product },
  host: { kind: "text", get: (row) => row.peer_host },
  channels: { kind: "number", get: (row) => row.channels },
  in: { kind: "number", get: (row) => row.in },
  out: { kind: "number", get: (row) => row.out },
};
const EXAMPLES = ["user:guest", "product~pika", "channels:>1", "in:>1M"];

export function Connections({ me }) {
  const several = me.vhosts.length > 1;
  const columns = [
    {
      id: "name",
      label: "Client",
      get: (row) => row.client || row.name,
      class: "first",
      cell: (row) => html`<div class="cell-two">
        <a class="name" href=${href(connectionPath(row.name))} title=${row.client || row.name}>${row.client || `${row.peer_host}:${row.peer_port}`}</a>
        <span class="second num">${row.client ? `${row.peer_host}:${row.peer_port}` : ""}${several && row.vhost !== "/" ? html` <${Pill} kind="plain">${row.vhost}<//>` : ""}</span>
      </div>`,
    },
    { id: "state", label: "State", get: (row) => row.state, class: "wide state-column", cell: (row) => html`<${State} state=${row.state} />` },
    { id: "product", label: "Program", title: "What the client says of itself", get: (row) => row.product, class: "wide", cell: (row) => html`<span class="name" title=${row.product}>${row.product}</span>` },
    { id: "user", label: "User", get: (row) => row.user, class: "mid type-column", cell: (row) => html`<span class="name" title=${row.user}>${row.user}</span>` },
    { id: "channels", label: "Channels", numeric: true, get: (row) => row.channels, class: "n", cell: (row) => count(row.channels) },
    { id: "in", label: "In/s", title: "Octets from the client per second", numeric: true, get: (row) => row.in, class: "n", cell: (row) => bytes(row.in) },
    { id: "out", label: "Out/s", title: "Octets to the client per second", numeric: true, get: (row) => row.out, class: "n mid", cell: (row) => bytes(row.out) },
    {
      id: "age",
      label: "Open for",
      numeric: true,
      get: (row) => -row.connected_at,
      class: "n wide",
      cell: (row) => duration(Date.now() - row.connected_at),
    },
  ];
  const empty = html`<${Empty} title="Nobody is connected">
    <p>Clients connect to port <b class="num">${me.amqp_port}</b>. A first one with pika (<code>pip install pika</code>):</p>
    <${Snippet} text=${firstSteps(me)} label="A first program with pika" />
  <//>`;
  return html`<${ListPage} topic="connections" noun="connection" columns=${columns} fields=${FIELDS} examples=${EXAMPLES}
    empty=${empty} initialSort="name" />`;
}
