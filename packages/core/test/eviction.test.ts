import { contract, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { attach } from "../src/kernel/context/context.js";
import { eviction, evictionPolicy } from "../src/toolkit/eviction.js";
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

  it("is not known where the user may not run INFO, which is said by name", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = redis.connect({ username: "ada", password: "pw", enableReadyCheck: false });
    expect(await rejection(asked(client))).toMatchObject({ code: "KIT_NO_PERMISSION" });
  });
});
