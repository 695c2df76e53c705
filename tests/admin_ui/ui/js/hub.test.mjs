// One stream for all tabs: who gets what, and what happens when it breaks.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Hub } from "../../../../admin_ui/static/lib/hub.mjs";
import { applyPatch } from "../../../../admin_ui/static/lib/rows.mjs";

class Source {
  static all = [];
  constructor(address) {
    this.topics = decodeURIComponent(address.split("topics=")[1]).split(",");
    this.handlers = new Map();
    this.closed = false;
    Source.all.push(this);
  }
  addEventListener(name, handler) {
    this.handlers.set(name, handler);
  }
  close() {
    this.closed = true;
  }
  send(topic, data) {
    this.handlers.get(topic)({ data: JSON.stringify(data) });
  }
  static open() {
    return Source.all.filter((source) => !source.closed);
  }
}

function start() {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  Source.all = [];
  const hub = new Hub({ makeSource: (address) => new Source(address), random: () => 0.5 });
  const page = (...topics) => {
    const got = [];
    const port = hub.connect((message) => got.push(message));
    port.receive({ topics });
    return { got, ...port, events: (topic) => got.filter((one) => one.topic === topic).map((one) => one.data) };
  };
  return { hub, page };
}

const FULL = { full: true, at: 1, columns: ["key", "name", "ready"], rows: [["a", "A", 1], ["b", "B", 2]] };

test("fourteen pages share one stream, and each gets its own topics", () => {
  const { page } = start();
  const pages = Array.from({ length: 14 }, (_, i) => page("overview", `queue:%2F/${i % 3}`));
  mock.timers.tick(1);
  assert.equal(Source.open().length, 1);
  const [source] = Source.open();
  assert.deepEqual(source.topics, ["overview", "queue:%2F/0", "queue:%2F/1", "queue:%2F/2"]);
  source.send("queue:%2F/1", { at: 5 });
  assert.deepEqual(pages.map(({ events }) => events("queue:%2F/1").length), pages.map((_, i) => (i % 3 === 1 ? 1 : 0)));
});

test("a page that comes later gets the whole list, and the same changes afterwards", () => {
  const { page } = start();
  const first = page("queues");
  mock.timers.tick(1);
  Source.open()[0].send("queues", FULL);
  Source.open()[0].send("queues", { at: 2, rows: [["b", "B", 7], ["c", "C", 3]], gone: ["a"] });
  const second = page("queues");
  mock.timers.tick(1);
  assert.equal(Source.all.length, 1, "nothing new is wanted, so the stream stays");
  Source.open()[0].send("queues", { at: 3, rows: [["c", "C", 4]], gone: [] });
  const fold = (events) => events.reduce((kept, event) => applyPatch(event.full ? null : kept, event), null);
  const rows = (one) => fold(one.events("queues")).rows.map((row) => [row.key, row.ready]);
  assert.deepEqual(rows(first), [["b", 7], ["c", 4]]);
  assert.deepEqual(rows(second), rows(first));
});

test("what nobody wants any more is not asked for, and without pages there is no stream", () => {
  const { hub, page } = start();
  const [one, other] = [page("queues"), page("overview")];
  mock.timers.tick(1);
  one.receive({ topics: ["exchanges"] });
  mock.timers.tick(1);
  assert.deepEqual(Source.open()[0].topics, ["exchanges", "overview"]);
  one.receive({ close: true });
  mock.timers.tick(1);
  assert.deepEqual(Source.open()[0].topics, ["overview"]);
  other.close();
  mock.timers.tick(1);
  assert.equal(Source.open().length, 0);
  assert.equal(hub.state, "idle");
  assert.equal(hub.last.size, 0);
});

test("a page that vanished without a word is forgotten", () => {
  const { page } = start();
  page("queues");
  const alive = page("overview");
  for (let seconds = 0; seconds < 180; seconds += 1) {
    mock.timers.tick(1000);
    if (seconds % 20 === 0) alive.receive({});
    Source.open()[0]?.handlers.get("heartbeat")();
  }
  assert.deepEqual(Source.open()[0].topics, ["overview"]);
});

test("a lost stream is opened again, later and later, and every page hears of each attempt", () => {
  const { page } = start();
  const pages = [page("overview"), page("overview")];
  mock.timers.tick(1);
  Source.open()[0].onopen();
  const waits = [];
  for (let i = 0; i < 6; i += 1) {
    Source.open()[0].onerror();
    assert.equal(Source.open().length, 0);
    let wait = 0;
    while (!Source.open().length) {
      mock.timers.tick(100);
      wait += 100;
    }
    waits.push(wait);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 8000]);
  for (const { got } of pages) {
    assert.deepEqual([...new Set(got.filter((one) => one.state === "reconnecting").map((one) => one.attempt))], [1, 2, 3, 4, 5, 6]);
  }
  Source.open()[0].onopen();
  assert.equal(pages[0].got.at(-1).state, "live");
});

test("a stream that says nothing is taken for lost", () => {
  const { hub, page } = start();
  const one = page("overview");
  mock.timers.tick(1);
  Source.open()[0].onopen();
  for (let seconds = 0; seconds < 22; seconds += 1) {
    mock.timers.tick(1000);
    one.receive({});
  }
  assert.equal(hub.state, "reconnecting");
});

test("changes to a list that never came whole start it anew", () => {
  const { page } = start();
  page("queues");
  mock.timers.tick(1);
  Source.open()[0].send("queues", { at: 2, rows: [], gone: [] });
  assert.equal(Source.open().length, 0);
  mock.timers.tick(600);
  assert.equal(Source.open().length, 1);
});
