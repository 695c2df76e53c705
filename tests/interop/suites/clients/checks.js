// What the programs for Node share; the counterpart of checks.py.
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");

const [host, port, adminPort] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const CHECK_SECONDS = 40;
// More than two body frames at the usual frame_max of 131,072.
const LARGE = Buffer.from(Array.from({ length: 307200 }, (_, number) => number % 256));

const checks = [];
let count = 0;

function check(name, act) {
  checks.push([name, act]);
}

function fresh(kind = "queue") {
  count += 1;
  return `interop-${process.pid}-${kind}-${count}`;
}

// Wait until condition() is true.
async function wait(condition, seconds = 10) {
  const end = Date.now() + seconds * 1000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `not within ${seconds} s`);
    await sleep(10);
  }
}

// See that the promise fails, and that the error says text.
async function fails(promise, text) {
  try {
    await promise;
  } catch (error) {
    assert.ok(String(error.message ?? error).includes(text), `"${error.message}" does not say "${text}"`);
    return error;
  }
  return assert.fail("no error");
}

function overdue(seconds) {
  let timer;
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${seconds} s`)), seconds * 1000);
  });
  return [promise, timer];
}

async function main() {
  let failed = false;
  for (const [name, act] of checks) {
    const [late, timer] = overdue(CHECK_SECONDS);
    try {
      await Promise.race([act(), late]);
      console.log(`PASS\t${name}\t`);
    } catch (error) {
      failed = true;
      console.log(`FAIL\t${name}\t${String(error.stack ?? error).replace(/\s+/g, " ").slice(0, 300)}`);
    } finally {
      clearTimeout(timer);
    }
  }
  process.exit(failed ? 1 : 0);
}

module.exports = { assert, host, port, adminPort, LARGE, check, fresh, wait, fails, sleep, main };
