// Permissions and limits, on the pages of users and of virtual hosts.
import { html } from "../lib/html.mjs";
import { Act, Card, Loading, Pill } from "./bits.mjs";
import { Table } from "./table.mjs";
import { count } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { userPath, vhostPath } from "../lib/routes.mjs";

const pattern = (text) => (text === "" ? html`<span class="muted">nothing</span>` : html`<code class="name" title=${text}>${text}</code>`);

/** What a phone has no columns for. */
const narrow = (row) => html`<span class="narrow">${["configure", "write", "read"].map((act) => html`<span key=${act}>${act} ${pattern(row[act])}</span>`)}</span>`;

/** `by` is the end to show: "user" or "vhost". */
export function Permissions({ rows, by, none, add }) {
  const columns = [
    { label: by === "user" ? "User" : "Virtual host", cell: (row) => html`<a class="name" href=${href((by === "user" ? userPath : vhostPath)(row[by]))}>${row[by]}</a>${narrow(row)}` },
    { label: "Configure", class: "mid", cell: (row) => pattern(row.configure) },
    { label: "Write", class: "mid", cell: (row) => pattern(row.write) },
    { label: "Read", class: "mid", cell: (row) => pattern(row.read) },
    {
      label: "Act", class: "acts-column",
      cell: (row) => html`<${Act} act="admin.setPermission" what=${{ user: row.user, vhost: row.vhost, present: row }} label=${`Change the permission for ${row[by]}`}>Change<//>
        <${Act} act="admin.clearPermission" what=${{ user: row.user, vhost: row.vhost }} label=${`Remove the permission for ${row[by]}`}>Remove<//>`,
    },
  ];
  return html`<${Card} title="Permissions" id="permissions" extra=${html`<${Pill}>${rows?.length ?? 0}<//>${add}`}>
    ${!rows ? html`<${Loading} rows=${2} />` : rows.length
      ? html`<${Table} columns=${columns} rows=${rows} caption="Permissions" rowKey=${(row) => `${row.user}\n${row.vhost}`} />`
      : html`<p class="none">${none}</p>`}
  <//>`;
}

/** The limits of one virtual host or user: {name: number}. */
export function Limits({ kind, name, limits, may }) {
  const rows = Object.entries(limits ?? {});
  const columns = [
    { label: "Limit", cell: ([limit]) => html`<code>${limit}</code>` },
    { label: "At most", numeric: true, class: "n", cell: ([, value]) => count(value) },
    may && {
      label: "Act", class: "acts-column",
      cell: ([limit, value]) => html`<${Act} act="admin.setLimit" what=${{ kind, name, limit, value }} label=${`Change ${limit}`}>Change<//>
        <${Act} act="admin.clearLimit" what=${{ kind, name, limit }} label=${`Remove ${limit}`}>Remove<//>`,
    },
  ].filter(Boolean);
  return html`<${Card} title="Limits" id="limits" extra=${may && html`<${Act} act="admin.setLimit" what=${{ kind, name }}>Set a limit<//>`}>
    ${rows.length ? html`<${Table} columns=${columns} rows=${rows} caption="Limits" rowKey=${([limit]) => limit} />` : html`<p class="none">None is set.</p>`}
  <//>`;
}
