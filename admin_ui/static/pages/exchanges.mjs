import { html } from "../lib/html.mjs";
import { Act, Empty, Pill } from "../components/bits.mjs";
import { ListPage } from "../components/table.mjs";
import { count, rate } from "../lib/format.mjs";
import { href, param } from "../lib/location.mjs";
import { exchangePath } from "../lib/routes.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name || "(default)" },
  vhost: { kind: "text", get: (row) => row.vhost },
  type: { kind: "text", get: (row) => row.type },
  in: { kind: "number", get: (row) => row.in },
  out: { kind: "number", get: (row) => row.out },
  inner: { kind: "number", get: (row) => row.inner_in },
  unroutable: { kind: "number", get: (row) => row.unroutable },
  bindings: { kind: "number", get: (row) => row.bindings },
  durable: { kind: "flag", get: (row) => row.durable },
  internal: { kind: "flag", get: (row) => row.internal },
  autodelete: { kind: "flag", get: (row) => row.auto_delete },
};
const EXAMPLES = ["-name:amq.*", "type:topic", "bindings:0", "unroutable:>0"];

export function exchangeFeatures(row) {
  return [
    row.durable ? null : "transient",
    row.internal ? "internal" : null,
    row.auto_delete ? "auto-delete" : null,
    row.alternate ? `alternate ${row.alternate}` : null,
  ].filter(Boolean);
}

export function Exchanges({ me }) {
  const several = me.vhosts.length > 1;
  const columns = [
    {
      id: "name",
      label: "Exchange",
      get: (row) => row.name,
      class: "first",
      cell: (row) => html`<div class="cell-name">
        <a class="name" href=${href(exchangePath(row.vhost, row.name))} title=${row.name || "the default exchange"}>${row.name || "(default)"}</a>
        ${several && row.vhost !== "/" && html`<${Pill} kind="plain">${row.vhost}<//>`}
        ${exchangeFeatures(row).map((text) => html`<${Pill} key=${text}>${text}<//>`)}
      </div>`,
    },
    { id: "type", label: "Type", get: (row) => row.type, class: "type-column", cell: (row) => row.type },
    {
      id: "bindings",
      label: "Bindings",
      title: "Bindings from it",
      numeric: true,
      get: (row) => row.bindings,
      class: "n mid",
      cell: (row) => (row.name === "" ? html`<span class="muted" title="Reaches every queue by its name">all</span>` : count(row.bindings)),
    },
    { id: "in", label: "In/s", title: "Messages per second from publishers and from other exchanges", numeric: true, get: (row) => row.in + row.inner_in, class: "n", cell: (row) => rate(row.in + row.inner_in) },
    { id: "out", label: "Out/s", title: "Copies per second: to queues of what was published to it, along its bindings of what other exchanges passed on", numeric: true, get: (row) => row.out + row.inner_out, class: "n mid", cell: (row) => rate(row.out + row.inner_out) },
    {
      id: "unroutable",
      label: "Unroutable/s",
      title: "Messages published to it per second that reached no queue",
      numeric: true,
      get: (row) => row.unroutable,
      class: "n",
      cell: (row) => html`<span class=${row.unroutable > 0 ? "warn-text" : ""}>${rate(row.unroutable)}</span>`,
    },
  ];
  const declare = me.acts.length > 0 && html`<${Act} act="objects.declareExchange" what=${{ vhosts: me.acts, vhost: param("vhost") }} fresh>Declare an exchange<//>`;
  const empty = html`<${Empty} title="No exchanges here"><p>There is no exchange that you may see.</p><//>`;
  return html`<${ListPage} topic="exchanges" noun="exchange" columns=${columns} fields=${FIELDS} examples=${EXAMPLES}
    empty=${empty} acts=${declare} initialSort="name" />`;
}
