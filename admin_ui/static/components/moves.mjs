// The moves from a queue and to it: how far they are, and a button that stops one.
import { html, useState } from "../lib/html.mjs";
import { Card, Pill } from "./bits.mjs";
import { act, useGet } from "../lib/api.mjs";
import { say } from "../lib/dialogs.mjs";
import { clock, count, duration, plural, rate } from "../lib/format.mjs";
import { href } from "../lib/location.mjs";
import { exchangePath, queuePath } from "../lib/routes.mjs";

/** Moves that have ended and are still shown. */
const ENDED_SHOWN = 3;
const KINDS = { done: "good", failed: "bad", blocked: "warn" };
const WORDS = { blocked: "waits: the node has an alarm", ending: "stopping" };

export function Moves({ path, vhost, name, may }) {
  const [runs, setRuns] = useState(false);
  const { data } = useGet(path && `${path}/moves`, runs ? 1 : 10);
  if (!data) return null;
  const running = data.filter((move) => move.ended === null);
  if (runs !== running.length > 0) setTimeout(() => setRuns(running.length > 0));
  const shown = [...running, ...data.filter((move) => move.ended !== null).slice(0, ENDED_SHOWN)];
  if (!shown.length) return null;
  return html`<${Card} title="Moved messages" id="moves">
    <ul class="moves">${shown.map((move) => html`<${Line} key=${move.id} move=${move} may=${may} here=${move.vhost === vhost && move.queue === name} />`)}</ul>
  <//>`;
}

function Line({ move, may, here }) {
  const { to } = move;
  const target = to.queue === undefined
    ? html`exchange <a class="name" href=${href(exchangePath(to.vhost, to.exchange))}>${to.exchange || "(default)"}</a>${to.routing_key !== undefined && html` with the key <code>${to.routing_key}</code>`}`
    : html`queue <a class="name" href=${href(queuePath(to.vhost, to.queue))}>${to.queue}</a>`;
  const source = html`queue <a class="name" href=${href(queuePath(move.vhost, move.queue))}>${move.queue}</a>`;
  const stop = () => act("DELETE", `/admin/v1/moves/${move.id}`).catch((error) => say(error.message));
  const speed = move.ended === null && move.rate > 0 ? html`, ${rate(move.rate)}/s, ${duration((move.left / move.rate) * 1000)} left` : "";
  return html`<li>
    <p class="num">${here ? html`To ${target}` : html`From ${source}`}: ${count(move.moved)} of ${plural(move.count, "message")}${speed}
      ${" "}<${Pill} kind=${KINDS[move.state] ?? ""}>${WORDS[move.state] ?? move.state}<//>${move.ended !== null && ` at ${clock(move.ended)}`}${move.state === "failed" && `: ${move.reason}.`}</p>
    ${move.ended === null && html`<progress max=${move.count || 1} value=${move.moved} aria-label=${`Messages moved from ${move.queue}`}></progress>
      ${may && html`<button type="button" class="button small" aria-label=${`Stop moving messages from ${move.queue}`} disabled=${move.state === "ending"} onClick=${stop}>Stop</button>`}`}
  </li>`;
}
