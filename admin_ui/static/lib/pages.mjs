// The pages by name: what they are called, the key after g that opens them, and who may see them. No DOM here.

/** The first ones are at the bottom of a phone, the others in its menu. */
export const MAIN = [
  { page: "overview", label: "Overview", key: "o" },
  { page: "queues", label: "Queues", key: "q" },
  { page: "exchanges", label: "Exchanges", key: "e" },
  { page: "connections", label: "Connections", key: "c" },
];
export const MORE = [
  { page: "channels", label: "Channels", key: "h" },
  { page: "policies", label: "Policies", key: "p" },
  { page: "vhosts", label: "Virtual hosts", key: "v" },
  { page: "users", label: "Users", key: "u", tag: "administrator" },
  { page: "limits", label: "Limits", key: "l" },
  { page: "tokens", label: "API tokens", key: "a" },
  { page: "definitions", label: "Definitions", key: "d", tag: "administrator" },
  { page: "node", label: "Node", key: "n", tag: "monitoring" },
];
export const ALL_PAGES = [...MAIN, ...MORE];
/** The list that the page of one object belongs to. */
export const PARENT = { queue: "queues", exchange: "exchanges", connection: "connections", channel: "channels", user: "users", vhost: "vhosts" };

/** Whether a user may see a page; administrators see all of them. */
export function allowed(me, page) {
  const tag = ALL_PAGES.find((one) => one.page === (PARENT[page] ?? page))?.tag;
  return !tag || me.tags.includes(tag) || me.tags.includes("administrator");
}
