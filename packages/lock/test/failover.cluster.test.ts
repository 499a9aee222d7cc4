import { slotOf } from "@kit/core/toolkit";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { aborted, firstServing, inStep } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { LockLostError } from "../src/index.js";
import { owned, servesThrough } from "./failover-behaviour.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });
const fixture = fixtureOf(redis);
const name = "chest";

/** Another lock of the same shard. */
const sibling = (): string => {
  const shard = shardOf(fixture.keysOf(name).lease);
  for (let number = 0; ; number++) if (shardOf(fixture.keysOf(String(number)).lease) === shard) return String(number);
};

const shardOf = (key: string): number => firstServing(slotOf(key));

/** The master that serves the lock, and its replica. */
const serving = (): [master: RedisNode, replica: RedisNode] => {
  const { nodes, replicas } = redis.server;
  const shard = shardOf(fixture.keysOf(name).lease);
  return [nodes[shard]!, replicas[shard]!];
};

const promotion = async (replica: RedisNode): Promise<void> => {
  await eventually(async () => expect(((await replica.call("ROLE")) as unknown[])[0]).toBe("master"), {
    timeoutMs: 30_000,
  });
};

describe("a lock whose shard fails over", () => {
  it("keeps its holders, and serves who waits in order, on clients that are borrowed and owned", async () => {
    await servesThrough(redis, fixture, [name, sibling()], async () => {
      const [old, master] = serving();
      await inStep(old, [master]);
      await old.kill();
      redis.defer(() => old.start());
      await promotion(master);
      return master;
    });
  });

  it("tells the holder whose lease went with the master, and grants the next a larger fencing token", async () => {
    const holding = fixture.on(await owned(redis), { leaseMs: 8_000 });
    const other = fixture.on(await owned(redis));
    const held = await holding.acquire(name);
    const [master, replica] = serving();
    await inStep(master, [replica]);
    // As if the grant had not reached the replica when its master died.
    await replica.call("CONFIG", "SET", "replica-read-only", "no");
    await replica.call("READONLY");
    const { lease, fence } = fixture.keysOf(name);
    master.pause();
    await promotion(replica);
    await replica.call("DEL", lease, fence);
    expect(await aborted(held.signal)).toBeInstanceOf(LockLostError);
    master.resume();
    const next = await other.acquire(name, { waitMs: 30_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(next.isHeld).toBe(true);
    await next.release();
  });
});
