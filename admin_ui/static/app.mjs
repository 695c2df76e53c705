// The entry: who is logged in, and which page the address shows.
import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./lib/html.mjs";
import { Empty, Loading } from "./components/bits.mjs";
import { Shell } from "./components/shell.mjs";
import * as api from "./lib/api.mjs";
import { visible } from "./lib/format.mjs";
import { go, param, takeClicks, useRoute } from "./lib/location.mjs";
import { ALL_PAGES, allowed } from "./lib/pages.mjs";
import { BASE, safeNext } from "./lib/routes.mjs";
import { Login } from "./pages/login.mjs";
import { Overview } from "./pages/overview.mjs";

const PAGES = {
  overview: Overview,
  missing: Missing,
};
/** Pages that load when the first is opened. */
const LATER = {
  channels: () => import("./pages/channels.mjs").then((found) => found.Channels),
  channel: () => import("./pages/channel.mjs").then((found) => found.Channel),
  connection: () => import("./pages/connection.mjs").then((found) => found.Connection),
  connections: () => import("./pages/connections.mjs").then((found) => found.Connections),
  definitions: () => import("./pages/definitions.mjs").then((found) => found.Definitions),
  exchange: () => import("./pages/exchange.mjs").then((found) => found.Exchange),
  exchanges: () => import("./pages/exchanges.mjs").then((found) => found.Exchanges),
  limits: () => import("./pages/limits.mjs").then((found) => found.LimitsPage),
  node: () => import("./pages/node.mjs").then((found) => found.NodePage),
  policies: () => import("./pages/policies.mjs").then((found) => found.Policies),
  queues: () => import("./pages/queues.mjs").then((found) => found.Queues),
  queue: () => import("./pages/queue.mjs").then((found) => found.Queue),
  tokens: () => import("./pages/tokens.mjs").then((found) => found.TokensPage),
  user: () => import("./pages/user.mjs").then((found) => found.User),
  users: () => import("./pages/users.mjs").then((found) => found.Users),
  vhost: () => import("./pages/vhost.mjs").then((found) => found.Vhost),
  vhosts: () => import("./pages/vhosts.mjs").then((found) => found.Vhosts),
};
/** Changes after which the user may see other virtual hosts, or nothing. */
const CHANGES_ME = /\/(users|vhosts|permissions|definitions)\b/;

function Missing() {
  return html`<${Empty} title="There is no such page"><p><a href=${`${BASE}/`}>Go to the overview</a></p><//>`;
}

function Forbidden() {
  return html`<${Empty} title="This page is not for your user"><p>An administrator can give the user another tag. <a href=${`${BASE}/`}>Go to the overview</a></p><//>`;
}

const loaded = new Map();

/** A page of `LATER`. */
function Later({ page, ...props }) {
  const [Page, setPage] = useState(() => loaded.get(page));
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!Page) LATER[page]().then((found) => (loaded.set(page, found), setPage(() => found)), setError);
  }, []);
  if (error) return html`<${Empty} title="The page could not be loaded"><p>${error.message}</p><//>`;
  return Page ? html`<${Page} ...${props} />` : html`<${Loading} rows=${10} />`;
}

function toLogin({ ended = false } = {}) {
  if (location.pathname.startsWith(`${BASE}/login`)) return;
  const here = encodeURIComponent(location.pathname + location.search);
  go(`${BASE}/login?next=${here}${ended ? "&ended=1" : ""}`, { replace: true });
}

function App() {
  const route = useRoute();
  const [me, setMe] = useState(null);
  const [problem, setProblem] = useState(null);

  const load = () =>
    api.session().then(
      (found) => {
        setProblem(null);
        setMe(found);
        if (route.page === "login") go(safeNext(param("next")), { replace: true });
      },
      (error) => (error.status === 401 ? toLogin() : setProblem(error)),
    );
  useLayoutEffect(() => {
    api.whenSignedOut(() => {
      setMe(null);
      toLogin({ ended: true });
    });
    return api.whenChanged((path) => {
      if (CHANGES_ME.test(path)) api.check().then((found) => found && setMe(found));
    });
  }, []);
  // At the start; and back after a log-out leads to an address that needs a session.
  const begun = useRef(false);
  useLayoutEffect(() => {
    if (!begun.current || (route.page !== "login" && !me && !problem)) load();
    begun.current = true;
  }, [route.path]);
  useEffect(() => {
    const label = ALL_PAGES.find(({ page }) => page === route.page)?.label ?? (route.page === "login" ? "Login" : "Not found");
    const name = route.name ?? (route.page === "overview" ? "" : label);
    document.title = name ? `${visible(name)} · amqp-router` : "amqp-router";
  }, [route.page, route.name]);

  const signedIn = (found) => {
    setMe(found);
    go(safeNext(param("next")), { replace: true });
  };
  const signOut = async () => {
    await api.logout().catch(() => {});
    setMe(null);
    go(`${BASE}/login`);
  };
  if (route.page === "login") return html`<${Login} onLogin=${signedIn} />`;
  if (problem) return html`<${Unreachable} error=${problem} retry=${load} />`;
  if (!me) return null;
  const Page = !allowed(me, route.page) ? Forbidden : PAGES[route.page] ?? Later;
  return html`<${Shell} route=${route} me=${me} onLogout=${signOut}>
    <${Page} key=${route.path} page=${route.page} route=${route} me=${me} />
  <//>`;
}

function Unreachable({ error, retry }) {
  useEffect(() => {
    const timer = setInterval(retry, 3000);
    return () => clearInterval(timer);
  }, []);
  return html`<main id="main" class="login"><${Empty} title=${error.message}><p>Trying again every 3 seconds.</p><//></main>`;
}

document.addEventListener("click", takeClicks);
render(html`<${App} />`, document.getElementById("app"));
