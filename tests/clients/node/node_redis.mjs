// What applications do with node-redis, one scenario a run: `node node_redis.mjs SCENARIO PORT PROTOCOL PACKAGE`,
// where PACKAGE selects the version.
// Prints what the client made of the replies, as JSON; the claims about it are in test_node.py.

const [scenario, port, protocol, name] = process.argv.slice(2);
const { createClient, WatchError } = await import(name);
const options = { RESP: Number(protocol), socket: { port: Number(port), reconnectStrategy: 5 } };
const opened = [];

async function connect() {
  const client = createClient(options);
  client.on("error", () => {}); // a connection that is cut is part of the scenario
  opened.push(client);
  return client.connect();
}

async function blocked(control) {
  while (!/blocked_clients:[1-9]/.test(await control.info("clients")));
}

const scenarios = {
  async entries(client) {
    await client.xAdd("s", "1-1", { item: "tea", price: "3" });
    await client.xAdd("s", "2-1", { item: "rum" }, { TRIM: { strategy: "MAXLEN", strategyModifier: "~", threshold: 9 } });
    const generated = await client.xAdd("s", "*", { item: "ale" });
    return {
      isGenerated: /^\d{13}-\d+$/.test(generated),
      length: await client.xLen("s"),
      range: await client.xRange("s", "-", "2"),
      newest: (await client.xRevRange("s", "+", "-", { COUNT: 1 }))[0].message,
      read: await client.xRead({ key: "s", id: "1-1" }, { COUNT: 1 }),
      deleted: await client.xDel("s", "1-1"),
      trimmed: await client.xTrim("s", "MAXLEN", 1),
      nothing: await client.xRead({ key: "s", id: "$" }),
    };
  },

  async groups(client) {
    await client.xGroupCreate("s", "g", "0", { MKSTREAM: true });
    for (const number of [1, 2, 3]) await client.xAdd("s", `${number}-0`, { number: String(number) });
    const delivered = await client.xReadGroup("g", "ann", { key: "s", id: ">" }, { COUNT: 2 });
    const acknowledged = await client.xAck("s", "g", "1-0");
    const [pending] = await client.xPendingRange("s", "g", "-", "+", 10);
    const [group] = await client.xInfoGroups("s");
    const info = await client.xInfoStream("s");
    return {
      delivered,
      acknowledged,
      summary: await client.xPending("s", "g"),
      pending: [pending.id, pending.consumer, pending.deliveriesCounter],
      group: [group.name, group.consumers, group.pending, group["last-delivered-id"], group.lag],
      stream: [info.length, info.groups, info["last-generated-id"], info["first-entry"]],
      consumers: (await client.xInfoConsumers("s", "g")).map(({ name, pending: count }) => [name, count]),
      history: await client.xReadGroup("g", "ann", { key: "s", id: "0" }),
    };
  },

  async claims(client) {
    await client.xGroupCreate("s", "g", "0", { MKSTREAM: true });
    for (const number of [1, 2, 3]) await client.xAdd("s", `${number}-0`, { number: String(number) });
    await client.xReadGroup("g", "ann", { key: "s", id: ">" });
    await client.xDel("s", "3-0");
    const claimed = await client.xClaim("s", "g", "bob", 0, "1-0");
    const idsOnly = await client.xClaimJustId("s", "g", "bob", 0, ["1-0", "2-0"]);
    const swept = await client.xAutoClaim("s", "g", "cat", 0, "0-0");
    const released = await client.sendCommand(["XNACK", "s", "g", "FAIL", "IDS", "1", "2-0"]);
    const again = await client.sendCommand("XREADGROUP GROUP g dan CLAIM 60000 STREAMS s >".split(" "));
    const [[, entries]] = Number(protocol) === 3 ? Object.entries(again) : again;
    return { claimed, idsOnly, swept, released, again: entries.map(([id, fields]) => [id, fields]) };
  },

  async blocking(client) {
    const control = await connect();
    await client.xGroupCreate("s", "g", "$", { MKSTREAM: true });
    const waiting = client.xReadGroup("g", "ann", { key: "s", id: ">" }, { BLOCK: 0 });
    await blocked(control);
    await control.xAdd("s", "1-0", { item: "tea" });
    return { came: await waiting, timedOut: await client.xRead({ key: "s", id: "$" }, { BLOCK: 1 }) };
  },

  async pipeline(client) {
    const ids = await Promise.all(Array.from({ length: 1000 }, (_, n) => client.xAdd("s", `${n + 1}-0`, { n: String(n) })));
    const refused = await Promise.allSettled([client.xAdd("s", "1-0", { n: "0" }), client.xLen("s")]);
    return { first: ids[0], last: ids[999], refused: refused[0].reason.message, length: refused[1].value };
  },

  async transactions(client) {
    const replies = await client.multi().xAdd("s", "1-0", { item: "tea" }).xLen("s").set("k", "v").get("k").exec();
    const other = await connect();
    await client.watch("s");
    await other.xAdd("s", "2-0", { item: "rum" });
    const outcome = await client.multi().set("k", "w").exec().catch((error) => error instanceof WatchError);
    return { replies, isWatchError: outcome, value: await client.get("k") };
  },

  async reconnect(client) {
    const control = await connect();
    let count = 0;
    client.on("reconnecting", () => (count += 1));
    const before = await client.clientId();
    const back = new Promise((resolve) => client.once("ready", resolve));
    await control.sendCommand(["CLIENT", "KILL", "ID", String(before)]);
    await back;
    const entryId = await client.xAdd("s", "1-0", { item: "tea" });
    return { isAnother: (await client.clientId()) !== before, hasReconnected: count > 0, entryId };
  },

  async messages(client) {
    const subscriber = await connect();
    const heard = [];
    const done = new Promise((resolve) => {
      const listener = (message, channel) => heard.push([channel, message]) === 3 && resolve();
      return Promise.all([
        subscriber.subscribe("news", listener),
        subscriber.pSubscribe("ne*", listener),
        subscriber.sSubscribe("shard", listener),
      ]).then(async () => {
        heard.receivers = [await client.publish("news", "tea"), await client.sPublish("shard", "rum")];
      });
    });
    await done;
    await subscriber.unsubscribe();
    await subscriber.pUnsubscribe();
    return { heard: heard.toSorted(), receivers: heard.receivers, left: await client.publish("news", "ale") };
  },

  async errors(client) {
    await client.set("k", "v");
    await client.xGroupCreate("s", "g", "0", { MKSTREAM: true });
    const calls = [
      client.xAdd("k", "*", { item: "tea" }),
      client.xGroupCreate("s", "g", "0"),
      client.xReadGroup("none", "ann", { key: "s", id: ">" }),
      client.sendCommand(["NOSUCH"]),
    ];
    return (await Promise.allSettled(calls)).map(({ reason }) => reason.message.split(" ")[0]);
  },

  async introduction(client) {
    const { libName, resp } = await client.clientInfo();
    return [libName, resp];
  },
};

const result = await scenarios[scenario](await connect());
for (const client of opened) await client.close();
console.log(JSON.stringify(result));
