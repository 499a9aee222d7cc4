import { contract, eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { attach } from "../src/kernel/context/context.js";
import { eviction, evictionPolicy, watchEviction } from "../src/toolkit/eviction.js";
import { rejection } from "./harness.js";

const redis = useRedis(vitest);
const set = async (policy: string, maxmemory: string): Promise<void> => {
  await redis.server.call("CONFIG", "SET", "maxmemory-policy", policy);
  await redis.server.call("CONFIG", "SET", "maxmemory", maxmemory);
};
const asked = async (client = redis.client): Promise<string | undefined> => {
  const context = attach(client, { prefix: redis.prefix });
  try {
    return await evictionPolicy(context, `${redis.prefix}:key`, 5_000);
  } finally {
    context.detach();
  }
};

describe("the policy of eviction", () => {
  it("is asked by a script that keeps the contract", async () => {
    expect(await contract([eviction], redis.server)).toEqual([]);
  });

  it("counts where the server's memory has a limit, and keys may be dropped", async () => {
    redis.defer(() => set("noeviction", "0"));
    expect(await asked()).toBeUndefined();
    await set("allkeys-lfu", "0");
    expect(await asked()).toBeUndefined();
    await set("allkeys-lfu", "1gb");
    expect(await asked()).toBe("allkeys-lfu");
    await set("volatile-ttl", "1gb");
    expect(await asked()).toBe("volatile-ttl");
    await set("noeviction", "1gb");
    expect(await asked()).toBeUndefined();
  });

  it("is asked in the background, once for all objects on a connection, and by none without a listener", async () => {
    redis.defer(() => set("noeviction", "0"));
    const client = redis.connect({ retryStrategy: () => 20 });
    const context = attach(client, { prefix: redis.prefix });
    redis.defer(() => context.detach());
    const scripts = async (): Promise<number> => {
      const counts = String(await redis.server.call("INFO", "commandstats")).matchAll(
        /cmdstat_eval(?:sha)?:calls=(\d+)/g,
      );
      return Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
    };
    const policies: string[] = [];
    const [one, other, unheard] = [true, true, false].map((isWanted) =>
      watchEviction(
        context,
        () => isWanted,
        (policy) => policies.push(policy),
      ),
    );
    await set("volatile-lru", "1gb");
    await asked(client);
    const before = await scripts();
    for (let n = 0; n < 3; n++) for (const use of [unheard!, one!, other!]) use(`${redis.prefix}:${String(n)}`);
    await eventually(() => expect(policies).toEqual(["volatile-lru", "volatile-lru"]));
    expect((await scripts()) - before).toBe(1);

    await set("allkeys-lru", "1gb");
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(() => client.ping());
    for (const use of [one!, one!, unheard!]) use(`${redis.prefix}:key`);
    await eventually(() => expect(policies).toEqual(["volatile-lru", "volatile-lru", "allkeys-lru"]));
    expect((await scripts()) - before).toBe(2);
  });

  it("is not known where the user may not run INFO, which is said by name", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = redis.connect({ username: "ada", password: "pw", enableReadyCheck: false });
    expect(await rejection(asked(client))).toMatchObject({ code: "KIT_NO_PERMISSION" });
  });
});
