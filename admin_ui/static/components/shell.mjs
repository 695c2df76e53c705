// What surrounds every page: navigation, virtual host, theme, connection light, keys.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.mjs";
import { Icon, Logo, Pill } from "./bits.mjs";
import { say, useDialogs } from "../lib/dialogs.mjs";
import { live, useConnection } from "../lib/live.mjs";
import { go, href, param, setParams } from "../lib/location.mjs";
import { ALL_PAGES, allowed, MAIN, MORE, PARENT } from "../lib/pages.mjs";
import { BASE, listPath } from "../lib/routes.mjs";

const KEYS = [
  ["/ or Ctrl+K", "jump to a queue, exchange, connection or page, or act"],
  ["f", "put the cursor into the filter of a list"],
  ["Enter", "in the filter: open the first row"],
  ["g then o q e c", "go to overview, queues, exchanges, connections"],
  ["g then h p v u l a d n", "go to channels, policies, virtual hosts, users, limits, API tokens, definitions, node"],
  ["n", "something new in a list: declare a queue, add a user"],
  ["t", "next theme: system, light, dark"],
  ["?", "this help"],
  ["Esc", "close what is open"],
];

export function Shell({ route, me, onLogout, children }) {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const { theme, nextTheme } = useTheme();
  const early = useRef(null);
  const openPalette = () => {
    early.current = "";
    setPalette(true);
  };
  const takeEarly = () => {
    const text = early.current ?? "";
    early.current = null;
    return text;
  };
  useKeys(early, { openPalette, openHelp: () => setHelp(true), nextTheme });
  useLayoutEffect(() => live.start(), []);
  useEffect(() => setMenu(false), [route.path]);
  const active = PARENT[route.page] ?? route.page;
  const link = ({ page, label }) => html`<a key=${page} href=${href(listPath(page))} aria-current=${page === active ? "page" : undefined}>
    <${Icon} name=${page} /><span>${label}</span></a>`;
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${focusMain}>Skip to the content</a>
    <aside class="side" data-open=${menu} aria-label="Navigation">
      <a class="brand" href=${href(`${BASE}/`)}><${Logo} /><span>amqp-router</span></a>
      <button type="button" class="icon-button menu-button" aria-expanded=${menu} aria-controls="side-more"
        aria-label="Menu" onClick=${() => setMenu(!menu)}><${Icon} name=${menu ? "close" : "menu"} /></button>
      <nav class="pages" aria-label="Pages">
        ${MAIN.map(link)}
      </nav>
      <nav class="pages more-pages" aria-label="More pages">
        ${MORE.filter(({ page }) => allowed(me, page)).map(link)}
      </nav>
      <div class="side-more" id="side-more">
        <${VhostPicker} vhosts=${me.vhosts} route=${route} />
        <button type="button" class="side-row" onClick=${nextTheme}><${Icon} name=${theme} />Theme: ${theme}</button>
        <button type="button" class="side-row" onClick=${() => setHelp(true)}><kbd>?</kbd>Keys</button>
        <button type="button" class="side-row" onClick=${onLogout}><${Icon} name="out" />Log out ${me.name}</button>
        <p class="build">
          <span class="num">${me.version}</span>
          ${me.compiled ? html`<${Pill}>compiled<//>` : html`<${Pill} kind="warn" title="The hot modules run uncompiled, which is many times slower. Install a C compiler and install again.">uncompiled<//>`}
          <span class="node" title=${me.node}>${me.node}</span>
        </p>
      </div>
    </aside>
    <header class="top">
      <${Crumbs} route=${route} active=${active} />
      <${Light} />
      <button type="button" class="jump" aria-label="Jump to …" onClick=${openPalette} aria-keyshortcuts="/ Control+K">
        <${Icon} name="search" /><span>Jump to …</span><kbd>/</kbd>
      </button>
    </header>
    <main id="main" tabindex="-1">
      ${!me.vhosts.length && html`<p class="card notice">You have no permission in any virtual host, so these pages have nothing to show. An administrator can give you one.</p>`}
      ${children}
    </main>
    <${Dialogs} />
    ${palette && html`<${LaterPalette} me=${me} takeEarly=${takeEarly} onClose=${() => setPalette(false)} />`}
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  </div>`;
}

let Palette = null;

/** The palette, which loads when it is first opened; keys typed meanwhile are kept for it (`useKeys`). */
function LaterPalette(props) {
  const [loaded, setLoaded] = useState(Palette !== null);
  useEffect(() => {
    if (loaded) return;
    import("./palette.mjs").then(
      (found) => {
        Palette = found.Palette;
        setLoaded(true);
      },
      (error) => {
        props.takeEarly();
        props.onClose();
        say(error.message);
      },
    );
  }, []);
  return loaded ? html`<${Palette} ...${props} />` : null;
}

/** The dialog of the act that was asked for, and what the last one did. */
function Dialogs() {
  const { spec, said } = useDialogs();
  return html`<p class="said" role="status" data-empty=${!said}>${said}</p>
    ${spec && html`<${spec.Dialog} spec=${spec} key=${spec} />`}`;
}

function focusMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Crumbs({ route, active }) {
  const label = ALL_PAGES.find(({ page }) => page === active)?.label ?? "Not found";
  if (!(route.page in PARENT)) return html`<div class="crumbs"><h1>${label}</h1></div>`;
  return html`<nav class="crumbs" aria-label="You are here">
    <a href=${href(listPath(active))}>${label}</a><${Icon} name="right" />
    <h1 class="here" title=${route.name}>${route.name === "amq.default" && route.page === "exchange" ? "(default)" : route.name}</h1>
  </nav>`;
}

function Light() {
  const { state, age } = useConnection();
  if (state === "idle") return null; // nothing on the page is live
  const text = state === "live" ? "Live" : state === "connecting" ? "Connecting" : `Reconnecting, data ${age} s old`;
  return html`<p class="light" data-state=${state} role="status"><i aria-hidden="true"></i><span>${text}</span></p>`;
}

function VhostPicker({ vhosts, route }) {
  const chosen = route.vhost ?? param("vhost");
  const change = (event) => {
    const vhost = event.target.value;
    if (route.page in PARENT) go(listPath(PARENT[route.page]) + (vhost ? `?vhost=${encodeURIComponent(vhost)}` : ""));
    else setParams({ vhost, page: "" }, { replace: false });
  };
  return html`<label class="vhost">
    <span>Virtual host</span>
    <select value=${chosen} onChange=${change}>
      <option value="" selected=${chosen === ""}>all</option>
      ${(chosen === "" || vhosts.includes(chosen) ? vhosts : [...vhosts, chosen]).map((name) => html`<option key=${name} value=${name} selected=${chosen === name}>${name}</option>`)}
    </select>
  </label>`;
}

const THEMES = ["system", "light", "dark"];

function useTheme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "system");
  const nextTheme = () => {
    const root = document.documentElement;
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("theme");
      else localStorage.setItem("theme", next);
    } catch {
      // not kept, then
    }
    setTheme(next);
  };
  return { theme, nextTheme };
}

function useKeys(early, actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useLayoutEffect(() => {
    let leader = -Infinity;
    const pressed = (event) => {
      if (document.querySelector("dialog[open]")) {
        early.current = null;
        return;
      }
      // The palette appears a moment after its key. Keys typed until then belong to it.
      if (early.current !== null && event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
        early.current += event.key;
        event.preventDefault();
        return;
      }
      // Everywhere, in a text field too, as in other programs with such a palette.
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        latest.current.openPalette();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.target.closest?.("input, select, textarea")) return;
      const target = ALL_PAGES.find(({ key }) => key === event.key)?.page;
      if (target && event.timeStamp - leader < 1500) go(href(listPath(target)));
      else if (event.key === "/") latest.current.openPalette();
      else if (event.key === "?") latest.current.openHelp();
      else if (event.key === "n" && document.querySelector("[data-new]")) document.querySelector("[data-new]").click();
      else if (event.key === "t") latest.current.nextTheme();
      else if (event.key === "f" && document.getElementById("query")) document.getElementById("query").focus();
      else {
        leader = event.key === "g" ? event.timeStamp : -Infinity;
        return;
      }
      leader = -Infinity;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Help({ onClose }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog class="dialog" ref=${dialog} onClose=${onClose} aria-labelledby="help-title">
    <header class="card-head"><h2 id="help-title">Keys</h2>
      <button type="button" class="icon-button" aria-label="Close" onClick=${() => dialog.current.close()}><${Icon} name="close" /></button>
    </header>
    <dl class="keys">${KEYS.map(([key, text]) => html`<div key=${key}><dt>${key.split(" ").map((part) => (["then", "or"].includes(part) ? `${part} ` : html`<kbd key=${part}>${part}</kbd> `))}</dt><dd>${text}</dd></div>`)}</dl>
  </dialog>`;
}
