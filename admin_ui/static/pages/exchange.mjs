import { html } from "../lib/html.mjs";
import { Arguments, Card, Facts } from "../components/bits.mjs";
import { Bindings } from "../components/bindings.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, Title, Waiting } from "../components/detail.mjs";
import { RangePicker, SHORT, usePoints } from "../components/ranges.mjs";
import { useGet } from "../lib/api.mjs";
import { count, rate } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { documentPath, exchangePath, segment } from "../lib/routes.mjs";

const COUNTERS = ["publish_in", "publish_out"];
const SERIES = [
  { label: "in", colour: "blue", area: true },
  { label: "out", colour: "violet" },
];

export function Exchange({ route }) {
  const { vhost, name } = route;
  const topic = `exchange:${segment(vhost)}/${segment(name)}`;
  const path = documentPath("exchanges", vhost, name);
  const event = useTopic(topic);
  const exchange = event?.exchange;
  // Nothing is asked about what is not there: that would be an error in the browser's console.
  const known = exchange ? path : null;
  const points = usePoints({
    topic,
    pick: (data) => data.exchange,
    path: known,
    ranges: SHORT,
    kinds: ["msg_rates"],
    levels: [],
    counters: COUNTERS,
  });
  const isDefault = name === "amq.default";
  const from = useGet(known && `${path}/bindings/source`, 10);
  const to = useGet(known && !isDefault ? `${path}/bindings/destination` : null, 10);
  if (!exchange) return html`<${Waiting} event=${event} noun="exchange" name=${name} list="exchanges" />`;
  const stats = exchange.message_stats ?? {};
  const now = (key) => rate(points.rate(key) ?? stats[`${key}_details`]?.rate ?? 0);
  const pills = [exchange.type, exchange.durable ? "durable" : "transient", exchange.internal && "internal", exchange.auto_delete && "auto-delete", vhost !== "/" && `vhost ${vhost}`];
  return html`<div class="detail">
    <${Title} kind="Exchange" name=${isDefault ? "(default)" : name} pills=${pills} />
    <${Figures} figures=${[
      ["In", now("publish_in"), "/s"],
      ["Out", now("publish_out"), "/s"],
      ["Published", count(stats.publish_in ?? 0)],
      ["Copies routed", count(stats.publish_out ?? 0)],
    ]} />
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${SHORT} path=${exchangePath(vhost, name)} /></div>
    <${Chart} id="exchange-rates" title="Rates" unit="per second" series=${SERIES} data=${points.rates} span=${points.span} format=${rate} />
    <div class="two">
      <${Bindings} id="from" title="Bindings from it" side="destination" bindings=${from.data} error=${from.error}
        none="Nothing is bound: what is published here reaches no queue." />
      ${!isDefault && html`<${Bindings} id="to" title="Bindings to it" side="source" bindings=${to.data} error=${to.error}
        none="No other exchange sends to it." note="What comes from other exchanges is counted there, not here." />`}
    </div>
    ${isDefault
      ? html`<p class="note">The default exchange reaches every queue by its name as routing key. These bindings cannot be changed.</p>`
      : html`<${Card} title="Settings" id="settings">
          <${Facts} facts=${[
            ["Type", exchange.type],
            ["Durable", exchange.durable ? "yes" : "no"],
            ["Internal", exchange.internal ? "yes, clients cannot publish to it" : "no"],
            ["Deleted with its last binding", exchange.auto_delete ? "yes" : "no"],
          ]} />
          <${Arguments} table=${exchange.arguments} source="from its declaration" />
        <//>`}
  </div>`;
}
