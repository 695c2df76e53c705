// What an import of definitions would change. No DOM here: tested by node.

/** What names an item of each section, and what of it the broker keeps as it is if it is there. */
const SECTIONS = {
  users: ["name"],
  vhosts: ["name"],
  permissions: ["user", "vhost"],
  topic_permissions: ["user", "vhost", "exchange"],
  parameters: ["component", "vhost", "name"],
  global_parameters: ["name"],
  policies: ["vhost", "name"],
  queues: ["vhost", "name"],
  exchanges: ["vhost", "name"],
  bindings: ["vhost", "source", "destination_type", "destination", "routing_key", "arguments"],
};
/** An import leaves these as they are. */
const KEPT = new Set(["queues", "exchanges"]);
/** What an export says that is not there by default, so that its absence is no difference. */
const USUAL = { priority: 0, "apply-to": "all", description: "", tags: [], tracing: false, default_queue_type: "undefined", limits: {}, arguments: {}, internal: false, hashing_algorithm: "rabbit_password_hashing_sha256", metadata: undefined };

/**
 * Compare a file with the present definitions. `vhost` is given for those of one virtual host, whose items do not name
 * it. Returns [{section, added, changed, kept, same}]: lists of names, and how many are the same. Throws if the file
 * has no definitions.
 */
export function differences(present, file, vhost = "") {
  if (file === null || typeof file !== "object" || Array.isArray(file)) throw new Error("The file is not an object with definitions.");
  const found = [];
  for (const [section, keys] of Object.entries(SECTIONS)) {
    const items = file[section];
    if (items === undefined) continue;
    if (!Array.isArray(items)) throw new Error(`“${section}” of the file is not a list.`);
    const used = vhost ? keys.filter((key) => key !== "vhost") : keys;
    const id = (item) => JSON.stringify(used.map((key) => plain(item[key] ?? USUAL[key])));
    const before = new Map((present[section] ?? []).map((item) => [id(item), item]));
    const row = { section, added: [], changed: [], kept: [], same: 0 };
    for (const item of items) {
      const name = nameOf(item, used);
      const now = before.get(id(item));
      if (section === "exchanges" && /^amq\./.test(item.name ?? "")) row.same += 1;
      else if (section === "global_parameters" && item.name === "internal_cluster_id") row.same += 1;
      else if (!now) row.added.push(name);
      else if (alike(now, item)) row.same += 1;
      else (KEPT.has(section) ? row.kept : row.changed).push(name);
    }
    if (items.length) found.push(row);
  }
  if (!found.length && !Object.keys(SECTIONS).some((section) => section in file)) throw new Error("The file has no definitions.");
  return found;
}

function nameOf(item, keys) {
  const parts = keys.filter((key) => key !== "arguments" && !(key === "vhost" && item.vhost === "/"));
  return parts.map((key) => item[key]).filter((part) => part !== undefined && part !== "").join(" · ");
}

/** Whether the file's item says nothing else than what is there. */
function alike(now, item) {
  return Object.keys(item).every((key) => {
    if (key === "vhost" || (key === "password" && item.password === undefined)) return true;
    if (key === "metadata") return alike(now, item.metadata ?? {});
    return plain(tagsOf(key, item[key] ?? USUAL[key])) === plain(tagsOf(key, now[key] ?? USUAL[key]));
  });
}

const tagsOf = (key, value) => (key === "tags" && typeof value === "string" ? value.split(",").map((tag) => tag.trim()).filter(Boolean) : value);

/** A value as a text in which the order of keys does not matter. */
function plain(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(plain).join()}]`;
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${plain(value[key])}`).join()}}`;
}
