import { html } from "../lib/html.mjs";
import { Empty, Pill, State } from "../components/bits.mjs";
import { Refused } from "../components/detail.mjs";
import { ListPage } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { count, rate } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { channelPath } from "../lib/routes.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => `${row.client} ${row.name}` },
  client: { kind: "text", get: (row) => row.client },
  vhost: { kind: "text", get: (row) => row.vhost },
  user: { kind: "text", get: (row) => row.user },
  state: { kind: "text", get: (row) => row.state },
  consumers: { kind: "number", get: (row) => row.consumer_count },
  unacked: { kind: "number", get: (row) => row.messages_unacknowledged },
  unconfirmed: { kind: "number", get: (row) => row.messages_unconfirmed },
  prefetch: { kind: "number", get: (row) => row.prefetch },
  in: { kind: "number", get: (row) => row.in },
  out: { kind: "number", get: (row) => row.out },
  confirms: { kind: "flag", get: (row) => row.confirm },
};
const EXAMPLES = ["unacked:>100", "consumers:0", "prefetch:0 consumers:>0", "confirms:yes"];
/** Channels that one answer has at most. */
const ASKED = 500;

/** Where the client is. The whole name is long, and its end says which. */
const peer = ({ name, connection_details: { peer_host: host, peer_port: port } }) => (host ? `${host.includes(":") ? `[${host}]` : host}:${port}` : name);
/** The same, and the channel's number, for clients that give no name. */
export const shortName = (row) => (row.connection_details.peer_host ? `${peer(row)} (${row.number})` : row.name);

const columnsOf = (several) => [
  {
    id: "name", label: "Channel", get: (row) => row.client || row.name, class: "first",
    cell: (row) => html`<div class="cell-two">
      <a class="name" href=${href(channelPath(row.name))} title=${row.client || row.name}>${row.client ? `${row.client} (${row.number})` : shortName(row)}</a>
      <span class="second num">${row.client ? peer(row) : ""}${several && row.vhost !== "/" ? html` <${Pill} kind="plain">${row.vhost}<//>` : ""}${row.confirm && html` <${Pill}>confirms<//>`}${row.transactional && html` <${Pill}>transactions<//>`}</span>
    </div>`,
  },
  { id: "state", label: "State", get: (row) => row.state, class: "wide state-column", cell: (row) => html`<${State} state=${row.state} />` },
  { id: "user", label: "User", get: (row) => row.user, class: "wide type-column", cell: (row) => html`<span class="name" title=${row.user}>${row.user}</span>` },
  { id: "consumers", label: "Consumers", numeric: true, get: (row) => row.consumer_count, class: "n mid", cell: (row) => count(row.consumer_count) },
  { id: "prefetch", label: "Prefetch", title: "Messages; 0: no limit", numeric: true, get: (row) => row.prefetch, class: "n wide", cell: (row) => count(row.prefetch) },
  { id: "unacked", label: "Unacked", title: "Messages", numeric: true, get: (row) => row.messages_unacknowledged, class: "n", cell: (row) => count(row.messages_unacknowledged) },
  { id: "unconfirmed", label: "Unconfirmed", title: "Messages published and not confirmed yet", numeric: true, get: (row) => row.messages_unconfirmed, class: "n wide", cell: (row) => (row.confirm ? count(row.messages_unconfirmed) : "–") },
  { id: "in", label: "In/s", title: "Messages published per second", numeric: true, get: (row) => row.in, class: "n mid", cell: (row) => rate(row.in) },
  { id: "out", label: "Out/s", title: "Deliveries and gets per second", numeric: true, get: (row) => row.out, class: "n", cell: (row) => rate(row.out) },
  { id: "ack", label: "Ack/s", title: "Acknowledgements per second", numeric: true, get: (row) => row.ack, class: "n wide", cell: (row) => rate(row.ack) },
  { id: "confirm", label: "Confirm/s", title: "Confirms per second", numeric: true, off: true, get: (row) => row.confirms, class: "n wide", cell: (row) => rate(row.confirms) },
  { id: "unroutable", label: "Unroutable/s", title: "Messages that reached no queue, per second", numeric: true, off: true, get: (row) => row.unroutable, class: "n wide", cell: (row) => rate(row.unroutable) },
  { id: "redeliver", label: "Redeliver/s", title: "Messages delivered once more per second", numeric: true, off: true, get: (row) => row.redeliver, class: "n wide", cell: (row) => rate(row.redeliver) },
];

export function Channels({ me }) {
  const { data, error } = useGet(`/admin/v1/channels?page=1&page_size=${ASKED}`, 5);
  if (error) return html`<${Refused} error=${error} />`;
  const rows = data?.items.map((row) => {
    const per = (key) => row.message_stats?.[`${key}_details`]?.rate ?? 0;
    return { ...row, key: row.name, prefetch: row.prefetch_count || row.global_prefetch_count, in: per("publish"), out: per("deliver_get"), ack: per("ack"), confirms: per("confirm"), unroutable: per("return_unroutable") + per("drop_unroutable"), redeliver: per("redeliver") };
  });
  return html`<${ListPage} rows=${rows ?? null} noun="channel" columns=${columnsOf(me.vhosts.length > 1)} choice="channel-columns" fields=${FIELDS} examples=${EXAMPLES} initialSort="name"
    empty=${html`<${Empty} title="No channel is open"><p>Clients open channels in their connections.</p><//>`} />
    ${data && data.total_count > ASKED && html`<p class="note">The first ${count(ASKED)} of ${count(data.total_count)} channels are shown.</p>`}`;
}
