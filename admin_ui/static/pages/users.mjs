import { html } from "../lib/html.mjs";
import { Act, Empty, Pill } from "../components/bits.mjs";
import { ListPage } from "../components/table.mjs";
import { Refused } from "../components/detail.mjs";
import { useGet } from "../lib/api.mjs";
import { count } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { userPath } from "../lib/routes.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name },
  tag: { kind: "text", get: (row) => row.tags.join(" ") },
  vhost: { kind: "text", get: (row) => row.entered.join(" ") },
  vhosts: { kind: "number", get: (row) => row.entered.length },
};
const EXAMPLES = ["tag~administrator", "vhosts:0", "vhost~/"];
/** Virtual hosts named in a row. */
const NAMED = 4;

const COLUMNS = [
  { id: "name", label: "User", get: (row) => row.name, class: "first", cell: (row) => html`<a class="name" href=${href(userPath(row.name))} title=${row.name}>${row.name}</a><span class="narrow">${row.entered.length ? row.entered.slice(0, NAMED).join(", ") : "no virtual host"}${row.entered.length > NAMED && html` and ${count(row.entered.length - NAMED)} more`}</span>` },
  { id: "tags", label: "Tags", get: (row) => row.tags.join(" "), class: "pills-column", cell: (row) => (row.tags.length ? row.tags.map((tag) => html`<${Pill} key=${tag}>${tag}<//>`) : html`<span class="muted">none</span>`) },
  {
    id: "vhosts",
    label: "Virtual hosts",
    get: (row) => row.entered.length,
    class: "mid",
    cell: (row) => (row.entered.length
      ? html`${row.entered.slice(0, NAMED).map((name) => html`<${Pill} kind="plain" key=${name}>${name}<//>`)}${row.entered.length > NAMED && html` and ${count(row.entered.length - NAMED)} more`}`
      : html`<span class="warn-text">none</span>`),
  },
  { id: "limits", label: "Limits", get: (row) => row.limited, class: "wide", cell: (row) => row.limited || html`<span class="muted">none</span>` },
  { id: "password", label: "Password", get: (row) => row.password, class: "wide type-column", cell: (row) => row.password },
];

export function Users({ me }) {
  const users = useGet("/api/users", 10);
  const permissions = useGet("/api/permissions", 10);
  if (users.error) return html`<${Refused} error=${users.error} />`;
  const rows = users.data?.map((user) => ({
    key: user.name,
    name: user.name,
    tags: user.tags,
    entered: (permissions.data ?? []).filter((one) => one.user === user.name).map((one) => one.vhost),
    limited: Object.entries(user.limits).map(([name, limit]) => `${name} ${count(limit)}`).join(", "),
    password: user.password_hash ? "set" : "none",
  }));
  return html`<${ListPage} rows=${rows ?? null} noun="user" columns=${COLUMNS} fields=${FIELDS} examples=${EXAMPLES} initialSort="name" everywhere
    acts=${html`<${Act} act="admin.addUser" what=${{ vhosts: me.vhosts }} fresh>Add a user<//>`} empty=${html`<${Empty} title="No users" />`} />`;
}
