import { html } from "../lib/html.mjs";
import { Act, Empty, Pill } from "../components/bits.mjs";
import { ListPage } from "../components/table.mjs";
import { Refused } from "../components/detail.mjs";
import { useGet } from "../lib/api.mjs";
import { clock, duration } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { userPath } from "../lib/routes.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name },
  id: { kind: "text", get: (row) => row.id },
  user: { kind: "text", get: (row) => row.user },
  tag: { kind: "text", get: (row) => row.tags.join(" ") },
  reads: { kind: "flag", get: (row) => row.read_only },
  ended: { kind: "flag", get: (row) => row.expired },
};
const EXAMPLES = ["tag~monitoring", "ended:yes", "reads:no"];

function until(row) {
  if (row.expired) return html`<${Pill} kind="warn">ended<//>`;
  if (row.expires === null) return "no end";
  return html`<span title=${clock(row.expires, { day: true })}>${duration(row.expires - Date.now())}</span>`;
}

const columns = (me) => [
  { id: "name", label: "Token", get: (row) => row.name || row.id, class: "first", cell: (row) => html`<span class="name" title=${row.id}>${row.name || row.id}</span>` },
  { id: "user", label: "User", get: (row) => row.user, cell: (row) => (me.tags.includes("administrator") ? html`<a class="name" href=${href(userPath(row.user))} title=${row.user}>${row.user}</a>` : row.user) },
  { id: "tags", label: "May", get: (row) => row.tags.join(" "), class: "mid", cell: (row) => html`${row.tags.map((tag) => html`<${Pill} key=${tag}>${tag}<//>`)}${row.read_only && html`<${Pill} kind="plain">only reads<//>`}` },
  { id: "ends", label: "Ends in", get: (row) => (row.expired ? 0 : row.expires ?? Infinity), cell: until },
  { id: "used", label: "Last used", get: (row) => row.used ?? 0, class: "wide", cell: (row) => (row.used ? clock(row.used, { day: true }) : html`<span class="muted" title="Since the broker's start">not yet</span>`) },
  me.acts.length > 0 && { id: "act", label: "Act", get: () => 0, class: "acts-column", cell: (row) => html`<${Act} act="tokens.revoke" what=${row} label=${`Revoke ${row.name || row.id}`}>Revoke<//>` },
].filter(Boolean);

export function TokensPage({ me }) {
  const tokens = useGet("/admin/v1/tokens", 10);
  if (tokens.error) return html`<${Refused} error=${tokens.error} />`;
  const rows = tokens.data?.map((one) => ({ ...one, key: one.id }));
  const add = me.acts.length > 0 && html`<${Act} act="tokens.make" what=${{ me }} fresh>Make a token<//>`;
  return html`<${ListPage} rows=${rows ?? null} noun="token" columns=${columns(me)} fields=${FIELDS} examples=${EXAMPLES} initialSort="name" everywhere
    acts=${add} empty=${html`<${Empty} title="No API tokens"><p>Programs send a token instead of a password. It can do less than its user, and it ends by itself.</p>${add}<//>`} />`;
}
