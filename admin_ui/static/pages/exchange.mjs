import { html } from "../lib/html.mjs";
import { Act, Arguments, Card, Facts, Pill } from "../components/bits.mjs";
import { Bindings } from "../components/bindings.mjs";
import { Chart } from "../components/chart.mjs";
import { Figures, Title, Waiting } from "../components/detail.mjs";
import { RangePicker, SHORT, usePoints } from "../components/ranges.mjs";
import { Table } from "../components/table.mjs";
import { useGet } from "../lib/api.mjs";
import { count, rate } from "../lib/format.mjs";
import { useTopic } from "../lib/live.mjs";
import { href } from "../lib/location.mjs";
import { documentPath, exchangePath, segment } from "../lib/routes.mjs";

const COUNTERS = ["publish_in", "publish_out", "unroutable", "inner_in", "inner_out"];
const SERIES = [
  { label: "published", colour: "blue", area: true },
  { label: "copies to queues", colour: "violet" },
  { label: "unroutable", colour: "red" },
  { label: "from other exchanges", colour: "teal" },
  { label: "passed on from other exchanges", colour: "amber", dash: true },
];

export function Exchange({ route, me }) {
  const { vhost, name } = route;
  const topic = `exchange:${segment(vhost)}/${segment(name)}`;
  const path = documentPath("exchanges", vhost, name);
  const event = useTopic(topic);
  const exchange = event?.exchange;
  // Nothing is asked about what is not there: that would be an error in the browser's console.
  const known = exchange ? path : null;
  const points = usePoints({
    topic,
    pick: (data) => data.exchange && { ...data.exchange, ...data.flow },
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
  const now = (key) => rate(points.rate(key) ?? stats[`${key}_details`]?.rate ?? event.flow[`${key}_details`]?.rate ?? 0);
  const pills = [exchange.type, exchange.durable ? "durable" : "transient", exchange.internal && "internal", exchange.auto_delete && "auto-delete", vhost !== "/" && `vhost ${vhost}`];
  const may = me.acts.includes(vhost);
  const what = { vhost, name };
  const acts = may && html`
    <${Act} act="messages.publish" what=${{ vhost, exchange: isDefault ? "" : name }}>Publish<//>
    ${!/^amq\./.test(name) && html`<${Act} act="objects.deleteExchange" danger what=${{ ...what, bindings: from.data?.length ?? 0 }}>Delete<//>`}`;
  return html`<div class="detail">
    <${Title} kind="Exchange" acts=${acts} name=${isDefault ? "(default)" : name} pills=${pills} />
    <${Figures} figures=${[
      ["Published", now("publish_in"), "/s"],
      ["Copies to queues", now("publish_out"), "/s"],
      ["Unroutable", now("unroutable"), "/s"],
      ["From other exchanges", now("inner_in"), "/s"],
      ["Published so far", count(stats.publish_in ?? 0)],
    ]} />
    <div class="charts-bar"><h2>Activity</h2><${RangePicker} ranges=${SHORT} path=${exchangePath(vhost, name)} /></div>
    <${Chart} id="exchange-rates" title="Rates" unit="per second" series=${SERIES} data=${points.rates} span=${points.span} format=${rate} />
    <div class="two">
      <${Bindings} id="from" title="Bindings from this exchange" side="destination" bindings=${from.data} error=${from.error}
        bind=${may && !isDefault && html`<${Act} act="objects.bindFrom" what=${what}>Bind<//>`} mayUnbind=${may && !isDefault}
        none="There are no bindings: messages published here reach no queue." />
      ${!isDefault && html`<${Bindings} id="to" title="Bindings to this exchange" side="source" bindings=${to.data} error=${to.error}
        bind=${may && html`<${Act} act="objects.bindTo" what=${{ ...what, kind: "exchange" }}>Bind<//>`} mayUnbind=${may}
        none=${event.fed_by.length ? "This exchange is bound to no other exchange." : "No other exchange sends messages to this one."} />`}
    </div>
    ${event.fed_by.length > 0 && html`<p class="note">It is the alternate exchange of ${event.fed_by.map((source, index) => html`${index ? ", " : ""}<a href=${href(exchangePath(vhost, source))}>${source}</a>`)}: messages that match no binding there come here.</p>`}
    <${Unroutable} keys=${event.unroutable_keys} total=${event.flow.unroutable} />
    ${isDefault
      ? html`<p class="note">The default exchange reaches every queue by its name as routing key. These bindings cannot be changed.</p>`
      : html`<${Card} title="Settings" id="settings">
          <${Facts} facts=${[
            ["Type", exchange.type],
            ["Durable", exchange.durable ? "yes" : "no"],
            exchange.arguments?.["alternate-exchange"] && ["Alternate exchange", html`<a href=${href(exchangePath(vhost, exchange.arguments["alternate-exchange"]))}>${exchange.arguments["alternate-exchange"]}</a>`],
            exchange.policy && ["Policy", exchange.policy],
            ["Internal", exchange.internal ? "yes, clients cannot publish to it" : "no"],
            ["Deleted with its last binding", exchange.auto_delete ? "yes" : "no"],
          ]} />
          <${Arguments} table=${exchange.arguments} source="from its declaration" />
        <//>`}
  </div>`;
}

/** The routing keys that lately matched no binding, the newest first. */
function Unroutable({ keys, total }) {
  if (!keys.length) return null;
  const columns = [
    { label: "Routing key", class: "whole", cell: ([key]) => (key === "" ? html`<span class="muted">(empty)</span>` : html`<code>${key}</code>`) },
    { label: "Messages", title: "Counted since the key came onto this list", numeric: true, class: "n", cell: ([, number]) => count(number) },
  ];
  return html`<${Card} title="Last unroutable" id="unroutable" extra=${html`<${Pill} kind="warn">${count(total)}<//>`}>
    <${Table} columns=${columns} rows=${keys} caption="Routing keys that reached no queue, the newest first" rowKey=${([key]) => key} />
    <p class="note">No binding matched these keys, so their messages were returned to the publisher or dropped.</p>
  <//>`;
}
