import { eventually, type RedisNode, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { durable, type DurabilityOptions, replicationReport, waitForSync } from "../src/durable/index.js";
import { KitError } from "../src/kernel/base/errors.js";
import { own } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel", permanentKeys: ["*"] });

const options = (more: Partial<DurabilityOptions> = {}): DurabilityOptions => ({ key: redis.prefix, ...more });

const newMaster = (old: RedisNode): Promise<void> =>
  eventually(
    async () => {
      expect((await redis.server.master()).port).not.toBe(old.port);
    },
    { timeoutMs: 20_000 },
  );

describe("durable under Sentinel", () => {
  it("asks the master that is one now, and calls what the old one was asked unknown", async () => {
    const client = await own(redis);
    await eventually(async () => {
      expect(await waitForSync(client, options({ replicas: 2 }))).toMatchObject({ outcome: "safe", replicas: 2 });
    });
    const master = await redis.server.master();
    const result = await durable(client, options({ deadlineMs: 20_000 }), async (scope) => {
      await scope.call("SET", redis.prefix, "old");
      await master.kill();
    });
    expect(result).toMatchObject({ outcome: "unknown" });
    await newMaster(master);
    const after = await durable(client, options({ deadlineMs: 15_000 }), (scope) =>
      scope.call("SET", redis.prefix, "new"),
    );
    expect(after).toMatchObject({ outcome: "safe", replicas: 1 });
    await master.start();
    const rows = await replicationReport(client);
    const current = await redis.server.master();
    expect(rows.find(({ role }) => role === "master")?.address).toBe(`127.0.0.1:${String(current.port)}`);
  });

  it("loses nothing that it called safe for both replicas, whoever is promoted, the master stopped in the middle", async () => {
    const client = await own(redis);
    const safe: number[] = [];
    const outcomes = new Map<string, number>();
    let isOver = false;
    const writer = async (first: number): Promise<void> => {
      for (let number = first; !isOver; number += 4) {
        const outcome = await durable(client, options({ replicas: 2, timeoutMs: 200, deadlineMs: 800 }), (scope) =>
          scope.call("RPUSH", redis.prefix, number),
        ).then(
          (result) => result.outcome,
          (error: unknown) => (KitError.is(error) ? error.code : Promise.reject(error as Error)),
        );
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        if (outcome === "safe") safe.push(number);
      }
    };
    const writers = [0, 1, 2, 3].map(writer);
    await eventually(() => expect(safe.length).toBeGreaterThan(100));
    const master = await redis.server.master();
    master.pause();
    await newMaster(master);
    master.resume();
    const before = safe.length;
    // The old master is a replica of the new one by now, so that there are two again.
    await eventually(() => expect(safe.length).toBeGreaterThan(before + 50), { timeoutMs: 20_000 });
    isOver = true;
    await Promise.all(writers);
    const current = await redis.server.master();
    const kept = new Set(((await current.call("LRANGE", redis.prefix, "0", "-1")) as string[]).map(Number));
    expect(safe.filter((number) => !kept.has(number))).toEqual([]);
    expect([...outcomes.keys()]).not.toEqual(["safe"]);
  });
});
