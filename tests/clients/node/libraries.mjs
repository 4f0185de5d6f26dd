// What applications do with libraries that use a server through node-redis or ioredis, one library a run:
// `node libraries.mjs LIBRARY PORT`. Prints what the library returned, as JSON; the claims are in test_node_libraries.py.

import { once } from "node:events";
import { createServer } from "node:http";

const [library, port] = process.argv.slice(2);
const url = `redis://127.0.0.1:${port}`;

async function nodeRedis(options = {}) {
  const { createClient } = await import("redis");
  const client = createClient({ url, ...options });
  await client.connect();
  return client;
}

async function ioredis() {
  const { Redis } = await import("ioredis");
  const client = new Redis(url);
  return client;
}

// Two servers of socket.io with one client each, which see each other only through the adapter.
async function socketServers(makeAdapter) {
  const { Server } = await import("socket.io");
  const { io: connect } = await import("socket.io-client");
  const servers = [];
  const clients = [];
  for (const name of ["one", "two"]) {
    const http = createServer();
    const server = new Server(http, { adapter: await makeAdapter() });
    server.on("connection", (socket) => socket.join(`room-${name}`));
    server.on("question", (word, answer) => answer(`${name} says ${word}`));
    http.listen(0, "127.0.0.1");
    await once(http, "listening");
    const client = connect(`http://127.0.0.1:${http.address().port}`, { transports: ["websocket"] });
    await new Promise((resolve) => client.on("connect", resolve));
    servers.push(server);
    clients.push(client);
  }
  // The servers find each other by messages, before they ask each other.
  while ((await servers[0].fetchSockets()).length < 2 || (await servers[1].fetchSockets()).length < 2);
  const heard = clients.map((client) => new Promise((resolve) => client.on("news", resolve)));
  servers[0].emit("news", "tea");
  const toAll = await Promise.all(heard);
  const whispered = new Promise((resolve) => clients[1].on("whisper", resolve));
  servers[0].to("room-two").emit("whisper", "rum");
  const asked = await new Promise((resolve, reject) =>
    servers[0].serverSideEmit("question", "hello", (error, answers) => (error ? reject(error) : resolve(answers))),
  );
  return { toAll, toRoom: await whispered, asked };
}

const libraries = {
  async "@socket.io/redis-streams-adapter"() {
    const { createAdapter } = await import("@socket.io/redis-streams-adapter");
    return socketServers(async () => createAdapter(await nodeRedis(), { readCount: 10, blockTimeInMs: 100 }));
  },

  async "@socket.io/redis-adapter"() {
    const { createAdapter } = await import("@socket.io/redis-adapter");
    return socketServers(async () => createAdapter(await ioredis(), await ioredis()));
  },

  async "graphql-redis-subscriptions"() {
    const { RedisPubSub } = await import("graphql-redis-subscriptions");
    const pubsub = new RedisPubSub({ publisher: await ioredis(), subscriber: await ioredis() });
    const byName = pubsub.asyncIterableIterator("orders");
    const byPattern = pubsub.asyncIterableIterator("ord*", { pattern: true });
    const received = [byName.next(), byPattern.next()];
    const control = await ioredis();
    while ((await control.pubsub("NUMSUB", "orders"))[1] < 1 || (await control.pubsub("NUMPAT")) < 1);
    await pubsub.publish("orders", { item: "tea" });
    const values = (await Promise.all(received)).map(({ value }) => value);
    await Promise.all([byName.return(), byPattern.return()]);
    return values;
  },

  async "connect-redis"() {
    const { RedisStore } = await import("connect-redis");
    const client = await nodeRedis();
    const store = new RedisStore({ client, ttl: 60 });
    const session = { cookie: {}, user: "ann" };
    await store.set("id", session);
    await store.set("other", { ...session, user: "bob" });
    const ttl = await client.ttl("sess:id");
    await store.touch("id", session);
    const found = await store.get("id");
    const before = [await store.length(), (await store.ids()).sort()];
    await store.destroy("id");
    const gone = await store.get("id");
    await store.clear();
    return { found, expires: ttl > 0 && ttl <= 60, before, gone: gone ?? null, after: await store.length() };
  },

  async "rate-limiter-flexible"() {
    const { RateLimiterRedis } = await import("rate-limiter-flexible");
    const limiter = new RateLimiterRedis({ storeClient: await ioredis(), points: 2, duration: 60 });
    const left = [];
    for (let call = 0; call < 3; call += 1) {
      await limiter.consume("ann").then(
        (state) => left.push(state.remainingPoints),
        (state) => left.push(state.msBeforeNext > 0 ? "refused" : state),
      );
    }
    await limiter.penalty("bob", 2);
    const bob = await limiter.get("bob");
    const deleted = await limiter.delete("ann");
    await limiter.block("eve", 60);
    const eve = await limiter.consume("eve").then(() => "let in", () => "refused");
    return { left, bob: bob.consumedPoints, deleted, ann: await limiter.get("ann"), eve };
  },

  async redlock() {
    const { default: Redlock } = await import("redlock");
    const locks = new Redlock([await ioredis()], { retryCount: 0 });
    const lock = await locks.lock("resource", 60_000);
    const refused = await locks.lock("resource", 60_000).then(() => "locked twice", ({ name }) => name);
    const extended = await lock.extend(90_000);
    await extended.unlock();
    const again = await locks.lock("resource", 60_000);
    const control = await ioredis();
    const held = await control.exists("resource");
    await again.unlock();
    return { refused, held, left: await control.exists("resource") };
  },

  async keyv() {
    const { default: Keyv } = await import("keyv");
    const { default: KeyvRedis } = await import("@keyv/redis");
    const cache = new Keyv(new KeyvRedis(url), { namespace: "cache" });
    await cache.set("tea", { price: 3 }, 60_000);
    await cache.set("rum", { price: 9 });
    const control = await ioredis();
    const [key] = (await control.keys("*tea*"));
    const ttl = await control.pttl(key);
    const found = await cache.get("tea");
    const names = [];
    for await (const [name] of cache.iterator()) names.push(name);
    const deleted = await cache.delete("tea");
    await cache.clear();
    return { found, expires: ttl > 0 && ttl <= 60_000, names: names.sort(), deleted, left: await control.dbsize() };
  },

  async "redis-streams-broker"() {
    const { StreamChannelBroker } = (await import("redis-streams-broker")).default;
    const broker = new StreamChannelBroker(await ioredis(), "orders");
    const group = await broker.joinConsumerGroup("packers", "0");
    await broker.publish({ item: "tea" });
    await broker.publish({ item: "rum" }, 2, true);
    const full = await broker.publish({ item: "gin" }, 2, true).then(() => "added", ({ message }) => message);
    const received = [];
    const pending = [];
    await new Promise((resolve) => {
      group.subscribe("ann", async (entries) => {
        pending.push((await group.pendingSummary()).consumerStats);
        for (const entry of entries) received.push([entry.payload.item, await entry.markAsRead(true)]);
        if (received.length === 2) resolve();
        return received.length === 2 ? -1 : 1;
      }, 1000, 1);
    });
    const control = await ioredis();
    const { total } = await group.pendingSummary();
    const isMeasured = (await broker.memoryFootprint()) > 0;
    return { full, received, pending, total, isMeasured, left: await control.xlen("orders") };
  },

  async "mqemitter-redis"() {
    const { default: mqemitterRedis } = await import("mqemitter-redis");
    const [one, two] = [0, 1].map(() => mqemitterRedis({ host: "127.0.0.1", port: Number(port) }));
    const heard = [];
    const both = new Promise((resolve) => {
      const listener = ({ topic, item }, done) => (done(), heard.push([topic, item]) === 2 && resolve());
      let ready = 0;
      const emit = () => ++ready === 2 && one.emit({ topic: "orders/tea", item: "tea" });
      two.on("orders/+", listener, emit);
      two.on("orders/tea", listener, emit);
    });
    await both;
    return heard;
  },

  async "resumable-stream"() {
    const { createResumableStreamContext } = await import("resumable-stream");
    const [publisher, subscriber] = [await nodeRedis(), await nodeRedis()];
    const streams = createResumableStreamContext({ waitUntil: null, publisher, subscriber });
    let source;
    const first = await streams.resumableStream("id", () => new ReadableStream({ start: (made) => void (source = made) }));
    source.enqueue("tea,");
    const second = await streams.resumableStream("id", () => {
      throw new Error("made twice");
    });
    source.enqueue("rum");
    source.close();
    const read = async (stream) => {
      let text = "";
      for await (const part of stream) text += part;
      return text;
    };
    return [await read(first), await read(second), await streams.resumableStream("id", () => null)];
  },

  async bullmq() {
    const { FlowProducer, Queue, QueueEvents, Worker } = await import("bullmq");
    const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
    const queue = new Queue("jobs", { connection });
    const events = new QueueEvents("jobs", { connection });
    await events.waitUntilReady();
    const order = [];
    const work = async (job) => {
      order.push(job.name);
      if (job.name === "again" && job.attemptsMade === 0) throw new Error("again");
      return job.name === "parent" ? Object.values(await job.getChildrenValues()).sort() : `${job.name}!`;
    };
    await queue.add("low", {}, { priority: 9 });
    await queue.add("high", {}, { priority: 1 });
    const first = await queue.add("first", {});
    const delayed = await queue.add("delayed", {}, { delay: 200 });
    const again = await queue.add("again", {}, { attempts: 2, backoff: 100 });
    const failed = await queue.add("again", {}, { attempts: 1 });
    const children = ["a", "b"].map((name) => ({ name, queueName: "jobs" }));
    const flow = await new FlowProducer({ connection }).add({ name: "parent", queueName: "jobs", children });
    const counts = await queue.getJobCounts("wait", "prioritized", "delayed", "waiting-children");
    const worker = new Worker("jobs", work, { connection });
    const waits = [first, delayed, again, flow.job].map((job) => job.waitUntilFinished(events));
    const results = await Promise.all(waits);
    const refusal = await failed.waitUntilFinished(events).catch((error) => error.message);
    const repeated = new Promise((resolve) => worker.on("completed", ({ name }) => name === "tick" && resolve(name)));
    await queue.upsertJobScheduler("often", { every: 100 }, { name: "tick" });
    await repeated;
    const schedulers = (await queue.getJobSchedulers()).map(({ key }) => key);
    await queue.removeJobScheduler("often");
    await worker.close();
    const inOrder = order.filter((name) => ["first", "high", "low"].includes(name));
    const failures = await queue.getFailedCount();
    await queue.obliterate({ force: true });
    return { counts, results, refusal, schedulers, inOrder, failures, left: await (await ioredis()).keys("bull:jobs:*") };
  },

  async "bee-queue"() {
    const { default: Queue } = await import("bee-queue");
    const queue = new Queue("jobs", { redis: { port: Number(port) }, activateDelayedJobs: true });
    await queue.ready();
    const succeeded = async (job) => {
      const done = new Promise((resolve) => job.on("succeeded", resolve));
      await job.save();
      return done;
    };
    const tries = {};
    queue.process(async ({ id, data }) => {
      tries[id] = (tries[id] ?? 0) + 1;
      if (data.fails >= tries[id]) throw new Error("again");
      return data.left + data.right;
    });
    const results = await Promise.all([
      succeeded(queue.createJob({ left: 2, right: 3 })),
      succeeded(queue.createJob({ left: 3, right: 4, fails: 1 }).retries(2)),
      succeeded(queue.createJob({ left: 4, right: 5 }).delayUntil(Date.now() + 200)),
    ]);
    const refused = queue.createJob({ fails: 9 });
    const failure = new Promise((resolve) => refused.on("failed", (error) => resolve(error.message)));
    await refused.save();
    const message = await failure;
    const { succeeded: count, failed } = await queue.checkHealth();
    await queue.destroy();
    return { results, message, count, failed };
  },

  async "@moleculer/channels"() {
    const { default: moleculer } = await import("moleculer");
    const { Middleware } = await import("@moleculer/channels");
    const redis = { consumerOptions: { minIdleTime: 50, claimInterval: 20, processingAttemptsInterval: 20, startID: "0" } };
    const adapter = { type: "Redis", options: { redis: { url, ...redis } } };
    const middlewares = [Middleware({ adapter })];
    const broker = new moleculer.ServiceBroker({ logger: false, middlewares });
    const packed = [];
    let tries = 0;
    const dead = new Promise((resolve) => {
      broker.createService({
        name: "packers",
        channels: {
          "orders.new": async ({ item }) => void packed.push(item),
          "orders.bad": {
            maxRetries: 2,
            deadLettering: { enabled: true, queueName: "orders.dead" },
            async handler() {
              tries += 1;
              throw new Error("again");
            },
          },
          "orders.dead": async ({ item }) => resolve(item),
        },
      });
    });
    await broker.start();
    await broker.sendToChannel("orders.new", { item: "tea" });
    await broker.sendToChannel("orders.bad", { item: "rum" });
    const letter = await dead;
    await broker.stop();
    const client = await ioredis();
    const [group] = await client.xinfo("GROUPS", "orders.bad");
    const [[, fields]] = await client.xrange("orders.dead", "-", "+");
    const origin = JSON.parse(fields[3])["x-original-channel"];
    return { packed, isRetried: tries > 1, letter, origin, pending: (await client.xpending("orders.bad", group[1]))[0] };
  },
};

console.log(JSON.stringify(await libraries[library]()));
process.exit(0);
