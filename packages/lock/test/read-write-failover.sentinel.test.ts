import { connect } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { aborted, inStep } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { LockLostError } from "../src/index.js";
import type { ReadWriteLock } from "../src/read-write/index.js";
import { fixtureOf } from "./read-write-harness.js";

const redis = useRedis(vitest, { mode: "sentinel" });
const fixture = fixtureOf(redis);
const name = "prices";

const allInStep = (): Promise<void> => inStep(redis.server.nodes[0]!, redis.server.replicas);

/** A lock on a client that kit made. */
const owned = async (options?: { readonly leaseMs: number }): Promise<ReadWriteLock> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return fixture.on(client, options);
};

/** Kills the master, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<RedisNode> => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
  return redis.server.master();
};

describe("a read/write lock whose master fails", () => {
  it("keeps its readers, and serves who waits in order", async () => {
    const locks = [await owned({ leaseMs: 30_000 }), await owned({ leaseMs: 30_000 })] as const;
    const readers = [await locks[0].read.acquire(name), await locks[1].read.acquire(name)];
    const writer = await fixture.enqueue(locks[0], "write", name, { waitMs: 60_000 });
    const late = await fixture.enqueue(locks[1], "read", name, { waitMs: 60_000 });
    await allInStep();
    const master = await failOver();
    const { leases } = fixture.keysOf(name);
    // Renewed on the new master: they cannot have more than they had when the old one died. Each is renewed at its own time.
    const renewed = new Set<string>();
    await eventually(
      async () => {
        const rows = (await master.call("ZRANGE", leases, "0", "-1", "WITHSCORES")) as string[];
        const [seconds, micros] = ((await master.call("TIME")) as string[]).map(Number) as [number, number];
        for (let at = 0; at < rows.length; at += 2)
          if (Number(rows[at + 1]) - seconds * 1_000 - micros / 1_000 > 25_000) renewed.add(rows[at]!);
        expect([rows.length, renewed.size]).toEqual([4, 2]);
      },
      { timeoutMs: 60_000 },
    );
    expect([writer.isSettled, late.isSettled]).toEqual([false, false]);
    for (const reader of readers) expect(await reader.release()).toBe("released");
    const held = await writer.promise;
    expect(late.isSettled).toBe(false);
    await held.release();
    await (await late.promise).release();
  });

  it("notifies the readers whose leases went with it, and grants the next writer a larger fencing token", async () => {
    const [holding, other] = [await owned({ leaseMs: 8_000 }), await owned()];
    const before = await other.write.acquire(name);
    await before.release();
    const reader = await holding.read.acquire(name);
    await allInStep();
    const { leases, fence } = fixture.keysOf(name);
    // As if the last of what the master did had not reached its replicas when it died.
    for (const replica of redis.server.replicas) {
      await replica.call("CONFIG", "SET", "replica-read-only", "no");
      await replica.call("DEL", leases, fence);
    }
    await failOver();
    expect(await aborted(reader.signal)).toBeInstanceOf(LockLostError);
    const next = await other.write.acquire(name, { waitMs: 30_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(before.fencingToken));
    expect(await reader.release()).toBe("not-held");
    await next.release();
  });
});
