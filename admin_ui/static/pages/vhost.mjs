import { html } from "../lib/html.mjs";
import { Act, Card, Facts, Loading } from "../components/bits.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, Gone, Refused, Title } from "../components/detail.mjs";
import { RangePicker, SHORT, useSamples } from "../components/ranges.mjs";
import { Limits, Permissions } from "../components/rights.mjs";
import { useGet } from "../lib/api.mjs";
import { bytes, count, rate } from "../lib/format.mjs";
import { documentPath, listPath, segment, vhostPath } from "../lib/routes.mjs";

const LENGTHS = [
  { label: "ready", colour: "blue", area: true },
  { label: "unacked", colour: "amber" },
];
const RATES = [
  { label: "published", colour: "blue" },
  { label: "delivered", colour: "violet" },
  { label: "acked", colour: "green", dash: true },
  { label: "unroutable", colour: "red" },
];
const DATA = [
  { label: "from clients", colour: "blue", area: true },
  { label: "to clients", colour: "violet" },
];
const CHARTS = [
  { levels: ["messages_ready", "messages_unacknowledged"] },
  { counters: ["publish", "deliver_get", "ack", "drop_unroutable"] },
  { counters: ["recv_oct", "send_oct"] },
];

export function Vhost({ route, me }) {
  const { name } = route;
  const all = useGet("/api/vhosts", 5);
  const vhost = all.data?.find((one) => one.name === name);
  const admin = me.tags.includes("administrator");
  const permissions = useGet(vhost && admin ? `${documentPath("vhosts", name)}/permissions` : null, 10).data;
  const limits = useGet(vhost && me.vhosts.includes(name) ? documentPath("vhost-limits", name) : null, 10).data;
  const users = useGet(vhost && admin ? "/api/users?columns=name" : null, 30).data;
  const points = useSamples({ path: vhost ? documentPath("vhosts", name) : null, ranges: SHORT, kinds: ["lengths", "msg_rates", "data_rates"], charts: CHARTS });
  if (all.error) return html`<${Refused} error=${all.error} />`;
  if (!all.data) return html`<${Loading} rows=${8} />`;
  if (!vhost) return html`<${Gone} noun="virtual host" name=${name} list="vhosts" />`;
  const per = (key) => rate(vhost.message_stats?.[`${key}_details`]?.rate ?? 0);
  const outside = users?.map((one) => one.name).filter((user) => !permissions?.some((one) => one.user === user)) ?? [];
  const acts = admin && html`
    <${Act} act="admin.putVhost" what=${{ present: vhost }}>Change<//>
    <${Act} act="admin.deleteVhost" danger what=${{ name, messages: vhost.messages ?? 0 }}>Delete<//>`;
  const there = (page) => `${listPath(page)}?vhost=${segment(name)}`;
  return html`<div class="detail">
    <${Title} kind="Virtual host" name=${name} pills=${vhost.tags} acts=${acts} />
    <${Figures} figures=${[
      ["Ready", count(vhost.messages_ready)],
      ["Unacked", count(vhost.messages_unacknowledged)],
      ["Published", per("publish"), "/s"],
      ["Delivered", per("deliver_get"), "/s"],
      ["From clients", bytes(vhost.recv_oct_details?.rate ?? 0), "/s"],
      ["To clients", bytes(vhost.send_oct_details?.rate ?? 0), "/s"],
    ]} />
    <p class="note">Its <a href=${there("overview")}>overview</a>, <a href=${there("queues")}>queues</a>, <a href=${there("exchanges")}>exchanges</a>, <a href=${there("connections")}>connections</a> and <a href=${there("policies")}>policies</a>.</p>
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${SHORT} path=${vhostPath(name)} /></div>
    <div class="two">
      <${Chart} id="vhost-lengths" title="Messages" series=${LENGTHS} data=${points.columns[0]} span=${points.span} format=${count} group="vhost" />
      <${Chart} id="vhost-rates" title="Rates" unit="per second" series=${RATES} data=${points.columns[1]} span=${points.span} format=${rate} group="vhost" />
    </div>
    <${Chart} id="vhost-data" title="Data" unit="bytes per second" series=${DATA} data=${points.columns[2]} span=${points.span} format=${bytes} axis=${bytes} binary group="vhost" />
    ${admin && html`<${Permissions} rows=${permissions} by="user" none="No user can enter it."
      add=${outside.length > 0 && html`<${Act} act="admin.setPermission" what=${{ vhost: name, users: outside }}>Let a user in<//>`} />`}
    <${Limits} kind="vhost" name=${name} limits=${limits?.[0]?.value} may=${admin} />
    <${Card} title="Settings" id="settings">
      <${Facts} facts=${[
        ["Description", vhost.description || "none"],
        ["Default queue type", vhost.default_queue_type === "undefined" ? "not set" : vhost.default_queue_type],
        ["Tracing", vhost.tracing ? "on" : "off"],
      ]} />
    <//>
  </div>`;
}
