// The jump palette: part of a name, arrows, Enter.
import { html, useEffect, useRef, useState } from "../lib/html.mjs";
import { Icon } from "./bits.mjs";
import { get } from "../lib/api.mjs";
import { go, href } from "../lib/location.mjs";
import { connectionPath, exchangePath, listPath, queuePath } from "../lib/routes.mjs";

const PAGES = ["overview", "queues", "exchanges", "connections"].map((page) => ({
  kind: "page",
  icon: page,
  name: page[0].toUpperCase() + page.slice(1),
  path: listPath(page),
}));

async function find(text) {
  // Part of the name, in capitals or not.
  const name = text && `&use_regex=true&name=${encodeURIComponent(`(?i)${text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}`)}`;
  const list = (path, columns, make) =>
    get(`${path}?page=1&page_size=8${name}&columns=${columns}&disable_stats=true`)
      .then((answer) => answer.items.map(make))
      .catch(() => []);
  const found = await Promise.all([
    list("/api/queues", "name,vhost", (one) => ({ kind: "queue", icon: "queues", ...one, path: queuePath(one.vhost, one.name) })),
    list("/api/exchanges", "name,vhost", (one) => ({
      kind: "exchange", icon: "exchanges", vhost: one.vhost, name: one.name || "(default)", path: exchangePath(one.vhost, one.name),
    })),
    list("/admin/v1/connections", "name,vhost,user_provided_name", (one) => ({
      kind: "connection", icon: "connections", vhost: one.vhost,
      name: one.user_provided_name ? `${one.user_provided_name} (${one.name})` : one.name, path: connectionPath(one.name),
    })),
  ]);
  const pages = PAGES.filter((page) => page.name.toLowerCase().includes(text.toLowerCase()));
  return [...pages, ...found.flat()].slice(0, 24);
}

export function Palette({ onClose }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [entries, setEntries] = useState(PAGES);
  const [chosen, setChosen] = useState(0);
  useEffect(() => dialog.current.showModal(), []);
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(
      () =>
        find(text).then((found) => {
          if (gone) return;
          setEntries(found);
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
    go(href(entry.path));
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
        placeholder="Queue, exchange, connection or page" value=${text} autocomplete="off" spellcheck="false" autofocus
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
    ${!entries.length && html`<p class="palette-none" role="status">Nothing has “${text}” in its name.</p>`}
  </dialog>`;
}
