// Publish a message, and look into a queue.
import { html, useRef, useState } from "../lib/html.mjs";
import { Arguments, Pill } from "../components/bits.mjs";
import { confirmField, Field, Frame, shut } from "../components/forms.mjs";
import { act } from "../lib/api.mjs";
import { bytes, count, plural } from "../lib/format.mjs";
import { wholeNumber } from "../lib/forms.mjs";
import { documentPath } from "../lib/routes.mjs";
import { names } from "./objects.mjs";

const PROPERTIES = {
  content_type: "text", content_encoding: "text", priority: "number", correlation_id: "text", reply_to: "text", expiration: "text",
  message_id: "text", timestamp: "number", type: "text", user_id: "text", app_id: "text",
};

/** Publish to `exchange`, or to any if none is given. */
export async function publish({ vhost, exchange, key = "" }) {
  const given = exchange !== undefined;
  return {
    title: given ? `Publish to ${exchange || "the default exchange"}` : "Publish a message",
    submit: "Publish",
    stays: true,
    wide: true,
    otherwise: "payload",
    blame: (message) => (/no exchange|ACCESS_REFUSED|internal exchange/.test(message) ? (given ? "routing_key" : "exchange") : /user_id|expiration|not_int|not_string/.test(message) ? "properties" : undefined),
    fields: [
      !given && { name: "exchange", label: "Exchange", hint: "Empty: the default exchange, whose routing keys are names of queues.", list: await names("exchanges", vhost) },
      { name: "routing_key", label: "Routing key", value: key },
      { name: "payload", label: "Payload", kind: "area" },
      { name: "payload_encoding", label: "The payload is", kind: "select", value: "string", options: [["string", "text, sent as UTF-8"], ["base64", "base64 of its octets"]] },
      { name: "persistent", label: "Persistent: durable queues keep it over a restart", kind: "check", value: true },
      { name: "headers", label: "Headers", kind: "table", noun: "header" },
      { name: "properties", label: "Properties", kind: "table", noun: "property", known: PROPERTIES, hint: "expiration is in milliseconds, timestamp in seconds since 1970." },
    ],
    act: async ({ exchange: written, persistent, headers, properties, ...body }) => {
      const all = { ...(persistent ? { delivery_mode: 2 } : {}), ...(Object.keys(headers).length ? { headers } : {}), ...properties };
      const to = (given ? exchange : written) || "amq.default";
      const { routed } = await act("POST", `${documentPath("exchanges", vhost, to)}/publish`, { ...body, properties: all });
      return { said: routed ? "Published: at least one queue has it." : "Published, and no queue took it: it is lost." };
    },
  };
}

const MODES = [
  ["ack_requeue_true", "Look at them: they go back to their places"],
  ["ack_requeue_false", "Take them: they are acknowledged and gone"],
  ["reject_requeue_false", "Reject them: they go to the dead-letter exchange, or are gone"],
];
const ENCODINGS = [["auto", "text where they are UTF-8, else base64"], ["base64", "base64 of their octets"]];
const COUNT_MAX = 100;
/** Octets shown of a payload. */
const SHOWN_BYTES = 50_000;

export function getMessages({ vhost, name }) {
  return { Dialog: GetMessages, vhost, name };
}

function GetMessages({ spec: { vhost, name } }) {
  const [values, setValues] = useState({ ackmode: MODES[0][0], count: "1", encoding: "auto", confirm: "" });
  const [error, setError] = useState({ field: "", text: "" });
  const [messages, setMessages] = useState(null);
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  const loses = values.ackmode !== MODES[0][0];
  const fields = [
    { name: "ackmode", label: "What becomes of them", kind: "select", options: MODES, hint: loses ? undefined : "They are marked as redelivered, and consumers do not get them while they are read." },
    { name: "count", label: `How many, ${COUNT_MAX} at most`, kind: "number" },
    { name: "encoding", label: "Payloads are shown as", kind: "select", options: ENCODINGS },
    loses && { ...confirmField("queue", name) },
  ].filter(Boolean);
  const fail = (field, said) => {
    setError({ field, text: said });
    setBusy(false);
    form.current.querySelector(`[name="${field}"]`)?.focus();
  };
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    const number = wholeNumber(values.count);
    if (number === null || number < 1 || number > COUNT_MAX) return fail("count", `A whole number from 1 to ${COUNT_MAX}.`);
    const problem = loses && fields.at(-1).check(values.confirm);
    if (problem) return fail("confirm", problem);
    setBusy(true);
    setError({ field: "", text: "" });
    try {
      setMessages(await act("POST", `${documentPath("queues", vhost, name)}/get`, { count: number, ackmode: values.ackmode, encoding: values.encoding, truncate: SHOWN_BYTES }));
      setBusy(false);
    } catch (failed) {
      fail("ackmode", failed.message);
    }
  };
  return html`<${Frame} title=${`Messages of ${name}`} wide>
    <form class="form" ref=${form} onSubmit=${submit} novalidate>
      ${fields.map((field, index) => html`<${Field} key=${field.name} field=${field} first=${index === 0} value=${values[field.name]}
        error=${error.field === field.name ? error.text : ""} onChange=${(value) => setValues({ ...values, [field.name]: value })} />`)}
      <div class="form-end">
        <p class="form-done" role="status">${messages && (messages.length ? `${plural(messages.length, "message")}, ${messages.at(-1).message_count ? plural(messages.at(-1).message_count, "message") : "none"} behind ${messages.length === 1 ? "it" : "them"}.` : "No message is ready.")}</p>
        <button type="button" class="button" onClick=${() => shut(form.current)}>Close</button>
        <button type="submit" class=${`button ${loses ? "danger" : "main-button"}`} disabled=${busy}>Get</button>
      </div>
    </form>
    ${messages?.length > 0 && html`<ol class="messages">${messages.map((message, index) => html`<${Message} key=${index} message=${message} number=${index + 1} />`)}</ol>`}
  <//>`;
}

function Message({ message, number }) {
  const { headers, ...properties } = Array.isArray(message.properties) ? {} : message.properties;
  const shown = message.payload_encoding === "string" ? pretty(message.payload, properties.content_type) : message.payload;
  return html`<li class="message">
    <p class="message-head"><b class="num">${number}</b>
      <span>from ${message.exchange === "" ? "the default exchange" : html`<b>${message.exchange}</b>`}</span> <code>${message.routing_key}</code>
      <span class="num">${bytes(message.payload_bytes)}</span>
      ${message.redelivered && html`<${Pill} kind="warn">redelivered<//>`}${message.payload_encoding === "base64" && html`<${Pill}>base64<//>`}</p>
    <pre tabindex="0" aria-label=${`Payload of message ${number}`}><code>${shown}</code></pre>
    ${message.payload_bytes > SHOWN_BYTES && html`<p class="note">The first ${count(SHOWN_BYTES)} bytes are shown.</p>`}
    <${Arguments} table=${properties} source="property" />
    <${Arguments} table=${headers} source="header" />
  </li>`;
}

/** JSON with line ends and indents; anything else as it is, and so is JSON whose numbers JavaScript would change. */
function pretty(payload, type) {
  if (!/^\s*[[{]/.test(payload) || (type && !/json/.test(type))) return payload;
  try {
    const parsed = JSON.parse(payload);
    return bare(JSON.stringify(parsed)) === bare(payload) ? JSON.stringify(parsed, null, 2) : payload;
  } catch {
    return payload;
  }
}

const bare = (json) => json.replace(/\s/g, "");
