import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { attach } from "../src/kernel/context/context.js";
import { evictionPolicy, watchEviction } from "../src/toolkit/eviction.js";

const redis = useRedis(vitest, { mode: "cluster" });

it("asks the node that has the key for its eviction policy, every time", async () => {
  const { nodes } = redis.server;
  const context = attach(redis.client, { prefix: redis.prefix });
  redis.defer(() => context.detach());
  const keys = Array.from({ length: 30 }, (_, n) => `${redis.prefix}:{${String(n)}}`);
  const ask = (): Promise<(string | undefined)[]> =>
    Promise.all(keys.map((key) => evictionPolicy(context, key, 10_000)));
  expect(new Set(await ask())).toEqual(new Set([undefined]));
  const evicting = nodes[0]!;
  await evicting.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
  await evicting.call("CONFIG", "SET", "maxmemory", "1gb");
  redis.defer(async () => {
    await evicting.call("CONFIG", "SET", "maxmemory", "0");
    await evicting.call("CONFIG", "SET", "maxmemory-policy", "noeviction");
  });
  const isThere = async (key: string): Promise<boolean> =>
    await evicting.call("TYPE", key).then(
      () => true,
      () => false,
    );
  const there = await Promise.all(keys.map(isThere));
  expect(new Set(there)).toEqual(new Set([true, false]));
  expect(await ask()).toEqual(there.map((isOn) => (isOn ? "allkeys-lru" : undefined)));
});

it("asks each node that is used", async () => {
  const { nodes } = redis.server;
  const context = attach(redis.client, { prefix: redis.prefix });
  redis.defer(() => context.detach());
  const set = async (policy: string, maxmemory: string): Promise<void> => {
    await nodes[1]!.call("CONFIG", "SET", "maxmemory-policy", policy);
    await nodes[1]!.call("CONFIG", "SET", "maxmemory", maxmemory);
  };
  await set("volatile-ttl", "1gb");
  redis.defer(() => set("noeviction", "0"));
  const policies: string[] = [];
  const use = watchEviction(
    context,
    () => true,
    (policy) => policies.push(policy),
  );
  await redis.client.ping();
  for (let n = 0; n < 30; n++) use(`${redis.prefix}:{${String(n)}}`);
  await eventually(() => expect(policies).toEqual(["volatile-ttl"]));
});
