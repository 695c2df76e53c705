// amqplib, the client most used with Node.
"use strict";

const amqp = require("amqplib");
const { assert, host, port, LARGE, check, fresh, wait, fails, main } = require("./checks.js");

const URL = `amqp://guest:guest@${host}:${port}`;

async function connected(act) {
  const connection = await amqp.connect(URL);
  try {
    await act(connection);
  } finally {
    await connection.close().catch(() => {});
  }
}

check("publishes with confirms and consumes", () =>
  connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(fresh(), { durable: true });
    await channel.prefetch(10);
    for (let number = 0; number < 200; number += 1) {
      channel.sendToQueue(queue, Buffer.from(String(number)), { persistent: true });
    }
    await channel.waitForConfirms();
    const got = [];
    const { consumerTag } = await channel.consume(queue, (message) => {
      got.push(Number(message.content.toString()));
      channel.ack(message);
    });
    await wait(() => got.length === 200);
    assert.deepEqual(got, Array.from({ length: 200 }, (_, number) => number));
    await channel.cancel(consumerTag);
    assert.equal((await channel.deleteQueue(queue)).messageCount, 0);
  }));

check("carries properties and a large body", () =>
  connected(async (connection) => {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const headers = { text: "a", number: 1, flag: true, list: [1, "b"], table: { deep: 1.5 } };
    channel.sendToQueue(queue, LARGE, {
      headers,
      contentType: "text/plain",
      correlationId: "c",
      priority: 5,
      expiration: "60000",
      timestamp: 1700000000,
      type: "t",
    });
    const message = await channel.get(queue, { noAck: true });
    assert.ok(message.content.equals(LARGE));
    assert.deepEqual({ ...message.properties.headers }, headers);
    const { contentType, correlationId, priority, expiration, timestamp, type } = message.properties;
    assert.deepEqual(
      [contentType, correlationId, priority, expiration, timestamp, type],
      ["text/plain", "c", 5, "60000", 1700000000, "t"],
    );
    assert.equal(await channel.get(queue), false);
  }));

check("rejects, requeues and marks what comes again", () =>
  connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (const text of ["a", "b", "c"]) channel.sendToQueue(queue, Buffer.from(text));
    await channel.waitForConfirms();
    const first = await channel.get(queue);
    const second = await channel.get(queue);
    channel.nack(second, true, true);
    const again = [];
    for (let number = 0; number < 3; number += 1) again.push(await channel.get(queue));
    assert.deepEqual(
      again.map((message) => [message.content.toString(), message.fields.redelivered]),
      [["a", true], ["b", true], ["c", false]],
    );
    assert.equal(first.content.toString(), "a");
    channel.reject(again[0], false);
    channel.ack(again[2], true);
    assert.equal((await channel.checkQueue(queue)).messageCount, 0);
  }));

check("routes through every type of exchange, and exchanges to each other", () =>
  connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const cases = [
      ["direct", "k", {}, "k", {}],
      ["topic", "a.*.#", {}, "a.b.c", {}],
      ["fanout", "", {}, "whatever", {}],
      ["headers", "", { "x-match": "all", colour: "red" }, "", { colour: "red", size: 1 }],
    ];
    for (const [type, bound, args, key, headers] of cases) {
      const [inner, outer] = [fresh("exchange"), fresh("exchange")];
      await channel.assertExchange(inner, type);
      await channel.assertExchange(outer, "fanout", { autoDelete: true });
      await channel.bindExchange(inner, outer, "");
      await channel.bindQueue(queue, inner, bound, args);
      channel.publish(outer, key, Buffer.from(type), { headers, mandatory: true });
      await channel.waitForConfirms();
      const message = await channel.get(queue, { noAck: true });
      assert.deepEqual([message.content.toString(), message.fields.exchange], [type, outer]);
      await channel.unbindQueue(queue, inner, bound, args);
      await channel.deleteExchange(inner);
    }
  }));

check("returns what cannot be routed", () =>
  connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const returned = [];
    channel.on("return", (message) => returned.push(message.fields.replyText));
    channel.publish("", fresh(), Buffer.from("x"), { mandatory: true });
    await channel.waitForConfirms();
    assert.deepEqual(returned, ["NO_ROUTE"]);
  }));

check("errors close the channel, with RabbitMQ's text", () =>
  connected(async (connection) => {
    const name = fresh();
    const channel = await connection.createChannel();
    channel.on("error", () => {});
    const missing = await fails(channel.checkQueue(name), `NOT_FOUND - no queue '${name}' in vhost '/'`);
    assert.equal(missing.code, 404);
    const other = await connection.createChannel();
    other.on("error", () => {});
    await other.assertQueue(name, { durable: false, autoDelete: true });
    const text = `inequivalent arg 'durable' for queue '${name}' in vhost '/'`;
    assert.equal((await fails(other.assertQueue(name, { durable: true, autoDelete: true }), text)).code, 406);
    const third = await connection.createChannel();
    await third.deleteQueue(name);
  }));

check("a wrong password and a missing virtual host are refused", async () => {
  await fails(amqp.connect(`amqp://guest:wrong@${host}:${port}`), "ACCESS_REFUSED - Login was refused");
  await fails(amqp.connect(`${URL}/nope`), "ConnectionClose"); // it does not pass on the text
});

check("a deleted queue cancels its consumer", () =>
  connected(async (connection) => {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(fresh(), { durable: false });
    const got = [];
    await channel.consume(queue, (message) => got.push(message));
    await channel.deleteQueue(queue);
    await wait(() => got.length === 1);
    assert.equal(got[0], null);
  }));

check("time limits, length limits and dead letters", () =>
  connected(async (connection) => {
    const channel = await connection.createConfirmChannel();
    const { queue: dead } = await channel.assertQueue("", { exclusive: true });
    const { queue } = await channel.assertQueue("", {
      exclusive: true,
      messageTtl: 50,
      maxLength: 2,
      deadLetterExchange: "",
      deadLetterRoutingKey: dead,
    });
    for (const text of ["a", "b", "c"]) channel.sendToQueue(queue, Buffer.from(text));
    await channel.waitForConfirms();
    const reasons = [];
    await channel.consume(
      dead,
      (message) => reasons.push([message.content.toString(), message.properties.headers["x-death"][0].reason]),
      { noAck: true },
    );
    await wait(() => reasons.length === 3);
    assert.deepEqual(reasons, [["a", "maxlen"], ["b", "expired"], ["c", "expired"]]);
  }));

check("direct reply-to", () =>
  connected(async (connection) => {
    const [client, server] = [await connection.createChannel(), await connection.createChannel()];
    const { queue } = await server.assertQueue("", { exclusive: true });
    await server.consume(
      queue,
      (message) => server.sendToQueue(message.properties.replyTo, Buffer.from(`re: ${message.content}`)),
      { noAck: true },
    );
    const replies = [];
    await client.consume("amq.rabbitmq.reply-to", (message) => replies.push(message.content.toString()), {
      noAck: true,
    });
    client.sendToQueue(queue, Buffer.from("hello"), { replyTo: "amq.rabbitmq.reply-to" });
    await wait(() => replies.length === 1);
    assert.deepEqual(replies, ["re: hello"]);
  }));

main();
