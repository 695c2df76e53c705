// The address bar as state: every filter, sort, page and range is in it.
import { useEffect, useLayoutEffect, useState } from "./html.mjs";
import { parse, withParams } from "./routes.mjs";

const watchers = new Set();

function current() {
  return { ...parse(location.pathname), path: location.pathname, search: location.search };
}

/** Show another address of ours. `replace` leaves no step in the history. */
export function go(url, { replace = false } = {}) {
  if (url === location.pathname + location.search + location.hash) return;
  const samePage = new URL(url, location.href).pathname === location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  for (const watcher of watchers) watcher();
  if (!samePage) {
    // A page with a fragment scrolls there by itself, once it has its data (`useFragment`).
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

/** The present route, and again at every change of the address. */
export function useRoute() {
  const [route, setRoute] = useState(current);
  // Not after the first frame: what is asked at the start may be answered before, and leads to another address.
  useLayoutEffect(() => {
    const update = () => setRoute(current());
    watchers.add(update);
    addEventListener("popstate", update);
    return () => {
      watchers.delete(update);
      removeEventListener("popstate", update);
    };
  }, []);
  return route;
}

/** Scroll to the part of the page that the address names, once `ready`. */
export function useFragment(ready) {
  useEffect(() => {
    if (ready && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, [ready]);
}

/** One parameter of the address, and a function that changes some of them. */
export function param(name, otherwise = "") {
  return new URLSearchParams(location.search).get(name) ?? otherwise;
}

export function setParams(changes, { replace = true } = {}) {
  go(location.pathname + withParams(location.search, changes), { replace });
}

/** An address with the chosen virtual host carried along. */
export function href(path, changes = {}) {
  const vhost = param("vhost");
  const [page, fragment] = path.split("#");
  return page + withParams("", { ...(vhost ? { vhost } : {}), ...changes }) + (fragment ? `#${fragment}` : "");
}

/** Clicks on links to our pages change the address without loading; those with a modifier key do what they do. */
export function takeClicks(event) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || link.origin !== location.origin || !link.pathname.startsWith("/ui/")) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
}
