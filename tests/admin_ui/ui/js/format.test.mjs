import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, clock, count, duration, meaning, plural, rate, short, signed, value, visible } from "../../../../admin_ui/static/lib/format.mjs";

test("counts are exact until they get long", () => {
  assert.deepEqual([0, 7, 1234, 99_999, 100_000, 1_234_567, 2.5e9].map(count), ["0", "7", "1,234", "99,999", "100k", "1.23M", "2.5G"]);
  assert.deepEqual([-1234, NaN, undefined].map(count), ["-1,234", "–", "–"]);
});

test("short numbers for axes", () => {
  assert.deepEqual([0, 0.5, 12, 999.6, 1000, 1500, 25_000, 1e6].map(short), ["0", "0.5", "12", "1k", "1k", "1.5k", "25k", "1M"]);
});

test("rates: what is small is not nothing", () => {
  assert.deepEqual([0, 0.01, 0.4, 9.94, 9.96, 1234.5, NaN].map(rate), ["0", "<0.1", "0.4", "9.9", "10", "1,235", "–"]);
});

test("signs", () => {
  assert.deepEqual([5, -3, 0, NaN].map((n) => signed(n)), ["+5", "−3", "±0", "–"]);
});

test("octets", () => {
  assert.deepEqual([0, 812, 1024, 1500, 23 * 2 ** 20, 150.4 * 2 ** 30].map(bytes), ["0 B", "812 B", "1 KiB", "1.5 KiB", "23 MiB", "150 GiB"]);
  assert.equal(bytes(1023.9), "1 KiB");
});

test("durations in their two largest units", () => {
  const second = 1000;
  assert.deepEqual(
    [0, 40, 125, 3600, 90_000, 86_400 * 3 + 3600 * 4 + 59].map((s) => duration(s * second)),
    ["0 s", "40 s", "2 min 5 s", "1 h", "1 d 1 h", "3 d 4 h"],
  );
});

test("clock", () => {
  const at = new Date(2026, 10, 28, 6, 5, 4).getTime();
  assert.equal(clock(at), "06:05:04");
  assert.equal(clock(at, { seconds: false }), "06:05");
  assert.equal(clock(at, { day: true }), "2026-11-28 06:05:04");
});

test("plural and values", () => {
  assert.deepEqual([plural(1, "queue"), plural(0, "queue"), plural(2000, "queue")], ["1 queue", "0 queues", "2,000 queues"]);
  assert.deepEqual([value("x"), value(null), value(3), value([1])], ["x", "–", "3", "[1]"]);
});

test("what has no shape is written out", () => {
  assert.equal(visible("orders.eu é 🐇 مرحبا"), "orders.eu é 🐇 مرحبا");
  assert.equal(visible("\u202egnp.evil"), "\\u202egnp.evil");
  assert.equal(visible("a\0b\u200bc\u001b[31m"), "a\\u0000b\\u200bc\\u001b[31m");
  assert.equal(visible("two  spaces\tand\nlines"), "two  spaces\tand\nlines");
});

test("what the numbers of settings mean", () => {
  const given = [["x-message-ttl", 86_400_000], ["message-ttl", 500], ["expires", 90_000], ["consumer-timeout", 1_800_000], ["max-length-bytes", 5 << 20], ["x-max-length", 86_400_000], ["message-ttl", "60000"]];
  assert.deepEqual(given.map(([name, number]) => meaning(name, number)), ["1 d", "", "1 min 30 s", "30 min", "5 MiB", "", ""]);
});
