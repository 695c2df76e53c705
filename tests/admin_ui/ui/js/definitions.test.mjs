import assert from "node:assert/strict";
import { test } from "node:test";
import { differences } from "../../../../admin_ui/static/lib/definitions.mjs";

const QUEUE = { vhost: "/", name: "orders", durable: true, auto_delete: false, arguments: { "x-max-length": 5, "x-expires": 9 } };
const PRESENT = {
  users: [{ name: "guest", password_hash: "h", hashing_algorithm: "rabbit_password_hashing_sha256", tags: ["administrator"], limits: {} }],
  vhosts: [{ name: "/" }],
  policies: [{ vhost: "/", name: "short", pattern: "x", "apply-to": "all", definition: { "max-length": 5 }, priority: 0 }],
  queues: [QUEUE],
  bindings: [{ vhost: "/", source: "x", destination: "orders", destination_type: "queue", routing_key: "a", arguments: {} }],
};
const of = (rows, section) => rows.find((row) => row.section === section);

test("the same file brings nothing", () => {
  for (const row of differences(PRESENT, JSON.parse(JSON.stringify(PRESENT)))) {
    assert.deepEqual([row.added, row.changed, row.kept, row.same], [[], [], [], 1], row.section);
  }
  // Neither do the other order of keys, tags as a text, and what is as usual and left out.
  const { priority, ...policy } = PRESENT.policies[0];
  const user = { ...PRESENT.users[0], tags: "administrator", limits: undefined };
  const rows = differences(PRESENT, {
    users: [user],
    policies: [policy],
    queues: [{ ...QUEUE, arguments: { "x-expires": 9, "x-max-length": 5 } }],
    exchanges: [{ vhost: "/", name: "amq.topic", type: "topic" }],
    global_parameters: [{ name: "internal_cluster_id", value: "x" }],
  });
  for (const row of rows) assert.equal(row.same, 1, row.section);
});

test("new, changed, and what stays as it is", () => {
  const rows = differences(PRESENT, {
    users: [{ ...PRESENT.users[0], tags: [] }, { name: "ada", tags: [], password_hash: "x" }],
    policies: [{ ...PRESENT.policies[0], definition: { "max-length": 6 } }],
    queues: [{ ...QUEUE, durable: false }, { ...QUEUE, vhost: "eu" }],
    bindings: [{ ...PRESENT.bindings[0], arguments: { "x-match": "all" } }],
  });
  assert.deepEqual([of(rows, "users").added, of(rows, "users").changed], [["ada"], ["guest"]]);
  assert.deepEqual(of(rows, "policies").changed, ["short"]);
  assert.deepEqual([of(rows, "queues").added, of(rows, "queues").kept], [["eu · orders"], ["orders"]]);
  assert.deepEqual(of(rows, "bindings").added, ["x · queue · orders · a"]);
});

test("a file of one virtual host does not name it", () => {
  const { vhost, ...queue } = QUEUE;
  const present = { queues: [queue] };
  assert.equal(of(differences(present, { queues: [queue] }, "/"), "queues").same, 1);
});

test("what is no file of definitions", () => {
  for (const [file, words] of [[[], /not an object/], [null, /not an object/], [{}, /no definitions/], [{ queues: {} }, /“queues” of the file is not a list/]]) {
    assert.throws(() => differences(PRESENT, file), words);
  }
});
