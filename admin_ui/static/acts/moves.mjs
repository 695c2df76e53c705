// Move the messages of a queue somewhere else.
import { act } from "../lib/api.mjs";
import { count, plural } from "../lib/format.mjs";
import { wholeNumber } from "../lib/forms.mjs";
import { documentPath } from "../lib/routes.mjs";
import { names, vhostField } from "./objects.mjs";

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
