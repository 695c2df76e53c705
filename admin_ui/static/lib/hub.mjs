// One stream of events for all tabs of a browser. No DOM here: it runs in a shared worker, in a page where there is no
// such worker, and in node's tests.
//
// A browser opens six connections to a server at most (HTTP/1.1), so a stream for each tab would leave the seventh tab
// without any. The hub keeps one EventSource for the topics of all its ports and hands each port what it asked for.

import { mergeWhole, wholeEvent } from "./rows.mjs";

const RETRY_MS = [500, 1000, 2000, 4000, 8000];
/** The server sends something every second or, at worst, a heartbeat every 5 s; a longer silence means that it is gone. */
const SILENCE_MS = 20_000;
/** A page says every 20 s that it is there. Browsers let hidden tabs run once a minute. */
const PORT_SILENCE_MS = 150_000;
/** Topics that the server takes in one stream. */
export const TOPICS_MAX = 64;

/** `makeSource`: (address) => EventSource or the like; `now`: () => milliseconds. */
export class Hub {
  constructor({ makeSource, now = Date.now, random = Math.random }) {
    this.makeSource = makeSource;
    this.now = now;
    this.random = random;
    this.ports = new Set();
    this.source = null;
    this.opened = "";
    this.attempt = 0;
    this.timer = null;
    this.state = "idle";
    this.heardAt = now(); // or the first look would find a long silence
    this.askedAt = 0;
    /** The newest event of each topic; of a list, its rows by key. */
    this.last = new Map();
    this.watchdog = null;
  }

  /** A page: `send` takes {topic, data} and {state, heardAt, attempt}. Returns {receive(message), close()}. */
  connect(send) {
    const port = { send, topics: new Set(), seenAt: this.now() };
    this.join(port);
    send({ state: this.state, heardAt: this.heardAt, attempt: this.attempt });
    return {
      receive: (message) => {
        port.seenAt = this.now();
        if (message.close) this.leave(port);
        else if (message.topics) this.want(port, message.topics);
      },
      close: () => this.leave(port),
    };
  }

  join(port) {
    this.ports.add(port);
    this.watchdog ??= setInterval(() => this.watch(), 1000);
  }

  want(port, topics) {
    this.join(port);
    const before = port.topics;
    port.topics = new Set(topics);
    for (const topic of topics) {
      if (!before.has(topic) && this.last.has(topic)) port.send({ topic, data: wholeEvent(this.last.get(topic)) });
    }
    this.schedule(0);
  }

  leave(port) {
    if (!this.ports.delete(port)) return;
    this.schedule(0);
    if (!this.ports.size) {
      clearInterval(this.watchdog);
      this.watchdog = null;
    }
  }

  watch() {
    for (const port of [...this.ports]) if (this.now() - port.seenAt > PORT_SILENCE_MS) this.leave(port);
    if (this.source && this.now() - Math.max(this.heardAt, this.askedAt) > SILENCE_MS) this.lost();
  }

  schedule(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), delay);
  }

  open() {
    const topics = [...new Set([...this.ports].flatMap((port) => [...port.topics]))].sort().slice(0, TOPICS_MAX);
    const query = topics.join(",");
    if (this.source && this.opened === query) return;
    this.close();
    for (const topic of this.last.keys()) if (!topics.includes(topic)) this.last.delete(topic);
    if (!topics.length) {
      this.set("idle");
      return;
    }
    this.opened = query;
    if (this.state === "idle") this.set("connecting");
    this.askedAt = this.now();
    const source = this.makeSource(`/admin/v1/events?topics=${encodeURIComponent(query)}`);
    this.source = source;
    source.onopen = () => this.heard();
    source.onerror = () => this.lost();
    source.addEventListener("heartbeat", () => this.heard());
    for (const topic of topics) source.addEventListener(topic, (event) => this.took(topic, event));
  }

  took(topic, event) {
    this.heard();
    const data = JSON.parse(event.data);
    const kept = data.rows ? mergeWhole(this.last.get(topic), data) : data;
    if (kept === null) {
      this.lost(); // changes to a list that was never sent whole
      return;
    }
    this.last.set(topic, kept);
    for (const port of this.ports) if (port.topics.has(topic)) port.send({ topic, data });
  }

  heard() {
    this.heardAt = this.now();
    this.attempt = 0;
    this.set("live");
    this.tell();
  }

  lost() {
    this.close();
    this.state = "reconnecting";
    const delay = RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)];
    this.attempt += 1;
    this.tell();
    this.schedule(delay * (0.75 + this.random() / 2));
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
    for (const port of this.ports) port.send({ state: this.state, heardAt: this.heardAt, attempt: this.attempt });
  }
}
