// Bindings as a table, seen from either end.
import { html } from "../lib/html.mjs";
import { Card, Loading, Pill, Problem } from "./bits.mjs";
import { Table } from "./table.mjs";
import { count, value as text } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { exchangePath, queuePath } from "../lib/routes.mjs";

const SHOWN = 200;

/** `side` is the end to show: "source" or "destination". */
export function Bindings({ id, title, side, bindings, error, none }) {
  const some = bindings?.some((row) => Object.keys(row.arguments).length);
  const columns = [
    { label: side === "source" ? "From exchange" : "To", cell: (row) => html`<${End} binding=${row} side=${side} />` },
    { label: "Routing key", cell: (row) => (row.routing_key === "" ? html`<span class="muted">(empty)</span>` : html`<code>${row.routing_key}</code>`) },
    some && { label: "Arguments", class: "mid", cell: (row) => Object.entries(row.arguments).map(([name, value]) => html`<${Pill} key=${name} kind="mono">${name} = ${text(value)}<//>`) },
  ].filter(Boolean);
  const rows = bindings?.slice(0, SHOWN);
  return html`<${Card} title=${title} id=${id} extra=${bindings && html`<${Pill}>${count(bindings.length)}<//>`}>
    ${error && html`<${Problem} error=${error} />`}
    ${!bindings ? html`<${Loading} rows=${2} />` : !rows.length ? html`<p class="none">${none}</p>` : html`<${Table} columns=${columns} rows=${rows} caption=${title}
      rowKey=${(row) => `${row.source}\n${row.destination_type}\n${row.destination}\n${row.properties_key}`} />`}
    ${bindings?.length > SHOWN && html`<p class="note">The first ${SHOWN} are shown.</p>`}
  <//>`;
}

function End({ binding, side }) {
  if (side === "source") {
    const name = binding.source || "(default)";
    return html`<a class="name" href=${href(exchangePath(binding.vhost, binding.source))} title=${name}>${name}</a>`;
  }
  const queue = binding.destination_type === "queue";
  const path = (queue ? queuePath : exchangePath)(binding.vhost, binding.destination);
  return html`<span class="cell-name"><a class="name" href=${href(path)} title=${binding.destination}>${binding.destination}</a>
    <${Pill} kind="plain">${binding.destination_type}<//></span>`;
}
