import assert from "node:assert/strict";
import { test } from "node:test";
import { compile, pageOf, ranked, sortRows, split } from "../../../../admin_ui/static/lib/query.mjs";

const FIELDS = {
  name: { kind: "text", get: (row) => row.name },
  type: { kind: "text", get: (row) => row.type },
  ready: { kind: "number", get: (row) => row.ready },
  durable: { kind: "flag", get: (row) => row.durable },
};
const ROWS = [
  { name: "orders.eu", type: "classic", ready: 1500, durable: true },
  { name: "orders.us", type: "quorum", ready: 0, durable: true },
  { name: "Audit Log", type: "classic", ready: 20, durable: false },
  { name: "", type: "direct", ready: 1000, durable: true },
];
const found = (query) => ROWS.filter(compile(query, FIELDS).test).map((row) => row.name);
const errors = (query) => compile(query, FIELDS).errors;

test("nothing asked, everything found", () => {
  for (const query of ["", "   ", '""']) assert.equal(found(query).length, 4);
});

test("words are parts of the name, all of them", () => {
  assert.deepEqual(found("orders"), ["orders.eu", "orders.us"]);
  assert.deepEqual(found("ORDERS .eu"), ["orders.eu"]);
  assert.deepEqual(found('"audit log"'), ["Audit Log"]);
  assert.deepEqual(found("name~eu"), ["orders.eu"]);
});

test("fields: equal, pattern, not", () => {
  assert.deepEqual(found("type:classic"), ["orders.eu", "Audit Log"]);
  assert.deepEqual(found("-type:classic orders"), ["orders.us"]);
  assert.deepEqual(found("name:orders.*"), ["orders.eu", "orders.us"]);
  assert.deepEqual(found("name:*e*"), ["orders.eu", "orders.us"]);
  assert.deepEqual(found("name:o*eu"), ["orders.eu"]);
  assert.deepEqual(found("name:orders.eu*eu"), []);
});

test("numbers", () => {
  assert.deepEqual(found("ready:0"), ["orders.us"]);
  assert.deepEqual(found("ready:>1000"), ["orders.eu"]);
  assert.deepEqual(found("ready:>=1k"), ["orders.eu", ""]);
  assert.deepEqual(found("ready:<=20"), ["orders.us", "Audit Log"]);
  assert.deepEqual(found("ready:10..1.2k"), ["Audit Log", ""]);
  assert.deepEqual(found("ready:<0.02M -ready:0 type:direct"), [""]);
});

test("flags", () => {
  assert.deepEqual(found("durable:no"), ["Audit Log"]);
  assert.deepEqual(found("durable:YES ready:0"), ["orders.us"]);
});

test("what cannot be understood is said and filters nothing", () => {
  assert.match(errors("colour:red")[0], /no field “colour”; there are name, type/);
  assert.match(errors("ready:many")[0], /“ready” is a number/);
  assert.match(errors("ready:")[0], /needs a value/);
  assert.match(errors("durable:perhaps")[0], /yes or no/);
  assert.match(errors('"open')[0], /not closed/);
  assert.equal(found("colour:red").length, 4);
  assert.deepEqual(errors("orders:eu -x y"), ["there is no field “orders”; there are name, type, ready, durable"]);
});

test("names that look like code are only text", () => {
  for (const query of ["(((", "[a", "\\", "a.*(b", "constructor:x", "__proto__:x", "-", "*", ":x", "a:b:c"]) {
    assert.doesNotThrow(() => found(query));
  }
});

test("splitting", () => {
  assert.deepEqual(split('a "b c" d"e f"g').map(({ word }) => word), ["a", "b c", "de fg"]);
});

test("a pattern of many stars comes to its end", () => {
  // A regular expression tries every way to share the letters out among the stars, which takes for ever.
  const row = { name: "a".repeat(255), type: "", ready: 0 };
  assert.equal(compile(`name:${"*a".repeat(100)}*b`, FIELDS).test(row), false);
});

test("sorting: numbers in names count, equal ones keep their order, the original stays", () => {
  const rows = [{ n: "q10" }, { n: "q2" }, { n: "Q2" }, { n: "q1" }];
  assert.deepEqual(sortRows(rows, (row) => row.n, false).map((row) => row.n), ["q1", "q2", "Q2", "q10"]);
  assert.deepEqual(rows[0].n, "q10");
  const equal = [{ k: 1, v: 5 }, { k: 2, v: 5 }, { k: 3, v: 9 }];
  assert.deepEqual(sortRows(equal, (row) => row.v, true).map((row) => row.k), [3, 1, 2]);
});

test("what somebody means who types a part of a name", () => {
  const names = ["my-orders", "orders.eu", "reorders", "orders", "ORDERS.us"].map((name) => ({ name }));
  assert.deepEqual(ranked(names, "orders").map(({ name }) => name), ["orders", "orders.eu", "ORDERS.us", "my-orders", "reorders"]);
  assert.deepEqual(ranked(names, ""), names);
});

test("pages", () => {
  const rows = Array.from({ length: 101 }, (_, i) => i);
  assert.deepEqual([pageOf(rows, 1, 50).rows.length, pageOf(rows, 3, 50).rows], [50, [100]]);
  assert.deepEqual([pageOf(rows, 99, 50).page, pageOf(rows, -1, 50).page, pageOf(rows, NaN, 50).page], [3, 1, 1]);
  assert.deepEqual(pageOf([], 1, 50), { page: 1, pages: 1, start: 0, rows: [] });
});
