// What needs attention: a sentence for each finding with its cause and since when, and the act that mends it.
import { html } from "../lib/html.mjs";
import { Act, Icon, Pill } from "./bits.mjs";
import { bytes, count, duration, plural, rate, signed } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { connectionPath, listPath, queuePath } from "../lib/routes.mjs";

/** Where a list shows all findings of a kind. */
const LISTS = {
  failed: ["queues", { q: "state:crashed" }, "queue that cannot be served", "queues that cannot be served"],
  stuck: ["queues", { q: "state:stuck", sort: "-ready" }, "stuck queue", "stuck queues"],
  hanging: ["queues", { q: "unacked:>0", sort: "-unacked" }, "queue with a hanging consumer", "queues with hanging consumers"],
  letters_wait: ["queues", {}, "queue whose dead letters wait", "queues whose dead letters wait"],
  growing: ["queues", { q: "growth:>=100", sort: "-growth" }, "growing queue", "growing queues"],
  no_consumers: ["queues", { q: "ready:>0 consumers:0", sort: "-ready" }, "queue without consumers", "queues without consumers"],
  unroutable: ["exchanges", { q: "unroutable:>0", sort: "-unroutable" }, "virtual host with unroutable messages", "virtual hosts with unroutable messages"],
  blocked: ["connections", { q: "state:flow" }, "connection that waits", "connections that wait"],
};
const SERIOUS = new Set(["failed", "memory", "disk", "files", "filling", "stuck"]);
/** Why a queue refuses dead letters that a move of its messages would let in. */
const FULL = "it is full";
const LARGEST = ["queues", { sort: "-bytes" }];

/** " for 14 min", " for more than 1 h"; nothing if nobody knows. */
function lasting(one, at) {
  if (!one.since) return "";
  return ` for ${one.longer ? "more than " : ""}${duration(Math.max(1000, at - one.since))}`;
}

const queue = (one) => html`<a class="name" href=${href(queuePath(one.vhost, one.name))} title=${one.name}>${one.name}</a>`;
const inVhost = (one) => (one.vhost === "/" ? "" : html` in ${one.vhost}`);
const purge = (one) => ["Purge", "objects.purge", { vhost: one.vhost, name: one.name, ready: one.ready }];
const move = (one) => ["Move", "moves.moveMessages", { vhost: one.vhost, name: one.name, ready: one.ready }];
const look = (one) => ["Look at a message", "messages.getMessages", { vhost: one.vhost, name: one.name }];
const closeConsumer = (one) => ["Close the consumer", "objects.closeConsumer", { vhost: one.vhost, queue: one.name, tag: one.tag, channel: one.channel, client: one.client, unacked: one.held }];
const close = (one, name) => ["Close its connection", "objects.closeConnection", { name, client: one.client }];
const list = (label, [page, params]) => [label, null, href(listPath(page), params)];

/** For each kind its sentence and its acts, [label, act, what] or [label, null, address]. */
const WORDS = {
  failed: (one) => [html`Queue ${queue(one)}${inVhost(one)} cannot be served: ${one.reason}.`, []],
  stuck: (one, at) => [
    html`Queue ${queue(one)}${inVhost(one)} is stuck: <a href=${href(connectionPath(one.connection))}>${one.client || one.connection}</a> holds ${plural(one.held, "unacked message")} and has acked none${lasting(one, at)}; ${count(one.ready)} ready.`,
    [one.cancels ? closeConsumer(one) : close(one, one.connection), move(one), purge(one)],
  ],
  hanging: (one, at) => [
    html`<a class="name" href=${href(connectionPath(one.connection))}>${one.client || one.connection}</a> holds ${plural(one.held, "unacked message")} of queue ${queue(one)}${inVhost(one)} and has acked none${lasting(one, at)}, while the other consumers finished ${count(one.finished)} in the last minute${one.hanging > 1 ? `; ${plural(one.hanging, "consumer")} of the queue do the same` : ""}. It hangs, or has a long job.`,
    [one.cancels ? closeConsumer(one) : close(one, one.connection)],
  ],
  letters_wait: (one) => [
    html`${plural(one.letters, "dead letter")} of queue ${queue(one)}${inVhost(one)} ${one.letters === 1 ? "waits" : "wait"} for queue ${queue({ ...one, name: one.target })}: ${one.reason}.`,
    one.reason === FULL ? [["Make room", "moves.moveMessages", { vhost: one.vhost, name: one.target }]] : [],
  ],
  growing: (one, at) => [
    html`Queue ${queue(one)}${inVhost(one)} ${one.since ? `has grown${lasting(one, at)}` : "grows"}: ${signed(one.per_minute)} in the last minute, ${count(one.ready)} ready, ${one.consumers ? `${plural(one.consumers, "consumer")} ${one.consumers === 1 ? "is" : "are"} too slow` : "nobody consumes"}.`,
    [move(one), purge(one)],
  ],
  no_consumers: (one, at) => [html`Queue ${queue(one)}${inVhost(one)} has ${plural(one.ready, "ready message")} and nobody ${one.since ? `has consumed${lasting(one, at)}` : "consumes"}.`, [look(one), move(one), purge(one)]],
  unroutable: (one, at) => [
    html`<a href=${href(listPath("exchanges"), LISTS.unroutable[1])}>Unroutable messages</a>${inVhost(one)}: ${rate(one.rate)}/s ${one.since ? `have matched no binding${lasting(one, at)}` : "match no binding"} and are lost.`,
    [list("See the exchanges", LISTS.unroutable)],
  ],
  blocked: (one) => [html`<a class="name" href=${href(connectionPath(one.name))}>${one.client || one.name}</a> publishes faster than the disk writes, and has to wait.`, [close(one, one.name)]],
  memory: (one) => [html`Memory is short: ${bytes(one.used)} of ${bytes(one.total)} in use.`, [list("Largest queues", LARGEST), list("Node", ["node", {}])]],
  disk: (one) => [html`The disk is nearly full: ${bytes(one.free)} free.`, [list("Largest queues", LARGEST), list("Node", ["node", {}])]],
  filling: (one) => [html`The disk is full in ${duration(one.seconds * 1000)} at the present rate; ${bytes(one.free)} free.`, [list("Largest queues", LARGEST)]],
  files: (one) => [html`File descriptors are short: ${count(one.used)} of ${count(one.total)} in use.`, [list("Connections", ["connections", {}])]],
};

/** Whether the pages offer `me` the act of a finding. */
function offered(me, one, act) {
  if (act === null) return true;
  if (act === "objects.closeConnection" || act === "objects.closeConsumer") return me.tags.includes("administrator");
  return me.acts.includes(one.vhost);
}

export function Attention({ event, me }) {
  const found = event.attention;
  if (!found.length) {
    return html`<section class="card attention-card" aria-labelledby="attention"><h2 id="attention" class="hidden">Needs attention</h2><p class="all-well"><${Icon} name="check" />Nothing needs attention: nothing grows, waits or fails.</p></section>`;
  }
  const more = Object.entries(event.attention_more);
  return html`<section class="card attention-card" aria-labelledby="attention">
    <header class="card-head"><h2 id="attention">Needs attention</h2><${Pill} kind="warn">${count(event.attention_total)}<//></header>
    <ul class="attention">${found.map((one) => {
      const [sentence, acts] = WORDS[one.kind](one, event.at);
      return html`<li key=${one.kind + (one.vhost ?? "") + (one.name ?? "")} class=${SERIOUS.has(one.kind) ? "bad" : "warn"}>
        <${Icon} name="alert" /><p class="num">${sentence}</p>
        <span class="acts">${acts.filter(([, act]) => offered(me, one, act)).map(([label, act, what]) =>
          act === null
            ? html`<a key=${label} class="button small" href=${what}>${label}</a>`
            : html`<${Act} key=${label} act=${act} what=${what} small label=${one.name && `${label}: ${act === "moves.moveMessages" ? what.name : one.name}`}>${label}<//>`,
        )}</span>
      </li>`;
    })}</ul>
    ${more.length > 0 && html`<p class="note">And ${more.map(([kind, number], index) => {
      const [page, params, noun, nouns] = LISTS[kind];
      return html`${index ? ", " : ""}<a key=${kind} href=${href(listPath(page), params)}>${count(number)} more ${number === 1 ? noun : nouns}</a>`;
    })}</p>`}
  </section>`;
}
