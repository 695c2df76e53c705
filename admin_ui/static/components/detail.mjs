// What the pages of one object share.
import { html } from "../lib/html.mjs";
import { Empty, Loading, Pill } from "./bits.mjs";
import { href } from "../lib/location.mjs";
import { listPath } from "../lib/routes.mjs";

export function Title({ kind, name, pills, children, acts }) {
  return html`<header class="title">
    <p class="title-kind">${kind}</p>
    <p class="title-name">${name}</p>
    <div class="pills">${pills.filter(Boolean).map((text) => html`<${Pill} key=${text}>${text}<//>`)}${children}</div>
    ${acts && html`<div class="acts">${acts}</div>`}
  </header>`;
}

/** A row of figures: [label, value, unit?]. */
export function Figures({ figures }) {
  return html`<dl class="figures">${figures.map(
    ([label, value, unit]) => html`<div key=${label}><dt>${label}</dt><dd class="num">${value}${unit && html`<small>${unit}</small>`}</dd></div>`,
  )}</dl>`;
}

/** Instead of a page whose data the broker does not give. */
export function Refused({ error }) {
  return html`<${Empty} title=${error.message}><p>The page tries again by itself.</p><//>`;
}

/** Instead of the page of something that is not there. */
export function Gone({ noun, name, list }) {
  return html`<${Empty} title=${`There is no ${noun} of this name`}><p class="gone-name">${name}</p><p><a href=${href(listPath(list))}>All ${noun}s</a></p><//>`;
}

/** While nothing came yet, or when the object is not there. */
export function Waiting({ event, noun, name, list }) {
  if (event?.gone) {
    return html`<${Empty} title=${`There is no ${noun} of this name`}>
      <p class="gone-name">${name}</p>
      <p>It was deleted, or never declared. <a href=${href(listPath(list))}>All ${list}</a></p>
    <//>`;
  }
  return html`<${Loading} rows=${10} />`;
}

/** Users close their own connections and consumers, administrators any. */
export const mayClose = (me, user) => me.tags.includes("administrator") || (me.acts.length > 0 && user === me.name);
