// Acts on queues, exchanges, bindings and connections, as dialogs (components/forms.mjs).
import { html } from "../lib/html.mjs";
import { confirmField } from "../components/forms.mjs";
import { act, get } from "../lib/api.mjs";
import { plural } from "../lib/format.mjs";
import { nameProblem } from "../lib/forms.mjs";
import { href } from "../lib/location.mjs";
import { bindingPath, documentPath, dotted, exchangePath, listPath, queuePath, segment } from "../lib/routes.mjs";

/** The arguments that queues know, with the kind of their values. */
const QUEUE_ARGUMENTS = {
  "x-message-ttl": "number",
  "x-expires": "number",
  "x-max-length": "number",
  "x-max-length-bytes": "number",
  "x-overflow": "text",
  "x-dead-letter-exchange": "text",
  "x-dead-letter-routing-key": "text",
  "x-max-priority": "number",
  "x-single-active-consumer": "yes or no",
  "x-queue-type": "text",
  "x-delivery-limit": "number",
  "x-consumer-timeout": "number",
};
const EXCHANGE_TYPES = [
  ["topic", "topic: by patterns of the routing key"], ["direct", "direct: by the same routing key"], ["fanout", "fanout: to everything bound to it"], ["headers", "headers: by the message's headers"],
  ["x-consistent-hash", "x-consistent-hash: to one binding, by a hash of the routing key"], ["x-modulus-hash", "x-modulus-hash: to one binding, by the hash modulo their number"], ["x-random", "x-random: to one binding, by chance"],
  ["x-recent-history", "x-recent-history: to all, and the last ones to new bindings"], ["x-delayed-message", "x-delayed-message: as x-delayed-type does, after a delay"],
];
const EXCHANGE_ARGUMENTS = { "alternate-exchange": "text", "hash-header": "text", "hash-property": "text", "x-recent-history-length": "number", "x-delayed-type": "text" };
const BINDING_ARGUMENTS = { "x-match": "text" };
/** Names offered while somebody types one. */
const OFFERED = 500;

export const names = async (kind, vhost) => {
  const answer = await get(`/api/${kind}/${segment(vhost)}?page=1&page_size=${OFFERED}&columns=name&disable_stats=true`);
  return answer.items.map((one) => one.name).filter(Boolean);
};

/** The virtual host of something new: a choice only where there are several. */
export function vhostField(vhosts, chosen) {
  const value = vhosts.includes(chosen) ? chosen : vhosts.includes("/") ? "/" : vhosts[0];
  return vhosts.length > 1 && { name: "vhost", label: "Virtual host", kind: "select", options: vhosts, value };
}

const only = (values, vhosts) => values.vhost ?? vhosts[0];

export function declareQueue({ vhosts, vhost }) {
  return {
    title: "Declare a queue",
    submit: "Declare",
    otherwise: "name",
    fields: [
      { name: "name", label: "Name", required: true, check: (name) => nameProblem("queue", name) },
      vhostField(vhosts, vhost),
      { name: "durable", label: "Durable: it is still there after a restart", kind: "check", value: true },
      { name: "auto_delete", label: "Deleted with its last consumer", kind: "check" },
      { name: "arguments", label: "Arguments", kind: "table", known: QUEUE_ARGUMENTS, hint: "x-message-ttl and x-expires are in milliseconds, x-max-length-bytes in bytes. x-queue-type is classic or quorum." },
    ],
    act: async ({ name, vhost: written, ...body }) => {
      const where = only({ vhost: written }, vhosts);
      await act("PUT", documentPath("queues", where, name), body);
      return { said: `Queue ${name} is declared.`, to: href(queuePath(where, name)) };
    },
  };
}

export function declareExchange({ vhosts, vhost }) {
  return {
    title: "Declare an exchange",
    submit: "Declare",
    otherwise: "name",
    fields: [
      { name: "name", label: "Name", required: true, check: (name) => nameProblem("exchange", name) },
      vhostField(vhosts, vhost),
      { name: "type", label: "Type", kind: "select", value: "topic", options: EXCHANGE_TYPES },
      { name: "durable", label: "Durable: it is still there after a restart", kind: "check", value: true },
      { name: "auto_delete", label: "Deleted with its last binding", kind: "check" },
      { name: "internal", label: "Internal: clients cannot publish to it", kind: "check" },
      { name: "arguments", label: "Arguments", kind: "table", known: EXCHANGE_ARGUMENTS },
    ],
    act: async ({ name, vhost: written, ...body }) => {
      const where = only({ vhost: written }, vhosts);
      await act("PUT", documentPath("exchanges", where, name), body);
      return { said: `Exchange ${name} is declared.`, to: href(exchangePath(where, name)) };
    },
  };
}

const keyFields = () => [
  { name: "routing_key", label: "Routing key", hint: "In a topic exchange * stands for one word, # for any number of them.", check: (key) => nameProblem("routing key", key).replace("the name of the ", "") },
  { name: "arguments", label: "Arguments", kind: "table", known: BINDING_ARGUMENTS, hint: "Headers exchanges match by them." },
];

const notThere = (message) => (/no queue|no exchange/.test(message) ? "other" : undefined);

/** Bind the queue or exchange `name` to an exchange that is chosen. */
export async function bindTo({ vhost, kind, name }) {
  return {
    title: `Bind ${name}`,
    text: `Messages that match go from the exchange to this ${kind}.`,
    submit: "Bind",
    otherwise: "routing_key",
    blame: notThere,
    fields: [{ name: "other", label: "From exchange", required: true, list: await names("exchanges", vhost) }, ...keyFields()],
    act: async ({ other, ...body }) => {
      await act("POST", bindingPath(vhost, other, kind, name), body);
      return { said: `${name} is bound to ${other}.` };
    },
  };
}

/** Bind something that is chosen to the exchange `name`. */
export async function bindFrom({ vhost, name }) {
  const [queues, exchanges] = await Promise.all([names("queues", vhost), names("exchanges", vhost)]);
  return {
    title: `Bind to ${name}`,
    text: "Messages that match go from this exchange to the destination.",
    submit: "Bind",
    otherwise: "routing_key",
    blame: notThere,
    fields: ({ kind = "queue" }) => [
      { name: "kind", label: "To", kind: "select", value: "queue", options: [["queue", "a queue"], ["exchange", "an exchange"]] },
      { name: "other", label: kind === "queue" ? "Queue" : "Exchange", required: true, list: kind === "queue" ? queues : exchanges },
      ...keyFields(),
    ],
    act: async ({ kind, other, ...body }) => {
      await act("POST", bindingPath(vhost, name, kind, other), body);
      return { said: `${other} is bound to ${name}.` };
    },
  };
}

export function unbind({ binding }) {
  const { vhost, source, destination, destination_type: kind, routing_key: key, properties_key: properties } = binding;
  return {
    title: "Remove this binding",
    text: html`From <b>${source}</b> to ${kind} <b>${destination}</b>${key === "" ? ", with an empty routing key." : html`, with routing key <code>${key}</code>.`}`,
    submit: "Unbind",
    danger: true,
    fields: [],
    act: async () => {
      await act("DELETE", bindingPath(vhost, source, kind, destination, properties));
      return { said: `${destination} is no longer bound to ${source} with this key.` };
    },
  };
}

export function purge({ vhost, name, ready }) {
  return {
    title: "Purge the queue",
    text: `${plural(ready, "ready message")} will be lost. What consumers hold unacknowledged stays.`,
    submit: "Purge",
    danger: true,
    fields: [confirmField("queue", name)],
    act: async () => {
      await act("DELETE", `${documentPath("queues", vhost, name)}/contents`);
      return { said: `Queue ${name} is purged.` };
    },
  };
}

export function deleteQueue({ vhost, name, messages, consumers }) {
  return {
    title: "Delete the queue",
    text: `${plural(messages, "message")} will be lost${consumers ? `, and ${plural(consumers, "consumer")} will be cancelled` : ""}.`,
    submit: "Delete",
    danger: true,
    fields: [
      confirmField("queue", name),
      { name: "empty", label: "Only if it is empty", kind: "check" },
      { name: "unused", label: "Only if nobody consumes", kind: "check" },
    ],
    act: async ({ empty, unused }) => {
      const only_ = [empty && "if-empty=true", unused && "if-unused=true"].filter(Boolean).join("&");
      await act("DELETE", documentPath("queues", vhost, name) + (only_ && `?${only_}`));
      return { said: `Queue ${name} is deleted.`, to: href(listPath("queues")) };
    },
  };
}

/** The same act on several queues, one after the other; says which it failed for. */
export async function forEach(queues, one, done) {
  const failed = [];
  for (const { vhost, name } of queues) {
    try {
      await one(vhost, name);
    } catch (error) {
      failed.push(`${name}: ${error.message}`);
    }
  }
  if (failed.length) throw new Error(`${failed.length} of ${queues.length} failed. ${failed.slice(0, 5).join("; ")}`);
  done();
}

async function deleteEach(queues, path, said, done) {
  await forEach(queues, (vhost, name) => act("DELETE", path(vhost, name)), done);
  return { said };
}

/** What has to be typed before an act on several queues: how many they are. */
function confirmMany(queues) {
  const words = plural(queues.length, "queue");
  return { name: "confirm", label: `Type “${words}” to go on`, check: (typed) => (typed.trim() === words ? "" : `Type “${words}”.`) };
}

export const listed = (queues) => html`<ul class="matched">${queues.slice(0, 12).map((one) => html`<li key=${one.key}><code>${one.name}</code><span>${plural(one.ready, "ready message")}</span></li>`)}${queues.length > 12 && html`<li>and ${queues.length - 12} more</li>`}</ul>`;

export function purgeMany({ queues, done }) {
  return {
    title: `Purge ${plural(queues.length, "queue")}`,
    text: html`These lose all ready messages: ${listed(queues)}`,
    submit: "Purge",
    danger: true,
    fields: [confirmMany(queues)],
    act: () => deleteEach(queues, (vhost, name) => `${documentPath("queues", vhost, name)}/contents`, `${plural(queues.length, "queue")} purged.`, done),
  };
}

export function deleteMany({ queues, done }) {
  return {
    title: `Delete ${plural(queues.length, "queue")}`,
    text: html`These go, with all their messages: ${listed(queues)}`,
    submit: "Delete",
    danger: true,
    fields: [confirmMany(queues), { name: "empty", label: "Only those that are empty", kind: "check" }, { name: "unused", label: "Only those that nobody consumes", kind: "check" }],
    act: ({ empty, unused }) => {
      const only_ = [empty && "if-empty=true", unused && "if-unused=true"].filter(Boolean).join("&");
      return deleteEach(queues, (vhost, name) => documentPath("queues", vhost, name) + (only_ && `?${only_}`), `${plural(queues.length, "queue")} deleted.`, done);
    },
  };
}

export function deleteExchange({ vhost, name, bindings }) {
  return {
    title: "Delete the exchange",
    text: bindings ? `Its ${plural(bindings, "binding")} will go too. Publishes to it will fail.` : "Publishes to it will fail.",
    submit: "Delete",
    danger: true,
    fields: [confirmField("exchange", name), { name: "unused", label: "Only if nothing is bound to it", kind: "check" }],
    act: async ({ unused }) => {
      await act("DELETE", documentPath("exchanges", vhost, name) + (unused ? "?if-unused=true" : ""));
      return { said: `Exchange ${name} is deleted.`, to: href(listPath("exchanges")) };
    },
  };
}

export function closeConnection({ name, client }) {
  return {
    title: "Close the connection",
    text: html`<b>${client || name}</b> gets the reply code 320, CONNECTION_FORCED, with your reason. What it holds unacknowledged goes back to the queues. Most clients connect again by themselves.`,
    submit: "Close it",
    danger: true,
    fields: [{ name: "reason", label: "Reason, which the client and the log get", value: "" }],
    act: async ({ reason }) => {
      await act("DELETE", `/api/connections/${segment(name)}`, undefined, reason ? { "X-Reason": reason } : {});
      return { said: `The connection of ${client || name} is closed.`, to: href(listPath("connections")) };
    },
  };
}

export function closeConsumer({ vhost, queue, tag, channel, client, unacked }) {
  const held = unacked === undefined ? "What it holds unacknowledged goes" : unacked ? `The ${plural(unacked, "message")} that it holds unacknowledged ${unacked === 1 ? "goes" : "go"}` : "It holds nothing unacknowledged; what it gets meanwhile goes";
  return {
    title: "Close the consumer",
    text: html`<b>${client || channel}</b> is told that its consumer <code>${tag}</code> has ended (basic.cancel); its connection stays. ${held} back to queue <b>${queue}</b>.`,
    submit: "Close it",
    danger: true,
    fields: [{ name: "reason", label: "Reason, for the log", value: "" }],
    act: async ({ reason }) => {
      const path = `${documentPath("queues", vhost, queue)}/consumers/${dotted(tag)}?channel=${encodeURIComponent(channel)}`;
      const { returned } = await act("DELETE", path, undefined, reason ? { "X-Reason": reason } : {});
      return { said: `The consumer of ${client || channel} is closed; ${plural(returned, "message")} went back to ${queue}.` };
    },
  };
}
