import { html } from "../lib/html.mjs";
import { Act, Empty, Pill } from "../components/bits.mjs";
import { Refused } from "../components/detail.mjs";
import { ListPage } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { bytes, count, rate } from "../lib/format.mjs";
import { vhostPath } from "../lib/routes.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name },
  ready: { kind: "number", get: (row) => row.messages_ready },
  unacked: { kind: "number", get: (row) => row.messages_unacknowledged },
  in: { kind: "number", get: (row) => row.in },
  out: { kind: "number", get: (row) => row.out },
};
const EXAMPLES = ["ready:>1000", "in:>0"];

const COLUMNS = [
  {
    id: "name", label: "Virtual host", get: (row) => row.name, class: "first",
    cell: (row) => html`<div class="cell-two"><a class="name" href=${vhostPath(row.name)} title=${row.name}>${row.name}</a><span class="second">${row.description}${row.tags.map((tag) => html` <${Pill} key=${tag}>${tag}<//>`)}</span></div>`,
  },
  { id: "ready", label: "Ready", title: "Messages", numeric: true, get: (row) => row.messages_ready, class: "n", cell: (row) => count(row.messages_ready) },
  { id: "unacked", label: "Unacked", title: "Messages", numeric: true, get: (row) => row.messages_unacknowledged, class: "n", cell: (row) => count(row.messages_unacknowledged) },
  { id: "in", label: "In/s", title: "Messages published per second", numeric: true, get: (row) => row.in, class: "n mid", cell: (row) => rate(row.in) },
  { id: "out", label: "Out/s", title: "Messages delivered per second", numeric: true, get: (row) => row.out, class: "n mid", cell: (row) => rate(row.out) },
  { id: "received", label: "From clients", title: "Bytes so far", numeric: true, get: (row) => row.recv_oct, class: "n wide", cell: (row) => bytes(row.recv_oct) },
  { id: "sent", label: "To clients", title: "Bytes so far", numeric: true, get: (row) => row.send_oct, class: "n wide", cell: (row) => bytes(row.send_oct) },
];

export function Vhosts({ me }) {
  const { data, error } = useGet("/api/vhosts", 5);
  if (error) return html`<${Refused} error=${error} />`;
  const rows = data?.map((one) => ({
    ...one,
    key: one.name,
    vhost: one.name,
    in: one.message_stats?.publish_details?.rate ?? 0,
    out: one.message_stats?.deliver_get_details?.rate ?? 0,
  }));
  return html`<${ListPage} rows=${rows ?? null} noun="virtual host" columns=${COLUMNS} fields=${FIELDS} examples=${EXAMPLES} initialSort="name" everywhere
    acts=${me.tags.includes("administrator") && html`<${Act} act="admin.putVhost" fresh>Add a virtual host<//>`}
    empty=${html`<${Empty} title="No virtual host that you may see" />`} />`;
}
