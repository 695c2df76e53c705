// Calls to the server. The session is a cookie that scripts cannot read; its CSRF token is kept in memory alone.
import { useLayoutEffect, useState } from "./html.mjs";
import { headerText } from "./forms.mjs";

let token = "";
let onSignedOut = () => {};

export function whenSignedOut(call) {
  onSignedOut = call;
}

export class ApiError extends Error {
  constructor(status, reason, wait = 0) {
    super(reason);
    this.status = status;
    this.wait = wait;
  }
}

async function call(method, path, body, more = {}) {
  const headers = { Accept: "application/json" };
  for (const [name, text] of Object.entries(more)) headers[name] = headerText(text);
  if (method !== "GET") headers["X-CSRF-Token"] = token;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new ApiError(0, "The broker does not answer.");
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    // a proxy's page, say; the status tells enough
  }
  if (response.ok) return answer;
  const said = answer?.reason;
  const reason = typeof said === "string" ? said.trim() : Array.isArray(said) ? said.join(": ") : `The server answered ${response.status}.`;
  throw new ApiError(response.status, reason, Number(response.headers.get("Retry-After")) || 0);
}

const changes = new Set();

/** Change something, and have all of the page that was read by `useGet` read again. */
export async function act(method, path, body, headers) {
  try {
    const answer = await call(method, path, body, headers);
    // Later, when the page of something that was deleted is gone.
    setTimeout(() => changes.forEach((heard) => heard(path)));
    return answer;
  } catch (error) {
    if (error.status === 401) await check();
    throw error;
  }
}

/** Call `heard` with the path of every change that was made; returns how to end that. */
export function whenChanged(heard) {
  changes.add(heard);
  return () => changes.delete(heard);
}

/** A question that needs a body; it changes nothing. */
export const post = (path, body) => call("POST", path, body);

export async function get(path) {
  try {
    return await call("GET", path);
  } catch (error) {
    if (error.status === 401) await check();
    throw error;
  }
}

/** Ask whether there is still a session, and show the login if not. */
export async function check() {
  try {
    return await session();
  } catch (error) {
    if (error.status === 401) onSignedOut();
    return null;
  }
}

export async function session() {
  const me = await call("GET", "/admin/v1/session");
  if (me.name === null) throw new ApiError(401, "Nobody is logged in.");
  token = me.csrf_token;
  return me;
}

export async function login(username, password) {
  const me = await call("POST", "/admin/v1/session", { username, password });
  token = me.csrf_token;
  return me;
}

export async function logout() {
  await call("DELETE", "/admin/v1/session");
  token = "";
}

export function sparklines(queues) {
  return call("POST", "/admin/v1/sparklines", { queues });
}

/**
 * Read `path` now and every `seconds`: {data, error}. While another path loads, the old data is gone, so that nothing
 * is shown under a wrong name. A null path reads nothing; a hidden tab waits.
 */
export function useGet(path, seconds) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  useLayoutEffect(() => {
    if (path === null) return undefined;
    let gone = false;
    let loaded = false;
    const load = async () => {
      if (document.hidden && loaded) return;
      try {
        const data = await get(path);
        loaded = true;
        if (!gone) setState({ path, data, error: null });
      } catch (error) {
        if (!gone) setState((old) => ({ path, data: old.path === path ? old.data : null, error }));
      }
    };
    load();
    const timer = seconds ? setInterval(load, seconds * 1000) : null;
    document.addEventListener("visibilitychange", load);
    changes.add(load);
    return () => {
      gone = true;
      changes.delete(load);
      clearInterval(timer);
      document.removeEventListener("visibilitychange", load);
    };
  }, [path, seconds]);
  return state.path === path ? state : { data: null, error: null };
}
