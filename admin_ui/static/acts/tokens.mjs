// Acts on API tokens, as dialogs (components/forms.mjs).
import { html } from "../lib/html.mjs";
import { Snippet } from "../components/bits.mjs";
import { Frame, shut } from "../components/forms.mjs";
import { act, get } from "../lib/api.mjs";
import { documentPath } from "../lib/routes.mjs";

const ROLES = [
  ["monitoring", "monitoring: see all connections and the node"],
  ["management", "management: the user's own objects"],
  ["policymaker", "policymaker: policies too"],
  ["administrator", "administrator: everything"],
];
/** What a role includes, besides itself. */
const INCLUDED = { administrator: ROLES.map(([role]) => role), monitoring: ["management"], policymaker: ["management"] };
const DAYS = [["7", "in a week"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"], ["", "only when it is revoked"]];

const rolesOf = (tags) => ROLES.filter(([role]) => tags.includes(role) || tags.some((tag) => INCLUDED[tag]?.includes(role)));

export async function make({ me }) {
  const users = me.tags.includes("administrator") ? await get("/api/users?columns=name,tags") : [{ name: me.name, tags: me.tags }];
  const roles = (user) => rolesOf(users.find((one) => one.name === user)?.tags ?? []);
  // The role that is shown when another user was chosen after it.
  const role = (user, chosen) => roles(user).find(([name]) => name === chosen)?.[0] ?? roles(user)[0]?.[0] ?? chosen;
  return {
    title: "Make an API token",
    text: "A program sends it in the header Authorization, as Bearer. It ends early if its user's password changes.",
    submit: "Make it",
    otherwise: "name",
    fields: ({ user = me.name }) => [
      { name: "name", label: "What it is for", required: true, hint: "Shown in lists and in the log." },
      users.length > 1 && { name: "user", label: "Its user", kind: "select", options: users.map((one) => one.name), value: me.name },
      { name: "tags", label: "It may", kind: "select", options: roles(user), value: role(user, "monitoring") },
      { name: "read_only", label: "It only reads, and changes nothing", kind: "check", value: true },
      { name: "days", label: "It ends", kind: "select", options: DAYS, value: "90" },
    ],
    act: async ({ name, user = me.name, tags, read_only, days }) => {
      const made = await act("POST", "/admin/v1/tokens", { name, user, tags: [role(user, tags)], read_only, valid_days: days ? Number(days) : null });
      return { said: `Token ${name} is made.`, next: ["tokens.show", { name, token: made.token }] };
    },
  };
}

/** The only time that a token is shown. */
export const show = ({ name, token }) => ({ Dialog: Shown, name, token });

function Shown({ spec: { name, token } }) {
  return html`<${Frame} title=${`Token ${name}`}>
    <div class="form">
      <p class="form-text">Copy it now: it is shown this once. The broker keeps only a hash of it.</p>
      <${Snippet} text=${token} label="The token" />
      <p class="hint">For curl: <code>-H "Authorization: Bearer …"</code></p>
      <div class="form-end"><p class="form-done"></p><button type="button" class="button main-button" autofocus onClick=${(event) => shut(event.target)}>I have it</button></div>
    </div>
  <//>`;
}

export function revoke({ id, name, user }) {
  return {
    title: "Revoke the token",
    text: html`Programs that use <b>${name || id}</b> of user <b>${user}</b> are refused at once.`,
    submit: "Revoke",
    danger: true,
    fields: [],
    act: async () => {
      await act("DELETE", documentPath("tokens", id));
      return { said: `Token ${name || id} is revoked.` };
    },
  };
}
