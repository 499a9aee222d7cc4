import { slotOf } from "@kit/core/toolkit";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { aborted, firstServing, inStep } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { PermitLostError } from "../src/index.js";
import { owned, servesThrough } from "./failover-behaviour.js";
import { fixtureOf, name } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });
const fixture = fixtureOf(redis);

const shardOf = (own: string): number => firstServing(slotOf(fixture.keysOf(own).permits));

/** Another semaphore of the same shard. */
const sibling = (): string => {
  for (let number = 0; ; number++) if (shardOf(String(number)) === shardOf(name)) return String(number);
};

/** The master that serves the semaphore, and its replica. */
const serving = (): [master: RedisNode, replica: RedisNode] => {
  const { nodes, replicas } = redis.server;
  return [nodes[shardOf(name)]!, replicas[shardOf(name)]!];
};

const promotion = async (replica: RedisNode): Promise<void> => {
  await eventually(async () => expect(((await replica.call("ROLE")) as unknown[])[0]).toBe("master"), {
    timeoutMs: 30_000,
  });
};

describe("a semaphore whose shard fails over", () => {
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

  it("notifies the holder whose permit went with the master, before others are in for longer than its lease", async () => {
    const held = await fixture.on(await owned(redis), { permits: 1, leaseMs: 8_000 }).acquire();
    const other = fixture.on(await owned(redis), { permits: 1 });
    const [master, replica] = serving();
    await inStep(master, [replica]);
    // As if the grant had not reached the replica when its master died.
    await replica.call("CONFIG", "SET", "replica-read-only", "no");
    await replica.call("READONLY");
    master.pause();
    await promotion(replica);
    await replica.call("DEL", fixture.keysOf(name).permits);
    expect(await aborted(held.signal)).toBeInstanceOf(PermitLostError);
    master.resume();
    const next = await other.acquire({ waitMs: 30_000 });
    expect([next.isHeld, (await other.inspect()).used]).toEqual([true, 1]);
    await next.release();
  });
});
