// The jump palette: part of a name, arrows, Enter.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.mjs";
import { Icon } from "./bits.mjs";
import { get } from "../lib/api.mjs";
import { ask } from "../lib/dialogs.mjs";
import { go, href, param } from "../lib/location.mjs";
import { ALL_PAGES, allowed } from "../lib/pages.mjs";
import { ranked } from "../lib/query.mjs";
import { plural } from "../lib/format.mjs";
import { connectionPath, exchangePath, listPath, queuePath } from "../lib/routes.mjs";

/** What `me` may go to or do from everywhere. */
function fixed(me) {
  const pages = ALL_PAGES.filter(({ page }) => allowed(me, page)).map(({ page, label }) => ({ kind: "page", icon: page, name: label, path: listPath(page) }));
  if (allowed(me, "node")) pages.push({ kind: "page", icon: "node", name: "Prometheus: what it needs", path: `${listPath("node")}#prometheus` });
  const admin = me.tags.includes("administrator");
  const here = { vhosts: me.acts, vhost: param("vhost") };
  const rights = { vhosts: me.vhosts, vhost: param("vhost") };
  const acts = [
    me.acts.length && ["Declare a queue", "objects.declareQueue", here],
    me.acts.length && ["Declare an exchange", "objects.declareExchange", here],
    me.acts.length && ["Publish a message", "messages.publish", { vhost: me.acts.includes(here.vhost) ? here.vhost : me.acts.includes("/") ? "/" : me.acts[0] }],
    (admin || me.tags.includes("policymaker")) && me.vhosts.length && ["Add a policy", "admin.putPolicy", rights],
    admin && me.vhosts.length && ["Add an operator policy", "admin.putPolicy", { ...rights, kind: "operator_policy" }],
    admin && ["Add a user", "admin.addUser", { vhosts: me.vhosts }],
    admin && ["Add a virtual host", "admin.putVhost", {}],
    me.acts.length && ["Make an API token", "tokens.make", { me }],
  ].filter(Boolean);
  return [...pages, ...acts.map(([name, act, what]) => ({ kind: "act", icon: "act", name, path: act, what }))];
}

/** Entries of each kind that are asked for, and that are shown in all. */
const ASKED = 50;
const SHOWN = 40;

const KINDS = [
  ["/api/queues", "name,vhost", (one) => ({ kind: "queue", icon: "queues", ...one, path: queuePath(one.vhost, one.name) })],
  ["/api/exchanges", "name,vhost", (one) => ({
    kind: "exchange", icon: "exchanges", vhost: one.vhost, name: one.name || "(default)", path: exchangePath(one.vhost, one.name),
  })],
  ["/admin/v1/connections", "name,vhost,user_provided_name", (one) => ({
    kind: "connection", icon: "connections", vhost: one.vhost,
    name: one.user_provided_name ? `${one.user_provided_name} (${one.name})` : one.name, path: connectionPath(one.name),
  })],
];

/** {entries, more, error}: what has `text` in its name, the best first, and how many there are besides. */
async function find(text, known) {
  let error = "";
  let all = 0;
  const entries = new Map();
  // In capitals or not. Lists come in the order of names: those that begin with the text are asked for by themselves,
  // or fifty others would hide them.
  const quoted = `(?i)${text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}`;
  const patterns = text ? [quoted.replace("(?i)", "(?i)^"), quoted] : [""];
  const ask = async ([path, columns, make], pattern) => {
    const name = pattern && `&use_regex=true&name=${encodeURIComponent(pattern)}`;
    try {
      const answer = await get(`${path}?page=1&page_size=${ASKED}${name}&columns=${columns}&disable_stats=true`);
      if (pattern === patterns.at(-1)) all += answer.filtered_count;
      return answer.items.map(make);
    } catch (failed) {
      error = failed.message;
      return [];
    }
  };
  const found = await Promise.all(patterns.flatMap((pattern) => KINDS.map((kind) => ask(kind, pattern))));
  for (const entry of found.flat()) entries.set(entry.kind + entry.path, entry);
  const pages = known.filter((page) => page.name.toLowerCase().includes(text.toLowerCase()));
  const shown = ranked([...entries.values(), ...pages], text).slice(0, SHOWN);
  return { entries: shown, more: Math.max(0, all + pages.length - shown.length), error };
}

/** `takeEarly()` gives what was typed since the key that opened it. */
export function Palette({ me, takeEarly, onClose }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [{ entries, more, error }, setFound] = useState({ entries: fixed(me), more: 0, error: "" });
  const [chosen, setChosen] = useState(0);
  useLayoutEffect(() => {
    dialog.current.showModal();
    setText(takeEarly());
  }, []);
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(
      () =>
        find(text, fixed(me)).then((found) => {
          if (gone) return;
          setFound(found);
          setChosen(0);
        }),
      text ? 90 : 0,
    );
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text]);
  useEffect(() => document.getElementById(`jump-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);

  const open = (entry) => {
    if (!entry) return;
    dialog.current.close();
    if (entry.what) ask(entry.path, entry.what);
    else go(href(entry.path));
  };
  const pressed = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && entries.length) setChosen((chosen + step + entries.length) % entries.length);
    else if (event.key === "Enter") open(entries[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<dialog class="dialog palette" ref=${dialog} aria-label="Jump to" onClose=${onClose}
    onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    <div class="palette-input">
      <${Icon} name="search" />
      <input type="text" role="combobox" aria-label="Part of a name" aria-expanded="true" aria-controls="jump-list"
        aria-activedescendant=${entries.length ? `jump-${chosen}` : undefined} aria-autocomplete="list"
        placeholder="Queue, exchange, connection, page or act" value=${text} autocomplete="off" spellcheck="false" autofocus
        onInput=${(event) => setText(event.target.value)} onKeyDown=${pressed} />
      <kbd>Esc</kbd>
    </div>
    <ul id="jump-list" role="listbox" aria-label="Found">
      ${entries.map(
        (entry, index) => html`<li key=${entry.kind + entry.path} id=${`jump-${index}`} role="option" aria-selected=${index === chosen}
          onMouseMove=${() => index !== chosen && setChosen(index)} onClick=${() => open(entry)}>
          <${Icon} name=${entry.icon} /><span class="name">${entry.name}</span>
          <span class="kind">${entry.kind}${entry.vhost && entry.vhost !== "/" ? ` in ${entry.vhost}` : ""}</span>
        </li>`,
      )}
    </ul>
    ${more > 0 && html`<p class="palette-none" role="status">${plural(more, "further name")} match. Type more of the name.</p>`}
    ${error
      ? html`<p class="palette-none problem" role="alert"><${Icon} name="alert" />${error} The list is incomplete.</p>`
      : !entries.length && html`<p class="palette-none" role="status">No name contains “${text}”.</p>`}
  </dialog>`;
}
