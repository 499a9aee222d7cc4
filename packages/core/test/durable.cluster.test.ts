import { eventually, useRedis } from "@kit/testing";
import { firstServing } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { durable, replicaReads, waitForSync } from "../src/durable/index.js";
import { slotOf } from "../src/kernel/base/keyspace.js";
import { endMigrations, own } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });

/** One key of this test in each shard, and which that is. */
const keys = (): { readonly key: string; readonly shard: number }[] =>
  [0, 1, 2].map((shard) => {
    for (let number = 0; ; number++) {
      const key = `${redis.prefix}:${String(number)}`;
      if (firstServing(slotOf(key)) === shard) return { key, shard };
    }
  });

describe("durable on a Cluster", () => {
  it("asks the shard of the key, on each shard", async () => {
    const client = await own(redis);
    for (const { key, shard } of keys()) {
      const write = () =>
        durable(client, { key, timeoutMs: 2_000 }, (scope) => scope.call("SET", key, "x", "PX", 60_000));
      await eventually(async () => expect(await write()).toMatchObject({ outcome: "safe", replicas: 1 }));
      await redis.server.replicas[shard]!.call("READONLY");
      expect(await redis.server.replicas[shard]!.call("DBSIZE")).toBeGreaterThan(0);
      expect(await waitForSync(client, { key })).toMatchObject({ outcome: "safe", replicas: 1 });
    }
  });

  it("is short for the shard whose replica is paused, and safe for the others", async () => {
    const client = await own(redis);
    redis.server.replicas[1]!.pause();
    const outcomes: string[] = [];
    for (const { key } of keys()) outcomes.push((await waitForSync(client, { key, timeoutMs: 300 })).outcome);
    redis.server.replicas[1]!.resume();
    expect(outcomes).toEqual(["safe", "short", "safe"]);
  });

  it("finds a mark for keys of any form, and for a client with a prefix", async () => {
    const client = await own(redis);
    const prefixed = redis.connect({}, { keyPrefix: `${redis.prefix}:` });
    for (const name of ["{tag}:k", "a}b", "{}x", "x{", "k:{}{y}"])
      for (const [redisLike, key] of [
        [client, `${redis.prefix}${name}`],
        [prefixed, name],
      ] as const)
        expect(await waitForSync(redisLike, { key, timeoutMs: 2_000 })).toMatchObject({ outcome: "safe" });
  });

  it("looks for a token on the replica of the shard where WAIT is forbidden", async () => {
    for (const node of [...redis.server.nodes, ...redis.server.replicas])
      await node.call("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-wait");
    redis.defer(async () => {
      for (const node of [...redis.server.nodes, ...redis.server.replicas]) await node.call("ACL", "DELUSER", "blind");
    });
    const client = await own(redis, { options: { username: "blind", password: "secret" } });
    for (const { key } of keys())
      expect(await waitForSync(client, { key })).toMatchObject({ outcome: "safe", replicas: 1 });
  });

  it("is unknown when the slot moved before the question", async () => {
    const client = await own(redis);
    const { key } = keys()[0]!;
    await client.set(key, "x", "PX", 60_000);
    const result = await durable(client, { key }, async (scope) => {
      await scope.call("SET", key, "y", "PX", 60_000);
      await move(slotOf(key), 0, 1);
    });
    redis.defer(async () => {
      await move(slotOf(key), 1, 0);
      await endMigrations(redis);
    });
    expect(result.outcome).toBe("unknown");
    expect(result.why).toContain("moved");
  });

  it("reads from the replica of the shard, and follows a slot that moves", async () => {
    const client = await own(redis);
    const near = replicaReads(client, { maxStaleMs: 5_000 });
    redis.defer(() => near.close());
    for (const { key, shard } of keys()) {
      await client.set(key, "x", "PX", 60_000);
      const from = `127.0.0.1:${String(redis.server.replicas[shard]!.port)}`;
      await eventually(async () => {
        expect(await near.call("GET", key)).toMatchObject({ value: "x", from });
      });
    }
    const { key } = keys()[0]!;
    await move(slotOf(key), 0, 1);
    redis.defer(async () => {
      await move(slotOf(key), 1, 0);
      await endMigrations(redis);
    });
    await eventually(
      async () => {
        const { value, from } = await near.call("GET", key);
        expect({ value, from }).toEqual({ value: "x", from: `127.0.0.1:${String(redis.server.replicas[1]!.port)}` });
      },
      { timeoutMs: 20_000 },
    );
    expect(await waitForSync(client, { key, timeoutMs: 2_000 })).toMatchObject({ outcome: "safe" });
  });
});

/** Moves a slot with its keys from one master to another. */
const move = async (slot: number, from: number, to: number): Promise<void> => {
  const [source, target] = [redis.server.nodes[from]!, redis.server.nodes[to]!];
  const [sourceId, targetId] = [
    String(await source.call("CLUSTER", "MYID")),
    String(await target.call("CLUSTER", "MYID")),
  ];
  await target.call("CLUSTER", "SETSLOT", String(slot), "IMPORTING", sourceId);
  await source.call("CLUSTER", "SETSLOT", String(slot), "MIGRATING", targetId);
  const names = (await source.call("CLUSTER", "GETKEYSINSLOT", String(slot), "100")) as string[];
  for (const name of names) await source.call("MIGRATE", "127.0.0.1", String(target.port), name, "0", "5000");
  await target.call("CLUSTER", "SETSLOT", String(slot), "NODE", targetId);
  await source.call("CLUSTER", "SETSLOT", String(slot), "NODE", targetId);
};
