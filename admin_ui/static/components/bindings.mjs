// Bindings as a table, seen from either end.
import { html } from "../lib/html.mjs";
import { Act, Card, Loading, Pill, Problem } from "./bits.mjs";
import { Table } from "./table.mjs";
import { count, value as text } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { exchangePath, queuePath } from "../lib/routes.mjs";

const SHOWN = 200;

/** `side` is the end to show: "source" or "destination"; `none` is said if there are no bindings, `note` if there are;
 * `bind` is a button that makes one, and with `mayUnbind` each has one that removes it. */
export function Bindings({ id, title, side, bindings, error, none, note, bind, mayUnbind }) {
  const some = bindings?.some((row) => Object.keys(row.arguments).length);
  const columns = [
    { label: side === "source" ? "From exchange" : "To", class: "whole", cell: (row) => html`<${End} binding=${row} side=${side} />` },
    { label: some ? "Routing key, arguments" : "Routing key", class: "whole", cell: (row) => html`<${Key} binding=${row} />` },
    mayUnbind && {
      label: "Act",
      class: "act-column",
      cell: (row) => row.source !== "" && html`<${Act} act="objects.unbind" what=${{ binding: row }} label=${`Unbind ${row.source} and ${row.destination}, routing key ${row.routing_key || "empty"}`}>Unbind<//>`,
    },
  ].filter(Boolean);
  const rows = bindings?.slice(0, SHOWN);
  return html`<${Card} title=${title} id=${id} extra=${bindings && html`<${Pill}>${count(bindings.length)}<//>${bind}`}>
    ${error && html`<${Problem} error=${error} />`}
    ${!bindings ? html`<${Loading} rows=${2} />` : !rows.length ? html`<p class="none">${none}</p>` : html`<${Table} columns=${columns} rows=${rows} caption=${title}
      rowKey=${(row) => `${row.source}\n${row.destination_type}\n${row.destination}\n${row.properties_key}`} />`}
    ${bindings?.length > SHOWN && html`<p class="note">The first ${SHOWN} are shown.</p>`}
    ${note && bindings?.length > 0 && html`<p class="note">${note}</p>`}
  <//>`;
}

/** What a message is matched with. Headers exchanges match by the arguments alone. */
function Key({ binding }) {
  const given = Object.entries(binding.arguments);
  return html`${binding.routing_key !== "" ? html`<code>${binding.routing_key}</code>` : !given.length && html`<span class="muted">(empty)</span>`}
    ${given.map(([name, value]) => html`<div key=${name} class="given"><span>${name}</span> <code>${text(value)}</code></div>`)}`;
}

function End({ binding, side }) {
  if (side === "source") {
    const name = binding.source || "(default)";
    return html`<a href=${href(exchangePath(binding.vhost, binding.source))}>${name}</a>`;
  }
  const queue = binding.destination_type === "queue";
  const path = (queue ? queuePath : exchangePath)(binding.vhost, binding.destination);
  return html`<a href=${href(path)}>${binding.destination}</a> <${Pill} kind="plain">${binding.destination_type}<//>`;
}
