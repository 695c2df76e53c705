import assert from "node:assert/strict";
import { test } from "node:test";
import { blamed, headerText, nameProblem, readable, rowsOf, tableOf, wholeNumber } from "../../../../admin_ui/static/lib/forms.mjs";

test("names have 255 octets at most", () => {
  assert.equal(nameProblem("queue", "q".repeat(255)), "");
  assert.equal(nameProblem("queue", "é".repeat(128)), "the name of the queue has 256 octets, 255 are the most");
});

test("tables", () => {
  const rows = [
    { name: "a", kind: "text", text: "" },
    { name: "b", kind: "number", text: "2.5" },
    { name: "c", kind: "yes or no", text: "Yes" },
    { name: "d", kind: "JSON", text: "[1, {}]" },
    { name: " ", kind: "text", text: "" },
    { name: "__proto__", kind: "text", text: "x" },
  ];
  const table = tableOf(rows);
  assert.equal(JSON.stringify(table), '{"a":"","b":2.5,"c":true,"d":[1,{}],"__proto__":"x"}');
  assert.deepEqual(tableOf(rowsOf(table)), table);
  for (const [row, words] of [
    [{ name: "n", kind: "number", text: "" }, /n: “” is not a number/],
    [{ name: "n", kind: "number", text: "5x" }, /n: “5x” is not a number/],
    [{ name: "n", kind: "yes or no", text: "maybe" }, /n: “maybe” is neither yes nor no/],
    [{ name: "n", kind: "JSON", text: "{" }, /n: “{” is not JSON/],
    [{ name: "", kind: "text", text: "x" }, /the value “x” has no name/],
    [{ name: "a", kind: "text", text: "x" }, /“a” is there twice/],
  ]) assert.throws(() => tableOf([rows[0], row]), words);
});

test("the field that an error is about", () => {
  const names = ["name", "durable", "auto_delete", "arguments"];
  const about = (message) => blamed(message, names, "name");
  assert.equal(about("inequivalent arg 'durable' for queue 'x' in vhost '/': received 'false' but current is 'true'"), "durable");
  assert.equal(about("inequivalent arg 'auto_delete' for queue 'x'"), "auto_delete");
  assert.equal(about("invalid arg 'x-message-ttl' for queue 'x' in vhost '/': {value_negative,-1}"), "arguments");
  assert.equal(about("arguments: a table in a table"), "arguments");
  assert.equal(about("Access refused."), "name");
  assert.equal(blamed("Access refused.", ["other"], "name"), "other");
  assert.equal(blamed("Access refused.", [], "name"), "");
  assert.equal(blamed("pattern should be a binary but was 5", ["name", "pattern"], "name"), "pattern");
});

test("numbers and headers", () => {
  assert.deepEqual(["5", " -3 ", "5.5", "", "x"].map(wholeNumber), [5, -3, null, null, null]);
  assert.equal(headerText("é\r\nX: y"), "Ã© X: y");
});

test("what the broker says to programs, for people", () => {
  assert.equal(readable('Validation failed\n\n<<"soon">> is not a valid message TTL'), "“soon” is not a valid message TTL");
  assert.equal(readable('Validation failed\n\n[{<<"max-len">>,5},{<<"ttl">>,<<"x">>}] are not recognised policy settings'),
    "“max-len”, “ttl”: policies have no such key.");
  assert.equal(readable("Access refused."), "Access refused.");
});
