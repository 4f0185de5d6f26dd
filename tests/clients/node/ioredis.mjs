// What applications do with ioredis, one scenario a run: `node ioredis.mjs SCENARIO PORT PACKAGE`, where
// PACKAGE selects the version.
// Prints what the client made of the replies, as JSON; the claims about it are in test_node.py.

const [scenario, port, name] = process.argv.slice(2);
const { Redis } = await import(name);
const opened = [];

function connect(options = {}) {
  const client = new Redis({ port: Number(port), retryStrategy: () => 5, ...options });
  client.on("error", () => {}); // a connection that is cut is part of the scenario
  opened.push(client);
  return client;
}

async function blocked(control) {
  while (!/blocked_clients:[1-9]/.test(await control.info("clients")));
}

const scenarios = {
  async entries(client) {
    await client.xadd("s", "1-1", "item", "tea", "price", 3);
    await client.xadd("s", "MAXLEN", "~", 9, "2-1", "item", "rum");
    const generated = await client.xadd("s", "*", "item", "ale");
    return {
      isGenerated: /^\d{13}-\d+$/.test(generated),
      length: await client.xlen("s"),
      range: await client.xrange("s", "-", "2"),
      read: await client.xread("COUNT", 1, "STREAMS", "s", "1-1"),
      deleted: await client.xdel("s", "1-1"),
      trimmed: await client.xtrim("s", "MAXLEN", 1),
      nothing: await client.xread("STREAMS", "s", "$"),
    };
  },

  async groups(client) {
    await client.xgroup("CREATE", "s", "g", "0", "MKSTREAM");
    for (const number of [1, 2, 3]) await client.xadd("s", `${number}-0`, "number", number);
    const delivered = await client.xreadgroup("GROUP", "g", "ann", "COUNT", 2, "STREAMS", "s", ">");
    const acknowledged = await client.xack("s", "g", "1-0");
    const [[id, consumer, , count]] = await client.xpending("s", "g", "-", "+", 10);
    return { delivered, acknowledged, summary: await client.xpending("s", "g"), pending: [id, consumer, count] };
  },

  async claims(client) {
    await client.xgroup("CREATE", "s", "g", "0", "MKSTREAM");
    for (const number of [1, 2, 3]) await client.xadd("s", `${number}-0`, "number", number);
    await client.xreadgroup("GROUP", "g", "ann", "STREAMS", "s", ">");
    await client.xdel("s", "3-0");
    return {
      claimed: await client.xclaim("s", "g", "bob", 0, "1-0"),
      swept: await client.xautoclaim("s", "g", "cat", 0, "0-0"),
      released: await client.call("XNACK", "s", "g", "FATAL", "IDS", 1, "2-0"),
      pending: (await client.xpending("s", "g", "-", "+", 10)).map(([id, consumer, idle, count]) => [id, consumer, idle === -1, count]),
    };
  },

  async blocking(client) {
    const control = connect();
    await client.xgroup("CREATE", "s", "g", "$", "MKSTREAM");
    const waiting = client.xreadgroup("GROUP", "g", "ann", "BLOCK", 0, "STREAMS", "s", ">");
    await blocked(control);
    await control.xadd("s", "1-0", "item", "tea");
    return { came: await waiting, timedOut: await client.xread("BLOCK", 1, "STREAMS", "s", "$") };
  },

  async pipeline(client) {
    const pipeline = client.pipeline();
    for (let number = 1; number <= 1000; number += 1) pipeline.xadd("s", `${number}-0`, "n", number);
    const replies = await pipeline.xadd("s", "1-0", "n", 0).xlen("s").exec();
    return { first: replies[0], last: replies[999], refused: replies[1000][0].message, length: replies[1001] };
  },

  async autoPipelining() {
    const client = connect({ enableAutoPipelining: true });
    const ids = await Promise.all(Array.from({ length: 100 }, (_, n) => client.xadd("s", `${n + 1}-0`, "n", n)));
    return [ids.length, await client.xlen("s")];
  },

  async transactions(client) {
    const replies = await client.multi().xadd("s", "1-0", "item", "tea").xlen("s").set("k", "v").get("k").exec();
    const other = connect();
    await client.watch("s");
    await other.xadd("s", "2-0", "item", "rum");
    return { replies, watched: await client.multi().set("k", "w").exec(), value: await client.get("k") };
  },

  async reconnect(client) {
    const control = connect();
    const before = await client.client("ID");
    const back = new Promise((resolve) => client.once("ready", resolve));
    await control.client("KILL", "ID", before);
    await back;
    const entryId = await client.xadd("s", "1-0", "item", "tea");
    return { isAnother: (await client.client("ID")) !== before, entryId };
  },

  async messages(client) {
    const subscriber = connect();
    const heard = [];
    const done = new Promise((resolve) => {
      const listener = (...words) => heard.push(words) === 2 && resolve();
      subscriber.on("message", listener);
      subscriber.on("pmessage", listener);
    });
    const counts = [await subscriber.subscribe("news", "other"), await subscriber.psubscribe("ne*")];
    const receivers = await client.publish("news", "tea");
    await done;
    const left = [await subscriber.unsubscribe("news", "other"), await subscriber.punsubscribe("ne*")];
    return { counts, heard, receivers, left };
  },

  async errors(client) {
    await client.set("k", "v");
    await client.xgroup("CREATE", "s", "g", "0", "MKSTREAM");
    const calls = [
      client.xadd("k", "*", "item", "tea"),
      client.xgroup("CREATE", "s", "g", "0"),
      client.xreadgroup("GROUP", "none", "ann", "STREAMS", "s", ">"),
      client.call("NOSUCH"),
    ];
    return (await Promise.allSettled(calls)).map(({ reason }) => reason.message.split(" ")[0]);
  },

  async scan(client) {
    for (let number = 0; number < 50; number += 1) await client.set(`k:${number}`, number);
    await client.xadd("s", "1-0", "item", "tea");
    const found = { strings: 0, streams: 0 };
    for await (const keys of client.scanStream({ match: "k:*", count: 7 })) found.strings += keys.length;
    for await (const keys of client.scanStream({ type: "stream" })) found.streams += keys.length;
    return found;
  },

  async introduction(client) {
    const line = await client.client("INFO");
    return [line.match(/lib-name=(\S*)/)[1], Number(line.match(/resp=(\d)/)[1])];
  },
};

const result = await scenarios[scenario](connect());
for (const client of opened) await client.quit();
console.log(JSON.stringify(result));
