import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { Cluster } from "ioredis";
import { eventually, useRedis } from "@kit/testing";
import { firstServing } from "@tooling/vitest/helpers";
import { KitError, KitUnavailableError } from "../src/kernel/base/errors.js";
import { slotOf } from "../src/kernel/base/keyspace.js";
import { optimistic } from "../src/transaction/optimistic.js";
import { attach } from "../src/kernel/context/context.js";
import { executorBehaviour } from "./executor-behaviour.js";
import { deadPort, endMigrations, own, proxiedCluster, rejection, until } from "./harness.js";
import { addOnce, append, putAll, read } from "./scripts.js";

const redis = useRedis(vitest, { mode: "cluster" });

/** A key of this test that the given node serves. */
const keyOn = (node: number): string => {
  for (let number = 0; ; number++) {
    const key = `${redis.prefix}:${String(number)}`;
    if (firstServing(slotOf(key)) === node) return key;
  }
};

/** The shared client learns of a node that came back only when a command needs it. */
const knownAgain = async (): Promise<void> => {
  await eventually(() => Promise.all([0, 1, 2].map((node) => redis.client.exists(keyOn(node)))), { timeoutMs: 30_000 });
};

executorBehaviour(redis);

describe("executor on a Cluster", () => {
  it("reports it, typed, when keys do not share a slot", async () => {
    const error = await rejection(
      putAll.run(redis.client, { first: keyOn(0), others: [keyOn(1)] }, { ttlMs: 1_000, values: ["a", "b"] }),
    );
    expect(error).toMatchObject({ code: "KIT_CLUSTER", retryable: false });
  });

  it("keeps deadlines while one node is silent, and works on the others meanwhile and on it afterwards", async () => {
    const client = await own(redis);
    const keys = [0, 1, 2].map(keyOn);
    for (const key of keys) await append.run(client, { key }, { value: "-" });
    const [node] = redis.server.nodes;
    node!.pause();
    const silent = rejection(append.run(client, { key: keys[0]! }, { value: "x" }, { deadlineMs: 600 }));
    for (const key of keys.slice(1)) expect(await append.run(client, { key }, { value: "x" })).toBe(2);
    expect(await silent).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    expect(await rejection(read.run(client, { key: keys[0]! }, {}, { deadlineMs: 300 }))).toBeInstanceOf(KitError);
    node!.resume();
    await eventually(() => read.run(client, { key: keys[0]! }, {}, { deadlineMs: 500 }), { timeoutMs: 30_000 });
    // The others may have found the silent node to have failed: they serve again when they hear of it.
    const served = (key: string): Promise<unknown> =>
      eventually(() => read.run(client, { key }, {}), { timeoutMs: 30_000 });
    for (const key of keys.slice(1)) expect(await served(key)).toBe("-x");
  });

  it("replaces the connection to the unresponsive node only", async () => {
    const client = await own(redis);
    const keys = [0, 1, 2].map(keyOn);
    for (const key of keys) await append.run(client, { key }, { value: "-" });
    const connections = (
      client as unknown as { nodes(role: string): { options: { port: number }; stream: { destroyed: boolean } }[] }
    ).nodes("all");
    const streams = new Map(connections.map(({ options, stream }) => [options.port, stream]));
    const [node] = redis.server.nodes;
    node!.pause();
    await rejection(append.run(client, { key: keys[0]! }, { value: "x" }, { deadlineMs: 200 }));
    await until(() => streams.get(node!.port)!.destroyed);
    node!.resume();
    expect(redis.server.nodes.slice(1).map(({ port }) => streams.get(port)!.destroyed)).toEqual([false, false]);
  });

  it("runs a change once whose reply is lost, and asks again for one that is idempotent", async () => {
    const client = await own(redis);
    const key = keyOn(0);
    const [node] = redis.server.nodes;
    await append.run(client, { key }, { value: "-" });
    const context = attach(client);
    redis.defer(() => context.detach());
    const { connectionEpoch } = context.executor;
    // Each connection is cut right behind the request: the server runs it, and its reply meets a closed socket.
    for (let round = 0; round < 10; round++) {
      const connection = (
        client as unknown as { nodes(role: string): { options: { port: number }; stream: { destroy(): void } }[] }
      )
        .nodes("master")
        .find(({ options }) => options.port === node!.port);
      const running = addOnce.run(client, { key: `{${key}}:z` }, { op: `op-${String(round)}` }, { deadlineMs: 5_000 });
      setImmediate(() => connection?.stream.destroy());
      expect(await running).toBe(round + 1);
    }
    // The client itself says nothing of a node's connection.
    expect(context.executor.connectionEpoch).toBeGreaterThan(connectionEpoch);
  });

  it("runs a change once whose reply is lost, and calls its outcome unknown", async () => {
    const { proxies, natMap } = await proxiedCluster(redis);
    // The caller's own settings would send it again; those of a duplicate do not.
    const context = attach(redis.connect({}, { natMap }), { isolate: true });
    const keys = [0, 1, 2].map(keyOn);
    for (const key of keys) await append.run(context, { key }, { value: "-" });
    for (const [index, key] of keys.entries()) {
      proxies[index]!.down.cutNext = 1;
      const error = await rejection(append.run(context, { key }, { value: "x" }, { deadlineMs: 5_000 }));
      expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", retryable: false });
      expect(await redis.client.get(key)).toBe("-x");
    }
    expect(await optimistic(context, [keys[1]!], (tx) => tx.call("GET", keys[1]!))).toEqual({
      value: "-x",
      attempts: 1,
    });
    // MOVED names a node that is not in the client's map yet, by its own address; the way leads through its proxy.
    const client = context.client as unknown as { slots: string[][] };
    client.slots[slotOf(keys[2]!)] = client.slots[slotOf(keys[0]!)]!;
    const accepted = proxies[2]!.stats.accepted;
    const moved = await optimistic(context, [keys[2]!], (tx) => tx.call("GET", keys[2]!));
    expect(moved).toEqual({ value: "-x", attempts: 2 });
    expect(proxies[2]!.stats.accepted).toBeGreaterThan(accepted);
    context.detach();
  });

  it("notices that the owner ended a Cluster client while no node was there, though ioredis does not say so", async () => {
    for (const end of ["disconnect", "quit"] as const) {
      const client = new Cluster([{ host: "127.0.0.1", port: await deadPort() }], {
        clusterRetryStrategy: () => 600_000,
      });
      client.on("error", () => undefined);
      await until(() => client.status === "reconnecting");
      const waiting = rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 600_000 }));
      void client[end]();
      expect(await waiting).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: false });
    }
  });

  it("never lets a borrowed Cluster client send a change again whose reply is lost", async () => {
    const { proxies, natMap } = await proxiedCluster(redis);
    const client = redis.connect({}, { natMap });
    const key = keyOn(1);
    await append.run(client, { key }, { value: "-" });
    proxies[1]!.down.cutNext = 1;
    const error = await rejection(append.run(client, { key }, { value: "x" }, { deadlineMs: 600_000 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", retryable: false });
    // A refusal is no lost reply: the change follows its slot.
    const { slots } = client as unknown as { slots: string[][] };
    slots[slotOf(key)] = slots[slotOf(keyOn(0))]!;
    expect(await append.run(client, { key }, { value: "y" })).toBe("-xy".length);
    expect(await redis.client.get(key)).toBe("-xy");
  });

  it("waits for a killed node to come back, and never runs late what it gave up", async () => {
    const client = await own(redis);
    const keys = [0, 1, 2].map(keyOn);
    for (const key of keys) await append.run(client, { key }, { value: "-" });
    const [node] = redis.server.nodes;
    await node!.kill();
    const error = await rejection(append.run(client, { key: keys[0]! }, { value: "x" }, { deadlineMs: 400 }));
    expect(["KIT_UNAVAILABLE", "KIT_UNKNOWN_OUTCOME", "KIT_CLUSTER"]).toContain(error.code);
    await node!.start();
    await eventually(() => read.run(client, { key: keys[0]! }, {}, { deadlineMs: 500 }), { timeoutMs: 30_000 });
    expect(await read.run(client, { key: keys[0]! }, {})).toBe("");
    await knownAgain();
  });

  it("follows a slot that moves while scripts run on it", async () => {
    const client = await own(redis);
    const key = keyOn(1);
    const slot = slotOf(key);
    const [, source, target] = redis.server.nodes;
    const ids = await Promise.all([source, target].map(async (node) => String(await node!.call("CLUSTER", "MYID"))));
    await addOnce.run(client, { key }, { op: "before" });
    let number = 0;
    let isMoving = true;
    const running = (async () => {
      while (isMoving)
        expect(await addOnce.run(client, { key }, { op: `op-${String(number++)}` }, { deadlineMs: 5_000 })).toBe(
          number + 1,
        );
    })();
    for (const [from, to, fromId, toId] of [
      [source!, target!, ids[0]!, ids[1]!],
      [target!, source!, ids[1]!, ids[0]!],
    ] as const) {
      await to.call("CLUSTER", "SETSLOT", String(slot), "IMPORTING", fromId);
      await from.call("CLUSTER", "SETSLOT", String(slot), "MIGRATING", toId);
      await from.call("MIGRATE", to.host, String(to.port), key, "0", "5000");
      const seen = number;
      await until(() => number > seen + 5);
      await to.call("CLUSTER", "SETSLOT", String(slot), "NODE", toId);
      await from.call("CLUSTER", "SETSLOT", String(slot), "NODE", toId);
      const later = number;
      await until(() => number > later + 5);
    }
    isMoving = false;
    await running;
    await endMigrations(redis);
    expect(await client.call("ZCARD", key)).toBe(number + 1);
  });

  it("keeps one clock per node, and forgets it when the node goes", async () => {
    const client = await own(redis);
    const context = attach(client);
    const [first, second] = [keyOn(0), keyOn(1)];
    for (const key of [first, second, keyOn(2)]) await read.run(client, { key }, {});
    context.clockOf(first).observe(performance.now(), 1_000);
    expect(context.clockOf(`{${first}}:other`).earliest(1_000)).toBeDefined();
    expect(context.clockOf(second).earliest(1_000)).toBeUndefined();
    await redis.server.nodes[0]!.kill();
    await until(() => context.clockOf(first).earliest(1_000) === undefined);
    await redis.server.nodes[0]!.start();
    context.detach();
    await knownAgain();
  });

  it("connects a client again that ended without us, and says at once that a borrowed one has", async () => {
    const client = await own(redis);
    const key = keyOn(0);
    Cluster.prototype.disconnect.call(client as unknown as Cluster);
    await until(() => client.status !== "ready");
    expect(await read.run(client, { key }, {}, { deadlineMs: 10_000 })).toBe("");
    const borrowed = redis.connect();
    await Promise.all([0, 1, 2].map((node) => borrowed.exists(keyOn(node))));
    borrowed.disconnect();
    await until(() => borrowed.status !== "ready");
    // ioredis says first `end`, then `close` again: once while it ends, then when all has settled.
    for (let round = 0; round < 3; round++) {
      const error = await rejection(read.run(borrowed, { key }, {}, { deadlineMs: 600_000 }));
      expect(error.message).toContain("has ended");
      await until(() => borrowed.nodes("all").length === 0);
      await new Promise(setImmediate);
    }
  });

  it("rejects in time when the whole Cluster is gone, and works again when it is back", async () => {
    const client = await own(redis);
    const key = keyOn(0);
    await read.run(client, { key }, {});
    await Promise.all(redis.server.nodes.map((node) => node.kill()));
    expect(await rejection(read.run(client, { key }, {}, { deadlineMs: 500 }))).toBeInstanceOf(KitUnavailableError);
    await Promise.all(redis.server.nodes.map((node) => node.start()));
    await eventually(() => read.run(client, { key }, {}, { deadlineMs: 500 }), { timeoutMs: 30_000 });
    await knownAgain();
  });
});
