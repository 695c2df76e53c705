// Move the messages of a queue somewhere else.
import { act } from "../lib/api.mjs";
import { html } from "../lib/html.mjs";
import { count, plural } from "../lib/format.mjs";
import { wholeNumber } from "../lib/forms.mjs";
import { documentPath } from "../lib/routes.mjs";
import { forEach, listed, names, vhostField } from "./objects.mjs";

/** `vhosts` are those that may be moved to; without it the queue's own alone. */
export async function moveMessages({ vhost, name, ready, vhosts = [vhost] }) {
  const [queues, exchanges] = await Promise.all([names("queues", vhost), names("exchanges", vhost)]);
  const others = queues.filter((one) => one !== name);
  const chosen = { ...vhostField(vhosts, vhost), label: "In virtual host" };
  return {
    title: `Move messages of ${name}`,
    text: "A message leaves this queue when the other one has it on disk. Order, properties and headers are kept.",
    submit: "Move",
    otherwise: "other",
    blame: (message) => (/\bcount\b/.test(message) ? "count" : undefined),
    fields: ({ kind = "queue", vhost: where = vhost }) => [
      { name: "kind", label: "To", kind: "select", value: "queue", options: [["queue", "a queue"], ["exchange", "an exchange, which routes them"]] },
      vhosts.length > 1 && chosen,
      { name: "other", label: kind === "queue" ? "Queue" : "Exchange", required: true, list: where !== vhost ? [] : kind === "queue" ? others : exchanges,
        check: (other) => (kind === "queue" && where === vhost && other === name ? "The messages are in this queue already." : "") },
      kind === "exchange" && { name: "routing_key", label: "Routing key", hint: "Empty: each message keeps its own." },
      { name: "count", label: "How many", kind: "number", hint: `Empty: all that are ready now${ready === undefined ? "" : `, ${count(ready)}`}.`,
        check: (written) => (written.trim() !== "" && !(wholeNumber(written) > 0) ? "A whole number above 0, or nothing." : "") },
    ],
    act: async ({ kind, vhost: where = vhost, other, routing_key: key, count: written }) => {
      const to = { vhost: where, [kind]: other, ...(kind === "exchange" && key !== "" ? { routing_key: key } : {}) };
      const limit = wholeNumber(written);
      const move = await act("POST", `${documentPath("queues", vhost, name)}/moves`, { to, ...(limit === null ? {} : { count: limit }) });
      return { said: move.count ? `${plural(move.count, "message")} of ${name} ${move.count === 1 ? "is" : "are"} being moved to ${other}.` : "No message is ready: nothing to move." };
    },
  };
}

/** All ready messages of several queues to one. */
export async function moveMany({ queues, vhosts, done }) {
  const first = queues[0].vhost;
  const there = await names("queues", first);
  const ready = queues.reduce((sum, one) => sum + one.ready, 0);
  return {
    title: `Move messages of ${plural(queues.length, "queue")}`,
    text: html`The ${plural(ready, "ready message")} of these queues. A message leaves its queue when the other one has it on disk. ${listed(queues)}`,
    submit: "Move",
    otherwise: "queue",
    fields: ({ vhost: where = first }) => [
      vhosts.length > 1 && { ...vhostField(vhosts, first), label: "In virtual host" },
      { name: "queue", label: "Queue", required: true, list: where === first ? there.filter((name) => !queues.some((one) => one.vhost === first && one.name === name)) : [],
        check: (queue) => (queues.some((one) => one.vhost === where && one.name === queue) ? "This queue is one of them." : "") },
    ],
    act: async ({ vhost = first, queue }) => {
      let messages = 0;
      const move = async (from, name) => {
        const found = await act("POST", `${documentPath("queues", from, name)}/moves`, { to: { vhost, queue } });
        messages += found.count;
      };
      await forEach(queues, move, done);
      return { said: messages ? `${plural(messages, "message")} of ${plural(queues.length, "queue")} ${messages === 1 ? "is" : "are"} being moved to ${queue}.` : "No message is ready: nothing to move." };
    },
  };
}
