// @cloudamqp/amqp-client: its low-level client, its session that reconnects, and RPC over it.
"use strict";

const { AMQPClient, AMQPSession } = require("@cloudamqp/amqp-client");
const { assert, host, port, LARGE, check, fresh, wait, fails, main } = require("./checks.js");

const URL = `amqp://guest:guest@${host}:${port}`;

async function connected(act) {
  const connection = await new AMQPClient(URL, undefined, null).connect();
  try {
    await act(connection);
  } finally {
    await connection.close().catch(() => {});
  }
}

check("publishes with confirms and consumes", () =>
  connected(async (connection) => {
    const channel = await connection.channel();
    await channel.confirmSelect();
    await channel.prefetch(10);
    const { name } = await channel.queueDeclare(fresh(), { durable: true });
    const tags = [];
    for (let number = 0; number < 200; number += 1) {
      tags.push(channel.basicPublish("", name, String(number), { deliveryMode: 2 }));
    }
    await Promise.all(tags);
    const got = [];
    const consumer = await channel.basicConsume(name, { noAck: false }, (message) => {
      got.push(Number(message.bodyString()));
      return message.ack();
    });
    await wait(() => got.length === 200);
    assert.deepEqual(got, Array.from({ length: 200 }, (_, number) => number));
    await consumer.cancel();
    assert.equal((await channel.queueDelete(name)).messageCount, 0);
  }));

check("carries properties and a large body", () =>
  connected(async (connection) => {
    const channel = await connection.channel();
    const { name } = await channel.queueDeclare("", { exclusive: true });
    const headers = { text: "a", number: 1, flag: true, list: [1, "b"], table: { deep: 1.5 }, none: null };
    const sent = { headers, contentType: "text/plain", correlationId: "c", priority: 5, expiration: "60000", type: "t" };
    await channel.basicPublish("", name, LARGE, sent);
    const message = await channel.basicGet(name, { noAck: true });
    assert.ok(Buffer.from(message.body).equals(LARGE));
    const { contentType, correlationId, priority, expiration, type } = message.properties;
    assert.deepEqual({ headers: message.properties.headers, contentType, correlationId, priority, expiration, type }, sent);
    assert.equal(await channel.basicGet(name), null);
  }));

check("rejects, requeues, recovers and marks what comes again", () =>
  connected(async (connection) => {
    const channel = await connection.channel();
    await channel.confirmSelect();
    const { name } = await channel.queueDeclare("", { exclusive: true });
    for (const text of ["a", "b", "c"]) await channel.basicPublish("", name, text);
    await channel.basicGet(name, { noAck: false });
    const second = await channel.basicGet(name, { noAck: false });
    await second.nack(true, true);
    const again = [];
    for (let number = 0; number < 3; number += 1) again.push(await channel.basicGet(name, { noAck: false }));
    assert.deepEqual(
      again.map((message) => [message.bodyString(), message.redelivered]),
      [["a", true], ["b", true], ["c", false]],
    );
    await again[0].reject(false);
    await channel.basicRecover(true);
    const left = await channel.queuePurge(name);
    assert.equal(left.messageCount, 2);
  }));

check("exchanges bound to each other, and a mandatory message that comes back", () =>
  connected(async (connection) => {
    const channel = await connection.channel();
    await channel.confirmSelect();
    const { name } = await channel.queueDeclare("", { exclusive: true });
    const [inner, outer] = [fresh("exchange"), fresh("exchange")];
    await channel.exchangeDeclare(inner, "topic", { durable: false, autoDelete: true });
    await channel.exchangeDeclare(outer, "headers", { durable: false });
    await channel.exchangeBind(inner, outer, "", { "x-match": "any", colour: "red" });
    await channel.queueBind(name, inner, "a.*.#");
    await channel.basicPublish(outer, "a.b.c", "routed", { headers: { colour: "red" } }, true);
    assert.equal((await channel.basicGet(name)).bodyString(), "routed");
    const returned = [];
    channel.onReturn = (message) => returned.push([message.replyCode, message.replyText]);
    await channel.basicPublish(outer, "a.b.c", "lost", { headers: { colour: "blue" } }, true);
    assert.deepEqual(returned, [[312, "NO_ROUTE"]]);
    await channel.exchangeDelete(outer);
  }));

check("errors close the channel or the connection", async () => {
  await connected(async (connection) => {
    const name = fresh();
    const text = `NOT_FOUND - no queue '${name}' in vhost '/'`;
    await fails((await connection.channel()).queueDeclare(name, { passive: true }), text);
    const channel = await connection.channel();
    await channel.queueDeclare(name, { durable: true });
    await fails(channel.queueDeclare(name, { durable: false }), "inequivalent arg 'durable'");
    await (await connection.channel()).queueDelete(name);
    const wrong = (await connection.channel()).exchangeDeclare(fresh("exchange"), "nope");
    await fails(wrong, "unknown exchange type 'nope'");
  });
  await fails(new AMQPClient(`amqp://guest:wrong@${host}:${port}`, undefined, null).connect(), "ACCESS_REFUSED");
  await fails(new AMQPClient(`${URL}/nope`, undefined, null).connect(), "vhost nope not found");
});

check("a transaction", () =>
  connected(async (connection) => {
    const channel = await connection.channel();
    const { name } = await channel.queueDeclare("", { exclusive: true });
    await channel.txSelect();
    await channel.basicPublish("", name, "rolled back");
    await channel.txRollback();
    await channel.basicPublish("", name, "committed");
    assert.equal(await channel.basicGet(name), null);
    await channel.txCommit();
    assert.equal((await channel.basicGet(name, { noAck: true })).bodyString(), "committed");
  }));

check("a deleted queue ends its consumer", () =>
  connected(async (connection) => {
    const channel = await connection.channel();
    const { name } = await channel.queueDeclare(fresh(), { durable: false });
    const consumer = await channel.basicConsume(name, {}, () => {});
    const ended = consumer.wait();
    await channel.queueDelete(name);
    await ended.catch(() => {});
    await wait(() => channel.consumers.size === 0);
  }));

check("a session: queues, iteration and RPC", async () => {
  const session = await AMQPSession.connect(URL, { logger: null });
  try {
    const queue = await session.queue(fresh(), { durable: true });
    for (let number = 0; number < 20; number += 1) await queue.publish(String(number), { confirm: true });
    const got = [];
    const subscription = await queue.subscribe({ noAck: false });
    for await (const message of subscription) {
      got.push(Number(message.bodyString()));
      await message.ack();
      if (got.length === 20) break;
    }
    assert.deepEqual(got, Array.from({ length: 20 }, (_, number) => number));
    await queue.delete();
    const service = fresh("rpc");
    const server = await session.rpcServer(service, (message) => `re: ${message.bodyString()}`);
    const replies = [];
    for (let number = 0; number < 20; number += 1) {
      replies.push(session.rpcCall(service, String(number), { timeout: 10000 }));
    }
    const texts = (await Promise.all(replies)).map((message) => message.bodyString());
    assert.deepEqual(texts, Array.from({ length: 20 }, (_, number) => `re: ${number}`));
    await server.close();
  } finally {
    await session.stop();
  }
});

main();
