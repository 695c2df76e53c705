// Addresses of the pages. No DOM here: tested by node.

export const BASE = "/ui";

const LISTS = { queues: "queue", exchanges: "exchange", connections: "connection", users: "user", vhosts: "vhost", channels: "channel" };
/** Objects that have a name alone, and no virtual host. */
const NAMED = new Set(["connections", "channels", "users", "vhosts"]);
/** Pages without pages below them. */
const ALONE = new Set(["policies", "limits", "tokens", "definitions", "node"]);

/** What an address shows: {page, vhost?, name?}; page is "missing" for an unknown one. */
export function parse(pathname) {
  const parts = pathname.replace(/^\/ui\/?/, "").split("/").filter((part) => part !== "").map(decode).map(undotted);
  const [kind, ...rest] = parts;
  if (kind === undefined) return { page: "overview" };
  if (kind === "login" && !rest.length) return { page: "login" };
  if (ALONE.has(kind) && !rest.length) return { page: kind };
  if (!Object.hasOwn(LISTS, kind)) return { page: "missing" };
  if (!rest.length) return { page: kind };
  if (NAMED.has(kind)) return rest.length === 1 ? { page: LISTS[kind], name: rest[0] } : { page: "missing" };
  if (rest.length !== 2) return { page: "missing" };
  return { page: LISTS[kind], vhost: rest[0], name: rest[1] };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A name as one part of a topic. */
export function segment(name) {
  return encodeURIComponent(name).replace(/%3A/g, ":");
}

/**
 * Names as parts of a path. Browsers resolve the parts . and .., even if encoded: such a name has a ~ in front, and so
 * has one that looks like that.
 */
export const dotted = (name) => segment(/^~*\.\.?$/.test(name) ? `~${name}` : name);
const parts = (...names) => names.map(dotted).join("/");
const undotted = (part) => (/^~+\.\.?$/.test(part) ? part.slice(1) : part);

/** Where the server has the documents of one object. */
export const documentPath = (kind, ...names) => `/admin/v1/${kind}/${parts(...names)}`;
/** A binding of `/api`, by its ends. `kind`: "queue" or "exchange". */
export const bindingPath = (vhost, source, kind, destination, ...key) =>
  `/admin/v1/bindings/${parts(vhost)}/e/${parts(source || "amq.default")}/${kind[0]}/${parts(destination, ...key)}`;
export const queuePath = (vhost, name) => `${BASE}/queues/${parts(vhost, name)}`;
export const exchangePath = (vhost, name) => `${BASE}/exchanges/${parts(vhost, name || "amq.default")}`;
export const connectionPath = (name) => `${BASE}/connections/${segment(name)}`;
export const channelPath = (name) => `${BASE}/channels/${segment(name)}`;
export const userPath = (name) => `${BASE}/users/${parts(name)}`;
export const vhostPath = (name) => `${BASE}/vhosts/${parts(name)}`;
export const listPath = (kind) => (kind === "overview" ? `${BASE}/` : `${BASE}/${kind}`);

/** The address after login: only one of ours, never another site's. */
export function safeNext(next) {
  return typeof next === "string" && /^\/ui(\/|$|\?)/.test(next) && !/^\/ui\/login/.test(next) ? next : `${BASE}/`;
}

/** A query string with `changes` merged in; empty values are left out. */
export function withParams(search, changes) {
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString().replace(/%3A/g, ":").replace(/%3E/g, ">").replace(/%7E/g, "~");
  return text ? `?${text}` : "";
}
