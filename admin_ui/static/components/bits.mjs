// Small parts that every page uses.
import { html, useEffect, useRef, useState } from "../lib/html.mjs";
import { ask } from "../lib/dialogs.mjs";
import { meaning, value as text } from "../lib/format.mjs";
import { sparkPath } from "../lib/series.mjs";

const ICONS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  queues: "M4 6h16M4 12h16M4 18h10",
  exchanges: "M4 12h6c4 0 3-6 7-6h3M10 12h10M10 12c4 0 3 6 7 6h3",
  connections: "M9 15l6-6M7.5 12.5l-2 2a4 4 0 0 0 5.7 5.7l2-2M16.5 11.5l2-2a4 4 0 0 0-5.7-5.7l-2 2",
  channels: "M4 7h9M4 12h6M4 17h9M15 5v4M12 10v4M15 15v4M17 7h3M14 12h6M17 17h3",
  policies: "M7 3h7l5 5v13H7zM14 3v5h5M10 13h6M10 17h6",
  vhosts: "M12 3l9 5-9 5-9-5zM3 12l9 5 9-5M3 16l9 5 9-5",
  users: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20c0-3.6 2.9-6 6.5-6s6.5 2.4 6.5 6M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14.5c2.1.8 3.5 2.8 3.5 5.5",
  limits: "M4 17a8 8 0 1 1 16 0M12 17l4-5",
  tokens: "M15 9a4 4 0 1 0-8 0 4 4 0 0 0 8 0zM14 12l6 6M17 15l2-2M19 17l2-2",
  definitions: "M8 4c-3 0-3 2-3 4s0 4-2 4c2 0 2 2 2 4s0 4 3 4M16 4c3 0 3 2 3 4s0 4 2 4c-2 0-2 2-2 4s0 4-3 4",
  node: "M4 4h16v7H4zM4 13h16v7H4zM7 7.5h.5M7 16.5h.5",
  act: "M13 3L5 14h6l-1 7 8-11h-6z",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  alert: "M12 9v4M12 16.5v.5M10.3 4.6L2.9 17.5A2 2 0 0 0 4.6 20.5h14.8a2 2 0 0 0 1.7-3L13.7 4.6a2 2 0 0 0-3.4 0z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  right: "M9 6l6 6-6 6",
  left: "M15 6l-6 6 6 6",
  copy: "M9 9h10v11H9zM5 15V4h10",
  light: "M12 4V2M12 22v-2M4 12H2M22 12h-2M6.3 6.3L4.9 4.9M19.1 19.1l-1.4-1.4M17.7 6.3l1.4-1.4M4.9 19.1l1.4-1.4M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8z",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  system: "M4 5h16v11H4zM9 20h6M12 16v4",
  out: "M14 4h5v16h-5M3 12h11M10 8l4 4-4 4",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${ICONS[name]} /></svg>`;
}

export function Logo() {
  return html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="8" />
    <path d="M7 16h6c4 0 3-7 7-7h5M13 16h12M13 16c4 0 3 7 7 7h5" />
  </svg>`;
}

/** A button that opens the dialog of an act (lib/dialogs.mjs). */
export function Act({ act, what, danger, small, children, label, fresh }) {
  return html`<button type="button" class=${`button ${danger ? "danger-text" : ""} ${small ? "small" : ""}`} aria-label=${label} data-new=${fresh}
    aria-haspopup="dialog" onClick=${() => ask(act, what)}>${children}</button>`;
}

export function Pill({ children, kind = "", title }) {
  return html`<span class=${`pill ${kind}`} title=${title}>${children}</span>`;
}

/** A state as a dot and a word, never by colour alone. */
export function State({ state }) {
  const kind = { running: "good", flow: "warn", closing: "warn", stuck: "bad", crashed: "bad" };
  return html`<span class=${`state ${kind[state] ?? ""}`}><i aria-hidden="true"></i>${state}</span>`;
}

export function Spark({ values, label, kind = "" }) {
  if (!values) return html`<svg class=${`spark ${kind}`} viewBox="0 0 96 24" aria-hidden="true"></svg>`;
  const { line, area } = sparkPath(values, 96, 24);
  return html`<svg class=${`spark ${kind}`} viewBox="0 0 96 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <path class="spark-area" d=${area} /><path class="spark-line" d=${line} />
  </svg>`;
}

export function Card({ title, extra, children, class: name = "", id }) {
  return html`<section class=${`card ${name}`} aria-labelledby=${id}>
    ${title && html`<header class="card-head"><h2 id=${id}>${title}</h2>${extra}</header>`}
    ${children}
  </section>`;
}

/** A list of names and values. */
export function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts.filter(Boolean).map(
      ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`,
    )}
  </dl>`;
}

/** How much of something is used; the words say it too. */
export function Meter({ name, used, total, text }) {
  const part = total > 0 ? Math.min(1, Math.max(0, used / total)) : 0;
  const kind = part > 0.9 ? "bad" : part > 0.75 ? "warn" : "";
  return html`<div class="meter">
    <div class="meter-text"><span>${name}</span><span class="num">${text}</span></div>
    <svg class=${`bar ${kind}`} viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-all" width="100" height="4" /><rect class="bar-part" width=${part * 100} height="4" />
    </svg>
  </div>`;
}

/** Says what a list without entries waits for, and what to do. */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

export function Snippet({ text, label }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      return; // no clipboard for plain http off this machine; the text can be selected
    }
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCopied(false), 2000);
  };
  return html`<div class="snippet">
    <pre tabindex="0" aria-label=${label}><code>${text}</code></pre>
    <button type="button" class="quiet" onClick=${copy}>
      <${Icon} name=${copied ? "check" : "copy"} /><span aria-live="polite">${copied ? "Copied" : "Copy"}</span>
    </button>
  </div>`;
}

/** A first publisher and consumer against this very broker, on the AMQP port that `me` names. */
export function firstSteps({ amqp_port: port, amqp_tls: tls }) {
  const ssl = `import ssl

import pika

trusted = pika.SSLOptions(ssl.create_default_context(cafile="ca.pem"), "${location.hostname}")
where = pika.ConnectionParameters("${location.hostname}", ${port}, ssl_options=trusted)`;
  const plain = `import pika

where = pika.ConnectionParameters("${location.hostname}", ${port})`;
  return `${tls ? ssl : plain}
with pika.BlockingConnection(where) as connection:
    channel = connection.channel()
    channel.queue_declare("hello", durable=True)
    channel.basic_publish("", "hello", b"Hello, world")
    method, properties, body = channel.basic_get("hello", auto_ack=True)
    print(body.decode())`;
}

export function Problem({ error }) {
  if (!error) return null;
  return html`<p class="problem" role="alert"><${Icon} name="alert" />${error.message}</p>`;
}

/** Grey bars of the height of what will come, so that nothing jumps. */
export function Loading({ rows = 6 }) {
  return html`<div class="loading" role="status" aria-label="Loading">
    ${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}
  </div>`;
}

/** The arguments of a queue, exchange, binding or client as a table; nested ones are indented. */
export function Arguments({ table, source }) {
  const entries = Object.entries(table ?? {});
  if (!entries.length) return null;
  return html`<dl class="arguments">
    ${entries.map(([name, value]) => {
      const nested = value !== null && typeof value === "object" && !Array.isArray(value);
      return html`<div key=${name}>
        <dt>${name}</dt>
        <dd>${nested ? html`<${Arguments} table=${value} />` : html`<code>${text(value)}</code>${meaning(name, value) && html` <span class="muted">${meaning(name, value)}</span>`}`}
          ${source && html`<span class="source">${source}</span>`}</dd>
      </div>`;
    })}
  </dl>`;
}
