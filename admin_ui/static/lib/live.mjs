// The stream of events: one per tab, with the topics that the page shown asks for.
import { useEffect, useState } from "./html.mjs";
import { check } from "./api.mjs";
import { applyPatch } from "./rows.mjs";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
/** The server sends something every second or, at worst, a heartbeat; later than this it is taken for gone. */
const SILENCE_MS = 20_000;

class Live {
  constructor() {
    this.wanted = new Map();
    this.last = new Map();
    this.watchers = new Set();
    this.source = null;
    this.opened = "";
    this.attempt = 0;
    this.timer = null;
    this.state = "connecting";
    /** When the server was heard last, and when it was asked last. */
    this.heardAt = Date.now();
    this.askedAt = 0;
    this.enabled = false;
  }

  start() {
    this.enabled = true;
    this.schedule(0);
    this.watchdog ??= setInterval(() => {
      if (this.source && Date.now() - Math.max(this.heardAt, this.askedAt) > SILENCE_MS) this.lost();
      this.tell();
    }, 1000);
    return () => this.stop();
  }

  stop() {
    this.enabled = false;
    clearInterval(this.watchdog);
    this.watchdog = null;
    this.close();
    this.last.clear();
  }

  subscribe(topic, handler) {
    const handlers = this.wanted.get(topic) ?? new Set();
    handlers.add(handler);
    this.wanted.set(topic, handlers);
    if (this.last.has(topic)) handler(this.last.get(topic));
    this.schedule(0);
    return () => {
      handlers.delete(handler);
      if (!handlers.size) {
        this.wanted.delete(topic);
        this.last.delete(topic);
        this.schedule(0);
      }
    };
  }

  schedule(delay) {
    clearTimeout(this.timer);
    if (this.enabled) this.timer = setTimeout(() => this.open(), delay);
  }

  open() {
    const topics = [...this.wanted.keys()].sort();
    const query = topics.join(",");
    if (this.source && this.opened === query) return;
    this.close();
    if (!topics.length) return this.set("idle");
    this.opened = query;
    if (this.state === "idle") this.set("connecting");
    this.askedAt = Date.now();
    const source = new EventSource(`/admin/v1/events?topics=${encodeURIComponent(query)}`);
    this.source = source;
    source.onopen = () => this.heard();
    source.addEventListener("heartbeat", () => this.heard());
    source.onerror = () => this.lost();
    for (const topic of topics) {
      source.addEventListener(topic, (event) => {
        this.heard();
        const data = JSON.parse(event.data);
        const kept = data.rows ? applyPatch(data.full ? null : this.last.get(topic), data) : data;
        if (kept === null) return this.lost();
        this.last.set(topic, kept);
        for (const handler of this.wanted.get(topic) ?? []) handler(kept);
        return undefined;
      });
    }
  }

  heard() {
    this.heardAt = Date.now();
    this.attempt = 0;
    this.set("live");
  }

  lost() {
    this.close();
    this.set("reconnecting");
    const delay = RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)];
    this.attempt += 1;
    // The browser does not tell why a stream ended. If it was the session, the login is shown instead.
    check().then(() => this.schedule(delay * (0.75 + Math.random() / 2)));
  }

  close() {
    this.source?.close();
    this.source = null;
    this.opened = "";
  }

  set(state) {
    if (this.state === state) return;
    this.state = state;
    this.tell();
  }

  tell() {
    for (const watcher of this.watchers) watcher();
  }
}

export const live = new Live();

/** The newest event of a topic; null until there is one. */
export function useTopic(topic) {
  const [state, setState] = useState({ topic: null, data: null });
  useEffect(() => {
    if (topic === null) return undefined;
    return live.subscribe(topic, (data) => setState({ topic, data }));
  }, [topic]);
  return state.topic === topic ? state.data : null;
}

/** Call `handler` with every event of a topic. */
export function useEvents(topic, handler) {
  useEffect(() => (topic === null ? undefined : live.subscribe(topic, handler)), [topic]);
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
