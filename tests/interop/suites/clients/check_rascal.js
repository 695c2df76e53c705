// rascal, a framework over amqplib: a virtual host made by the HTTP API, publications, subscriptions, recovery.
"use strict";

const { BrokerAsPromised, withDefaultConfig } = require("rascal");
const { assert, host, port, adminPort, check, fresh, wait, main } = require("./checks.js");

function config(vhost) {
  return {
    vhosts: {
      [vhost]: {
        assert: true,
        connection: {
          url: `amqp://guest:guest@${host}:${port}/${vhost}`,
          management: { url: `http://guest:guest@${host}:${adminPort}` },
        },
        exchanges: { events: { type: "topic" }, dead: { type: "fanout" } },
        queues: {
          orders: { options: { arguments: { "x-dead-letter-exchange": "dead" } } },
          letters: {},
        },
        bindings: ["events[orders.#] -> orders", "dead -> letters"],
        publications: {
          order: { exchange: "events", routingKey: "orders.new", confirm: true },
          nowhere: { exchange: "events", routingKey: "nobody", confirm: true, options: { mandatory: true } },
          direct: { queue: "orders", confirm: true },
        },
        subscriptions: {
          orders: { queue: "orders", prefetch: 5 },
          letters: { queue: "letters" },
        },
      },
    },
  };
}

async function started(act) {
  const broker = await BrokerAsPromised.create(withDefaultConfig(config(fresh("vhost"))));
  broker.on("error", () => {});
  try {
    await act(broker);
  } finally {
    await broker.nuke();
  }
}

// Publish and wait for the confirm.
async function publish(broker, name, body, options) {
  const publication = await broker.publish(name, body, options);
  return new Promise((resolve, reject) => {
    publication.on("success", () => resolve("success"));
    publication.on("return", () => resolve("return"));
    publication.on("error", reject);
  });
}

check("publishes and consumes in a virtual host of its own", () =>
  started(async (broker) => {
    for (let number = 0; number < 50; number += 1) await publish(broker, "order", { number });
    const got = [];
    const subscription = await broker.subscribe("orders");
    subscription.on("error", () => {});
    subscription.on("message", (_, content, ackOrNack) => {
      got.push(content.number);
      ackOrNack();
    });
    await wait(() => got.length === 50);
    assert.deepEqual(got, Array.from({ length: 50 }, (_, number) => number));
    await subscription.cancel();
  }));

check("tells what cannot be routed", () =>
  started(async (broker) => {
    assert.equal(await publish(broker, "nowhere", "x"), "return");
    assert.equal(await publish(broker, "direct", "x"), "success");
  }));

check("republishes what failed, then gives it up to the dead letter exchange", () =>
  started(async (broker) => {
    const attempts = [];
    const orders = await broker.subscribe("orders");
    orders.on("error", () => {});
    orders.on("message", (message, content, ackOrNack) => {
      attempts.push(message.properties.headers.rascal?.recovery?.["orders"] ?? {});
      ackOrNack(new Error("not today"), [{ strategy: "republish", attempts: 2 }, { strategy: "nack" }]);
    });
    const letters = [];
    const dead = await broker.subscribe("letters");
    dead.on("error", () => {});
    dead.on("message", (message, content, ackOrNack) => {
      letters.push([content, message.properties.headers["x-death"][0].reason]);
      ackOrNack();
    });
    await publish(broker, "order", "broken");
    await wait(() => letters.length === 1);
    assert.equal(attempts.length, 3);
    assert.deepEqual(letters, [["broken", "rejected"]]);
  }));

check("purges, and shuts down", () =>
  started(async (broker) => {
    for (let number = 0; number < 5; number += 1) await publish(broker, "order", "x");
    await broker.purge();
    const got = [];
    const subscription = await broker.subscribe("orders");
    subscription.on("error", () => {});
    subscription.on("message", (_, content, ackOrNack) => {
      got.push(content);
      ackOrNack();
    });
    await publish(broker, "order", "after");
    await wait(() => got.length === 1);
    assert.deepEqual(got, ["after"]);
  }));

main();
