import { html } from "../lib/html.mjs";
import { Act, Card, Loading, Pill } from "../components/bits.mjs";
import { Refused } from "../components/detail.mjs";
import { Table } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { count } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { userPath, vhostPath } from "../lib/routes.mjs";

const flat = (data, kind) => data?.flatMap((one) => Object.entries(one.value).map(([limit, value]) => ({ kind, name: one[kind], limit, value })));

export function LimitsPage({ me }) {
  const admin = me.tags.includes("administrator");
  const vhosts = useGet("/api/vhost-limits", 10);
  const users = useGet("/api/user-limits", 10);
  const names = useGet(admin ? "/api/users?columns=name" : null, 30).data?.map((one) => one.name) ?? [];
  if (vhosts.error) return html`<${Refused} error=${vhosts.error} />`;
  return html`<div class="detail">
    <${Section} title="Limits of virtual hosts" id="of-vhosts" kind="vhost" noun="Virtual host" rows=${flat(vhosts.data, "vhost")} may=${admin} names=${me.vhosts}
      none="No virtual host has a limit: each may have as many connections and queues as the node." />
    <${Section} title="Limits of users" id="of-users" kind="user" noun="User" rows=${flat(users.data, "user")} may=${admin} names=${names}
      none="No user has a limit: each may have as many connections and channels as the node." />
  </div>`;
}

function Section({ title, id, kind, noun, rows, may, names, none }) {
  const columns = [
    { label: noun, cell: (row) => html`<a class="name" href=${href((kind === "vhost" ? vhostPath : userPath)(row.name))} title=${row.name}>${row.name}</a>` },
    { label: "Limit", class: "whole", cell: (row) => html`<code>${row.limit}</code>` },
    { label: "At most", numeric: true, class: "n", cell: (row) => count(row.value) },
    may && {
      label: "Act", class: "acts-column",
      cell: (row) => html`<${Act} act="admin.setLimit" what=${row} label=${`Change ${row.limit} of ${row.name}`}>Change<//>
        <${Act} act="admin.clearLimit" what=${row} label=${`Remove ${row.limit} of ${row.name}`}>Remove<//>`,
    },
  ].filter(Boolean);
  const add = may && names.length > 0 && html`<${Act} act="admin.setLimit" what=${{ kind, names }} label=${`Set a limit of a ${noun.toLowerCase()}`}>Set a limit<//>`;
  return html`<${Card} title=${title} id=${id} extra=${html`<${Pill}>${count(rows?.length ?? 0)}<//>${add}`}>
    ${!rows ? html`<${Loading} rows=${2} />` : rows.length
      ? html`<${Table} columns=${columns} rows=${rows} caption=${title} rowKey=${(row) => `${row.name}\n${row.limit}`} />`
      : html`<p class="none">${none}</p>`}
  <//>`;
}
