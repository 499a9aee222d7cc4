import * as redis6 from "redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { firstServing, nodeOf } from "@tooling/vitest/helpers";
import { durable } from "../../src/durable/index.js";
import { optimistic } from "../../src/index.js";
import { fromNodeRedis } from "../../src/node-redis/index.js";
import type { NodeClient } from "../../src/kernel/index.js";
import { attach, Deadline, slotOf } from "../../src/toolkit/index.js";
import { connectionsNamed, endMigrations, opened, openingInbox, rejection, runProgram, until } from "../harness.js";
import { addOnce, append, read } from "../scripts.js";
import { tlsDoors, wayTo } from "../tls-servers.js";
import { Writer } from "../writer.js";
import { type Client, type Driver, libraries, nodeRedisOnly } from "./drivers.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });

const listenersOf = ({ emitter }: Client): unknown[] =>
  // The Cluster client of ioredis listens to its own end once it is connected.
  emitter.eventNames().map((event) => [event, event === "close" ? 0 : emitter.listenerCount(event)]);

describe.each(libraries)("a Cluster client of $name", (driver: Driver) => {
  const open = (): Client => {
    const client = driver.cluster(redis.server.nodes);
    redis.defer(() => client.end());
    return client;
  };

  it("is connected by the first call, and sends each script to the node of its keys", async () => {
    const { redis: client } = open();
    const keys = Array.from({ length: 60 }, (_, index) => `${redis.prefix}:${String(index)}`);
    await Promise.all(keys.map((key) => append.run(client, { key }, { value: key })));
    expect(await Promise.all(keys.map((key) => read.run(client, { key }, {})))).toEqual(keys);
  });

  it.each([false, true])("works with all that needs connections of ours (isolate: %s)", async (isolate) => {
    const client = open();
    const key = redis.prefix;
    await read.run(client.redis, { key }, {});
    const before = listenersOf(client);
    const context = attach(client.redis, { isolate });
    await read.run(context, { key }, {});
    await opened(context.inbox, 20_000);
    expect(context.inbox.state).toBe("open");
    const heard = new Promise((resolve) => context.inbox.expect("id", resolve));
    await redis.client.publish(context.inbox.channel, "id\thello");
    expect(await heard).toBe("hello");
    await optimistic(context, [key], (tx) => Promise.resolve(tx.queue("SET", key, "1", "PX", 60_000)));
    const { outcome } = await durable(context, { key, replicas: 1, timeoutMs: 5_000 }, (scope) =>
      scope.call("INCR", key),
    );
    expect(outcome).toBe("safe");
    expect(await redis.client.get(key)).toBe("2");
    context.detach();
    await eventually(async () => expect(await connectionsNamed(redis, "kit:")).toEqual([]));
    expect(listenersOf(client)).toEqual(before);
  });

  it("speaks TLS to names, for which the certificates are, also on connections of ours", async () => {
    const doors = await tlsDoors(redis);
    const entries = doors.map(({ name, port }) => ({ host: name, port }));
    const client = driver.cluster(entries, wayTo(redis, doors));
    redis.defer(() => client.end());
    const keys = Array.from({ length: 20 }, (_, index) => `${redis.prefix}:${String(index)}`);
    await Promise.all(keys.map((key) => append.run(client.redis, { key }, { value: key }, { deadlineMs: 10_000 })));
    for (const isolate of [false, true]) {
      const context = attach(client.redis, { isolate });
      redis.defer(() => context.detach());
      await read.run(context, { key: keys[0]! }, {}, { deadlineMs: 10_000 });
      expect(await opened(context.inbox, 10_000)).toBe(true);
      const connection = await context.pool("test").checkOut(keys[0]!, Deadline.in(10_000), undefined);
      expect(await connection.call("GET", [keys[0]!], 10_000)).toBe(keys[0]);
      connection.returnToPool(false);
    }
  });

  it("follows a slot that moves, one key at a time", async () => {
    const { redis: client } = open();
    const tag = `{${redis.prefix}}`;
    const slot = String(slotOf(tag));
    const keys = Array.from({ length: 20 }, (_, index) => `${tag}:${String(index)}`);
    const context = attach(client);
    redis.defer(() => context.detach());
    const writers = keys.slice(0, 4).map((key) => new Writer(client, key, 60_000));
    for (const key of keys.slice(4)) await addOnce.run(client, { key }, { op: "1" });
    const shard = firstServing(slotOf(tag));
    const [from, to] = [redis.server.nodes[shard]!, redis.server.nodes[(shard + 1) % 3]!];
    const [fromId, toId] = await Promise.all([from, to].map((node) => node.call("CLUSTER", "MYID").then(String)));
    const advance = async (): Promise<void> => {
      const seen = writers.map(({ acked }) => acked.length);
      await until(() => writers.every(({ acked }, index) => acked.length > seen[index]! + 5), 30_000);
    };
    const pass = async (by: RedisNode, byId: string, at: RedisNode, atId: string): Promise<void> => {
      await at.call("CLUSTER", "SETSLOT", slot, "IMPORTING", byId);
      await by.call("CLUSTER", "SETSLOT", slot, "MIGRATING", atId);
      for (const key of keys) await by.call("MIGRATE", at.host, String(at.port), key, "0", "5000");
      // Keys of writers that were made anew on the way.
      for (;;) {
        const left = (await by.call("CLUSTER", "GETKEYSINSLOT", slot, "100")) as string[];
        if (left.length === 0) break;
        await by.call("MIGRATE", at.host, String(at.port), "", "0", "5000", "KEYS", ...left);
      }
      // The keys are there, and the slot is not: the node that has the slot redirects each command.
      await advance();
      for (const node of [at, by, ...redis.server.nodes]) await node.call("CLUSTER", "SETSLOT", slot, "NODE", atId);
      await advance();
    };
    await pass(from, fromId!, to, toId!);
    await pass(to, toId!, from, fromId!);
    await Promise.all(writers.map((writer) => writer.stop()));
    await endMigrations(redis);
    expect(writers.flatMap(({ failures }) => failures)).toEqual([]);
    for (const [index, { acked }] of writers.entries())
      expect(await redis.client.zcard(keys[index]!)).toBe(acked.length);
  });
});

describe.each(nodeRedisOnly)("a Cluster client of $name that its owner ends", (driver: Driver) => {
  const connections = async (): Promise<number> => {
    const lists = await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST", "TYPE", "normal")));
    return lists.join("").trim().split("\n").length;
  };

  it("leaves no connection, even if the map of slots is read at that moment", async () => {
    const before = await connections();
    const client = driver.cluster(redis.server.nodes);
    await read.run(client.redis, { key: redis.prefix }, {});
    expect(await connections()).toBeGreaterThan(before);
    (client.redis as unknown as { refreshSlotsCache(): void }).refreshSlotsCache();
    client.end();
    await eventually(async () => expect(await connections()).toBe(before));
  });
});

describe.each(nodeRedisOnly)("a Cluster client of $name that loses a master", (driver: Driver) => {
  it.each(["gone", "silent"])("follows the replica that takes over from one that is %s", async (how) => {
    const made = driver.cluster(redis.server.nodes);
    redis.defer(() => made.end());
    const client = made.redis;
    const context = attach(client);
    redis.defer(() => context.detach());
    const writer = new Writer(client, redis.prefix, 60_000);
    await until(() => writer.acked.length > 20);
    await opened(context.inbox, 20_000);
    const shards = redis.server.nodes.map((node, index) => [node, redis.server.replicas[index]!]);
    const master = await nodeOf(shards.flat(), redis.prefix);
    const replica = shards.find((nodes) => nodes.includes(master))!.find((node) => node !== master)!;
    const role = async (): Promise<unknown[]> => (await replica.call("ROLE")) as unknown[];
    await until(async () => (await role())[3] === "connected", 30_000);
    if (how === "gone") await master.kill();
    else master.pause();
    // The map of slots is not to be asked of the node that replied last.
    (client as unknown as { refreshSlotsCache(): void }).refreshSlotsCache();
    await until(async () => (await role())[0] === "master", 30_000);
    const promotedAt = performance.now();
    await until(() => writer.acked.some(({ at }) => at > promotedAt), 60_000);
    await writer.stop();
    expect(writer.failures).toEqual([]);
    await until(() => context.inbox.isOpen, 30_000);
    if (how === "gone") await master.start();
    else master.resume();
  });
});

describe("fromNodeRedis with a Cluster client", () => {
  it("names the node to which the Cluster client has no connection", async () => {
    const rootNodes = redis.server.nodes.map(({ port }) => ({ socket: { host: "127.0.0.1", port } }));
    const owners = redis6.createCluster({ rootNodes, minimizeConnections: true });
    owners.on("error", () => undefined);
    await owners.connect();
    redis.defer(() => owners.destroy());
    const nodes = (fromNodeRedis(owners) as unknown as { nodes(role: "all"): NodeClient[] }).nodes("all");
    expect(nodes.length).toBeGreaterThanOrEqual(3);
    const errors = await Promise.all(nodes.map((node) => rejection(node.duplicate().connect())));
    expect(errors.map(({ code, message }) => [code, message])).toEqual(
      nodes.map(({ options: { host, port } }) => [
        "KIT_UNAVAILABLE",
        `The Cluster client has no connection to the node at ${host}:${String(port)}`,
      ]),
    );
  });

  it("keeps no process alive, once its owner's client is closed", async () => {
    const rootNodes = redis.server.nodes.map(({ port }) => ({ url: `redis://127.0.0.1:${String(port)}` }));
    const { stdout, stderr, code } = await runProgram(`
      import { createCluster } from "redis";
      import { fromNodeRedis } from "./dist/node-redis.js";
      import { defineScript } from "./dist/index.js";
      import { attach, Deadline } from "./dist/toolkit.js";
      const echo = defineScript({ name: "echo", source: "return 1", keys: ["key"], args: [], readonly: true, reply: Number });
      for (const isolate of [false, true]) {
        const client = createCluster({ rootNodes: ${JSON.stringify(rootNodes)} });
        client.on("error", () => undefined);
        await client.connect();
        const context = attach(fromNodeRedis(client), { isolate });
        await echo.run(context, { key: "x" }, {}, { deadlineMs: 10_000 });
        ${openingInbox}
        process.stdout.write(String(context.inbox.isOpen) + " ");
        (await context.pool("test").checkOut("x", Deadline.in(10_000))).returnToPool(true);
        await client.close();
      }`);
    expect({ stdout, stderr, code }).toEqual({ stdout: "true true ", stderr: "", code: 0 });
  });
});
