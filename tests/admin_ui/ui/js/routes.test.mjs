import assert from "node:assert/strict";
import { test } from "node:test";
import { channelPath, connectionPath, documentPath, exchangePath, parse, queuePath, safeNext, userPath, vhostPath, withParams } from "../../../../admin_ui/static/lib/routes.mjs";
import { applyPatch } from "../../../../admin_ui/static/lib/rows.mjs";

test("addresses and back", () => {
  assert.deepEqual(parse("/ui/"), { page: "overview" });
  assert.deepEqual(parse("/ui"), { page: "overview" });
  assert.deepEqual(parse("/ui/queues/"), { page: "queues" });
  assert.deepEqual(parse("/ui/login"), { page: "login" });
  for (const page of ["channels", "users", "vhosts", "policies", "limits", "tokens", "definitions", "node"]) assert.deepEqual(parse(`/ui/${page}`), { page });
  for (const path of ["/ui/nothing", "/ui/channels/x/y", "/ui/node/a/b", "/ui/users/a/b", "/ui/queues/a", "/ui/queues/a/b/c", "/ui/connections/a/b", "/ui/login/x", "/ui/toString"]) {
    assert.equal(parse(path).page, "missing", path);
  }
  for (const name of ["orders.eu", "a/b", "%2F", "<img src=x onerror=alert(1)>", "é?#&=+ ", "%", "a\nb", "–𝄞"]) {
    assert.deepEqual(parse(queuePath("/", name)), { page: "queue", vhost: "/", name });
    assert.deepEqual(parse(exchangePath("v/1", name)), { page: "exchange", vhost: "v/1", name });
    assert.deepEqual(parse(connectionPath(name)), { page: "connection", name });
    assert.deepEqual(parse(channelPath(name)), { page: "channel", name });
    assert.deepEqual(parse(userPath(name)), { page: "user", name });
    assert.deepEqual(parse(vhostPath(name)), { page: "vhost", name });
  }
  for (const name of [".", "..", "~.", "~..", "~~.", "~", "...", "~a.", ".~"]) {
    // as a browser's address bar has it
    const shown = (path) => new URL(path, "http://localhost/").pathname;
    assert.deepEqual(parse(shown(queuePath(name, name))), { page: "queue", vhost: name, name });
    assert.deepEqual(parse(shown(vhostPath(name))), { page: "vhost", name });
    assert.deepEqual(parse(shown(exchangePath("/", name))), { page: "exchange", vhost: "/", name });
    assert.equal(shown(documentPath("queues", "/", name)).split("/").length, 6);
  }
  assert.equal(documentPath("queues", "/", ".."), "/admin/v1/queues/%2F/~..");
  assert.equal(exchangePath("/", ""), "/ui/exchanges/%2F/amq.default");
  assert.equal(parse("/ui/queues/%2F/%zz").name, "%zz");
});

test("after the login only a page of ours is opened", () => {
  assert.equal(safeNext("/ui/queues?q=a"), "/ui/queues?q=a");
  for (const next of ["//evil.example/", "https://evil.example/ui/", "/ui/login", "javascript:alert(1)", "/uix", null, "/api/x"]) {
    assert.equal(safeNext(next), "/ui/");
  }
});

test("parameters", () => {
  assert.equal(withParams("?q=a&page=2", { page: "", sort: "-ready" }), "?q=a&sort=-ready");
  assert.equal(withParams("?q=a", { q: null }), "");
  assert.equal(new URLSearchParams(withParams("", { q: "ready:>1k a&b=c+d #é" })).get("q"), "ready:>1k a&b=c+d #é");
});

test("lists: whole, then changes", () => {
  const whole = applyPatch(null, { full: true, at: 1, columns: ["key", "n"], rows: [["a", 1], ["b", 2]] });
  assert.deepEqual(whole.rows, [{ key: "a", n: 1 }, { key: "b", n: 2 }]);
  const next = applyPatch(whole, { at: 2, rows: [["b", 3], ["c", 4]], gone: ["a"] });
  assert.deepEqual(next.rows, [{ key: "b", n: 3 }, { key: "c", n: 4 }]);
  assert.deepEqual(whole.rows.length, 2);
  assert.equal(applyPatch(null, { at: 2, rows: [] }), null);
});
