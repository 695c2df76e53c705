// What the page shows, as it changes: the page's end of the stream that all tabs share (hub.mjs).
import { useEffect, useLayoutEffect, useState } from "./html.mjs";
import { check } from "./api.mjs";
import { Hub } from "./hub.mjs";
import { applyPatch } from "./rows.mjs";

/** So often the page tells the shared worker that it is still there. */
const PRESENT_MS = 20_000;

const makeWorker = () => new SharedWorker(new URL("./worker.mjs", import.meta.url), { type: "module" });
/** A worker that starts before the page needs it. */
let early = typeof SharedWorker === "function" ? makeWorker() : null;

/** The hub in the shared worker; where there is none (Chrome on Android), one in this page. */
function connect(heard) {
  if (typeof SharedWorker === "function") {
    const worker = early ?? makeWorker();
    early = null;
    worker.port.onmessage = (event) => heard(event.data);
    return (message) => worker.port.postMessage(message);
  }
  return new Hub({ makeSource: (address) => new EventSource(address) }).connect(heard).receive;
}

class Live {
  constructor() {
    /** Handlers by topic. */
    this.wanted = new Map();
    /** The newest event by topic. */
    this.last = new Map();
    this.watchers = new Set();
    this.send = null;
    this.state = "connecting";
    /** When the server was heard last. */
    this.heardAt = Date.now();
    /** Attempts to open the stream that failed since it was last heard. */
    this.attempt = 0;
    this.changing = false;
    this.present = null;
    this.leave = () => this.disconnect();
    this.comeBack = (event) => event.persisted && this.connect();
  }

  start() {
    this.connect();
    // A page in the browser's back-forward cache must leave the stream.
    addEventListener("pagehide", this.leave);
    addEventListener("pageshow", this.comeBack);
    return () => {
      removeEventListener("pagehide", this.leave);
      removeEventListener("pageshow", this.comeBack);
      this.disconnect();
      this.last.clear();
    };
  }

  connect() {
    if (this.send) return;
    let here = true;
    const send = connect((message) => here && this.heard(message));
    this.send = (message) => {
      here = !message.close;
      send(message);
    };
    this.ask();
    let ticks = 0;
    this.present = setInterval(() => {
      ticks += 1;
      if (ticks % (PRESENT_MS / 1000) === 0) this.send({});
      this.tell();
    }, 1000);
  }

  disconnect() {
    clearInterval(this.present);
    this.send?.({ close: true });
    this.send = null;
  }

  subscribe(topic, handler) {
    const handlers = this.wanted.get(topic) ?? new Set();
    handlers.add(handler);
    this.wanted.set(topic, handlers);
    if (this.last.has(topic)) handler(this.last.get(topic));
    this.change();
    return () => {
      handlers.delete(handler);
      if (!handlers.size) {
        this.wanted.delete(topic);
        this.last.delete(topic);
        this.change();
      }
    };
  }

  /** Subscribe once to the topics of all parts of the page. */
  change() {
    if (this.changing) return;
    this.changing = true;
    setTimeout(() => {
      this.changing = false;
      this.ask();
    }, 0);
  }

  ask() {
    this.send?.({ topics: [...this.wanted.keys()] });
  }

  heard({ topic, data, state, heardAt, attempt }) {
    if (state) {
      const failed = attempt > this.attempt;
      Object.assign(this, { state, heardAt, attempt });
      // The browser does not tell why a stream ended. If it was the session, the login is shown instead.
      if (failed) check();
      this.tell();
      return;
    }
    if (!this.wanted.has(topic)) return;
    const kept = data.rows ? applyPatch(data.full ? null : this.last.get(topic), data) : data;
    if (kept === null) return; // changes for a list whose whole is on its way
    this.last.set(topic, kept);
    for (const handler of this.wanted.get(topic)) handler(kept);
  }

  tell() {
    for (const watcher of this.watchers) watcher();
  }
}

export const live = new Live();

/** The newest event of a topic; null until there is one. */
export function useTopic(topic) {
  const [state, setState] = useState({ topic: null, data: null });
  // Before the browser paints: a frame later is a frame later for all that follows.
  useLayoutEffect(() => {
    if (topic === null) return undefined;
    return live.subscribe(topic, (data) => setState({ topic, data }));
  }, [topic]);
  return state.topic === topic ? state.data : null;
}

/** Call `handler` with every event of a topic. */
export function useEvents(topic, handler) {
  useLayoutEffect(() => (topic === null ? undefined : live.subscribe(topic, handler)), [topic]);
}

/** {state, age}: whether the stream is open, and how old what is shown is, in ms. */
export function useConnection() {
  const read = () => ({ state: live.state, age: Math.floor((Date.now() - live.heardAt) / 1000) });
  const [now, setNow] = useState(read);
  useEffect(() => {
    const update = () =>
      setNow((old) => {
        const fresh = read();
        const same = old.state === fresh.state && (fresh.state === "live" || old.age === fresh.age);
        return same ? old : fresh;
      });
    live.watchers.add(update);
    update();
    return () => live.watchers.delete(update);
  }, []);
  return now;
}
