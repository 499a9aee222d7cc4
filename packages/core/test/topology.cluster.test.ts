import { once, type EventEmitter } from "node:events";
import { Cluster } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type RedisNode, type RedisServer, startRedis, useRedis } from "@kit/testing";
import { callsOf, firstServing, nodeOf, removeNode } from "@tooling/vitest/helpers";
import { Deadline } from "../src/kernel/base/deadline.js";
import { slotOf } from "../src/kernel/base/keyspace.js";
import { KitUnavailableError } from "../src/kernel/base/errors.js";
import type { RedisLike } from "../src/kernel/connection/client.js";
import { attach } from "../src/kernel/context/context.js";
import { reading } from "../src/kernel/execution/executor.js";
import { createConfig } from "../src/config/index.js";
import { own, proxiedCluster, rejection, until } from "./harness.js";
import { append } from "./scripts.js";

const redis = useRedis(vitest, { mode: "cluster" });

/** A Cluster of the test's own, since it loses a node: its first, and a client that was given another node. */
const shrinking = async () => {
  const server: RedisServer<"cluster"> = await startRedis({ mode: "cluster", masters: 4 });
  redis.defer(() => server.stop());
  const [victim, seed, , heir] = server.nodes as [RedisNode, RedisNode, RedisNode, RedisNode];
  const client = await own(redis, { url: `redis+cluster://127.0.0.1:${String(seed.port)}` });
  const key = Array.from({ length: 1_000 }, (_, n) => String(n)).find((name) => slotOf(name) < 4_096)!;
  await client.get(key);
  return {
    client,
    key,
    others: server.nodes.slice(1),
    remove: () => removeNode(server.nodes, victim, heir),
    server,
    victim,
  };
};

describe("a node that lost its slots and was reset", () => {
  it("is left by a client of connect(), for commands of its caller and for ours", async () => {
    const { client, key, remove } = await shrinking();
    const context = attach(client);
    redis.defer(() => context.detach());
    await remove();
    expect(await context.executor.run("GET", [key], reading("GET", Deadline.in(10_000)))).toBeNull();
    expect(await client.get(key)).toBeNull();
  });

  it("is left by a duplicate of our own", async () => {
    const { client, key, remove } = await shrinking();
    const context = attach(client, { isolate: true });
    redis.defer(() => context.detach());
    const read = (): Promise<unknown> => context.executor.run("GET", [key], reading("GET", Deadline.in(10_000)));
    await read();
    await remove();
    expect(await read()).toBeNull();
  });

  it("does not end the connections to other nodes by its empty map of slots", async () => {
    const { client, key, others, remove, victim } = await shrinking();
    let losses = 0;
    client.on("close", () => losses++);
    await remove();
    // Only the node that was removed answers.
    for (const node of others) node.pause();
    const refreshed = once(client as unknown as EventEmitter, "refresh");
    expect((await rejection(client.get(key))).message).toMatch(/^CLUSTERDOWN/);
    await refreshed;
    for (const node of others) node.resume();
    // No command is sent that would be refused.
    await until(() => (client as unknown as Cluster).nodes().every(({ options }) => options.port !== victim.port));
    expect(await client.get(key)).toBeNull();
    expect(losses).toBe(0);
  });
});

describe("a Cluster client that sends again by itself", () => {
  it("is not believed that it sent nothing: its first try may have been done", async () => {
    const { proxies, natMap } = await proxiedCluster(redis);
    // To a lost reply and then to the loss of every node it says: "Cluster isn't ready and enableOfflineQueue options is false".
    const client = redis.connect({}, { natMap, enableOfflineQueue: false });
    await until(() => client.status === "ready");
    const key = redis.prefix;
    await append.run(client, { key }, { value: "-" });
    const home = await nodeOf(redis.server.nodes, key);
    for (const [index, proxy] of proxies.entries())
      if (redis.server.nodes[index] === home) proxy.down.cutNext = 1;
      else proxy.resetAll();
    const outcome = rejection(append.run(client, { key }, { value: "x" }, { deadlineMs: 10_000 }));
    for (const proxy of proxies) proxy.refuse = true;
    expect((await outcome).code).toBe("KIT_UNKNOWN_OUTCOME");
    expect(await redis.client.get(key)).toBe("-x");
  });
});

describe("a Cluster that is down", () => {
  it("refuses a command once: it is not sent again behind the caller", async () => {
    const server = await startRedis({ mode: "cluster" });
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    const [lost, other] = server.nodes as [RedisNode, RedisNode, RedisNode];
    const key = Array.from({ length: 1_000 }, (_, n) => String(n)).find((name) => firstServing(slotOf(name)) === 1)!;
    await client.get(key);
    await lost.kill();
    await until(async () => String(await other.call("CLUSTER", "INFO")).includes("cluster_state:fail"));
    const refused = async (): Promise<number> =>
      Number(/errorstat_CLUSTERDOWN:count=(\d+)/.exec(String(await other.call("INFO", "errorstats")))?.[1] ?? 0);
    expect((await rejection(client.get(key))).message).toMatch(/^CLUSTERDOWN/);
    const before = await refused();
    for (let n = 0; n < 20; n++) await rejection(client.get(key));
    expect(await refused()).toBe(before + 20);
  });
});

describe("a redirected command whose new node is lost", () => {
  it.each(["a client of connect()", "a client of the caller's"])(
    "leaves no rejection unhandled, on %s",
    async (whose) => {
      const server = await startRedis({ mode: "cluster" });
      redis.defer(() => server.stop());
      const client: RedisLike = whose.includes("connect") ? await own(redis, { url: server.url }) : borrowed(server);
      const context = attach(client);
      redis.defer(() => context.detach());
      const key = redis.prefix;
      const read = (): Promise<unknown> => context.executor.run("GET", [key], reading("GET", Deadline.in(2_000)));
      await read();
      const from = await nodeOf(server.nodes, key);
      const to = server.nodes.find((node) => node !== from)!;
      const [slot, fromId, toId] = [
        String(slotOf(key)),
        String(await from.call("CLUSTER", "MYID")),
        String(await to.call("CLUSTER", "MYID")),
      ];
      await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
      await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
      // The connection to the new node stands; what is asked there is under way when it goes.
      await read();
      to.pause();
      const unhandled: unknown[] = [];
      const note = (reason: unknown): void => void unhandled.push(reason);
      process.on("unhandledRejection", note);
      redis.defer(() => void process.off("unhandledRejection", note));
      const asked = rejection(read());
      await until(
        async () => Number(/errorstat_ASK:count=(\d+)/.exec(String(await from.call("INFO", "errorstats")))?.[1]) > 1,
      );
      await to.kill();
      await asked;
      expect(unhandled).toEqual([]);
    },
  );
});

/** A read that blocks for a minute on the master of `key`, by a client that sends nothing else. */
const blockedRead = async (client: RedisLike, key: string): Promise<{ ended: Promise<unknown> }> => {
  const context = attach(client);
  redis.defer(() => context.detach());
  await context.executor.run("GET", [key], reading("GET", Deadline.in(10_000)));
  const connection = await context.pool("test").checkOut(key, Deadline.in(10_000), undefined);
  redis.defer(() => connection.returnToPool(false));
  await connection.call("PING", [], 10_000);
  return {
    ended: connection.call("BLPOP", [`${key}:list`, 60], 120_000).catch((error: unknown) => error),
  };
};

describe("a read that blocks on a node of a Cluster", () => {
  it.each(["a client of connect()", "a client of the caller's"])(
    "ends when the node is silent, on %s",
    async (whose) => {
      const server = await startRedis({ mode: "cluster" });
      redis.defer(() => server.stop());
      const client: RedisLike = whose.includes("connect") ? await own(redis, { url: server.url }) : borrowed(server);
      const key = `{${redis.prefix}}`;
      const { ended } = await blockedRead(client, key);
      const master = await nodeOf(server.nodes, key);
      await until(async () => String(await master.call("CLIENT", "LIST")).includes("cmd=blpop"));
      const startedAt = performance.now();
      master.pause();
      expect(await ended).toBeInstanceOf(KitUnavailableError);
      // The read itself would have ended after 60 s, and its call after 120.
      expect(performance.now() - startedAt).toBeLessThan(50_000);
      master.resume();
    },
  );

  it("has its node asked once, however many objects of the process wait there", async () => {
    vitest.vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    redis.defer(() => void vitest.vi.useRealTimers());
    const server = await startRedis({ mode: "cluster" });
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    const key = `{${redis.prefix}}`;
    for (let n = 0; n < 10; n++) {
      const context = attach(client, { isolate: true });
      redis.defer(() => context.detach());
      await context.executor.run("GET", [key], reading("GET", Deadline.in(10_000)));
      const connection = await context.pool("test").checkOut(key, Deadline.in(10_000), undefined);
      redis.defer(() => connection.returnToPool(false));
      await connection.call("PING", [], 10_000);
    }
    const master = await nodeOf(server.nodes, key);
    const asked = (node: RedisNode): Promise<number> => callsOf(node, "cluster\\|info");
    const before = await Promise.all(server.nodes.map(asked));
    // An hour of checks.
    const looks = 600;
    for (let n = 1; n <= looks; n++) {
      vitest.vi.advanceTimersByTime(6_000);
      await client.get(key);
    }
    const counts = (): Promise<number[]> =>
      Promise.all(server.nodes.map(async (node, at) => (await asked(node)) - before[at]!));
    const place = server.nodes.indexOf(master);
    // At every fifth check another master may be asked, if the client is connected to it.
    await until(async () => (await counts())[place]! > looks / 2);
    const found = await counts();
    const [atMaster = 0] = found.splice(place, 1);
    expect(atMaster).toBeLessThanOrEqual(looks);
    expect(found.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(looks / 5);
  });

  it("sends nothing on a single server", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    const context = attach(client);
    redis.defer(() => context.detach());
    const connection = await context.pool("test").checkOut("key", Deadline.in(10_000), undefined);
    await connection.call("PING", [], 10_000);
    const before = await callsOf(server.nodes[0]!, "ping");
    expect(await connection.call("BLPOP", ["key:list", 4], 20_000)).toBeNull();
    expect(await callsOf(server.nodes[0]!, "ping")).toBe(before);
    connection.returnToPool(false);
  });
});

describe("a subscribed connection to a node that is removed", () => {
  it("is replaced, so that an idle reader of a configuration sees a change by push", async () => {
    const { key, others, remove, server, victim } = await shrinking();
    const url = `redis+cluster://127.0.0.1:${String(others[0]!.port)}`;
    const readers: { n: number }[] = [];
    const subscribers = async (): Promise<number> =>
      String(await victim.call("CLIENT", "LIST", "TYPE", "pubsub")).match(/name=kit:inbox/g)?.length ?? 0;
    // Each reader subscribes on a node of its own choice.
    while ((await subscribers()) === 0) {
      const config = createConfig(await own(redis, { url }), key, { default: { n: 0 }, pollMs: 3_600_000 });
      redis.defer(() => config.close());
      const seen = { n: 0 };
      config.on("change", (next) => void (seen.n = (next as { n: number }).n));
      await config.ready();
      readers.push(seen);
      await until(async () => (await total(server, "kit:inbox")) === readers.length);
    }
    await remove();
    const writer = createConfig(await own(redis, { url }), key, { default: { n: 0 } });
    redis.defer(() => writer.close());
    let next = 1;
    await until(async () => {
      await writer.set({ n: next++ });
      return readers.every(({ n }) => n > 0);
    }, 60_000);
    // A reader that hears through its new connection has just closed the former one.
    await until(async () => (await subscribers()) === 0);
  });
});

/** The subscribed connections of that name. */
const total = async ({ nodes }: RedisServer<"cluster">, name: string): Promise<number> => {
  const lists = await Promise.all(nodes.map((node) => node.call("CLIENT", "LIST", "TYPE", "pubsub")));
  return lists.join("\n").match(new RegExp(` name=${name} `, "g"))?.length ?? 0;
};

const borrowed = (server: RedisServer<"cluster">): Cluster => {
  const client = server.client({ maxRetriesPerRequest: 0 }, { retryDelayOnFailover: 0 });
  redis.defer(() => client.disconnect());
  return client;
};
