import assert from "node:assert/strict";
import { timeToFull } from "../../../../admin_ui/static/lib/series.mjs";
import { test } from "node:test";
import { aligned, follow, growth, levelsOf, padded, perSecond, ratesOf, Ring, sparkPath } from "../../../../admin_ui/static/lib/series.mjs";

test("a ring keeps the newest", () => {
  const ring = new Ring(["a", "b"], 3);
  for (let i = 1; i <= 5; i += 1) ring.push(i * 1000, { a: i * 10 });
  assert.deepEqual(ring.levels(["a", "b"]), [[3, 4, 5], [30, 40, 50], [null, null, null]]);
  ring.push(5000, { a: 99 });
  assert.deepEqual(ring.levels(["a"])[1], [30, 40, 50]);
});

test("rates are changes per second over a window", () => {
  const ring = new Ring(["n"], 10);
  [0, 10, 30, 60, 100].forEach((n, i) => ring.push(i * 1000, { n }));
  assert.deepEqual(ring.rates(["n"], 1000)[1], [null, 10, 20, 30, 40]);
  assert.deepEqual(ring.rates(["n"], 2000)[1], [null, 10, 15, 25, 35]);
  assert.equal(ring.rate("n", 4000), 25);
  assert.equal(new Ring(["n"], 2).rate("n"), null);
});

test("a counter that fell belongs to a broker started again", () => {
  assert.deepEqual(perSecond([0, 1000, 2000, 3000], [100, 110, 0, 5], 1000), [null, 10, null, 5]);
});

test("unknown values have no rate", () => {
  assert.deepEqual(perSecond([0, 1000, 2000], [null, 5, 7], 1000), [null, null, 2]);
});

const details = (...values) => ({ samples: values.map((sample, i) => ({ sample, timestamp: 20_000 - i * 5000 })) });

test("samples of the API, newest first", () => {
  const document = { ready_details: details(30, 20, 10), publish_details: details(200, 150, 50), idle: 0 };
  assert.deepEqual(levelsOf(document, ["ready", "idle"]), { times: [10_000, 15_000, 20_000], columns: [[10, 20, 30], [null, null, null]] });
  assert.deepEqual(ratesOf(document, ["publish"]), { times: [15_000, 20_000], columns: [[20, 10]] });
  assert.deepEqual(ratesOf(document, ["publish", "never"]), { times: [15_000, 20_000], columns: [[20, 10], [0, 0]] });
  assert.deepEqual(levelsOf({}, ["ready"]), { times: [], columns: [[]] });
  assert.deepEqual(aligned({ times: [5000], columns: [[1]] }), [[5], [1]]);
});

test("what is live follows what was stored", () => {
  assert.deepEqual(follow([[1, 2, 3], [10, 20, 30]], [[3, 4], [31, 41]]), [[1, 2, 3, 4], [10, 20, 31, 41]]);
  assert.deepEqual(follow([[1, 2], [10, 20]], [[3, 4], [null, 40]]), [[1, 2, 4], [10, 20, 40]]);
  assert.deepEqual(follow([[1], [10]], [[], []]), [[1], [10]]);
  assert.deepEqual(follow([[], []], [[3], [30]]), [[3], [30]]);
  assert.deepEqual(follow([[1], []], [[3], []]), [[1, 3], []].map((c, i) => (i ? [] : c)));
});

test("the line ends where nothing was heard for long, and begins anew behind", () => {
  const ring = new Ring(["ready", "publish"], 50);
  for (const [at, publish] of [[0, 0], [1000, 10], [2000, 20], [60_000, 500], [61_000, 510]]) ring.push(at, { ready: 7, publish });
  assert.deepEqual(ring.levels(["ready"]), [[0, 1, 2, 2.001, 60, 61], [7, 7, 7, null, 7, 7]]);
  assert.deepEqual(ring.rates(["publish"])[1], [null, 10, 10, null, null, 10]);
});

test("the figure beside a chart is the newest point of its line", () => {
  const ring = new Ring(["publish"], 50);
  for (let i = 0; i < 9; i += 1) ring.push(i * 1000, { publish: i * i * 100 });
  assert.equal(ring.rate("publish"), ring.rates(["publish"])[1].at(-1));
});

test("growth and padding", () => {
  assert.deepEqual([growth([null, 5, 9]), growth([5]), growth([null])], [4, null, null]);
  assert.deepEqual([padded([1], 3), padded([1, 2], 1)], [[null, null, 1], [1, 2]]);
});

test("sparklines", () => {
  assert.deepEqual(sparkPath([1], 96, 24), { line: "", area: "" });
  assert.equal(sparkPath([0, 0], 96, 24).line, "M0 22.5L96 22.5");
  const gap = sparkPath([null, 2, 4, null, 4, 0], 100, 24);
  assert.equal(gap.line, "M20 12L40 1.5M80 1.5L100 22.5");
  assert.equal(gap.area, "M20 12L40 1.5L40 24L20 24ZM80 1.5L100 22.5L100 24L80 24Z");
});

test("when a queue is full", () => {
  const queue = { ready: 400, bytes: 4000, minute: 60, length_max: null, bytes_max: null };
  assert.equal(timeToFull(queue), Infinity);
  assert.equal(timeToFull({ ...queue, length_max: 1000 }), 600);
  assert.equal(timeToFull({ ...queue, length_max: 1000, minute: -5 }), Infinity);
  assert.equal(timeToFull({ ...queue, length_max: 400, minute: 0 }), 0);
  assert.equal(timeToFull({ ...queue, length_max: 1000, bytes_max: 5000 }), 100);
  assert.equal(timeToFull({ ...queue, bytes: null, bytes_max: 5000 }), Infinity);
});
