// Acts on users, virtual hosts, permissions, limits and policies, as dialogs (components/forms.mjs).
import { html, useEffect, useState } from "../lib/html.mjs";
import { Pill } from "../components/bits.mjs";
import { confirmField } from "../components/forms.mjs";
import { act, post } from "../lib/api.mjs";
import { count, plural } from "../lib/format.mjs";
import { nameProblem, rowsOf, wholeNumber } from "../lib/forms.mjs";
import { href } from "../lib/location.mjs";
import { documentPath, listPath, userPath, vhostPath } from "../lib/routes.mjs";

const TAGS = ["administrator", "monitoring", "policymaker", "management"];
const TAGS_HINT = "Separated by commas: administrator (everything), monitoring (all connections and the node), policymaker (policies), management (own objects). Without one the user has no access to these pages.";
const PATTERN_HINT = "Regular expressions over names: .* is every name, an empty one none.";

const tagsField = (tags = []) => ({ name: "tags", label: "Tags", value: tags.join(", "), hint: TAGS_HINT, list: TAGS });
const passwordFields = (words) => [
  { name: "password", label: "Password", kind: "password", ...words },
  { name: "again", label: "Password again", kind: "password", check: (again, { password }) => (again === password ? "" : "The two passwords differ.") },
];

const ALL = { configure: ".*", write: ".*", read: ".*" };

export function addUser({ vhosts }) {
  return {
    title: "Add a user",
    submit: "Add",
    otherwise: "name",
    fields: [
      { name: "name", label: "Name", required: true, check: (name) => nameProblem("user", name) },
      ...passwordFields({ hint: "Without a password nobody can log in with one." }),
      { name: "vhost", label: "Virtual host", kind: "select", options: [["", "none yet"], ...vhosts], hint: "The user gets all permissions in it. Other ones, and further virtual hosts, are on the page of the user." },
      tagsField(),
    ],
    act: async ({ name, password, vhost, tags }) => {
      await act("PUT", documentPath("users", name), password ? { password, tags } : { password_hash: "", tags });
      if (vhost) await act("PUT", documentPath("permissions", vhost, name), ALL);
      return { said: `User ${name} is added, with ${vhost ? `all permissions in ${vhost}` : "no permission yet"}.`, to: href(userPath(name)) };
    },
  };
}

export function setPassword({ name, tags }) {
  return {
    title: `New password of ${name}`,
    text: "Other sessions of the user end, and its API tokens. Connections that are open stay.",
    submit: "Set the password",
    fields: ({ none }) => [
      ...(none ? [] : passwordFields({ required: true })),
      { name: "none", label: "No password: nobody can log in with one", kind: "check" },
    ],
    act: async ({ none, password }) => {
      await act("PUT", documentPath("users", name), none ? { password_hash: "", tags } : { password, tags });
      return { said: none ? `${name} has no password any more.` : `${name} has a new password.` };
    },
  };
}

export function setTags({ user }) {
  const { name, tags, password_hash, hashing_algorithm } = user;
  return {
    title: `Tags of ${name}`,
    text: "Other sessions of the user end.",
    submit: "Set the tags",
    fields: [tagsField(tags)],
    act: async ({ tags: written }) => {
      await act("PUT", documentPath("users", name), { tags: written, password_hash, hashing_algorithm });
      return { said: `${name} has other tags now.` };
    },
  };
}

export function deleteUser({ name, self }) {
  return {
    title: "Delete the user",
    text: `Its connections are closed${self ? ", and you are logged out: this is you" : ""}. Its permissions go too.`,
    submit: "Delete",
    danger: true,
    fields: [confirmField("user", name)],
    act: async () => {
      await act("DELETE", documentPath("users", name));
      return { said: `User ${name} is deleted.`, to: href(listPath("users")) };
    },
  };
}

const choice = (name, label, chosen, all) => (chosen ? null : { name, label, kind: "select", options: all, value: all[0] });

/** A permission entry; `user` or `vhost` is given, or both with the present patterns. */
export function setPermission({ user, vhost, users = [], vhosts = [], present }) {
  return {
    title: user && vhost ? `Permission of ${user} in ${vhost}` : user ? `Let ${user} into a virtual host` : `Let a user into ${vhost}`,
    submit: "Set",
    otherwise: "configure",
    fields: [
      choice("user", "User", user, users),
      choice("vhost", "Virtual host", vhost, vhosts),
      ...[
        ["configure", "Configure: declare and delete"],
        ["write", "Write: publish, bind to a queue"],
        ["read", "Read: consume, get, purge, bind from an exchange"],
      ].map(([name, label]) => ({ name, label, value: present?.[name] ?? ".*", hint: name === "read" ? PATTERN_HINT : undefined })),
    ],
    act: async ({ user: who = user, vhost: where = vhost, ...patterns }) => {
      await act("PUT", documentPath("permissions", where, who), patterns);
      return { said: `${who} has permissions in ${where}.` };
    },
  };
}

export function clearPermission({ user, vhost }) {
  return {
    title: "Remove the permission",
    text: html`User <b>${user}</b> can no longer enter virtual host <b>${vhost}</b>. Connections that are open stay.`,
    submit: "Remove",
    danger: true,
    fields: [],
    act: async () => {
      await act("DELETE", documentPath("permissions", vhost, user));
      return { said: `${user} has no permission in ${vhost} any more.` };
    },
  };
}

export function setTopicPermission({ user, vhost, vhosts = [], present }) {
  return {
    title: present ? `Topic permission of ${user}` : `Limit the routing keys of ${user}`,
    text: "Without an entry for an exchange, every routing key is allowed.",
    submit: "Set",
    otherwise: "exchange",
    fields: [
      choice("vhost", "Virtual host", vhost, vhosts),
      !present && { name: "exchange", label: "Topic exchange", value: "amq.topic", required: true },
      { name: "write", label: "Write: routing keys it may publish with", value: present?.write ?? ".*" },
      { name: "read", label: "Read: routing keys it may bind with", value: present?.read ?? ".*", hint: PATTERN_HINT },
    ],
    act: async ({ vhost: where = vhost, exchange = present?.exchange, write, read }) => {
      await act("PUT", documentPath("topic-permissions", where, user), { exchange, write, read });
      return { said: `The topic permission of ${user} for ${exchange} is set.` };
    },
  };
}

export function clearTopicPermission({ user, vhost, exchange }) {
  return {
    title: "Remove the topic permission",
    text: html`User <b>${user}</b> may then use every routing key of <b>${exchange}</b> in <b>${vhost}</b>.`,
    submit: "Remove",
    danger: true,
    fields: [],
    act: async () => {
      await act("DELETE", documentPath("topic-permissions", vhost, user, exchange));
      return { said: `The topic permission of ${user} for ${exchange} is removed.` };
    },
  };
}

const QUEUE_TYPES = [["undefined", "not set"], "classic", "quorum", "stream"];

/** A new virtual host, or with `present` what is said of one. */
export function putVhost({ present }) {
  return {
    title: present ? `About ${present.name}` : "Add a virtual host",
    submit: present ? "Change" : "Add",
    otherwise: "name",
    text: present ? undefined : "You get all permissions in it.",
    fields: [
      !present && { name: "name", label: "Name", required: true, check: (name) => nameProblem("virtual host", name) },
      { name: "description", label: "Description", value: present?.description ?? "" },
      { name: "tags", label: "Tags", value: (present?.tags ?? []).join(", "), hint: "Separated by commas. They mean nothing to the broker." },
      { name: "default_queue_type", label: "Default queue type", kind: "select", options: QUEUE_TYPES, value: present?.default_queue_type ?? "undefined", hint: "Of queues that are declared without a type. Those that cannot be quorum queues (exclusive, auto-delete, not durable) are classic." },
      { name: "tracing", label: "Trace it", kind: "check", value: Boolean(present?.tracing), hint: "Exchange amq.rabbitmq.trace in it gets a copy of each message that is published to it or delivered from it. That slows it down." },
    ],
    act: async ({ name = present?.name, ...body }) => {
      await act("PUT", documentPath("vhosts", name), body);
      return present ? { said: `Virtual host ${name} is changed.` } : { said: `Virtual host ${name} is added.`, to: href(vhostPath(name)) };
    },
  };
}

export function renameCluster({ name }) {
  return {
    title: "Name the cluster",
    text: "Clients are told the name when they connect; the API and Prometheus show it.",
    submit: "Set the name",
    fields: [{ name: "name", label: "Name", value: name }],
    act: async ({ name: given }) => {
      await act("PUT", "/api/cluster-name", { name: given });
      return { said: `The cluster is called ${given}.` };
    },
  };
}

export function forgetHistories() {
  return {
    title: "Begin the histories anew",
    text: "What charts and lists show of the past is forgotten, of all objects. Messages, objects and counters stay.",
    submit: "Forget",
    danger: true,
    fields: [],
    act: async () => {
      await act("DELETE", "/api/reset");
      return { said: "The histories begin anew with the next sample, in 5 seconds at most." };
    },
  };
}

export function deleteVhost({ name, messages }) {
  return {
    title: "Delete the virtual host",
    text: `Everything in it is lost: queues with ${plural(messages, "message")}, exchanges, bindings, policies, permissions. Its connections are closed.`,
    submit: "Delete",
    danger: true,
    fields: [confirmField("virtual host", name)],
    act: async () => {
      await act("DELETE", documentPath("vhosts", name));
      return { said: `Virtual host ${name} is deleted.`, to: listPath("vhosts") };
    },
  };
}

const LIMITS = { vhost: ["max-connections", "max-queues"], user: ["max-connections", "max-channels"] };

/** A limit of a virtual host or user. `kind`: "vhost" or "user". */
export function setLimit({ kind, name, names = [], limit, value }) {
  const noun = kind === "vhost" ? "Virtual host" : "User";
  return {
    title: name ? `Limit of ${name}` : `Limit a ${noun.toLowerCase()}`,
    submit: "Set",
    otherwise: "value",
    fields: [
      choice("name", noun, name, names),
      choice("limit", "Limit", limit, LIMITS[kind]),
      { name: "value", label: limit ?? "At most", kind: "number", required: true, value: value === undefined ? "" : String(value), hint: "0 allows none. Those that are there already stay.",
        check: (text) => (wholeNumber(text) === null || wholeNumber(text) < 0 ? "A whole number, 0 or more." : "") },
    ],
    act: async ({ name: who = name, limit: which = limit, value: text }) => {
      await act("PUT", documentPath(`${kind}-limits`, who, which), { value: wholeNumber(text) });
      return { said: `${which} of ${who} is ${count(wholeNumber(text))}.` };
    },
  };
}

export function clearLimit({ kind, name, limit }) {
  return {
    title: "Remove the limit",
    text: html`<b>${name}</b> has then no <code>${limit}</code>.`,
    submit: "Remove",
    danger: true,
    fields: [],
    act: async () => {
      await act("DELETE", documentPath(`${kind}-limits`, name, limit));
      return { said: `${limit} of ${name} is removed.` };
    },
  };
}

const OPERATOR_KEYS = { expires: "number", "message-ttl": "number", "max-length": "number", "max-length-bytes": "number" };
const POLICY_KEYS = { ...OPERATOR_KEYS, overflow: "text", "dead-letter-exchange": "text", "dead-letter-routing-key": "text", "alternate-exchange": "text", "delivery-limit": "number", "consumer-timeout": "number" };

/** A new policy, or a change of `present`. */
export function putPolicy({ kind = "policy", vhosts, vhost, present }) {
  const operator = kind === "operator_policy";
  const where = (values) => present?.vhost ?? values.vhost ?? vhosts[0];
  const path = operator ? "operator-policies" : "policies";
  return {
    title: `${present ? "Change the" : operator ? "Add an" : "Add a"} ${operator ? "operator policy" : "policy"}${present ? ` ${present.name}` : ""}`,
    submit: present ? "Change" : "Add",
    otherwise: "definition",
    wide: true,
    blame: (message) => (/should be regular expression|pattern/.test(message) ? "pattern" : /priority/.test(message) ? "priority" : undefined),
    Below: ({ values }) => html`<${Preview} kind=${kind} name=${present?.name ?? values.name ?? ""} vhost=${where(values)} pattern=${values.pattern ?? ""}
      priority=${values.priority ?? "0"} to=${values["apply-to"] ?? "all"} />`,
    fields: [
      !present && { name: "name", label: "Name", required: true, check: (name) => nameProblem("policy", name) },
      !present && vhosts.length > 1 && { name: "vhost", label: "Virtual host", kind: "select", options: vhosts, value: vhosts.includes(vhost) ? vhost : vhosts[0] },
      { name: "pattern", label: "Pattern", value: present?.pattern ?? "", hint: "A regular expression over names: ^orders\\. matches names that begin with orders." },
      { name: "apply-to", label: "Applies to", kind: "select", value: present?.["apply-to"] ?? (operator ? "queues" : "all"), options: operator ? ["queues", "classic_queues", "quorum_queues", "all"] : ["all", "queues", "classic_queues", "quorum_queues", "exchanges"] },
      { name: "priority", label: "Priority", kind: "number", value: String(present?.priority ?? 0), hint: "Of all policies that match, only the one with the highest priority applies.", check: (text) => (wholeNumber(text) === null ? "A whole number." : "") },
      { name: "definition", label: "Definition", kind: "table", noun: "key", known: operator ? OPERATOR_KEYS : POLICY_KEYS, value: rowsOf(present?.definition ?? {}), offered: true, hint: "message-ttl, expires and consumer-timeout are in milliseconds, max-length-bytes in bytes. Of numbers that argument, policy and operator policy give, the smallest counts.",
        check: (definition) => (Object.keys(definition).length ? "" : "A policy sets at least one key. Choose one above.") },
    ],
    act: async ({ name = present?.name, vhost: chosen, priority, ...body }) => {
      await act("PUT", documentPath(path, where({ vhost: chosen }), name), { ...body, priority: wholeNumber(priority) });
      return { said: `Policy ${name} is set.` };
    },
  };
}

/** What the pattern matches, a moment after it was typed. */
function Preview({ kind, name, vhost, pattern, priority, to }) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(async () => {
      const body = { kind, name, vhost, pattern, "apply-to": to, priority: wholeNumber(priority) ?? 0 };
      // What does not match or parse yet is no error while somebody types.
      const answer = await post("/admin/v1/previews/policy", body).catch((error) => ({ problem: error.message }));
      if (!gone) setFound(answer);
    }, 200);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [kind, name, vhost, pattern, priority, to]);
  if (!found) return html`<div class="preview"><p class="muted">Looking for what matches …</p></div>`;
  if (found.problem) return html`<div class="preview"><p class="field-error">${found.problem}</p></div>`;
  return html`<div class="preview" aria-live="polite">
    <${Matches} noun="queue" found=${found.queues} complete=${found.complete} />
    ${kind === "policy" && html`<${Matches} noun="exchange" found=${found.exchanges} complete=${found.complete} />`}
    ${!found.complete && html`<p class="note">The pattern is slow, so only a part was looked at.</p>`}
  </div>`;
}

function Matches({ noun, found, complete }) {
  const { total, names } = found;
  return html`<div>
    <p><b>${total ? `${complete ? "" : "At least "}${plural(total, noun)}` : `No ${noun}`}</b> ${total > 1 ? "match" : "matches"}.</p>
    <ul class="matched">${names.slice(0, 12).map(
      (one) => html`<li key=${one.name}><code>${one.name}</code>${one.instead && html`<${Pill} kind="warn">obeys ${one.instead}<//>`}</li>`,
    )}${total > 12 && html`<li class="muted">and ${count(total - 12)} more</li>`}</ul>
  </div>`;
}

export function deletePolicy({ kind, policy: { vhost, name } }) {
  return {
    title: kind === "operator_policy" ? "Delete the operator policy" : "Delete the policy",
    text: "What obeys it obeys the next one that matches, or none.",
    submit: "Delete",
    danger: true,
    fields: [confirmField("policy", name)],
    act: async () => {
      await act("DELETE", documentPath(kind === "operator_policy" ? "operator-policies" : "policies", vhost, name));
      return { said: `Policy ${name} is deleted.` };
    },
  };
}
