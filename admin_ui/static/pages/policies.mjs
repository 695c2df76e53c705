import { html } from "../lib/html.mjs";
import { Act, Empty, Pill } from "../components/bits.mjs";
import { Refused } from "../components/detail.mjs";
import { ListPage } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { meaning, value as text } from "../lib/format.mjs";
import { param } from "../lib/location.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name },
  vhost: { kind: "text", get: (row) => row.vhost },
  pattern: { kind: "text", get: (row) => row.pattern },
  to: { kind: "text", get: (row) => row["apply-to"] },
  key: { kind: "text", get: (row) => Object.keys(row.definition).join(" ") },
  priority: { kind: "number", get: (row) => row.priority },
  operator: { kind: "flag", get: (row) => row.kind === "operator_policy" },
};
const EXAMPLES = ["operator:no", "key~message-ttl", "to:queues", "priority:>0"];

const given = (row) => Object.entries(row.definition).map(([key, value]) => html`<span key=${key} class="given"><span>${key}</span> <code>${text(value)}</code>${meaning(key, value) && html` <span class="muted">${meaning(key, value)}</span>`}</span>`);

export function Policies({ me }) {
  const own = useGet("/api/policies", 5);
  const operators = useGet("/api/operator-policies", 5);
  if (own.error) return html`<${Refused} error=${own.error} />`;
  const rows = own.data && operators.data && [
    ...own.data.map((one) => ({ ...one, kind: "policy", key: `p\n${one.vhost}\n${one.name}` })),
    ...operators.data.map((one) => ({ ...one, kind: "operator_policy", key: `o\n${one.vhost}\n${one.name}` })),
  ];
  const admin = me.tags.includes("administrator");
  const maker = admin || me.tags.includes("policymaker");
  const may = (row) => (row.kind === "policy" ? maker : admin);
  const what = (kind) => ({ kind, vhosts: me.vhosts, vhost: param("vhost") || "/" });
  const columns = [
    {
      id: "name", label: "Policy", get: (row) => row.name, class: "first whole",
      cell: (row) => html`<b>${row.name}</b> ${row.kind === "operator_policy" && html`<${Pill} kind="warn">operator<//>`}${me.vhosts.length > 1 && html` <${Pill} kind="plain">${row.vhost}<//>`}<span class="narrow">${given(row)}</span>`,
    },
    { id: "pattern", label: "Pattern", get: (row) => row.pattern, class: "whole", cell: (row) => html`<code>${row.pattern}</code>` },
    { id: "to", label: "Applies to", get: (row) => row["apply-to"], class: "mid type-column", cell: (row) => row["apply-to"] },
    { id: "definition", label: "Definition", class: "whole mid", cell: given },
    { id: "priority", label: "Priority", numeric: true, get: (row) => row.priority, class: "n", cell: (row) => text(row.priority) },
    maker && {
      id: "act", label: "Act", class: "acts-column",
      cell: (row) => may(row) && html`<${Act} act="admin.putPolicy" what=${{ kind: row.kind, present: row, vhosts: me.vhosts }} label=${`Change policy ${row.name}`}>Change<//>
        <${Act} act="admin.deletePolicy" danger what=${{ kind: row.kind, policy: row }} label=${`Delete policy ${row.name}`}>Delete<//>`,
    },
  ].filter(Boolean);
  const acts = maker && me.vhosts.length > 0 && html`<${Act} act="admin.putPolicy" what=${what("policy")} fresh>Add a policy<//>
    ${admin && html`<${Act} act="admin.putPolicy" what=${what("operator_policy")}>Add an operator policy<//>`}`;
  const empty = html`<${Empty} title="No policies">
    <p>A policy gives settings (a message TTL, a maximal length, a dead-letter exchange) to all queues and exchanges whose names match its
      pattern, those that come later too. An operator policy limits what the others may ask for.</p>
    <div class="acts">${acts}</div>
  <//>`;
  return html`<${ListPage} rows=${rows ?? null} noun="policy" nouns="policies" columns=${columns} fields=${FIELDS} examples=${EXAMPLES} acts=${acts} empty=${empty} initialSort="name" />`;
}
